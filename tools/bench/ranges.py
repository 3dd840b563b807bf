#!/usr/bin/env python3
"""Measure a recording with many live blocks and an index, and slices of it, and print a table.

usage: tools/bench/ranges.py --work DIR [--build DIR] [--events N] [--live N] [--turnover N] [--rounds N]

Records ranges.cpp once (DIR/ranges.heapprof), indexes it, and runs each command in each round in turn. The table has
medians: processor time of all threads, wall time, peak resident memory. `--turnover` is the number of live blocks
that are replaced in each million events.
"""

import argparse
import os
import statistics
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SLICES = [(), (50, 50.1), (40, 50), (25, 75), (1, 99), (30, 100)]
COMMANDS = [("report", "--by", "function"), ("report", "--by", "thread"), ("tree",)]


def run(*command):
    """Processor time and wall time in seconds, peak resident memory in MB."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(command)}: failed")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - begin, usage.ru_maxrss / 1024


def recorded(options):
    """Records and indexes; heapprof, the trace and the processor time of the index."""
    heapprof = os.path.join(options.build, "analyzer/heapprof")
    os.makedirs(options.work, exist_ok=True)
    program, trace = (os.path.join(options.work, name) for name in ("ranges", "ranges.heapprof"))
    subprocess.run(["g++", "-O2", "-std=c++20", os.path.join(HERE, "ranges.cpp"), "-o", program], check=True)
    run(heapprof, "record", "-q", "--force", "-o", trace, "--", program, str(options.events), str(options.live),
        str(options.turnover))
    return heapprof, trace, run(heapprof, "index", trace)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True)
    parser.add_argument("--build", default=os.path.join(HERE, "../../build"))
    parser.add_argument("--events", type=int, default=100_000_000)
    parser.add_argument("--live", type=int, default=1_000_000)
    parser.add_argument("--turnover", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    heapprof, trace, index_seconds = recorded(options)

    commands = {"report --no-index": ("report", "--json", "--no-index")}
    for command in COMMANDS:
        for time_slice in SLICES:
            moments = [word for option, at in zip(("--from", "--to"), time_slice) for word in (option, f"{at}%")]
            commands[" ".join((*command, *moments))] = (*command, "--json", *moments)
    results = {name: [] for name in commands}
    for _ in range(options.rounds):
        for name, command in commands.items():
            results[name].append(run(heapprof, *command, trace))

    size, index = os.path.getsize(trace), os.path.getsize(trace + ".idx")
    print(f"{options.events / 1e6:.0f} million events, {size / 1e6:.0f} MB; index {index / 1e6:.1f} MB "
          f"({100 * index / size:.1f} %), written in {index_seconds:.1f} s of processor time\n")
    print("| command, each with `--json` | processor time | wall time | memory |\n|---|---:|---:|---:|")
    for name, rounds in results.items():
        processor, wall, memory = (statistics.median(column) for column in zip(*rounds))
        print(f"| `{name}` | {processor:.2f} s | {wall:.2f} s | {memory:.0f} MB |")


if __name__ == "__main__":
    main()
