"""Debian's redis-server counts the memory that it allocates from a shared jemalloc. After a load, the recording has
the same figure, except for the buffers of the query itself.

The two count different things. The recorder counts requested sizes; redis counts usable sizes, which follow from
jemalloc's size classes (jemalloc(3), "Implementation notes"). And redis counts only its own blocks (zmalloc and
related functions), not those of its libraries."""

import json
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

import harness



def usable_size(size):
    """jemalloc's size class: multiples of 16 up to 128 bytes, then four classes for each doubling."""
    if size <= 8:
        return 8
    spacing = 16 if size <= 128 else 1 << (size - 1).bit_length() - 3
    return -(-size // spacing) * spacing


ZMALLOC = re.compile(r"z(try)?(malloc|calloc|realloc|strdup)(_usable|_num)?$")


class Redis(harness.Case):
    @classmethod
    def setUpClass(cls):
        for name in ("redis-server", "redis-benchmark"):
            if shutil.which(name) is None:
                raise unittest.SkipTest(f"{name} is not installed")
        libraries = subprocess.run(["ldd", shutil.which("redis-server")], capture_output=True, text=True).stdout
        if "libjemalloc" not in libraries:
            raise unittest.SkipTest("this redis has no shared jemalloc")

    def info(self, client):
        """The numbers of INFO."""
        client.sendall(b"INFO everything\r\n")
        answer = b""
        while not answer or len(answer) < int(answer[1:answer.index(b"\r\n")]) + answer.index(b"\r\n") + 4:
            piece = client.recv(65536)
            self.assertTrue(piece)
            answer += piece
        return {name.decode(): int(number) for name, number in re.findall(rb"^(\w+):(\d+)\r$", answer, re.M)}

    def test_memory_in_use(self):
        folder = tempfile.TemporaryDirectory(prefix="hp-redis-")
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "s"
        trace = self.dir / "redis.heapprof"
        server = self.popen(
            ["redis-server", "--port", "0", "--unixsocket", path, "--dir", folder.name, "--save", "", "--appendonly",
             "no", "--hz", "100"],
            env=harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace),
            stdout=subprocess.DEVNULL)
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(60)


        def connected():
            self.assertIsNone(server.poll(), "the server has ended")
            return client.connect_ex(str(path)) == 0
        harness.wait_until(connected, "the server does not answer")
        subprocess.run(["redis-benchmark", "-s", path, "-q", "-n", "5000", "-r", "3000", "-d", "500", "-P", "8", "-t",
                        "set,lpush,sadd,hset,zadd"], check=True, capture_output=True, timeout=120)
        # The load's clients have disconnected, and the server has freed their buffers.
        seen, since = None, 0

        def stable_memory():
            """The memory in use, when it has not changed for 30 rounds of the server's periodic work; else 0."""
            nonlocal seen, since
            answer = self.info(client)
            now = (answer["connected_clients"], answer["used_memory"])
            if now != seen:
                seen, since = now, answer["server_time_usec"]
            return answer["used_memory"] if now[0] == 1 and answer["server_time_usec"] - since >= 300_000 else 0
        used = harness.wait_until(stable_memory, "the server's memory does not become stable")
        server.send_signal(signal.SIGKILL)
        server.wait()

        report = self.report(trace)
        self.assert_sound(report, ended_by=("unknown", "signal"))
        redis = usable = requested = 0
        callers = set()
        for block in map(json.loads, self.heapprof("export", "ndjson", trace, "--rows", "blocks", "-o",
                                                   "-").splitlines()):
            functions = [frame["function"] for frame in block["frames"]]
            requested += block["size"]
            if ZMALLOC.match(functions[0]):
                usable += usable_size(block["size"])
                redis += block["size"]
                callers.update(functions[1:])
        self.assertEqual(requested, report["heap"]["leaked_bytes"])
        # The requested size is clearly less. The usable size is the same, except for the buffers of a reply.
        self.assertGreater(used, 4_000_000)
        self.assertLess(redis, used - 100_000)
        self.assertLess(abs(usable - used), 8_000, (usable, used))
        # Debian's redis-server exports its functions: the stacks have those that allocate the data of each command.
        self.assertLessEqual({"lpInsert", "zslInsert", "dictAddRaw", "createObject", "call", "main"}, callers)


if __name__ == "__main__":
    harness.main()
