"""Runs the cases of a test file (a unittest module) and names those that are skipped. It needs nothing of a build;
what else end-to-end tests share is in harness.py.

    if __name__ == "__main__":
        case_runner.main()
"""

import faulthandler
import signal
import sys
import unittest

import process_group

SKIPPED = 77  # meson: the test cannot run here


def skip_unless(condition, reason):
    """Exits with meson's status for a skipped test."""
    if not condition:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)


class Result(unittest.TextTestResult):
    """Knows whether a test, or a part of one, has ended without being skipped."""

    has_run = False

    def addSuccess(self, test):
        super().addSuccess(test)
        self.has_run = True

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        self.has_run = True


def main(argv=None):
    """`argv`: as of unittest.main; by default the program's."""
    # meson ends a test that exceeds its limit with SIGTERM: the stacks show in which case, and what it waits for.
    process_group.end_all_with(signal.SIGTERM)
    faulthandler.register(signal.SIGTERM, chain=True)
    runner = unittest.TextTestRunner(verbosity=2, stream=sys.stdout, resultclass=Result)
    result = unittest.main(module="__main__", argv=argv, exit=False, testRunner=runner).result
    for test, reason in result.skipped:
        name = test.id().replace("__main__.", "")
        print(f"skipped case: {name} ({' '.join(reason.split())})")  # tools/test_result.py lists them
    if not result.wasSuccessful():
        sys.exit(1)
    if result.skipped and not result.has_run:
        sys.exit(SKIPPED)
