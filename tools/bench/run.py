#!/usr/bin/env python3
"""Benchmark the recorder against heaptrack and against no recorder.

usage: tools/bench/run.py [--runs N] [--only NAME,...] [--recorders NAME,...] [--build DIR] [-o FILE.md]
       [--json FILE] [--plot FILE.svg] [--heaptrack PREFIX] [--before LIBRARY] [--mimalloc-bench DIR]

Each program runs N times with each recorder. The recorders take turns, so that other load on the machine affects all
of them, and the figures are medians:

  native       no recorder
  heapprof     with its defaults
  before       another libheapprof.so (--before), for instance one before a change
  no-shadow    HEAPPROF_SHADOW_STACK=0: unwinds every stack completely
  ht-library   heaptrack's preload library alone, writing to a file
  ht-full      `heaptrack -o FILE PROGRAM`, with its interpreter and compressor

Three tables:

  a malloc/free pair at the bottom of stacks of three depths: nanoseconds added
  an allocator stress test with 1, 2 and 4 threads, and with 1 thread beside one that has few events, so that the
    program counts as multi-threaded: operations per second
  whole programs: processor time added per event (an allocation or a free), wall time relative to native, MB added to
    the peak of resident memory (including pages of mapped files), bytes of trace per event

Programs that are not installed are skipped and listed. Needs a build (tools/test.sh), heaptrack (Debian's, or one that
was installed in the PREFIX), and g++. espresso and cfrac need a checkout of mimalloc-bench.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import programs
from plot import plot

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDERS = ["native", "heapprof", "before", "no-shadow", "ht-library", "ht-full"]
DEPTHS = (5, 30, 100)


class Run:
    """Figures of one run."""

    def __init__(self, output, wall, usage, trace_bytes):
        self.output = output
        self.wall = wall
        self.cpu = usage.ru_utime + usage.ru_stime
        self.rss = usage.ru_maxrss * 1024
        self.trace_bytes = trace_bytes


class Bench:
    def __init__(self, options, directory):
        self.directory = directory
        self.trace_directory = os.path.join(directory, "traces")
        self.trace = os.path.join(self.trace_directory, "trace")
        self.library = os.path.join(options.build, "preload/libheapprof.so")
        self.analyzer = os.path.join(options.build, "analyzer/heapprof")
        self.runs = options.runs
        for path in (self.library, self.analyzer):
            if not os.path.exists(path):
                sys.exit(f"{path} does not exist: run tools/test.sh first, or set --build")
        self.mimalloc_bench = options.mimalloc_bench
        self.before = options.before and os.path.abspath(options.before)
        self.heaptrack = os.path.join(options.heaptrack, "bin/heaptrack")
        self.heaptrack_library = os.path.join(options.heaptrack, "lib/heaptrack/libheaptrack_preload.so")
        have_heaptrack = os.path.exists(self.heaptrack) and os.path.exists(self.heaptrack_library)
        wanted = ["native", *options.recorders.split(",")]
        self.recorders = [r for r in RECORDERS if r in wanted and (have_heaptrack or not r.startswith("ht-")) and
                          (self.before or r != "before")]
        if not have_heaptrack:
            print("heaptrack is not installed: no comparison")

    def run(self, recorder, program):
        shutil.rmtree(self.trace_directory, ignore_errors=True)
        os.mkdir(self.trace_directory)
        environment = dict(os.environ, **program.environment)
        command = program.command
        if recorder in ("heapprof", "before", "no-shadow"):
            environment.update(LD_PRELOAD=self.before if recorder == "before" else self.library,
                               HEAPPROF_OUTPUT=self.trace,
                               HEAPPROF_SHADOW_STACK="0" if recorder == "no-shadow" else "1")
        elif recorder == "ht-library":
            environment.update(LD_PRELOAD=self.heaptrack_library, DUMP_HEAPTRACK_OUTPUT=self.trace)
        elif recorder == "ht-full":
            command = [self.heaptrack, "-o", self.trace] + command
        with open(program.stdin or os.devnull) as stdin, open(os.path.join(self.directory, "output"), "w+") as output:
            begin = time.monotonic()
            process = subprocess.Popen(command, env=environment, stdin=stdin, stdout=output,
                                       stderr=subprocess.DEVNULL)
            program.drive(process)
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.monotonic() - begin
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            text = output.read()
        # Debian's heaptrack script exits with the status of SIGPIPE if its output is not a terminal.
        if process.returncode != 0 and recorder != "ht-full":
            sys.exit(f"{program.name} under {recorder} ended with status {process.returncode}")
        size = sum(os.stat(os.path.join(self.trace_directory, name)).st_blocks * 512
                   for name in os.listdir(self.trace_directory))
        return Run(text, wall, usage, size)

    def events(self):
        report = subprocess.run([self.analyzer, "report", "--no-symbols", "--json", self.trace],
                                stdout=subprocess.PIPE,
                                check=False)
        return json.loads(report.stdout)["events"]

    def measure(self, program):
        """{recorder: [Run]}, interleaved; and the number of events."""
        runs = {r: [] for r in self.recorders}
        events = 0
        for _ in range(self.runs):
            for recorder in runs:
                runs[recorder].append(self.run(recorder, program))
                if recorder == "heapprof":
                    events = self.events()
        print(f"measured {program.name}", file=sys.stderr)
        return runs, events

    def printed(self, program):
        """Medians of the figure that the program prints, by recorder."""
        runs, _ = self.measure(program)
        # heaptrack's launcher prints lines before and after the program's.
        def figure(run):
            rate = re.search(r"free/sec: ([0-9.]+) M", run.output)  # of xmalloc-test
            return (float(rate[1]) * 1e6 if rate else
                    next(float(line) for line in run.output.split("\n") if line.replace(".", "", 1).isdigit()))
        return {r: statistics.median(figure(run) for run in each) for r, each in runs.items()}

    def micro(self):
        result = {}
        for depth in DEPTHS:
            pair = programs.Program(f"pair at depth {depth}",
                                    [os.path.join(self.directory, "pair"), str(depth), "400000"])
            result[str(depth)] = self.printed(pair)
        return result

    def threads(self):
        result = {}
        for name, count, *background in [("1", 1), ("1 + background", 1, "background"), ("2", 2), ("4", 4)]:
            larson = programs.Program(f"larson on {name} threads",
                                      [os.path.join(self.directory, "larson"), str(count), str(40 // count),
                                       *background])
            result[name] = self.printed(larson)
        for count in (1, 2, 4):
            mix = programs.Program(f"mix on {count} threads",
                                   [os.path.join(self.directory, "mix"), str(count), str(200_000 // count)])
            result[f"mix, {count}"] = self.printed(mix)
        if self.mimalloc_bench:
            # One thread allocates, another frees.
            xmalloc = programs.xmalloc_test(self.directory, self.mimalloc_bench)
            result["xmalloc-test, 1 + 1"] = self.printed(xmalloc)
        return result

    def program(self, program):
        runs, events = self.measure(program)
        median = {r: {what: statistics.median(getattr(run, what) for run in each)
                      for what in ("wall", "cpu", "rss", "trace_bytes")} for r, each in runs.items()}
        native = median["native"]
        figures = {r: {"added_ns_per_event": (m["cpu"] - native["cpu"]) / events * 1e9,
                       "wall_ratio": m["wall"] / native["wall"],
                       "added_rss_bytes": m["rss"] - native["rss"], "bytes_per_event": m["trace_bytes"] / events}
                   for r, m in median.items() if r != "native"}
        return {"events": events, "threads": program.threads, "native_cpu_s": native["cpu"],
                "native_wall_s": native["wall"], "recorders": figures}


def build(directory):
    for name in ("pair", "larson", "mix"):
        subprocess.run(["g++", "-O2", "-g", "-std=c++20", "-fno-builtin-malloc", "-pthread",
                        os.path.join(HERE, name + ".cpp"),
                        "-o", os.path.join(directory, name)], check=True)


def table(header, rows):
    lines = ["| " + " | ".join(row) + " |" for row in [header, ["---"] + ["---:"] * (len(header) - 1), *rows]]
    return "\n".join(lines) + "\n\n"


def describe(results, recorders):
    """The tables, and a comparison with heapprof."""
    text = ""
    others = recorders[1:]
    if results["micro"]:
        text += "Nanoseconds per malloc/free pair, and added by each recorder:\n\n" + table(
            ["depth", *recorders],
            [[depth, f"{m['native']:.0f}"] + [f"+{m[r] - m['native']:.0f}" for r in others]
             for depth, m in results["micro"].items()])
    if results["threads"]:
        text += "Allocator stress, million operations per second (mix: rounds of 30 blocks):\n\n" + table(
            ["threads", *recorders],
            [[count] + [f"{m[r] / 1e6:.3g}" for r in recorders] for count, m in results["threads"].items()])
    whole = results["programs"]
    if whole:
        text += "Whole programs, cpu nanoseconds added per event:\n\n" + table(
            ["program", "million events", "native s", *others],
            [[name, f"{p['events'] / 1e6:.2f}", f"{p['native_cpu_s']:.2f}"] +
             [f"{p['recorders'][r]['added_ns_per_event']:.0f}" for r in others] for name, p in whole.items()])
        text += ("Whole programs, wall time as a multiple of native / MB added to peak resident memory / "
                 "trace bytes per event:\n\n")
        text += table(["program", *others], [
            [name] + [f"{f['wall_ratio']:.2f} / {f['added_rss_bytes'] / 1e6:.1f} / {f['bytes_per_event']:.2f}"
                      for f in (p["recorders"][r] for r in others)] for name, p in whole.items()])
        for other in ("ht-full", "ht-library"):
            if {"heapprof", other} <= set(recorders):
                ratios = [p["recorders"]["heapprof"]["added_ns_per_event"] /
                          p["recorders"][other]["added_ns_per_event"]
                          for p in whole.values()]
                text += (f"heapprof's added cpu per event over that of {other}: median "
                         f"{statistics.median(ratios):.3f}, "
                         f"worst {max(ratios):.3f}\n")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs of each program under each recorder")
    parser.add_argument("--only", default="", help="names, comma separated: micro, threads, or a "
                                                   "program of programs.py")
    parser.add_argument("--recorders", default=",".join(RECORDERS[1:]),
                        help="which to run, besides native (default: all)")
    parser.add_argument("--build", default=os.path.join(HERE, "../../build"), help="build directory")
    parser.add_argument("-o", "--output", help="also write the tables to this file")
    parser.add_argument("--json", help="write all figures to this file")
    parser.add_argument("--plot", help="draw the costs of the whole programs into this file (SVG)")
    parser.add_argument("--heaptrack", default="/usr", metavar="PREFIX", help="where heaptrack is installed")
    parser.add_argument("--before", metavar="LIBRARY", help="another libheapprof.so, to measure as well")
    parser.add_argument("--mimalloc-bench", metavar="DIR", help="a checkout of mimalloc-bench")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    with tempfile.TemporaryDirectory(prefix="heapprof-bench-") as directory:
        bench = Bench(options, directory)
        build(directory)
        results = {
            "micro": bench.micro() if not only or "micro" in only else {},
            "threads": bench.threads() if not only or "threads" in only else {},
            "programs": {p.name: bench.program(p) for p in programs.programs(directory, options.mimalloc_bench)
                         if not only or p.name in only},
        }
    text = describe(results, bench.recorders)
    print(text, end="")
    if options.output:
        with open(options.output, "w") as file:
            file.write(text)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    if options.plot:
        with open(options.plot, "w") as file:
            file.write(plot(results["programs"], bench.recorders[1:]))


if __name__ == "__main__":
    main()
