#!/usr/bin/env python3
"""Summarize meson's testlog.json: print the names of failed and skipped tests, then one line of counts.

usage: tools/test_result.py TESTLOG [--expected FILE] [--logs DIR]

--expected FILE  count tests without a result as failed; FILE has one name per line, as from `meson test --list`
--logs DIR       write the output of each failed test to DIR/NAME.log

A test passed if its result is OK or EXPECTEDFAIL, and was skipped if it is SKIP. All others failed, including tests
that were killed, timed out or have no result. Exit status 0: at least one test passed and none failed.
"""

import argparse
import json
import re
import sys
from pathlib import Path

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}


def short_name(test):
    """The name without its prefix of project and suite."""
    return test["name"].rpartition(" / ")[2]


def reason(test):
    """The reason of a skipped test: the last line of its output that contains "skip"."""
    lines = [line.strip() for line in (test.get("stdout") or "").splitlines() if "skip" in line.lower()]
    return f" ({lines[-1]})" if lines else ""


def skipped_cases(test):
    """Skipped cases with their reasons: "NAME (REASON)". Python tests print them (tests/support/case_runner.py), and
    those with Catch2 (tests/support/skip_case.h)."""
    return re.findall(r"^skipped case: (.+)$", test.get("stdout") or "", re.M)


def read(path):
    """The entries of the log, without malformed lines (meson was killed while it wrote one)."""
    tests = []
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        print(f"no results: {error}")
        return tests
    for line in lines:
        try:
            test = json.loads(line)
        except ValueError:
            continue
        if isinstance(test, dict) and "name" in test:
            tests.append(test)
    return tests


def save_log(test, directory):
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / (re.sub(r"[^\w.-]", "_", short_name(test)) + ".log")
    path.write_text(f"{test['name']}: {test['result']}, exit status {test.get('returncode')}, "
                    f"{test.get('duration', 0):.1f} s\n"
                    f"--- stdout\n{test.get('stdout') or ''}\n--- stderr\n{test.get('stderr') or ''}\n")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("testlog", type=Path)
    parser.add_argument("--expected", type=Path)
    parser.add_argument("--logs", type=Path)
    options = parser.parse_args()

    tests = read(options.testlog)
    if options.expected:
        have = {test["name"] for test in tests}
        names = options.expected.read_text(encoding="utf-8").splitlines()
        tests += [{"name": name, "result": "no result"} for name in names if name and name not in have]
    for test in tests:
        test.setdefault("result", "no result")
    passed = [test for test in tests if test["result"] in PASSED]
    skipped = [test for test in tests if test["result"] in SKIPPED]
    failed = [test for test in tests if test["result"] not in PASSED | SKIPPED]
    for test in skipped:
        print(f"skipped: {short_name(test)}{reason(test)}")
    for test in passed:
        for case in skipped_cases(test):
            print(f"skipped in {short_name(test)}: {case}")
    for test in failed:
        where = f": {save_log(test, options.logs)}" if options.logs else ""
        print(f"failed: {short_name(test)} ({test['result'].lower()}){where}")
    # Continuous integration parses this line.
    print(f"{len(passed)} passed, {len(failed)} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


sys.exit(main())
