"""tools/sanitize.sh with a fake meson that prints its arguments."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import case_runner

ROOT = Path(__file__).resolve().parents[2]


class Sanitize(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tree = Path(directory.name)
        (self.tree / "tools").mkdir()
        (self.tree / "tests").mkdir()
        (self.tree / "programs").mkdir()
        shutil.copy(ROOT / "tools" / "sanitize.sh", self.tree / "tools")
        for directory in ("fuzz", "unit"):
            (self.tree / "tests" / directory).symlink_to(ROOT / "tests" / directory)
        for path, script in (("tools/packages.sh", "exit 0"), ("tools/deps.sh", "exit 0"),
                             ("programs/meson", 'echo "$@"'), ("programs/setarch", 'shift; exec "$@"')):
            (self.tree / path).write_text(f"#!/bin/sh\n{script}\n")
            (self.tree / path).chmod(0o755)

    def lines_of(self, part):
        result = subprocess.run([self.tree / "tools" / "sanitize.sh", "--no-install", part], capture_output=True,
                                text=True, check=True, env={
                                    **os.environ, "PATH": f"{self.tree / 'programs'}:{os.environ['PATH']}"})
        return result.stdout.splitlines()

    def chosen(self, part):
        """The tests with which the script calls meson; it also prints them."""
        lines = self.lines_of(part)
        words = next(line for line in lines if line.startswith("test ")).split()
        tests = words[words.index("--timeout-multiplier") + 2:]
        self.assertTrue(any(line.startswith("tests in build-") and line.endswith(": " + " ".join(tests))
                            for line in lines), lines)
        return tests

    def test_the_inputs_of_each_fuzz_target(self):
        targets = re.findall(r"^  '(\w+)': \[", (ROOT / "tests" / "fuzz" / "meson.build").read_text(), re.M)
        names = {f"corpus-{target.replace('_', '-')}" for target in targets}
        self.assertIn("corpus-trace-events", names)
        tests = self.chosen("analyzer")
        self.assertEqual({test for test in tests if test.startswith("corpus-")}, names)
        self.assertIn("replay", tests)

    def test_all_unit_tests_of_the_analyzer(self):
        recorder = {"intercept", "python", "recorder", "sys", "unwind"}
        left_out = {"allocator-libraries",  # its program cannot be linked with a sanitizer
                    "svg_in_browser"}  # one of a consumer
        names = {name for path in sorted((ROOT / "tests" / "unit").glob("*/meson.build"))
                 if path.parent.name not in recorder
                 for name in re.findall(r"^test\('([\w-]+)'", path.read_text(), re.M)} - left_out
        self.assertIn("views", names)
        tests = self.chosen("analyzer")
        self.assertEqual({test for test in tests if not test.startswith("corpus-")}, names)

    def test_the_threads(self):
        self.assertEqual(self.chosen("threads"), ["recorder", "python", "cli", "follow", "launch", "push", "replay",
                                                  "symbols", "trace"])

    def test_what_is_not_compiled_with_thread_sanitizer(self):
        lines = self.lines_of("threads")
        left_out = [line for line in lines if line.startswith("left out in ")]
        self.assertIn(f"{len(left_out)} cases left out", lines)
        self.assertIn("left out in recorder: A signal handler may leave a snapshot by longjmp; the next one is "
                      "complete (ThreadSanitizer delays signals)", left_out)
        self.assertIn("left out in python: Threads that store numbers while another one doubles the table make no "
                      "table of their own (would also interrupt the code of ThreadSanitizer)", left_out)
        # Of another case of the same file, which is compiled.
        self.assertFalse([line for line in left_out if "The budget is 5 ms" in line])
        self.assertFalse([line for line in self.lines_of("analyzer") if line.startswith("left out in ")])


if __name__ == "__main__":
    case_runner.main()
