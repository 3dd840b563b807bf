#!/usr/bin/env python3
"""Sums up meson's testlog.json: names what failed and what was skipped, then one line of counts."""

import json
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP", "IGNORED"}


def reason(test):
    """Why a test says it was skipped: the last line of its output that speaks of it."""
    lines = [line.strip() for line in (test.get("stdout") or "").splitlines() if "skip" in line.lower()]
    return f" ({lines[-1]})" if lines else ""


def main():
    try:
        with open(sys.argv[1], encoding="utf-8") as log:
            tests = [json.loads(line) for line in log]
    except OSError as error:
        print(f"no results: {error}")
        tests = []
    passed = [test for test in tests if test["result"] in PASSED]
    skipped = [test for test in tests if test["result"] in SKIPPED]
    failed = [test for test in tests if test["result"] not in PASSED | SKIPPED]
    for test in skipped:
        print(f"skipped: {test['name']}{reason(test)}")
    for test in failed:
        print(f"failed: {test['name']} ({test['result'].lower()})")
    print(f"{len(passed)} passed, {len(failed)} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


sys.exit(main())
