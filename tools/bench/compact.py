#!/usr/bin/env python3
"""Measure the sizes of traces: as recorded, after `heapprof compact`, and heaptrack's file of the same program.

usage: tools/bench/compact.py [--only NAME,...] [--build DIR] [-o FILE.md] [--json FILE]

The programs are those of run.py. Sizes are bytes per event; an event is an allocation or a free. heaptrack's file is
the output of its interpreter, compressed as its launcher does: with `zstd -c` if zstd is installed, else with
`gzip -c`; both are printed. The last column is the processor time of the three passes of `heapprof compact`.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

import programs
import run

INTERPRETER = "/usr/lib/heaptrack/libexec/heaptrack_interpret"
COLUMNS = ["recorded", "compact", "compact --exact", "heaptrack .zst", "heaptrack .gz"]


def processor_time(*command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def heaptrack_sizes(raw):
    """Sizes of the interpreted file, by compressor."""
    sizes = {}
    for name, compressor in (("heaptrack .zst", "zstd -c"), ("heaptrack .gz", "gzip -c")):
        command = f"'{INTERPRETER}' <'{raw}' 2>/dev/null | {compressor} | wc -c"
        sizes[name] = int(subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True).stdout)
    return sizes


def measure(bench, program):
    sizes = {"recorded": bench.run("heapprof", program).trace_bytes}
    figures = {"events": bench.events()}
    result = os.path.join(bench.directory, "compacted")
    figures["seconds"] = processor_time(bench.analyzer, "compact", bench.trace, "-o", result)
    sizes["compact"] = os.path.getsize(result)
    processor_time(bench.analyzer, "compact", "--exact", bench.trace, "-o", result)
    sizes["compact --exact"] = os.path.getsize(result)
    if "ht-library" in bench.recorders and os.path.exists(INTERPRETER):
        bench.run("ht-library", program)
        sizes |= heaptrack_sizes(bench.trace)
    figures["sizes"] = {name: size / figures["events"] for name, size in sizes.items()}
    print(f"{program.name}: " + ", ".join(f"{name} {size:.3f}" for name, size in figures["sizes"].items()),
          file=sys.stderr,
          flush=True)
    return figures


def describe(results):
    columns = [name for name in COLUMNS if all(name in figures["sizes"] for figures in results.values())]
    rows = [[name, f"{figures['events'] / 1e6:.2f}", *(f"{figures['sizes'][column]:.2f}" for column in columns),
             f"{figures['seconds'] / figures['events'] * 1e6:.2f}"] for name, figures in results.items()]
    rows.append(["median", "",
                 *(f"{statistics.median(f['sizes'][column] for f in results.values()):.2f}" for column in columns),
                 ""])
    return "Bytes per event:\n\n" + run.table(["program", "million events", *columns, "s per million events"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs of programs.py, separated by commas")
    parser.add_argument("--build", default=os.path.join(run.HERE, "../../build"), help="build directory")
    parser.add_argument("-o", "--output", help="also write the table to this file")
    parser.add_argument("--json", help="write all figures to this file")
    options = parser.parse_args()
    options.runs, options.recorders = 1, "heapprof,ht-library"
    only = set(filter(None, options.only.split(",")))
    with tempfile.TemporaryDirectory(prefix="heapprof-bench-") as directory:
        bench = run.Bench(options, directory)
        run.build(directory)
        results = {p.name: measure(bench, p) for p in programs.programs(directory) if not only or p.name in only}
    text = describe(results)
    print(text, end="")
    for path, contents in ((options.output, text), (options.json, json.dumps(results, indent=1))):
        if path:
            with open(path, "w") as file:
                file.write(contents)


if __name__ == "__main__":
    main()
