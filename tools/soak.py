#!/usr/bin/env python3
"""Run a busy server under load for a long time, recorded, and check that its resources do not grow.

usage: tools/soak.py [--build DIR] [--minutes N] [--json FILE] [--plot FILE.svg]
       tools/soak.py --again FILE.json [--plot FILE.svg]

Two redis servers, one recorded and one not, each with io-threads and a data set that is complete after the first
rounds, get the same rounds of load in turn. Each is the first in every other round, so that other load on the machine
affects both. After each round, the private memory, pages of files (which include the mapped trace), open descriptors,
mappings, threads and operations per second of both, and the size of the trace are stored. In every tenth round the
servers also write a snapshot, for which they fork.

A round during which this program was stopped for more than half a second (a suspended machine, a frozen control
group) counts for memory, but not for throughput.

Printed at the end, and drawn with --plot: by quarter, the private memory of the recorded server above that of the
plain one, and the median ratio of the two throughputs. Exit status 0: the trace is complete; after the first quarter
the difference in memory grows by at most 4 MiB (the call tree, and variation of the allocator); descriptors, mappings
and threads do not grow; the ratio of the last quarter is at least 0.9 times that of the second. --again evaluates and
draws the measurements of an earlier run.
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
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("plain", "recorded")
REQUESTS = 4000
COMMANDS = "set,get,lpush,lpop,sadd,spop,hset,zadd,zpopmin"
ALLOWED_GROWTH = 4 << 20
MIN_THROUGHPUT_RATIO = 0.9
MIB = 1048576


class Clock:
    """Detects that this program was stopped, by a thread that should wake every 50 ms."""

    def __init__(self):
        self.longest = 0.0
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        last = time.monotonic()
        while True:
            time.sleep(0.05)
            now = time.monotonic()
            self.longest = max(self.longest, now - last)
            last = now

    def longest_stop(self):
        """Seconds of the longest stop since the last call."""
        longest, self.longest = self.longest, 0.0
        return longest


def state(pid):
    """Private memory, and separately pages of files: the kernel can drop staging blocks, which are in the trace."""
    fields = dict(re.findall(r"(RssAnon|RssFile|Threads):\s+(\d+)", Path(f"/proc/{pid}/status").read_text()))
    return {"anonymous": int(fields["RssAnon"]) * 1024, "files": int(fields["RssFile"]) * 1024,
            "threads": int(fields["Threads"]),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "mappings": Path(f"/proc/{pid}/maps").read_text().count("\n")}


def load(socket):
    """Runs one round of load on a server; returns operations per second. Raises if the server or the load died."""
    start = time.monotonic()
    done = subprocess.run(["redis-benchmark", "-s", socket, "-q", "-n", str(REQUESTS), "-r", "20000", "-c", "20",
                           "-P", "8", "-d", "100",
                           "-t", COMMANDS], capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-300:])
    return round((COMMANDS.count(",") + 1) * REQUESTS / (time.monotonic() - start))


def ask(socket, *command):
    return subprocess.run(["redis-cli", "-s", socket, *command], capture_output=True, text=True, timeout=600).stdout


def soak(options):
    for program in ("redis-server", "redis-cli", "redis-benchmark"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is not installed: run tools/packages.sh demo")
    library = (options.build / "preload" / "libheapprof.so").resolve()
    if not library.exists():
        sys.exit(f"{library} does not exist: run tools/build.sh first, or set --build")
    rounds = []
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="heapprof-soak-") as folder:
        folder = Path(folder)
        trace = folder / "soak.heapprof"
        servers = {}
        for name in NAMES:
            (folder / name).mkdir()
            environment = {"PATH": os.environ["PATH"]}
            if name == "recorded":
                environment.update(LD_PRELOAD=str(library), HEAPPROF_OUTPUT=str(trace))
            servers[name] = subprocess.Popen(
                ["redis-server", "--port", "0", "--unixsocket", folder / name / "socket", "--save", "", "--dir",
                 folder / name,
                 "--io-threads", "2", "--io-threads-do-reads", "yes"], env=environment, stdout=subprocess.DEVNULL,
                stderr=subprocess.STDOUT)
        try:
            time.sleep(2)
            began = time.monotonic()
            while time.monotonic() - began < options.minutes * 60:
                row = {"seconds": round(time.monotonic() - began, 1)}
                clock.longest_stop()
                for name in NAMES if len(rounds) % 2 else NAMES[::-1]:
                    row[name] = {"rate": load(folder / name / "socket")}
                row["stood_still"] = round(clock.longest_stop(), 2)
                if len(rounds) % 10 == 9:
                    for name in NAMES:
                        ask(folder / name / "socket", "save")
                        ask(folder / name / "socket", "bgsave")
                        while "rdb_bgsave_in_progress:1" in ask(folder / name / "socket", "info", "persistence"):
                            time.sleep(0.1)
                for name in NAMES:
                    row[name].update(state(servers[name].pid))
                    row[name]["used"] = int(re.search(r"used_memory:(\d+)",
                                                      ask(folder / name / "socket", "info", "memory"))[1])
                row["trace"] = trace.stat().st_size
                rounds.append(row)
                if options.json:
                    options.json.write_text(json.dumps({"rounds": rounds}))
        finally:
            for server in servers.values():
                server.terminate()
                server.wait(60)
        report = subprocess.run([options.build / "analyzer" / "heapprof", "report", trace, "--json", "--top", "1",
                                 "--no-symbols"],
                                capture_output=True, text=True)
        result = json.loads(report.stdout)
    measured = {"rounds": rounds, "events": result["events"], "complete": result["integrity"]["complete"]}
    if options.json:
        options.json.write_text(json.dumps(measured))
    return measured


def throughput_ratios(rows):
    return [row["recorded"]["rate"] / row["plain"]["rate"] for row in rows if row["stood_still"] <= 0.5]


def judge(measured):
    """Prints the quarters; returns a sentence for each problem."""
    rounds = measured["rounds"]
    stopped = sum(row["stood_still"] > 0.5 for row in rounds)
    print(f"{len(rounds)} rounds of {2 * 9 * REQUESTS:,} operations in {rounds[-1]['seconds'] / 60:.0f} "
          "minutes, "
          f"{stopped} of them not counted for throughput; {measured['events']:,} events, "
          f"complete: {measured['complete']}, "
          f"trace {rounds[-1]['trace'] / MIB:.0f} MiB")
    wrong = [] if measured["complete"] else ["the trace is not complete"]
    quarters = [rounds[len(rounds) * n // 4:len(rounds) * (n + 1) // 4] for n in range(4)]
    if not all(throughput_ratios(part) for part in quarters):
        return wrong + ["too short: a quarter without throughput"]
    above, ratios = [], []
    for number, part in enumerate(quarters, 1):
        above.append(statistics.median(row["recorded"]["anonymous"] - row["plain"]["anonymous"] for row in part))
        ratios.append(statistics.median(throughput_ratios(part)))
        print(f"quarter {number}: {above[-1] / MIB:6.1f} MiB of private memory above the plain server, "
              f"{ratios[-1]:.2f} of its throughput; "
              f"pages of files {statistics.median(row['recorded']['files'] for row in part) / MIB:.1f} MiB")
    if above[3] - above[1] > ALLOWED_GROWTH:
        wrong.append(f"private memory grew by {(above[3] - above[1]) / MIB:.1f} MiB between the second "
                     "quarter and the last")
    if ratios[3] < MIN_THROUGHPUT_RATIO * ratios[1]:
        wrong.append(f"the throughput fell from {ratios[1]:.2f} to {ratios[3]:.2f} of the plain server's")
    for what in ("descriptors", "mappings", "threads"):
        before, after = (max(row["recorded"][what] for row in quarters[n]) for n in (1, 3))
        print(f"{what}: {before} at most in the second quarter, {after} in the last")
        if after > before + 2:
            wrong.append(f"{what} grew from {before} to {after}")
    return wrong


def plot(measured, path):
    """Three charts over time: private memory of both servers, the ratio of throughputs, the size of the trace."""
    rounds = measured["rounds"]
    minutes = [row["seconds"] / 60 for row in rounds]
    width, left, high, gap = 860, 70, 150, 60
    end = max(minutes[-1], 1e-9)
    def x(minute):
        return left + minute / end * (width - left - 30)
    parts = []
    def strip(number, title, series, top, unit):
        base = 40 + number * (high + gap) + high
        def y(value):
            return base - value / top * high
        parts.append(f'<text x="{left}" y="{base - high - 10}" font-weight="bold">{title}</text>')
        for tick in range(5):
            value = top * tick / 4
            parts.append(f'<line x1="{left}" y1="{y(value):.1f}" x2="{width - 30}" '
                         f'y2="{y(value):.1f}" stroke="#ddd"/>'
                         f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.4g}{unit}</text>')
        for position, (label, colour, points, dots) in enumerate(series):
            if dots:
                parts.extend(f'<circle cx="{x(when):.1f}" cy="{y(min(value, top)):.1f}" r="1.6" fill="{colour}"/>'
                             for when, value in points)
            else:
                line = " ".join(f"{x(when):.1f},{y(value):.1f}" for when, value in points)
                parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
            parts.append(f'<text x="{width - 30 - 150 * position}" y="{base - high - 10}" text-anchor="end" '
                         f'fill="{colour}">{label}</text>')
        for tick in range(7):
            minute = end * tick / 6
            parts.append(f'<text x="{x(minute):.1f}" y="{base + 16}" '
                         f'text-anchor="middle">{minute:.0f}{" min" if tick == 6 else ""}</text>')
    def nice(value):
        for step in (1, 2, 4, 6, 8, 10, 15, 20, 30, 40, 60, 80, 100, 200, 400, 1000, 2000, 4000, 10000):
            if value <= step:
                return step
        return value
    memory = {name: [(when, row[name]["anonymous"] / MIB) for when, row in zip(minutes, rounds)] for name in NAMES}
    strip(0, "Private memory, MiB",
          [("recorded", "#c0392b", memory["recorded"], False), ("plain", "#2c6fbb", memory["plain"], False)],
          nice(max(value for points in memory.values() for _, value in points)), "")
    ratio = [(when, row["recorded"]["rate"] / row["plain"]["rate"]) for when, row in zip(minutes, rounds)
             if row["stood_still"] <= 0.5]
    running = [(ratio[n][0], statistics.median(value for _, value in ratio[max(0, n - 15):n + 16]))
               for n in range(len(ratio))]
    strip(1, "Throughput of the recorded server / plain server", [("median of 31 rounds", "#c0392b", running, False),
                                                                 ("a round", "#e6b0aa", ratio, True)], 2, "")
    strip(2, "Trace, MiB",
          [("file", "#555555", [(when, row["trace"] / MIB) for when, row in zip(minutes, rounds)], False)],
          nice(rounds[-1]["trace"] / MIB), "")
    tall = 40 + 3 * (high + gap)
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{tall}" viewBox="0 0 '
                    f'{width} {tall}" '
                    'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" '
                    f'fill="white"/>{"".join(parts)}</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--again", type=Path)
    options = parser.parse_args()
    measured = json.loads(options.again.read_text()) if options.again else soak(options)
    wrong = judge(measured)
    if options.plot:
        plot(measured, options.plot)
    for sentence in wrong:
        print(f"problem: {sentence}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
