"""tools/lint.sh with a fake clang-tidy that prints which file it checks."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import case_runner

ROOT = Path(__file__).resolve().parents[2]
# Source files, and the options with which they are compiled.
COMPILED = {"analyzer/main.cpp": "-O2", "preload/real/functions.cpp": "-O2 -mgeneral-regs-only"}


class Lint(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.build = Path(directory.name)
        # As meson writes it.
        (self.build / "compile_commands.json").write_text(json.dumps(
            [{"directory": str(self.build), "command": f"c++ {options} -o {name}.o -c ../{name}",
              "file": f"../{name}", "output": f"{name}.o"} for name, options in COMPILED.items()], indent=2))
        clang_tidy = self.build / "lint" / "clang-tidy-fake" / "clang_tidy" / "data" / "bin" / "clang-tidy"
        clang_tidy.parent.mkdir(parents=True)
        clang_tidy.write_text('#!/bin/sh\nfor last; do :; done\necho "checks $last"\n')
        clang_tidy.chmod(0o755)

    def tidy(self, file, directory=ROOT):
        """Exit status, the lines of the fake clang-tidy, and messages."""
        result = subprocess.run([ROOT / "tools" / "lint.sh", "--no-install", "--tidy", str(file)], cwd=directory,
                                capture_output=True, text=True, env={**os.environ, "BUILD_DIR": str(self.build)})
        return result.returncode, result.stdout.splitlines(), result.stderr

    def test_a_named_file(self):
        """Its path may be written in any way."""
        for file, directory in (("analyzer/main.cpp", ROOT), ("./analyzer/main.cpp", ROOT),
                                ("analyzer/../analyzer/main.cpp", ROOT), (ROOT / "analyzer/main.cpp", "/"),
                                ("main.cpp", ROOT / "analyzer")):
            with self.subTest(file=str(file)):
                status, lines, messages = self.tidy(file, directory)
                self.assertEqual((status, lines), (0, ["checks analyzer/main.cpp"]), messages)

    def test_a_named_file_that_cannot_be_checked(self):
        for file in ("analyzer/mian.cpp", "main.cpp", "nowhere/analyzer/main.cpp", "analyzer/m.in.cpp",
                     "preload/heapprof.h", "preload/real/functions.cpp"):
            with self.subTest(file=file):
                status, lines, messages = self.tidy(file)
                self.assertEqual((status, lines), (1, []), messages)
                self.assertIn(f"clang-tidy cannot check {file}: it is ", messages)


if __name__ == "__main__":
    case_runner.main()
