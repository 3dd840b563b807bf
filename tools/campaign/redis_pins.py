#!/usr/bin/env python3
"""Compare what `heapprof pins` predicts for the keys of redis-server with what deleting them returns.

usage: tools/campaign/redis_pins.py [--keys N] [--seed N] [--build DIR] [--keep DIR] [-o FILE.md]

Loads keys of several kinds (strings, hashes, lists, sorted sets, strings that expire) in random order, deletes and
rewrites half of them with other sizes, and deletes four of five again, so that the keys that are left share slabs of
jemalloc. Then deletes the keys of one kind after the other, with MEMORY PURGE after each.

The prediction is that of `heapprof pins --by function` at the moment before each deletion: alone, of the functions
that allocate for the kind, and what is completed when they are taken together (with). All functions below a command
are skipped as helpers (--helper). redis creates the arguments of a command before it looks it up, and SET keeps its
argument; the functions from there on are skipped, too, so that strings are those of processInputBuffer.

What is compared: jemalloc's active bytes (INFO: allocator_active), which are those of the slabs in use, and the
private resident bytes of the process (RssAnon). They agree if they differ by at most 5 % or 1 MB.

What redis keeps in another way: the hash table of all keys is allocated by whichever command adds the key that makes
it grow, and is freed when the table grows again. Keys that stay ("other", of DEBUG POPULATE) make it large enough
beforehand. And jemalloc keeps up to some hundred freed blocks of each size in a cache of the main thread, which keep
their slabs; it flushes them while the thread goes on allocating, so that after each deletion 20,000 ECHO follow.
Exit status 1: a prediction is wrong. Needs redis-server with a shared jemalloc (Debian), and a build.
"""

import argparse
import atexit
import json
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
KINDS = ("string", "hash", "list", "zset", "expiring")
# Keys that stay, for each string: with them, the hash table of all keys never grows.
OTHERS = 6

# The functions of the groups. Commands that end with a call of another function have no frame.
FUNCTIONS = {"string": ["processInputBuffer"], "hash": ["hsetCommand"], "list": ["pushGenericCommand"],
             "zset": ["zaddGenericCommand"], "expiring": ["setrangeCommand", "expireGenericCommand"]}
# The path from the common caller of SET and of what creates its arguments.
STRING_HELPERS = ("createStringObject", "processMultibulkBuffer", "processInlineBuffer",
                  "processCommandAndResetClient", "processCommand", "call", "setCommand", "setGenericCommand")


def encode(*parts):
    parts = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Redis:
    """A recorded redis-server."""

    def __init__(self, directory, build):
        self.trace = directory / "redis.heapprof"
        self.trace.unlink(missing_ok=True)
        self.heapprof = build / "analyzer" / "heapprof"
        path = directory / "socket"
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", path, "--dir", directory, "--save", "", "--appendonly",
             "no", "--enable-debug-command", "yes", "--hz", "100", "--lazyfree-lazy-user-del", "no",
             "--lazyfree-lazy-expire", "no",
             # Else the first call of each command allocates a histogram, and slow commands are kept.
             "--latency-tracking", "no", "--slowlog-log-slower-than", "-1"],
            env={"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(build / "preload" / "libheapprof.so"),
                 "HEAPPROF_OUTPUT": str(self.trace)}, stdout=subprocess.DEVNULL)
        atexit.register(self.process.kill)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(120)
        deadline = time.monotonic() + 60
        while self.socket.connect_ex(str(path)) != 0:
            if time.monotonic() > deadline or self.process.poll() is not None:
                sys.exit("redis-server does not start")
            time.sleep(0.02)
        self.input = self.socket.makefile("rb")

    def reply(self):
        line = self.input.readline()
        if line[:1] == b"$":
            length = int(line[1:])
            return b"" if length < 0 else self.input.read(length + 2)[:-2]
        if line[:1] == b"*":
            return [self.reply() for _ in range(int(line[1:]))]
        if line[:1] == b"-" or not line:
            sys.exit(f"redis-server: {line.decode()}")
        return line[1:].strip()

    def run(self, commands):
        """Sends commands in portions, so that buffers stay small."""
        for first in range(0, len(commands), 50):
            self.socket.sendall(b"".join(commands[first:first + 50]) + encode("ECHO", "end of portion"))
            while self.reply() != b"end of portion":
                pass

    def info(self, name):
        self.socket.sendall(encode("INFO", "memory"))
        return int(re.search(rb"^%s:(\d+)" % name.encode(), self.reply(), re.M).group(1))

    def settled(self):
        """(active, RssAnon) after jemalloc's cache was flushed and free pages were returned."""
        self.run([encode("ECHO", "x" * length) for length in range(1, 2000) for _ in range(10)])
        seen = None
        for _ in range(100):
            self.run([encode("MEMORY", "PURGE")])
            time.sleep(0.1)
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            now = self.info("allocator_active"), int(re.search(r"RssAnon:\s+(\d+)", status).group(1)) * 1024
            if now == seen:
                break
            seen = now
        return seen

    def mark(self, name):
        control = subprocess.Popen([self.heapprof, "control", self.trace, "mark", name, "--wait", "30"],
                                   stdout=subprocess.DEVNULL)
        while control.poll() is None:  # the recorder answers when the program allocates
            self.run([encode("PING")])
            time.sleep(0.02)
        if control.returncode != 0:
            sys.exit(f"heapprof control: exit status {control.returncode}")

    def analyze(self, *arguments):
        return json.loads(subprocess.run([self.heapprof, *arguments], check=True, stdout=subprocess.PIPE).stdout)


