#!/usr/bin/env python3
"""Measure whether heapprof slows a program while it reads the program's trace.

usage: tools/campaign/slowdown.py [--rounds N] [--build DIR]

The program counts its malloc/free pairs per 100 ms: a third of the time alone, a third while heapprof reads its trace
repeatedly, and a third while gzip runs instead of heapprof. The program has one processor, heapprof or gzip another.
Processors share caches and memory, so gzip also slows the program; the difference between gzip and heapprof is
the cost of reading the trace. Skipped on machines with one processor.
"""
import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
COMMANDS = (("report", "--json"), ("timeline", "--format", "json"), ("info", "--json"), ("leaks", "--json"),
            ("flamegraph", "--format", "folded"), ("control", "status"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    os.environ["HEAPPROF_TEST_BUILD"] = str(Path(options.build).resolve())
    import harness
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        print("skipped: needs two processors")
        sys.exit(harness.SKIPPED)
    with tempfile.TemporaryDirectory(prefix="heapprof-campaign-") as folder:
        trace = Path(folder) / "load.heapprof"
        program = subprocess.Popen([harness.program("hosts"), "load", "1"], stdout=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: os.sched_setaffinity(0, {processors[0]}),
                                   env=harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace))
        counts = {"alone": [], "with gzip": [], "with heapprof": []}
        phase = ["alone"]
        commands_run = 0

        def collect():
            for line in program.stdout:
                if phase[0] in counts:
                    counts[phase[0]].append(int(line))

        collector = threading.Thread(target=collect, daemon=True)
        collector.start()
        for _ in range(options.rounds):
            for name in counts:
                phase[0] = "settling"
                other = None
                if name == "with gzip":
                    with open("/dev/urandom", "rb") as noise:
                        other = subprocess.Popen(["gzip", "-9"], stdin=noise, stdout=subprocess.DEVNULL,
                                                 preexec_fn=lambda: os.sched_setaffinity(0, {processors[1]}))
                time.sleep(0.15)
                phase[0] = name
                end = time.monotonic() + 1.5
                while time.monotonic() < end:
                    if name != "with heapprof":
                        time.sleep(0.1)
                        continue
                    command = COMMANDS[commands_run % len(COMMANDS)]
                    arguments = [command[0], str(trace), *command[1:]]
                    subprocess.run([harness.HEAPPROF, *arguments], stdout=subprocess.DEVNULL, check=True,
                                   preexec_fn=lambda: os.sched_setaffinity(0, {processors[1]}))
                    commands_run += 1
                if other is not None:
                    other.kill()
                    other.wait()
        phase[0] = "ended"
        program.send_signal(signal.SIGTERM)
        program.wait()
    for name, found in counts.items():
        print(f"{name:15} median {statistics.median(found):8.0f} pairs in 100 ms, quartiles "
              f"{statistics.quantiles(found)[0]:.0f} to {statistics.quantiles(found)[2]:.0f}, {len(found)} readings")
    for name in ("alone", "with gzip"):
        ratio = statistics.median(counts["with heapprof"]) / statistics.median(counts[name])
        print(f"while {commands_run} commands read the trace: {100 * (ratio - 1):+.1f} % compared to {name}")


if __name__ == "__main__":
    main()
