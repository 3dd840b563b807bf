#!/usr/bin/env python3
"""Keeps a busy server under load for a long time, recorded, and watches that nothing creeps.

usage: tools/soak.py [--build DIR] [--minutes N] [--json FILE]

Two redis servers, one recorded and one not, each with io-threads and a data set that is full after the first minute, get the same
rounds of load in turn: so the machine's moods hit both. After each round: resident memory of both, the trace's size,
operations a second of both. Printed at the end: by quarter, the recorded server's memory above the plain one's, and
the ratio of throughputs. Sound: after the first quarter the difference in memory grows no more than the call tree (a few MiB), and
the ratio stays.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def resident(pid):
    """Private and shared memory apart: staging blocks are pages of the trace, which the kernel may drop."""
    fields = dict(re.findall(r"(RssAnon|RssFile|RssShmem):\s+(\d+)", Path(f"/proc/{pid}/status").read_text()))
    return int(fields["RssAnon"]) * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory(prefix="heapprof-soak-") as folder:
        folder = Path(folder)
        trace = folder / "soak.hprof"
        servers = {}
        for name in ("plain", "recorded"):
            environment = {"PATH": os.environ["PATH"]}
            if name == "recorded":
                environment.update(LD_PRELOAD=str((options.build / "preload" / "libheapprof.so").resolve()), HEAPPROF_OUTPUT=str(trace))
            servers[name] = subprocess.Popen(
                ["redis-server", "--port", "0", "--unixsocket", folder / name, "--save", "", "--dir", folder, "--io-threads", "3",
                 "--io-threads-do-reads", "yes"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        try:
            time.sleep(2)
            began = time.monotonic()
            while time.monotonic() - began < options.minutes * 60:
                row = {"seconds": round(time.monotonic() - began, 1)}
                for name, server in servers.items():
                    start = time.monotonic()
                    done = subprocess.run(["redis-benchmark", "-s", folder / name, "-q", "-n", "20000", "-r", "20000", "-c", "20", "-P", "8",
                                           "-d", "100", "-t", "set,get,lpush,lpop,sadd,spop,hset,zadd,zpopmin"], capture_output=True,
                                          text=True, timeout=600)
                    if done.returncode != 0 or server.poll() is not None:
                        print(f"{name}: the server or the load died: {server.poll()} {done.stderr[-300:]}")
                        return 1
                    row[name] = {"rate": round(9 * 20000 / (time.monotonic() - start)), "anonymous": resident(server.pid)}
                row["trace"] = trace.stat().st_size
                rounds.append(row)
                if options.json:
                    options.json.write_text(json.dumps(rounds))
        finally:
            for server in servers.values():
                server.terminate()
                server.wait(60)
        report = subprocess.run([options.build / "analyzer" / "heapprof", "report", trace, "--json", "--top", "1", "--no-symbols"],
                                capture_output=True, text=True)
        integrity = json.loads(report.stdout)
    print(f"{len(rounds)} rounds in {rounds[-1]['seconds'] / 60:.0f} minutes, {integrity['events']:,} events, complete: "
          f"{integrity['integrity']['complete']}, trace {rounds[-1]['trace'] / 1048576:.0f} MiB")
    for quarter in range(4):
        part = rounds[len(rounds) * quarter // 4:len(rounds) * (quarter + 1) // 4]
        if part:
            above = sum(row["recorded"]["anonymous"] - row["plain"]["anonymous"] for row in part) / len(part)
            ratio = sum(row["recorded"]["rate"] for row in part) / sum(row["plain"]["rate"] for row in part)
            print(f"quarter {quarter + 1}: {above / 1048576:6.1f} MiB above the plain server, {ratio:.2f} of its throughput")
    return 0 if integrity["integrity"]["complete"] else 1


if __name__ == "__main__":
    sys.exit(main())
