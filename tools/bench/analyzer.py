#!/usr/bin/env python3
"""Measure how the time and memory of heapprof's analysis grow with the trace, and compare with heaptrack.

usage: tools/bench/analyzer.py [--millions 1,10,100] [--live 900000] [--heaptrack 10] [--work DIR] [--keep]
       [--build DIR] [-o FILE.md]

The program is CPython with four threads: two parse and write JSON, two query SQLite, which releases the interpreter
lock. With PYTHONMALLOC=malloc, each object is an allocation. It is recorded once for each length, and once more for
the largest length with --live additional blocks that are not freed. The measured commands:

  report         all figures, without an index, with cached symbols
  leaks          the same for leaked blocks
  report --json; pins   the figures as JSON, and the pinned memory at the end, without an index
  pins --at, first; pins --at, again   at 99 % of the time, without an index and with it
  slice, first   a ten-thousandth of the time, in the middle, without an index; writes an index to the cache
  slice, again   the same with the index
  compact        heapprof compact
  report, compacted; slice, compacted   report and slice of the compacted trace

Figures: wall time and processor time in seconds, events per second of wall time, peak resident memory. Traces of up
to --heaptrack million events are also recorded with heaptrack's library, and interpreted and printed by its programs.
--work needs about 10 bytes per event of the largest trace (40 with heaptrack). --keep keeps the traces for another
run.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import run

INTERPRETER = "/usr/lib/heaptrack/libexec/heaptrack_interpret"
LOAD = r"""
import json, sqlite3, sys, threading
rounds, live = int(sys.argv[1]), int(sys.argv[2])
kept = [bytes(40 + i % 50) for i in range(live)]
def parse(seed):
    for i in range(rounds):
        json.loads(json.dumps([{'k': str(j), 'v': [j] * (j % 5), 'n': {'x': j * 1.5}} for j in range(seed, seed + 60)]))
def ask(seed):
    base = sqlite3.connect(':memory:', check_same_thread=False)
    base.execute('create table t(a integer primary key, b text)')
    base.execute("with recursive n(x) as (select 1 union all select x+1 from n where x<500)"
                 "insert into t select x, printf('row %d of many', x) from n")
    for i in range(rounds):
        for a in range(3):
            base.execute(f'select b, count(*), group_concat(a % 10) from t where a % 10 = {a} group by substr(b, 1, 6)').fetchall()
