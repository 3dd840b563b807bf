#!/usr/bin/env python3
"""Measure the cost of recording a patched function: a malloc/free pair of a jemalloc that is linked into the program,
compared with a pair of libc.

usage: tools/bench/embedded_allocator.py [--runs N] [--build DIR]

Both programs are pair.cpp. They run in turn, unrecorded and recorded. Each figure is that of the fastest of N runs,
because other work on the machine only adds time. The last line is the time that recording adds to a pair of patched
functions, divided by the time that it adds to a pair of hooks.

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
    parser.add_argument("--build", default=os.path.join(HERE, "../../build"), help="build directory")
    options = parser.parse_args()
    library = os.path.abspath(os.path.join(options.build, "preload/libheapprof.so"))
    if not os.path.exists(library):
        sys.exit(f"{library} does not exist: run tools/test.sh first, or set --build")
    with tempfile.TemporaryDirectory(prefix="heapprof-bench-") as directory:
        linked = {"libc": [], "jemalloc": ["-Wl,--whole-archive", "-l:libjemalloc.a", "-Wl,--no-whole-archive",
                                           "-lm"]}
        for name, flags in linked.items():
            subprocess.run(["g++", "-O2", "-g", "-std=c++20", "-fno-builtin-malloc", "-pthread",
                            os.path.join(HERE, "pair.cpp"),
                            "-o", os.path.join(directory, name), *flags], check=True)
        best = {}
        for _ in range(options.runs):
            for name in linked:
                for recorded in (False, True):
                    trace = os.path.join(directory, "trace")
                    more = {"LD_PRELOAD": library, "HEAPPROF_OUTPUT": trace} if recorded else {}
                    took = subprocess.run([os.path.join(directory, name), DEPTH, PAIRS], env={**os.environ, **more},
                                          check=True,
                                          capture_output=True, text=True).stdout
                    best[name, recorded] = min(float(took), best.get((name, recorded), float("inf")))
                    if recorded:
                        os.remove(trace)
    added = {}
    for name in linked:
        added[name] = best[name, True] - best[name, False]
        print(f"{name:10} {best[name, False]:6.1f} ns per pair, recorded {best[name, True]:6.1f}: +{added[name]:.1f}")
    print(f"ratio      {added['jemalloc'] / added['libc']:6.2f}")


if __name__ == "__main__":
    main()
