#!/usr/bin/env python3
"""Measure what snapshots of resident pages cost: time, bytes of trace, and how long the program's mmap waits.

usage: tools/bench/residency.py [--mebibytes 1024] [--seconds 10] [--build DIR] [-o FILE.md]

A program touches --mebibytes of memory: all pages in one case, every second page of twice the memory in the other.
Then one thread calls mmap and munmap for --seconds while another one allocates. It is recorded without snapshots, and
with a request for a snapshot every 100 ms. Limits, which set the exit status: 5 ms of processor time for each
resident GiB (the median of all snapshots), 40 KiB of compressed trace for each resident GiB, and 10 ms more for the
p99 of mmap.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import trace_reader  # noqa: E402

GIB = 1 << 30
MAX_MS_PER_GIB, MAX_KIB_PER_GIB, MAX_P99_MS = 5, 40, 10


def measure(build, program, mebibytes, step, seconds, snapshots):
    """p99 of mmap in ms, the requested snapshots, and the bytes of all frames."""
    with tempfile.TemporaryDirectory() as directory:
        trace = Path(directory) / "trace.heapprof"
        environment = dict(os.environ, LD_PRELOAD=str(build / "preload" / "libheapprof.so"),
                           HEAPPROF_OUTPUT=str(trace), HEAPPROF_SNAPSHOTS=str(int(snapshots)))
        with subprocess.Popen([program, str(mebibytes), str(step), str(seconds)], env=environment, text=True,
                              stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == "ready\n"
            while snapshots and process.poll() is None:
                subprocess.run([build / "analyzer" / "heapprof", "control", trace, "snapshot"], check=False,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(0.1)
            figures = process.stdout.read().split()
        read = trace_reader.Trace(trace)
        return float(figures[2]) / 1000, [one for one in read.snapshots if one.reason == "request"], read.frame_bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    lines = ["| pages | snapshots | ms per GiB | KiB of trace per GiB | p99 of mmap without, ms | with, ms |",
             "|---|---|---|---|---|---|"]
    exceeded = False
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "residency"
        subprocess.run(["c++", "-std=c++20", "-O2", "-pthread", "-o", program, ROOT / "tools/bench/residency.cpp"],
                       check=True)
        for name, step in (("all", 1), ("every second", 2)):
            arguments = (options.build, program, options.mebibytes, step, options.seconds)
            without, _, frames_without = measure(*arguments, snapshots=False)
            with_snapshots, taken, frames = measure(*arguments, snapshots=True)
            gibibytes = options.mebibytes / 1024
            ms = statistics.median(one.spent_ns for one in taken) / 1e6 / gibibytes
            kib = max(0, frames - frames_without) / len(taken) / 1024 / gibibytes
            complete = sum(one.complete for one in taken)
            lines.append(f"| {name} | {len(taken)}, {complete} complete | {ms:.1f} | {kib:.1f} | {without:.2f} | "
                         f"{with_snapshots:.2f} |")
            exceeded |= ms > MAX_MS_PER_GIB or kib > MAX_KIB_PER_GIB or with_snapshots > without + MAX_P99_MS
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
