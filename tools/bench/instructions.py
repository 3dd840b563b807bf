#!/usr/bin/env python3
"""Count the instructions that the recorder executes for an allocation and its free, with valgrind's callgrind. Unlike
nanoseconds, they are equal on all machines with the same compiler and C library.

usage: tools/bench/instructions.py [--build DIR] [--depth N] [--only NAME,...] [--check [FILE] | --write [FILE]]

Prints the instructions of libheapprof.so per allocation and its free, by function, for these programs:

  pair      one thread; the stack has 30 frames (pair.cpp)
  threads   the same in a process with several threads, of which the others wait
  contexts  a function that allocates for one caller with 32 contexts, so that many paths are not at their first
            place (contexts.cpp)
  python    a loop of Python, with its lines, by /usr/bin/python3

They are the difference between runs with N and with 2N pairs, so that start-up cancels out, and include encoding and
compression of full blocks. A program that does not execute the part of the recorder that it is for is an error.

--write stores the figures in FILE, instructions.json in this directory by default, which is for Debian 12.
--check compares with FILE, and exits with status 1 if figures differ too much:

  total       by more than a tenth: how well blocks are compressed, and how often a thread does periodic work, depends
              on addresses and times
  event path  the functions that each event executes, without the encoding: by more than a fiftieth. Only the events
              that begin a run, one in 32, are handled by other functions; a tick of the kernel's timer ends a run
              early, so that a slow machine has more of them
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
FIGURES = os.path.join(HERE, "instructions.json")
# Their events nearly fill ten blocks, so that the difference contains the writing of ten.
PAIRS = 10220
ROUNDS = 5  # of pair.cpp
DEPTH = 30
# Not the one that runs this script: interpreters of one release that were built in other ways have other C stacks.
PYTHON = "/usr/bin/python3"
TOLERANCE = {"total": 0.1, "event_path": 0.02}

# The name of a function template begins with the type that it returns.
EVENT_PATH = re.compile(
    r"(malloc|calloc|free)$|(heapprof::NodeId )?heapprof::(unwind|python)::|heapprof::recorder::"
    r"(detail::|time_at_page|multi_threaded_time_of|capture_with_python|\(anonymous namespace\)::(allocated|freed)_)")


@dataclass(frozen=True)
class Program:
    source: str  # a file in this directory, of C++ or Python
    arguments: tuple  # "PAIRS" stands for `pairs` or twice as many
    pairs: int
    executes: str  # a function of the recorder

    def command(self, directory, times):
        stem, extension = os.path.splitext(os.path.join(directory, self.source))
        # Isolated and without the module `site`: what else is installed for this interpreter does not matter.
        program = [PYTHON, "-I", "-S", stem + extension] if extension == ".py" else [stem]
        return program + [str(self.pairs * times) if argument == "PAIRS" else argument for argument in self.arguments]


def programs(depth):
    pair = (str(depth), "PAIRS")
    return {
        "pair": Program("pair.cpp", pair, PAIRS // ROUNDS, "recorder::detail::allocated("),
        "threads": Program("pair.cpp", (*pair, "2"), PAIRS // ROUNDS, "::allocated_timed("),
        "contexts": Program("contexts.cpp", ("PAIRS",), PAIRS, "::allocated_uncached("),
        "python": Program("loop.py", ("PAIRS",), PAIRS, "::allocated_with_python("),
    }


def self_costs(path, program, library):
    """{function: instructions} of `library` in a callgrind file; None: the file describes another program."""
    costs, names, objects = {}, {}, {}
    function = object_name = None
    skip = False
    with open(path) as file:
        text = file.read()
    if not re.search(rf"^cmd:\s+{re.escape(program)} ", text, re.MULTILINE):
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


def count(command, library, directory):
    """The costs of one run. The stack begins at an address that depends on neither the build directory nor the
    environment: the places of cached paths depend on it."""
    for old in glob.glob(os.path.join(directory, "*")):
        os.remove(old)
    environment = {"PATH": "/usr/bin:/bin"}
    if "VALGRIND_LIB" in os.environ:
        environment["VALGRIND_LIB"] = os.environ["VALGRIND_LIB"]
    # Samples of resident memory, and of its pages even more so, depend on time.
    subprocess.run([shutil.which("valgrind"), "-q", "--tool=callgrind", "--trace-children=yes",
                    "--callgrind-out-file=" + os.path.join(directory, "cg.%p"), "env", "LD_PRELOAD=" + library,
                    "HEAPPROF_OUTPUT=" + os.path.join(directory, "trace"), "HEAPPROF_SNAPSHOTS=0", *command],
                   env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    if not os.path.exists(os.path.join(directory, "trace")):
        sys.exit("nothing was recorded under valgrind")
    for path in glob.glob(os.path.join(directory, "cg.*")):
        costs = self_costs(path, command[0], "libheapprof.so")
        if costs is not None:
            return costs
    sys.exit("valgrind wrote no figures")


def measure(name, program, top):
    """{part: figure} of a program: the parts that are compared, and `functions`."""
    directory = os.path.join(top, "run")
    once, twice = (count(program.command(top, times), os.path.join(top, "libheapprof.so"), directory)
                   for times in (1, 2))
    figures = {function: round((cost - once.get(function, 0)) / PAIRS, 1) for function, cost in twice.items()}
    figures = {function: value for function, value in sorted(figures.items(), key=lambda item: -item[1])
               if value >= 0.5}
    if not any(program.executes in function for function in figures):
        sys.exit(f"{name}: {program.executes[:-1]} is not executed, so that something else would be counted")
    event_path = sum(value for function, value in figures.items() if EVENT_PATH.match(function))
    return {"total": round(sum(figures.values()), 1), "event_path": round(event_path, 1), "functions": figures}


def measure_all(build, chosen):
    library = os.path.abspath(os.path.join(build, "preload/libheapprof.so"))
    if not os.path.exists(library):
        sys.exit(f"{library} does not exist: build it first, or set --build")
    result = {}
    with tempfile.TemporaryDirectory(prefix="heapprof-instructions-") as top:
        os.mkdir(os.path.join(top, "run"))
        os.symlink(library, os.path.join(top, "libheapprof.so"))
        for source in {program.source for program in chosen.values()}:
            path = os.path.join(HERE, source)
            if source.endswith(".py"):
                shutil.copy(path, top)
            else:
                # Without debug information, which valgrind would read in each run.
                subprocess.run(["g++", "-O2", "-std=c++20", "-fno-builtin-malloc", "-pthread", path, "-o",
                                os.path.join(top, os.path.splitext(source)[0])], check=True)
        for name, program in chosen.items():
            if program.source.endswith(".py") and not os.access(PYTHON, os.X_OK):
                print(f"{name}: not counted, because there is no {PYTHON}")
                continue
            result[name] = measure(name, program, top)
            if program.source.endswith(".py"):
                result[name]["interpreter"] = subprocess.run([PYTHON, "--version"], check=True, capture_output=True,
                                                             text=True).stdout.strip()
    return result


def differences(measured, expected):
    """What differs by more than TOLERANCE, as lines of text. Figures of another release of Python are not compared."""
    lines = []
    for name, figures in measured.items():
        if name not in expected:
            lines.append(f"{name}: no figures are known")
            continue
        if figures.get("interpreter") != expected[name].get("interpreter"):
            print(f"{name}: not compared, the figures are those of {expected[name].get('interpreter')}")
            continue
        for part, tolerance in TOLERANCE.items():
            known = expected[name][part]
            if abs(figures[part] - known) > tolerance * known:
                lines.append(f"{name}, {part.replace('_', ' ')}: {figures[part]} instructions; expected {known}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(HERE, "../../build"), help="build directory")
    parser.add_argument("--depth", type=int, help=f"only the program pair, with this many frames instead of {DEPTH}")
    parser.add_argument("--only", help="the programs, separated by commas")
    parser.add_argument("--write", nargs="?", const=FIGURES, help="write the figures to this file")
    parser.add_argument("--check", nargs="?", const=FIGURES, help="compare with the figures in this file")
    options = parser.parse_args()
    if options.write and (options.depth or options.only):
        parser.error("--write needs all programs")
    if options.check and options.depth:
        parser.error("--check needs the usual depth")
    chosen = programs(options.depth or DEPTH)
    only = ["pair"] if options.depth else options.only.split(",") if options.only else list(chosen)
    if unknown := set(only) - set(chosen):
        parser.error(f"unknown program {', '.join(sorted(unknown))}")
    measured = measure_all(options.build, {name: chosen[name] for name in only})
    for name, figures in measured.items():
        for function, value in figures["functions"].items():
            print(f"{value:8.1f}  {function[:100]}")
        print(f"{figures['total']:8.1f}  {name}: instructions of the recorder for an allocation and its free, "
              f"{figures['event_path']} of them in the event path\n")
    if options.write:
        with open(options.write, "w") as file:
            json.dump(measured, file, indent=1)
            file.write("\n")
    if options.check:
        with open(options.check) as file:
            lines = differences(measured, json.load(file))
        if lines:
            sys.exit("\n".join([*lines, f"({options.check}): find the cause, or replace the figures with --write"]))


if __name__ == "__main__":
    main()
