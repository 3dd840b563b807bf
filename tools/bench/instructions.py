#!/usr/bin/env python3
"""Count the instructions that the recorder executes for a malloc/free pair, with valgrind's callgrind. Unlike
nanoseconds, they are exact, and equal on all machines with the same compiler and C library.

usage: tools/bench/instructions.py [--build DIR] [--depth N] [--check FILE | --write FILE]

Prints instructions per pair by function of libheapprof.so, for the program `pair` (pair.cpp) at one depth. They are
the difference between runs with N and with 2N pairs, so that start-up cancels out, and include encoding and
compression of full blocks. --write stores the figures in FILE. --check compares with FILE, and exits with status 1 if
the total differs by more than a tenth. instructions.json in this directory is for Debian 12.
"""

import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PAIRS = 20000
ROUNDS = 5  # of pair.cpp
TOLERANCE = 0.1


def self_costs(path, library):
    """{function: instructions} of `library` in a callgrind file; None: the file describes another program."""
    costs, names, objects = {}, {}, {}
    function = object_name = None
    skip = False
    with open(path) as file:
        text = file.read()
    if not re.search(r"^cmd:\s+\S*pair ", text, re.MULTILINE):
        return None
    for line in text.split("\n"):
        if match := re.match(r"(c?)(fn|ob)=\((\d+)\)(?: (.*))?$", line):
            called, kind, number, name = match.groups()
            table = names if kind == "fn" else objects
            if name:
                table[number] = name
            if called:
                continue
            if kind == "fn":
                function = table[number]
            else:
                object_name = table[number]
        elif line.startswith("calls="):
            skip = True  # the next line has the cost of the called function
        elif re.match(r"([+-]?\d+|\*) \d+$", line):
            if not skip and object_name and os.path.basename(object_name) == library:
                costs[function] = costs.get(function, 0) + int(line.split()[-1])
            skip = False
    return costs


def count(build, pair, depth, pairs, directory):
    library = os.path.abspath(os.path.join(build, "preload/libheapprof.so"))
    for old in glob.glob(os.path.join(directory, "*")):
        os.remove(old)
    subprocess.run(["valgrind", "-q", "--tool=callgrind", "--trace-children=yes",
                    "--callgrind-out-file=" + os.path.join(directory, "cg.%p"), "env", "LD_PRELOAD=" + library,
                    "HEAPPROF_OUTPUT=" + os.path.join(directory, "trace"), pair, str(depth), str(pairs)],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    if not os.path.exists(os.path.join(directory, "trace")):
        sys.exit("nothing was recorded under valgrind")
    for path in glob.glob(os.path.join(directory, "cg.*")):
        costs = self_costs(path, "libheapprof.so")
        if costs is not None:
            return costs
    sys.exit("valgrind wrote no figures")


def measure(build, depth):
    with tempfile.TemporaryDirectory(prefix="heapprof-instructions-") as top:
        pair, directory = os.path.join(top, "pair"), os.path.join(top, "run")
        os.mkdir(directory)
        subprocess.run(["g++", "-O2", "-g", "-std=c++20", "-fno-builtin-malloc", os.path.join(HERE, "pair.cpp"), "-o",
                        pair],
                       check=True)
        once, twice = (count(build, pair, depth, n, directory) for n in (PAIRS, 2 * PAIRS))
    added = PAIRS * ROUNDS
    figures = {name: round((twice[name] - once.get(name, 0)) / added, 1) for name in twice}
    return {name: value for name, value in sorted(figures.items(), key=lambda item: -item[1]) if value >= 0.5}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(HERE, "../../build"), help="build directory")
    parser.add_argument("--depth", type=int, default=30, help="frames of the stack (default 30)")
    parser.add_argument("--write", help="write the figures to this file")
    parser.add_argument("--check", help="compare with the figures in this file")
    options = parser.parse_args()
    figures = measure(options.build, options.depth)
    total = round(sum(figures.values()), 1)
    for name, value in figures.items():
        print(f"{value:8.1f}  {name[:100]}")
    print(f"{total:8.1f}  instructions of the recorder for a malloc/free pair at depth {options.depth}")
    if options.write:
        with open(options.write, "w") as file:
            json.dump({"depth": options.depth, "total": total, "functions": figures}, file, indent=1)
            file.write("\n")
    if options.check:
        with open(options.check) as file:
            expected = json.load(file)["total"]
        if abs(total - expected) > TOLERANCE * expected:
            sys.exit(f"{total} instructions; expected {expected} ({options.check}): find the cause, "
                     "or replace the figures with --write")


if __name__ == "__main__":
    main()
