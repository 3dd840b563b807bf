#!/usr/bin/env python3
"""Measure how the time and memory of heapprof's analysis grow with the number of different call stacks.

usage: tools/bench/stacks.py [--thousands 600,1250,2500,5000] [--commands report,leaks,...] [--work DIR] [--build DIR]
       [-o FILE.md]

The program is tools/bench/stacks.cpp, a recursive merge sort, in which each call allocates a block with a stack of its
own. It is recorded once for each number of stacks. The commands run without an index and with cached names of
functions. Figures: processor time in seconds, the same per million stacks, which does not grow if time is linear; peak
resident memory, the same per stack.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import run
from analyzer import Figures

# `json`: all stacks, each frame written once.
COMMANDS = {
    "report": ["report", "--no-index"],
    "leaks": ["leaks", "--no-index"],
    "timeline": ["timeline", "--no-index", "--json"],
    "churn": ["churn", "--no-index"],
    "flamegraph": ["flamegraph", "--no-index"],
    "json": ["report", "--no-index", "--json", "--top", "0", "--shared-frames"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thousands", default="600,1250,2500,5000", help="numbers of stacks, in thousands")
    parser.add_argument("--commands", default=",".join(COMMANDS), help="some of " + ", ".join(COMMANDS))
    parser.add_argument("--work", help="directory for the traces (default: a temporary one)")
    parser.add_argument("--build", default=os.path.join(run.HERE, "../../build"), help="build directory")
    parser.add_argument("-o", "--output", help="also write the table to this file")
    options = parser.parse_args()
    analyzer = os.path.abspath(os.path.join(options.build, "analyzer/heapprof"))
    library = os.path.abspath(os.path.join(options.build, "preload/libheapprof.so"))
    if not os.path.exists(library):
        sys.exit(f"{library} does not exist: run tools/build.sh first, or set --build")
    rows = []
    with tempfile.TemporaryDirectory(prefix="heapprof-bench-") as temporary:
        work = os.path.abspath(options.work or temporary)
        os.makedirs(work, exist_ok=True)
        program, trace = os.path.join(work, "stacks"), os.path.join(work, "stacks.heapprof")
        subprocess.run(["g++", "-O2", "-g", "-std=c++20", "-fno-builtin-malloc",
                        os.path.join(run.HERE, "stacks.cpp"), "-o", program], check=True)
        environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(work, "cache"))
        for thousands in map(int, options.thousands.split(",")):
            if os.path.exists(trace):
                os.unlink(trace)
            stacks = thousands * 1000
            figures = Figures([program, str(stacks)], dict(environment, LD_PRELOAD=library, HEAPPROF_OUTPUT=trace))
            measured = [("record", figures)]
            Figures([analyzer, "report", "--no-index", trace, "-o", "/dev/null"], environment)  # fills the symbol cache
            for name in options.commands.split(","):
                command = [analyzer, *COMMANDS[name], trace, "-o", "/dev/null"]
                measured.append((name, Figures(command, environment)))
            for name, figures in measured:
                rows.append([f"{stacks / 1e6:g} M", name, f"{figures.cpu:.2f}", f"{figures.cpu / stacks * 1e6:.2f}",
                             f"{figures.rss / 1e6:.0f}", f"{figures.rss / stacks:.0f}"])
                print(" | ".join(rows[-1]), flush=True)
        os.unlink(trace)
    text = run.table(["stacks", "command", "cpu s", "cpu s per million", "peak MB", "bytes per stack"], rows)
    print(text, end="")
    if options.output:
        with open(options.output, "w") as file:
            file.write(text)


if __name__ == "__main__":
    main()
