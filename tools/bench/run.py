#!/usr/bin/env python3
"""Benchmarks of the recorder, against heaptrack and against no recorder, in one interleaved run.

  tools/bench/run.py [--runs N] [--only NAME,...] [--build DIR] [-o FILE.md]

Each program runs N times under each recorder in turn (native, heapprof, heapprof without shadow stack,
heaptrack's preload library alone writing to a file, heaptrack as users call it), so that what the machine does
meanwhile meets all alike; the table holds medians. Micro benchmarks give nanoseconds added to a malloc/free pair,
whole programs the cpu time added per event, threads the throughput, and all the bytes of trace per event.

Needs the build in build/ (tools/test.sh), Debian's heaptrack, g++, python3, sqlite3.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
HEAPTRACK_LIBRARY = "/usr/lib/heaptrack/libheaptrack_preload.so"
RECORDERS = ["native", "heapprof", "no-shadow", "ht-library", "ht-full"]


class Bench:
    def __init__(self, options, folder):
        self.folder = folder
        self.library = os.path.join(options.build, "preload/libheapprof.so")
        self.analyzer = os.path.join(options.build, "analyzer/heapprof")
        self.runs = options.runs
        for path in (self.library, self.analyzer):
            if not os.path.exists(path):
                sys.exit(f"{path} is missing: run tools/test.sh first, or name the build folder with --build")

    def recorders(self):
        have = shutil.which("heaptrack") and os.path.exists(HEAPTRACK_LIBRARY)
        return [r for r in RECORDERS if have or not r.startswith("ht-")]

    def once(self, recorder, command, stdin=None):
        """Runs command under recorder: standard output, cpu and wall seconds, peak RSS, trace bytes, trace path."""
        trace = os.path.join(self.folder, "trace")
        for name in os.listdir(self.folder):
            if name.startswith("trace"):
                os.remove(os.path.join(self.folder, name))
        environment = dict(os.environ)
        if recorder in ("heapprof", "no-shadow"):
            environment.update(LD_PRELOAD=self.library, HEAPPROF_OUTPUT=trace,
                               HEAPPROF_SHADOW_STACK="1" if recorder == "heapprof" else "0")
        elif recorder == "ht-library":
            environment.update(LD_PRELOAD=HEAPTRACK_LIBRARY, DUMP_HEAPTRACK_OUTPUT=trace)
        elif recorder == "ht-full":
            command = ["heaptrack", "-o", trace] + command
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.monotonic()
        result = subprocess.run(command, env=environment, stdin=open(stdin) if stdin else subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        wall = time.monotonic() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        size = sum(os.stat(os.path.join(self.folder, n)).st_blocks * 512
                   for n in os.listdir(self.folder) if n.startswith("trace"))
        return result.stdout.decode(errors="replace"), cpu, wall, size, trace

    def events(self, trace):
        report = subprocess.run([self.analyzer, "report", "--no-symbols", "--json", trace], stdout=subprocess.PIPE, check=False)
        return json.loads(report.stdout)["events"]

    def micro(self, rows):
        for depth in (5, 30, 100):
            times = {r: [] for r in self.recorders()}
            for _ in range(self.runs):
                for recorder in times:
                    output = self.once(recorder, [os.path.join(self.folder, "pair"), str(depth), "400000"])[0]
                    # heaptrack's launcher prints lines of its own around the program's.
                    times[recorder] += [float(line) for line in output.split("\n") if line.replace(".", "", 1).isdigit()]
            median = {r: statistics.median(t) for r, t in times.items()}
            rows.append([f"pair at depth {depth}, ns", f"{median['native']:.0f}"] +
                        [f"+{median[r] - median['native']:.0f}" for r in times if r != "native"] + [""])

    def threads(self, rows):
        for count in (1, 2, 4):
            rates = {r: [] for r in self.recorders()}
            for _ in range(self.runs):
                for recorder in rates:
                    output = self.once(recorder, [os.path.join(self.folder, "larson"), str(count), "1"])[0]
                    rates[recorder] += [float(line) for line in output.split("\n") if line.isdigit()]
            rows.append([f"larson, {count} threads, M operations/s"] +
                        [f"{statistics.median(r) / 1e6:.1f}" for r in rates.values()] + [""])

    def program(self, rows, name, command, stdin=None):
        cpu = {r: [] for r in self.recorders()}
        events = bytes_per_event = None
        for _ in range(self.runs):
            for recorder in cpu:
                _, seconds, _, size, trace = self.once(recorder, command, stdin)
                cpu[recorder].append(seconds)
                if recorder == "heapprof":
                    events = self.events(trace)
                    bytes_per_event = size / events
        native = statistics.median(cpu["native"])
        rows.append([f"{name}, {events / 1e6:.1f} M events, ns an event", f"{native:.2f} s"] +
                    [f"+{(statistics.median(c) - native) / events * 1e9:.0f}" for r, c in cpu.items() if r != "native"] +
                    [f"{bytes_per_event:.2f}"])


def build(folder):
    for name in ("pair", "larson"):
        subprocess.run(["g++", "-O2", "-g", "-std=c++20", "-fno-builtin-malloc", "-pthread", os.path.join(HERE, name + ".cpp"),
                        "-o", os.path.join(folder, name)], check=True)


def programs(folder):
    """Whole programs with some millions of events each; nothing of their input comes from elsewhere."""
    cpp = os.path.join(folder, "large.cpp")
    with open(cpp, "w") as file:
        file.write("#include <regex>\n#include <map>\n#include <iostream>\n#include <functional>\n")
        for i in range(40):
            file.write(f"std::map<std::string, std::function<int({'int' if i % 2 else 'long'})>> m{i}() "
                       f"{{ std::regex r(\"a{i}+b\"); return {{{{\"x\", [](auto v) {{ return int(v) + {i}; }}}}}}; }}\n")
    cc1plus = subprocess.run(["g++", "-print-prog-name=cc1plus"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    sql = os.path.join(folder, "load.sql")
    with open(sql, "w") as file:
        file.write("create table t(a integer primary key, b text);\n"
                   "with recursive n(x) as (select 1 union all select x+1 from n where x<60000) "
                   "insert into t select x, printf('row %d of many', x) from n;\n"
                   "create index i on t(b); select count(*), max(length(b)) from t where b like '%9%';\n"
                   "select substr(b, 1, 6), count(*) from t group by 1 order by 2 desc limit 3;\n")
    python = ("import json, re\nd = [{'k': str(i), 'v': [i] * (i % 7), 's': 'x' * (i % 700)} for i in range(60000)]\n"
              "t = json.dumps(d); e = json.loads(t); print(len(t), sum(len(m) for m in re.findall('[0-9]+', t)))")
    yield "cc1plus", [cc1plus, "-quiet", "-O1", "-std=c++17", cpp, "-o", os.path.join(folder, "large.s")], None
    yield "python3", ["/usr/bin/python3", "-X", "utf8", "-c", python], None
    if shutil.which("sqlite3"):
        yield "sqlite3", ["sqlite3", ":memory:"], sql
    if shutil.which("perl"):
        yield "perl", ["perl", "-e", "my %h; for my $i (1..300000) { $h{\"k\" . $i % 9000} .= \"v$i,\"; "
                       "delete $h{\"k\" . ($i * 7) % 9000} if $i % 3 == 0 } print scalar(keys %h), \"\\n\";"], None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs of each program under each recorder")
    parser.add_argument("--only", default="", help="names, comma separated: micro, threads, cc1plus, python3, sqlite3, perl")
    parser.add_argument("--build", default=os.path.join(HERE, "../../build"), help="build folder")
    parser.add_argument("-o", "--output", help="write the table to this file too")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    with tempfile.TemporaryDirectory(prefix="heapprof-bench-") as folder:
        bench = Bench(options, folder)
        build(folder)
        rows = []
        if not only or "micro" in only:
            bench.micro(rows)
        if not only or "threads" in only:
            bench.threads(rows)
        for name, command, stdin in programs(folder):
            if not only or name in only:
                bench.program(rows, name, command, stdin)
        header = ["", *bench.recorders(), "bytes/event"]
        lines = ["| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows]]
        text = "\n".join(lines) + "\n"
        print(text, end="")
        if options.output:
            with open(options.output, "w") as file:
                file.write(text)


if __name__ == "__main__":
    main()
