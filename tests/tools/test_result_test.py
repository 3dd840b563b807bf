"""tools/test_result.py on logs of meson: failed and skipped tests are named, and a missing result is a failure."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import case_runner

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "test_result.py"
SUPPORT = Path(__file__).resolve().parents[1] / "support"

CASES = """
import unittest
import harness

class Case(unittest.TestCase):
    def test_passing(self):
        pass
    def test_described(self):
        '''Described in a line of its own.'''
        self.skipTest("no\\nzsh")
    def test_plain(self):
        self.skipTest("no fish")
    def test_subtests(self):
        for number in (1, 2):
            with self.subTest(number=number):
                if number == 2:
                    self.skipTest("no number 2")

harness.main()
"""


def entry(name, result, stdout="", stderr=""):
    return json.dumps({"name": name, "result": result, "stdout": stdout, "stderr": stderr, "returncode": 1,
                       "duration": 1.5}) + "\n"


class TestResult(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = Path(directory.name)

    def sum_up(self, log, *options):
        """Exit status and printed lines for a log with this text; None: the log does not exist."""
        path = self.dir / "testlog.json"
        path.unlink(missing_ok=True)
        if log is not None:
            path.write_text(log)
        result = subprocess.run([sys.executable, SCRIPT, path, *map(str, options)], capture_output=True, text=True)
        self.assertEqual(result.stderr, "")
        return result.returncode, result.stdout.splitlines()

    def expected(self, *names):
        path = self.dir / "expected"
        path.write_text("".join(f"{name}\n" for name in names))
        return "--expected", path

    def test_all_passed(self):
        status, lines = self.sum_up(entry("a", "OK") + entry("b", "EXPECTEDFAIL"))
        self.assertEqual((status, lines), (0, ["2 passed, 0 failed"]))

    def test_all_other_results_are_failures(self):
        for result in ("FAIL", "TIMEOUT", "INTERRUPT", "ERROR", "UNEXPECTEDPASS", "RUNNING", "PENDING", "SOMETHING"):
            with self.subTest(result=result):
                status, lines = self.sum_up(entry("a", "OK") + entry("b", result))
                self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))
                self.assertIn(f"failed: b ({result.lower()})", lines)

    def test_skipped_with_the_reason(self):
        status, lines = self.sum_up(entry("a", "OK") + entry("b", "SKIP", "skipped: no such program\n"))
        self.assertEqual((status, lines), (0, ["skipped: b (skipped: no such program)",
                                               "1 passed, 0 failed, 1 skipped"]))

    def test_skipped_cases_of_a_python_test(self):
        """Also a case with a description, which unittest prints as two lines, and one of several subtests."""
        module = self.dir / "cases.py"
        module.write_text(CASES)
        build = self.dir / "build"
        for path in (build / "analyzer" / "heapprof", build / "preload" / "libheapprof.so"):
            path.parent.mkdir(parents=True)
            path.touch()
        result = subprocess.run([sys.executable, module], capture_output=True, text=True,
                                env={**os.environ, "PYTHONPATH": str(SUPPORT), "HEAPPROF_TEST_BUILD": str(build),
                                     "HEAPPROF_TEST_TARGET": str(build)})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        status, lines = self.sum_up(entry("a", "OK", result.stdout))
        self.assertEqual((status, lines), (0, [
            "skipped in a: Case.test_described (no zsh)", "skipped in a: Case.test_plain (no fish)",
            "skipped in a: Case.test_subtests (number=2) (no number 2)",
            "1 passed, 0 failed"]))

    def test_skipped_cases_of_a_catch2_test(self):
        output = "skipped case: A call is repeated (no seccomp filter)\nAll tests passed\n"
        status, lines = self.sum_up(entry("a", "OK", output))
        self.assertEqual((status, lines), (0, ["skipped in a: A call is repeated (no seccomp filter)",
                                               "1 passed, 0 failed"]))

    def test_nothing_ran(self):
        for log in (None, "", entry("a", "SKIP")):
            with self.subTest(log=log):
                self.assertEqual(self.sum_up(log)[0], 1)

    def test_a_test_without_a_result_failed(self):
        """meson was killed before the test ended: the log has no entry for it, or a part of one."""
        status, lines = self.sum_up(entry("a", "OK"), *self.expected("a", "b"))
        self.assertEqual((status, lines), (1, ["failed: b (no result)", "1 passed, 1 failed"]))
        status, lines = self.sum_up(entry("a", "OK") + entry("b", "OK")[:20], *self.expected("a", "b"))
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))
        self.assertEqual(self.sum_up("", *self.expected("a"))[1],
                         ["failed: a (no result)", "0 passed, 1 failed"])

    def test_the_same_test_twice(self):
        """`meson test --repeat` runs each test several times: each run is counted."""
        status, lines = self.sum_up(entry("a", "FAIL") + entry("a", "FAIL") + entry("b", "OK"))
        self.assertEqual((status, lines[-1]), (1, "1 passed, 2 failed"))

    def test_names_without_their_suites(self):
        name = "heapprof:unit / b"
        status, lines = self.sum_up(entry(name, "FAIL"), "--logs", self.dir, *self.expected(name))
        self.assertEqual((status, lines[0]), (1, f"failed: b (fail): {self.dir}/b.log"))
        self.assertEqual(lines[1:], ["0 passed, 1 failed"])

    def test_the_output_of_failed_tests_is_written(self):
        status, lines = self.sum_up(entry("a", "OK", "fine") + entry("b", "FAIL", "what it said", "and on stderr"),
                                    "--logs", self.dir / "logs")
        self.assertEqual(status, 1)
        self.assertEqual(lines[0], f"failed: b (fail): {self.dir}/logs/b.log")
        self.assertEqual([path.name for path in (self.dir / "logs").iterdir()], ["b.log"])
        text = (self.dir / "logs" / "b.log").read_text()
        self.assertIn("what it said", text)
        self.assertIn("and on stderr", text)


if __name__ == "__main__":
    case_runner.main()
