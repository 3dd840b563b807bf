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
        (self.tree / "tests" / "fuzz").symlink_to(ROOT / "tests" / "fuzz")
        for path, script in (("tools/packages.sh", "exit 0"), ("tools/deps.sh", "exit 0"),
                             ("programs/meson", 'echo "$@"'), ("programs/setarch", 'shift; exec "$@"')):
            (self.tree / path).write_text(f"#!/bin/sh\n{script}\n")
            (self.tree / path).chmod(0o755)

    def chosen(self, part):
        """The tests that meson is told to run."""
        result = subprocess.run([self.tree / "tools" / "sanitize.sh", "--no-install", part], capture_output=True,
                                text=True, check=True, env={
                                    **os.environ, "PATH": f"{self.tree / 'programs'}:{os.environ['PATH']}"})
        words = next(line for line in result.stdout.splitlines() if line.startswith("test ")).split()
        return words[words.index("--timeout-multiplier") + 2:]

    def test_the_inputs_of_each_fuzz_target(self):
        targets = re.findall(r"^  '(\w+)': \[", (ROOT / "tests" / "fuzz" / "meson.build").read_text(), re.M)
        names = {f"corpus-{target.replace('_', '-')}" for target in targets}
        self.assertIn("corpus-trace-events", names)
        tests = self.chosen("analyzer")
        self.assertEqual({test for test in tests if test.startswith("corpus-")}, names)
        self.assertIn("replay", tests)

    def test_the_threads_of_the_recorder(self):
        self.assertEqual(self.chosen("threads"), ["recorder"])


if __name__ == "__main__":
    case_runner.main()
