#!/usr/bin/env python3
"""Record many short threads, and threads that are cancelled at random moments, and check that all marked blocks are
in the trace.

usage: tools/campaign/threads.py [--times N] [--build DIR]

--times N  number of short threads; default 100000. A tenth of that number is cancelled. Both run with small and
           with large staging blocks.
"""
import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100_000)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    os.environ["HEAPPROF_TEST_BUILD"] = str(Path(options.build).resolve())
    import harness
    failed = 0
    for what, times in (("storm", options.times), ("cancel", options.times // 10)):
        for block_bytes in (4096, 65536):
            begin = time.monotonic()
            case = harness.Case()
            case.count = 0
            with tempfile.TemporaryDirectory(prefix="heapprof-campaign-") as directory:
                case.dir = Path(directory)
                try:
                    run = case.record(harness.program("stress"), what, times, BLOCK_BYTES=block_bytes, timeout=3600)
                    case.assert_sound(case.report(run.trace))
                    marked = case.report(run.trace, "--min-size", 777, "--max-size", 777)["heap"]["allocations"]
                    case.assertEqual(marked, int(run.stdout))
                    print(f"{what}: {times} threads, blocks of {block_bytes} bytes, {marked} allocations, "
                          "all in the trace, "
                          f"{time.monotonic() - begin:.0f} s", flush=True)
                except AssertionError as problem:
                    failed += 1
                    print(f"{what}, blocks of {block_bytes} bytes: {problem}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
