#!/usr/bin/env python3
"""heaptrack's own programs read the files of heaptrack_samples.cpp and show the expected figures.

usage: heaptrack_consumer_test.py print|gui HEAPTRACK_SAMPLES

print   heaptrack_print: nothing on standard error, totals, calls per size, and per-stack sums of all four costs
gui     heaptrack_gui shows each file, on a virtual screen
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import heaptrack_file
import process_group
import viewer

SKIPPED = 77
UNCHANGED = ["--disable-builtin-suppressions", "--disable-embedded-suppressions", "--shorten-templates=0"]


def short(size):
    """A size as heaptrack_print writes it."""
    if size < 1000:
        return f"{size}B"
    for unit in "KMGT":
        size /= 1000
        if size < 1000 or unit == "T":
            return f"{size:.2f}{unit}"


def run_print(file, *options):
    done = subprocess.run(["heaptrack_print", "-f", str(file), *UNCHANGED, *options],
                          capture_output=True, timeout=120, check=False,
                          env={**os.environ, **heaptrack_file.HUGE_PAGES})
    problems = []
    if done.returncode != 0:
        problems.append(f"exit status {done.returncode}")
    if done.stderr:
        problems.append("standard error: " + done.stderr[:400].decode(errors="replace"))
    return done.stdout.decode(errors="replace"), problems


def check_print(directory, expected):
    file = directory / expected["file"]
    output, problems = run_print(file, "-H", str(directory / "sizes"))

    def printed(pattern):
        found = re.search(pattern, output)
        return found.group(1) if found else None

    def same(what, got, want):
        if str(got) != str(want):
            problems.append(f"{what}: heaptrack_print has {got}, expected {want}")

    same("calls", printed(r"calls to allocation functions: (\d+)"), expected["calls"])
    same("temporary", printed(r"temporary memory allocations: (\d+)"), expected["temporary"])
    same("peak", printed(r"peak heap memory consumption: (\S+)"), short(expected["peak"]))
    same("leaked", printed(r"total memory leaked: (\S+)"), short(expected["leaked"]))
    same("resident", printed(r"peak RSS \(including heaptrack overhead\): (\S+)"), short(expected["resident"]))
    same("run time", printed(r"total runtime: ([\d.]+)\.?s")[:4], f"{expected['run_ms'] / 1000:.6f}"[:4])

    sizes = {}
    for line in (directory / "sizes").read_text().splitlines():
        size, count = line.split("\t")
        sizes[size] = int(count)
    same("calls per size", sorted(sizes.items()), sorted(expected["histogram"].items()))

    for cost in ("allocations", "temporary", "leaked", "peak"):
        _, more = run_print(file, "-F", str(directory / "stacks"), "--flamegraph-cost-type", cost)
        problems += more
        # One byte, one code point: names need not be UTF-8.
        sums = Counter()
        for line in (directory / "stacks").read_bytes().decode("latin-1").split("\n"):
            if line:
                stack, _, value = line.rpartition(" ")
                sums[stack.removesuffix(" ")] += int(value)
        wanted = Counter({stack: figures[cost] for stack, figures in expected["stacks"].items()})
        for stack in sorted(set(sums) | set(wanted)):
            if sums[stack] != wanted[stack]:
                problems.append(f"{cost} of {stack[:300]!r}: heaptrack_print has {sums[stack]}, "
                                f"expected {wanted[stack]}")
    return problems


def main():
    what, samples = sys.argv[1:]
    missing = viewer.missing() if what == "gui" else None if shutil.which("heaptrack_print") else "heaptrack_print"
    if missing:
        print(f"skipped: {missing} is not installed")
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        subprocess.run([samples, name], check=True)
        expected = json.loads((directory / "expected.json").read_text())
        problems = []
        if what == "gui":
            process_group.end_all_with(signal.SIGTERM)
            files = [directory / sample["file"] for sample in expected]
            problems = viewer.open_files(files, directory, dict(os.environ))
        else:
            for sample in expected:
                found = check_print(directory, sample)
                problems += [f"{sample['file']}: {problem}" for problem in found[:8]]
                print(f"{sample['file']}: {sample['calls']} calls, {len(sample['stacks'])} stacks, "
                      + ("as expected" if not found else f"{len(found)} differences"))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


sys.exit(main())
