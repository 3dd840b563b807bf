#!/usr/bin/env python3
"""Check the order of events of threads that hand few addresses round, with many events.

usage: tools/campaign/order.py [--events N] [--recorded N] [--build DIR]

--events N    events of each run of the protocol alone (tests/unit/recorder/page_owners_test.cpp), without a trace.
              It runs with 2, 3, 4 and 6 threads; so do variants of the protocol that lack a step. Default 100000000
--recorded N  steps of the program handed_round, in all its threads, which is recorded as in tests/e2e/order.py.
              Default 10000000
"""
import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000_000)
    parser.add_argument("--recorded", type=int, default=10_000_000)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    build = Path(options.build).resolve()

    def run(command, events):
        environment = {**os.environ, "HEAPPROF_TEST_EVENTS": str(events), "HEAPPROF_TEST_BUILD": str(build),
                       "PYTHONPATH": str(ROOT / "tests" / "support")}
        return subprocess.run(command, env=environment, check=False).returncode

    failed = run([build / "tests/unit/recorder/recorder_test", "[.campaign]"], options.events)
    failed |= run([sys.executable, ROOT / "tests/e2e/order.py", "-v"], options.recorded)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