def text(generator, low, high):
    return generator.randbytes(generator.randint(low, high) // 2).hex()


def add_command(generator, kind, number):
    name = f"{kind}:{number}"
    if kind == "string":
        return encode("SET", name, text(generator, 60, 700))
    if kind == "expiring":
        # SETRANGE copies its argument.
        return encode("SETRANGE", name, 0, text(generator, 60, 700)) + encode("PEXPIRE", name, 10 ** 9)
    if kind == "hash":
        return encode("HSET", name, *(word for field in range(generator.randint(5, 40))
                                      for word in (f"field{field}", text(generator, 8, 40))))
    if kind == "list":
        return encode("RPUSH", name, *(text(generator, 8, 60) for _ in range(generator.randint(5, 40))))
    # More members than a listpack has: a skip list with a hash table.
    return encode("ZADD", name, *(word for _ in range(generator.randint(130, 160))
                                  for word in (generator.random(), text(generator, 8, 60))))


def load(redis, generator, keys):
    """Returns the keys that are left, by kind."""
    numbers = {"string": keys, "expiring": keys, "hash": keys // 4, "list": keys // 4, "zset": keys // 60}
    names = [(kind, number) for kind in KINDS for number in range(numbers[kind])]
    redis.run([encode("DEBUG", "POPULATE", OTHERS * keys, "other", 16)])
    generator.shuffle(names)
    redis.run([add_command(generator, *name) for name in names])
    rewritten = generator.sample(names, len(names) // 2)
    redis.run([encode("DEL", f"{kind}:{number}") for kind, number in rewritten])
    generator.shuffle(rewritten)
    redis.run([add_command(generator, *name) for name in rewritten])
    left = set(generator.sample(names, len(names) // 5))
    redis.run([encode("DEL", f"{kind}:{number}") for kind, number in names if (kind, number) not in left])
    return {kind: sorted(number for one, number in left if one == kind) for kind in KINDS}


def helpers_of(redis, at):
    """A regular expression for the functions below the commands."""
    stacks = redis.analyze("pins", redis.trace, "--at", at, "--by", "stack", "--top", "0", "--json", "--no-helpers")
    names = set(STRING_HELPERS)
    for group in stacks["groups"]:
        functions = [frame["function"] for frame in group["stack"]]
        command = next((i for i, name in enumerate(functions) if re.fullmatch(r"\w+Command", name or "")), 0)
        names.update(functions[:command])
    names -= {name for group in FUNCTIONS.values() for name in group} | {"", None}
    return "^(" + "|".join(re.escape(name) for name in sorted(names)) + ")$"


def predicted_bytes(answer, functions):
    """What could be returned without the blocks of all these functions, of which the first has most."""
    groups = {group["name"]: group for group in answer["groups"]}
    total = sum(groups[name]["alone_bytes"] for name in functions)
    first = groups[functions[0]]
    for name, completed in zip(first["with"], first["with_bytes"]):
        if name not in functions:
            break
        total += completed
    return total


def delete(redis, kind, numbers):
    if kind == "expiring":
        redis.run([encode("PEXPIRE", f"{kind}:{number}", 1) for number in numbers])
        time.sleep(0.1)
    # Reads the expired keys, which deletes them.
    redis.run([encode("EXISTS" if kind == "expiring" else "DEL", f"{kind}:{number}") for number in numbers])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=60_000, help="strings; other kinds have fewer keys")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--keep", help="keep the recording in this directory")
    parser.add_argument("-o", "--output", help="also write the table to this file")
    options = parser.parse_args()
    if shutil.which("redis-server") is None:
        sys.exit("redis-server is not installed")
    generator = random.Random(options.seed)
    lines = ["| kind | keys | predicted | active | difference | RssAnon |", "|---|---:|---:|---:|---:|---:|"]
    failed = False
    with tempfile.TemporaryDirectory(prefix="heapprof-redis-") as temporary:
        directory = Path(options.keep or temporary)
        directory.mkdir(parents=True, exist_ok=True)
        redis = Redis(directory, Path(options.build).resolve())
        left = load(redis, generator, options.keys)
        before = [redis.settled()]
        for kind in KINDS:
            redis.mark(kind)
            delete(redis, kind, left[kind])
            before.append(redis.settled())
        redis.socket.sendall(encode("SHUTDOWN", "NOSAVE"))
        redis.process.wait(timeout=60)

        marks = {mark["text"]: f"{mark['time_ns'] / 1e9:.9f}"
                 for mark in redis.analyze("timeline", redis.trace, "--json")["marks"]}
        helpers = helpers_of(redis, marks[KINDS[0]])
        for number, kind in enumerate(KINDS):
            answer = redis.analyze("pins", redis.trace, "--at", marks[kind], "--by", "function", "--top", "0",
                                   "--json", "--helper", helpers)
            predicted = predicted_bytes(answer, FUNCTIONS[kind])
            active, resident = (was - now for was, now in zip(before[number], before[number + 1]))
            wrong = abs(predicted - active) > max(0.05 * active, 1_000_000)
            failed |= wrong
            lines.append(f"| {kind} | {len(left[kind]):,} | {predicted / MIB:.2f} MiB | {active / MIB:.2f} MiB | "
                         f"{100 * (predicted - active) / max(active, 1):+.1f} %{' (wrong)' if wrong else ''} | "
                         f"{resident / MIB:.2f} MiB |")
            print(f"{kind}: pinned {answer['pinned_bytes'] / MIB:.2f} MiB, active {before[number][0] / MIB:.2f} MiB",
                  file=sys.stderr, flush=True)
    table = "\n".join(lines) + "\n"
    print(table, end="")
    if options.output:
        Path(options.output).write_text(table)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
