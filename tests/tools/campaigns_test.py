"""The campaigns of tools/campaign: they notice what they look for."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path

import case_runner

ROOT = Path(__file__).resolve().parents[2]


def campaign(name):
    """A script of tools/campaign as a module."""
    spec = importlib.util.spec_from_file_location(f"campaign_{name}", ROOT / "tools/campaign" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it
    spec.loader.exec_module(module)
    return module


class PythonTests(unittest.TestCase):
    """CPython's own tests with a checked build."""

    # A test, in place of the interpreter, that succeeds although a child of it finds a difference.
    INTERPRETER = """#!/bin/sh
sh -c 'echo "{text}" >>"$HEAPPROF_LOG_FILE"; kill -ILL $$'
exit 0
"""

    def run_test(self, text):
        with tempfile.TemporaryDirectory() as folder:
            interpreter = Path(folder) / "python3"
            interpreter.write_text(self.INTERPRETER.format(text=text))
            interpreter.chmod(0o755)
            return campaign("python_tests").run_test(types.SimpleNamespace(path=interpreter), "test_none", "", "", 60)

    def texts(self):
        """The texts of the differences that a checked build finds."""
        texts, ending = [], set()
        for path in sorted((ROOT / "preload").rglob("*.cpp")):
            source = path.read_text()
            texts += re.findall(r'report_difference\(\s*"([^"]+)"', source)
            if "__builtin_trap" in source:
                ending.add(str(path.relative_to(ROOT)))
        # No other function ends the program.
        self.assertEqual(ending, {"preload/sys/difference.cpp"})
        return texts

    def test_a_difference_in_a_child_is_found(self):
        begin = re.search(r'kBegin\[\] = "(.*)"', (ROOT / "preload/sys/difference.cpp").read_text()).group(1)
        texts = self.texts()
        self.assertGreaterEqual(len(texts), 4)
        for text in texts:
            with self.subTest(text):
                self.assertEqual(self.run_test(begin + text), (0, f"1 difference: {text}"))

    def test_other_messages_are_no_differences(self):
        self.assertEqual(self.run_test("heapprof: error: not recording: no space"), (0, ""))

    def test_the_end_of_the_first_process(self):
        result_of = campaign("python_tests").result_of
        self.assertEqual(result_of("Ran 3 tests", -11), "killed by signal 11")
        self.assertEqual(result_of("Ran 3 tests", 1), "")
        self.assertEqual(result_of("heapprof: difference: b\nheapprof: difference: a\n", -4), "2 differences: a; b")


class Python(unittest.TestCase):
    """The end-to-end tests of Python frames with many interpreters."""

    # With the functions of tests/e2e/python_hazards.py.
    TESTS = """
import unittest
import case_runner
from python_hazards import for_each

class Hazards(unittest.TestCase):
    @for_each()
    def test_every_version(self, python):
        print(python)
    @for_each(minimum=(3, 12))
    def test_new_versions(self, python):
        '''Described in a line of its own.'''
        self.fail("this version cannot run it")
    @for_each(minimum=(3, 13))
    def test_newer_versions(self, python):
        self.fail("this version cannot run it")
    def test_package(self):
        self.skipTest("test_package is not installed")

case_runner.main()
"""

    def test_hazards_that_a_version_does_not_have_are_skipped(self):
        with tempfile.TemporaryDirectory() as folder:
            interpreter, tests = Path(folder) / "python3", Path(folder) / "hazards.py"
            interpreter.write_text("#!/bin/sh\necho 3 8 18 0 0\n")  # the answer to tests/support/pythons.py
            interpreter.chmod(0o755)
            tests.write_text(self.TESTS)
            environment = {key: value for key, value in os.environ.items() if not key.startswith("HEAPPROF_TEST_")}
            environment.update(HEAPPROF_TEST_PYTHONS=str(interpreter),
                               PYTHONPATH=f"{ROOT / 'tests/support'}:{ROOT / 'tests/e2e'}")
            run = subprocess.run([sys.executable, tests], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 env=environment)
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn(f"3.8.18 ({interpreter})", run.stdout)
        for name, minimum in (("new", "3.12"), ("newer", "3.13")):
            self.assertRegex(run.stdout,
                             rf"skipped case: Hazards.test_{name}_versions .*for Python {minimum} and later")
        self.assertEqual(campaign("python").summary("hazards", run.stdout), "1 of 4")


class PythonRules(unittest.TestCase):
    """Recorders with a broken rule."""

    FAILED = """test_places (__main__.Frames.test_places) ...
======================================================================
FAIL: test_places (__main__.Frames.test_places) [3.13.0 (/usr/bin/python3)]
----------------------------------------------------------------------
Traceback (most recent call last):
AssertionError: {'list_sort'} != {'_PyEval_EvalFrameDefault'}

----------------------------------------------------------------------
Ran 1 test in 1.0s
"""

    def setUp(self):
        self.campaign = campaign("python_rules")

    def test_each_rule_can_be_broken_and_has_a_judge(self):
        directory = ROOT / "preload/python"
        rules = re.findall(r"^  (k\w+),", (directory / "broken_rule.h").read_text(), re.M)
        rules.remove("kNone")
        self.assertEqual(set(rules), set(self.campaign.JUDGES))
        sources = "".join(path.read_text() for path in directory.iterdir()
                          if path.suffix in (".cpp", ".h") and path.name != "broken_rule.h")
        self.assertEqual(sorted(re.findall(r"is_broken\(Rule::(\w+)\)", sources)), sorted(rules))
        for judge in self.campaign.JUDGES.values():
            case, _, test = judge.test.partition(".")
            source = (ROOT / "tests/e2e" / judge.file).read_text()
            self.assertIn(f"\nclass {case}(", source)
            self.assertIn(f"    def {test}(", source)

    def test_the_newest_interpreter_that_a_rule_concerns(self):
        interpreters = [types.SimpleNamespace(version=version) for version in ((3, 8, 18), (3, 11, 7), (3, 13, 0))]
        judges = self.campaign.JUDGES
        self.assertEqual(self.campaign.interpreter_for(judges["kFreedCode"], interpreters).version, (3, 11, 7))
        self.assertEqual(self.campaign.interpreter_for(judges["kCodeVersion"], interpreters).version, (3, 13, 0))
        self.assertIsNone(self.campaign.interpreter_for(judges["kCodeVersion"], interpreters[:2]))

    def test_only_a_judge_that_ran_has_a_verdict(self):
        verdict = self.campaign.verdict
        judge = self.campaign.JUDGES["kPlace"]
        self.assertEqual(verdict(judge, 0, "test_places ... ok\n\nRan 1 test in 1.0s\n\nOK\n"), ("passed", ""))
        self.assertEqual(verdict(judge, 1, self.FAILED),
                         ("failed", "AssertionError: {'list_sort'} != {'_PyEval_EvalFrameDefault'}"))
        for status, output in ((77, "skipped: no supported Python"), (1, "not built: libheapprof.so"), (-11, ""),
                               (1, self.FAILED.replace("FAIL: test_places", "FAIL: test_frames")),
                               (0, "Ran 0 tests in 0.0s"),
                               (0, "Ran 1 test in 0.1s\nskipped case: Frames.test_places (no interpreter)")):
            with self.subTest(output), self.assertRaises(SystemExit):
                verdict(judge, status, output)


if __name__ == "__main__":
    case_runner.main()
