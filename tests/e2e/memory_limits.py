"""Small traces that would need much memory: heapprof uses an amount proportional to the size of the file, reads the
valid part, and reports what it skipped."""

import json
import os
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

import harness

# Independent of the file: the program with its libraries, and the constants of analyzer/trace/events/limits.h.
BASE_BYTES = 256 << 20
BYTES_PER_FILE_BYTE = 128


class MemoryLimits(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.traces = Path(tempfile.mkdtemp(prefix="heapprof-hostile-"))
        cls.addClassCleanup(shutil.rmtree, cls.traces, ignore_errors=True)
        made = subprocess.run([str(harness.BUILD / "tests" / "e2e" / "hostile_traces"), str(cls.traces)], check=True,
                              capture_output=True, text=True)
        cls.valid = int(made.stdout)

    def run_limited(self, *arguments, limit_bytes):
        """Runs heapprof with a memory limit; returns exit status, outputs and the maximum resident bytes."""
        def lower_limit():
            resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))

        out, err = self.dir / "out", self.dir / "err"
        with open(out, "w") as stdout, open(err, "w") as stderr:
            process = subprocess.Popen([str(harness.HEAPPROF), *map(str, arguments)], stdout=stdout, stderr=stderr,
                                       stdin=subprocess.DEVNULL, preexec_fn=lower_limit, cwd=self.dir,
                                       env=harness.clean_environment(XDG_CACHE_HOME=self.dir / "cache"))
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, out.read_text(), err.read_text(), usage.ru_maxrss * 1024

    def check(self, name, keeps_valid_part=True, lines=1, command="report"):
        path = self.traces / name
        size = path.stat().st_size
        allowed = BASE_BYTES + BYTES_PER_FILE_BYTE * size
        status, out, err, resident = self.run_limited(command, path, "--json", limit_bytes=allowed)
        print(f"{name}: {size} bytes, {resident >> 20} MB resident, exit status {status}", flush=True)
        self.assertEqual(status, 1, err)
        self.assertEqual(len(err.strip().splitlines()), lines, err)
        self.assertNotIn("not enough memory", err)
        self.assertLess(resident, allowed)
        if not keeps_valid_part:
            self.assertIn(name, err)
            return err
        report = json.loads(out)
        self.assertGreaterEqual(report["heap"]["allocations"], self.valid)
        self.assertEqual(report["heap"]["leaked_blocks"], self.valid)
        self.assertFalse(report["integrity"]["complete"])
        return " ".join(report["integrity"]["notes"])

    def test_frames_of_more_records_than_a_block(self):
        self.check("large_frames.heapprof")

    def test_many_streams_in_the_middle_of_a_block(self):
        self.assertIn("exceed what a file of this size can hold", self.check("many_streams.heapprof"))

    def test_texts(self):
        self.assertIn("exceed what a file of this size can hold", self.check("modules.heapprof"))
        self.assertIn("the code objects of Python exceed what", self.check("python.heapprof"))
        # Only the first marks are kept, so their number needs no limit.
        self.assertNotIn("exceed", self.check("marks.heapprof"))

    def test_nodes(self):
        self.assertIn("the stacks exceed what", self.check("nodes.heapprof"))
        self.assertIn("the stacks exceed what", self.check("stacks.heapprof"))

    def test_threads(self):
        # No event is lost: threads above the limit are merged, and names above theirs are left empty.
        self.assertIn("that a file of this size can hold", self.check("threads.heapprof"))
        self.assertIn("the names of threads exceed", self.check("long_names.heapprof"))

    def test_compacted(self):
        self.assertIn("decompressed bytes, more than the limit",
                      self.check("compacted_nodes.heapprof", keeps_valid_part=False))
        # It has no events: a second message says so.
        self.check("compacted_undefined.heapprof", keeps_valid_part=False, lines=2)
        # Its only chunk is damaged: a second message says that no event is left.
        self.check("compacted_streams.heapprof", keeps_valid_part=False, lines=2)
        self.assertIn("more sets of stacks than the limit",
                      self.check("compacted_pinned.heapprof", keeps_valid_part=False, command="pins"))


if __name__ == "__main__":
    harness.main()
