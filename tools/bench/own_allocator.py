#!/usr/bin/env python3
"""What a diverted function costs: a malloc/free pair of a jemalloc linked into the program, against one of libc's.

  tools/bench/own_allocator.py [--runs N] [--build DIR]

Both programs are pair.cpp. They run in turn, unrecorded and recorded, and each figure is the fastest of N runs: what
the machine does besides only adds. The last line is the ratio of what the recorder adds to a pair, diverted over
hooked.

Needs a build (tools/test.sh), g++ and Debian's libjemalloc-dev.
"""

import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PAIRS = "60000"
DEPTH = "7"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--build", default=os.path.join(HERE, "../../build"), help="build folder")
    options = parser.parse_args()
    library = os.path.abspath(os.path.join(options.build, "preload/libheapprof.so"))
    if not os.path.exists(library):
        sys.exit(f"{library} is missing: run tools/test.sh first, or name the build folder with --build")
    with tempfile.TemporaryDirectory(prefix="heapprof-bench-") as folder:
        linked = {"libc": [], "jemalloc": ["-Wl,--whole-archive", "-l:libjemalloc.a", "-Wl,--no-whole-archive",
                                           "-lm"]}
        for name, flags in linked.items():
            subprocess.run(["g++", "-O2", "-g", "-std=c++20", "-fno-builtin-malloc", "-pthread",
                            os.path.join(HERE, "pair.cpp"),
                            "-o", os.path.join(folder, name), *flags], check=True)
        best = {}
        for _ in range(options.runs):
            for name in linked:
                for recorded in (False, True):
                    trace = os.path.join(folder, "trace")
                    more = {"LD_PRELOAD": library, "HEAPPROF_OUTPUT": trace} if recorded else {}
                    took = subprocess.run([os.path.join(folder, name), DEPTH, PAIRS], env={**os.environ, **more},
                                          check=True,
                                          capture_output=True, text=True).stdout
                    best[name, recorded] = min(float(took), best.get((name, recorded), float("inf")))
                    if recorded:
                        os.remove(trace)
    added = {}
    for name in linked:
        added[name] = best[name, True] - best[name, False]
        print(f"{name:10} {best[name, False]:6.1f} ns a pair, recorded {best[name, True]:6.1f}: +{added[name]:.1f}")
    print(f"ratio      {added['jemalloc'] / added['libc']:6.2f}")


if __name__ == "__main__":
    main()