threads = [threading.Thread(target=work, args=(i,)) for i in range(2) for work in (parse, ask)]
for t in threads: t.start()
for t in threads: t.join()
"""


class Figures:
    """Figures of one command."""

    def __init__(self, command, environment, output=subprocess.DEVNULL):
        begin = time.monotonic()
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.PIPE, text=True)
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        self.wall = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)}: status {process.returncode}\n{errors}")
        self.cpu = usage.ru_utime + usage.ru_stime
        self.rss = usage.ru_maxrss * 1024


class Bench:
    def __init__(self, options, work):
        self.work = work
        self.analyzer = os.path.abspath(os.path.join(options.build, "analyzer/heapprof"))
        self.library = os.path.abspath(os.path.join(options.build, "preload/libheapprof.so"))
        self.script = os.path.join(work, "load.py")
        with open(self.script, "w") as file:
            file.write(LOAD)
        self.environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(work, "cache"), PYTHONMALLOC="malloc")
        self.events_per_round = None
        self.rows = []

    def record(self, rounds, live, **variables):
        # The interpreter itself, not a wrapper or a virtual environment.
        python = os.path.realpath(sys.executable)
        return Figures([python, self.script, str(rounds), str(live)], dict(self.environment, **variables))

    def events(self, trace):
        answer = subprocess.run([self.analyzer, "report", "--json", "--no-symbols", "--no-index", trace], check=True,
                                stdout=subprocess.PIPE, env=self.environment)
        return json.loads(answer.stdout)

    def trace(self, name, millions, live):
        """Records a trace with this number of events; returns its path."""
        path = os.path.join(self.work, f"{name}.heapprof")
        if self.events_per_round is None:
            counts = []
            for rounds in (20, 120):
                small = os.path.join(self.work, "calibration.heapprof")
                self.record(rounds, 0, LD_PRELOAD=self.library, HEAPPROF_OUTPUT=small)
                counts.append(self.events(small)["events"])
                os.unlink(small)
            self.events_per_round = (counts[1] - counts[0]) / 100
        self.rounds = max(int(millions * 1e6 / self.events_per_round), 1)
        if not os.path.exists(path):
            self.record(self.rounds, live, LD_PRELOAD=self.library, HEAPPROF_OUTPUT=path)
        return path

    def add(self, trace, what, figures, events, size=None):
        self.rows.append([trace, what, f"{figures.wall:.2f}", f"{figures.cpu:.2f}",
                          f"{events / figures.wall / 1e6:.1f}" if events else "", f"{figures.rss / 1e6:.0f}",
                          f"{size / 1e6:.1f}" if size else ""])
        print(" | ".join(self.rows[-1]), file=sys.stderr, flush=True)

    def analyze(self, *arguments):
        return Figures([self.analyzer, *arguments, "-o", "/dev/null"], self.environment)

    def measure(self, name, millions, live):
        path = self.trace(name, millions, live)
        answer = self.events(path)
        events, duration = answer["events"], answer["duration_ns"]
        label = f"{events / 1e6:.1f} M" + (f", {answer['heap']['peak_blocks'] / 1e6:.2f} M live" if live else "")
        begin = duration // 2
        slice_ = ("report", "--from", f"{begin}ns", "--to", f"{begin + duration // 10_000}ns")
        self.analyze("report", "--no-index", path)
        self.add(label, "report", self.analyze("report", "--no-index", path), events, os.path.getsize(path))
        self.add(label, "leaks", self.analyze("leaks", "--no-index", path), events)
        self.add(label, "report --json", self.analyze("report", "--json", "--no-index", path), events)
        self.add(label, "pins", self.analyze("pins", "--json", "--no-index", path), events)
        late = ("pins", "--json", "--at", "99%")
        shutil.rmtree(os.path.join(self.work, "cache", "heapprof", "index"), ignore_errors=True)
        self.add(label, "pins --at, first", self.analyze(*late, path), events)
        self.add(label, "pins --at, again", self.analyze(*late, path), events)
        shutil.rmtree(os.path.join(self.work, "cache", "heapprof", "index"), ignore_errors=True)
        self.add(label, "slice, first", self.analyze(*slice_, path), events)
        self.add(label, "slice, again", self.analyze(*slice_, path), 0)
        compacted = os.path.join(self.work, "compacted.heapprof")
        figures = Figures([self.analyzer, "compact", path, "-o", compacted], self.environment)
        self.add(label, "compact", figures, events, os.path.getsize(compacted))
        self.add(label, "report, compacted", self.analyze("report", compacted), events)
        self.add(label, "slice, compacted", self.analyze(*slice_, compacted), 0)
        os.unlink(compacted)
        return label

    def measure_heaptrack(self, label, events):
        raw, interpreted = os.path.join(self.work, "raw"), os.path.join(self.work, "interpreted")
        self.record(self.rounds, 0, LD_PRELOAD=run.HEAPTRACK_LIBRARY, DUMP_HEAPTRACK_OUTPUT=raw)
        with open(interpreted, "w") as output:
            figures = Figures(["bash", "-c", f"exec '{INTERPRETER}' <'{raw}'"], self.environment, output)
        self.add(label, "heaptrack_interpret", figures, events, os.path.getsize(raw))
        self.add(label, "heaptrack_print", Figures(["heaptrack_print", interpreted], self.environment), events,
                 os.path.getsize(interpreted))
        os.unlink(raw)
        os.unlink(interpreted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", default="1,10,100", help="lengths of the traces in million events")
    parser.add_argument("--live", type=int, default=900_000,
                        help="blocks that are not freed in the last trace; 0: no such trace")
    parser.add_argument("--heaptrack", type=float, default=10,
                        help="million events up to which heaptrack is also measured")
    parser.add_argument("--work", help="directory for the traces (default: a temporary one)")
    parser.add_argument("--keep", action="store_true",
                        help="keep the traces in --work, and use existing ones")
    parser.add_argument("--build", default=os.path.join(run.HERE, "../../build"), help="build directory")
    parser.add_argument("-o", "--output", help="also write the table to this file")
    options = parser.parse_args()
    lengths = [float(length) for length in options.millions.split(",")]
    with tempfile.TemporaryDirectory(prefix="heapprof-bench-") as temporary:
        work = os.path.abspath(options.work or temporary)
        os.makedirs(work, exist_ok=True)
        bench = Bench(options, work)
        runs = [(f"{length:g}", length, 0) for length in lengths]
        if options.live:
            runs.append((f"{lengths[-1]:g}-live", lengths[-1], options.live))
        for name, length, live in runs:
            label = bench.measure(name, length, live)
            if (not live and length <= options.heaptrack and shutil.which("heaptrack_print")
                    and os.path.exists(INTERPRETER)):
                bench.measure_heaptrack(label, length * 1e6)
            if not options.keep:
                os.unlink(os.path.join(work, f"{name}.heapprof"))
    text = run.table(["trace", "command", "wall s", "cpu s", "M events/s", "peak MB", "file MB"], bench.rows)
    print(text, end="")
    if options.output:
        with open(options.output, "w") as file:
            file.write(text)


if __name__ == "__main__":
    main()
