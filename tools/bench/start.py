#!/usr/bin/env python3
"""Measure what recording adds to the start of programs that end at once, and print a table.

usage: tools/bench/start.py [--build DIR] [--runs N] [--before LIBRARY] [--heaptrack PREFIX] [--only NAME,...]

In each run the programs start in turn: without a recorder, with that of the build directory, with its search for
allocators switched off (HEAPPROF_EMBEDDED_ALLOCATORS=0), with another one (--before, for example of an older build),
and with heaptrack's preload library. A figure is the median, over the runs, of the processor time that a start took
more than the start without a recorder in the same run; beside it the median of the page faults that it took more.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = {
    "true": ["/bin/true"],
    "python3": ["/usr/bin/python3", "-S", "-c", "pass"],
    "perl": ["/usr/bin/perl", "-e", "1"],
    "git": ["/usr/bin/git", "--version"],
    "sqlite3": ["/usr/bin/sqlite3", ":memory:", ""],
    "redis-cli": ["/usr/bin/redis-cli", "--version"],
    "node": ["node", "--version"],
}


def start(command, environment):
    """Processor time in ms and page faults."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(command)}: failed")
    return 1e3 * (usage.ru_utime + usage.ru_stime), usage.ru_minflt


def heaptrack_library(prefix):
    for directory, _, files in os.walk(prefix):
        if "libheaptrack_preload.so" in files:
            return os.path.join(directory, "libheaptrack_preload.so")
    raise SystemExit(f"{prefix}: has no libheaptrack_preload.so")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(HERE, "../../build"))
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--before", help="another libheapprof.so")
    parser.add_argument("--heaptrack", help="installation of heaptrack")
    parser.add_argument("--only", help="names, separated by commas")
    options = parser.parse_args()
    library = os.path.abspath(os.path.join(options.build, "preload/libheapprof.so"))
    if not os.path.exists(library):
        sys.exit(f"{library} does not exist: run tools/test.sh first, or set --build")
    names = options.only.split(",") if options.only else list(PROGRAMS)
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        sys.exit(f"unknown program '{unknown[0]}'; expected {', '.join(PROGRAMS)}")

    with tempfile.TemporaryDirectory(prefix="heapprof-bench-") as directory:
        trace = os.path.join(directory, "trace")
        recorders = {
            "native": {},
            "heapprof": {"LD_PRELOAD": library, "HEAPPROF_OUTPUT": trace},
            "no search": {"LD_PRELOAD": library, "HEAPPROF_OUTPUT": trace, "HEAPPROF_EMBEDDED_ALLOCATORS": "0"},
        }
        if options.before:
            # The recorder looks for its own name in LD_PRELOAD.
            copy = os.path.join(directory, "before", "libheapprof.so")
            os.mkdir(os.path.dirname(copy))
            shutil.copy(options.before, copy)
            recorders["before"] = {"LD_PRELOAD": copy, "HEAPPROF_OUTPUT": trace}
        if options.heaptrack:
            recorders["ht-library"] = {"LD_PRELOAD": heaptrack_library(options.heaptrack),
                                       "DUMP_HEAPTRACK_OUTPUT": trace}
        columns = [name for name in recorders if name != "native"]
        print(f"| program | native ms | {' | '.join(columns)} |\n|---|---:|{'---:|' * len(columns)}")
        for name in names:
            if shutil.which(PROGRAMS[name][0]) is None:
                print(f"{name}: not installed, skipped", file=sys.stderr)
                continue
            taken = {recorder: [] for recorder in recorders}
            for _ in range(options.runs):
                for recorder, variables in recorders.items():
                    taken[recorder].append(start(PROGRAMS[name], {**os.environ, **variables}))
                    if os.path.exists(trace):
                        os.remove(trace)
            cells = []
            for recorder in columns:
                more = [(one[0] - native[0], one[1] - native[1])
                        for one, native in zip(taken[recorder], taken["native"])]
                time, faults = (statistics.median(column) for column in zip(*more))
                cells.append(f"+{time:.1f} ms, {faults:.0f} faults")
            native = statistics.median(time for time, _ in taken["native"])
            print(f"| {name} | {native:.1f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
