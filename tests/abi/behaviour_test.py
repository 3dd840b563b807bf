#!/usr/bin/env python3
"""The results of a program's calls are the same with and without the recorder (docs/concepts/recorder.md).

usage: behaviour_test.py RECORDER COUNTING_RECORDER SECOND_ALLOCATOR NEXT_SYMBOL PROGRAM STACK_USE
"""
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

from run_recorded import run

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import case_runner  # noqa: E402

RECORDER, COUNTING, SECOND, NEXT_SYMBOL, PROGRAM, STACK_USE = [None] * 6

EXIT_STATUS = 21  # of PROGRAM


class Behaviour(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.variables = {"HEAPPROF_OUTPUT": os.path.join(self.folder.name, "trace.heapprof")}

    def run_program(self, *preload):
        done = run([PROGRAM], preload, **self.variables)
        self.assertEqual((done.status, done.errors), (EXIT_STATUS, ""))
        return done.output

    def assert_recorded(self):
        self.assertGreater(os.path.getsize(self.variables["HEAPPROF_OUTPUT"]), 10000)

    def test_the_program_prints_its_results(self):
        output = self.run_program()
        self.assertGreater(len(output.splitlines()), 150)
        self.assertIn("destructor:", output)

    def test_hooks_alone(self):
        self.assertEqual(self.run_program(COUNTING), self.run_program())

    def test_recorder(self):
        self.assertEqual(self.run_program(RECORDER), self.run_program())
        self.assert_recorded()

    def test_recorder_that_is_off(self):
        self.variables["HEAPPROF_OUTPUT"] = "/proc/no/such/folder/trace.heapprof"
        self.variables["HEAPPROF_LOG"] = "off"
        self.assertEqual(self.run_program(RECORDER), self.run_program())

    def test_paused(self):
        self.variables["HEAPPROF_PAUSED"] = "1"
        self.assertEqual(self.run_program(RECORDER), self.run_program())

    def test_before_a_second_allocator(self):
        self.assertEqual(self.run_program(RECORDER, SECOND), self.run_program(SECOND))
        self.assert_recorded()

    def test_after_a_second_allocator(self):
        self.assertEqual(self.run_program(SECOND, RECORDER), self.run_program(SECOND))
        self.assert_recorded()

    def test_twice_in_the_list(self):
        self.assertEqual(self.run_program(RECORDER, RECORDER), self.run_program())


class NextSymbol(unittest.TestCase):
    """real/next_symbol.h returns what dlsym(RTLD_NEXT) returns. The library compares them in its constructor."""

    def check(self, command, *preload):
        done = run(command, [NEXT_SYMBOL, *preload])
        lines = [line for line in done.errors.splitlines() if line.startswith("next_symbol")]
        self.assertEqual(len(lines), 1, done.errors)
        self.assertRegex(lines[0], r"^next_symbol: [1-9][0-9]+ found, 0 differ$")

    def test_small_program(self):
        self.check(["/bin/true"])

    def test_many_libraries(self):
        self.check([sys.executable, "-c", "pass"])

    def test_second_allocator(self):
        self.check(["/bin/true"], SECOND)

    def test_before_the_recorder(self):
        self.check(["/bin/true"], COUNTING)


class StackUse(unittest.TestCase):
    """At most 1 KB on the fast path, and 4 KB on the slow path."""

    def test_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run([STACK_USE], [RECORDER], HEAPPROF_OUTPUT=os.path.join(folder, "trace.heapprof"))
            self.assertEqual(done.status, 0)
            self.assertGreater(os.path.getsize(os.path.join(folder, "trace.heapprof")), 300000)
        for kind in ("context", "thread"):
            figures = re.search(kind + r" first (\d+) common (\d+) all (\d+)", done.output).groups()
            first, common, every = map(int, figures)
            self.assertLessEqual(common, 1024)
            self.assertLessEqual(max(first, every), 4096)
        print(done.output.strip().replace("\n", "; "), file=sys.stderr)


if __name__ == "__main__":
    RECORDER, COUNTING, SECOND, NEXT_SYMBOL, PROGRAM, STACK_USE = sys.argv[1:]
    case_runner.main(sys.argv[:1])
