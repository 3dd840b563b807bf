#!/usr/bin/env python3
"""Whether looking at a running program slows it: its own count of pairs per 100 ms, while nobody looks and while
heapprof reads its trace again and again. The program has one processor for itself, heapprof another; without two
there is nothing to measure. Processors share caches, memory and, where they are threads of one core, more: so gzip,
which knows nothing of the program, works in heapprof's place for a third of the time, and what heapprof costs is the
difference.

usage: tools/campaign/slowdown.py [--rounds N] [--build FOLDER]
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
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    os.environ["HEAPPROF_TEST_BUILD"] = str(Path(options.build).resolve())
    import harness
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        print("skipped: takes two processors")
        sys.exit(harness.SKIPPED)
    with tempfile.TemporaryDirectory(prefix="heapprof-campaign-") as folder:
        trace = Path(folder) / "load.hprof"
        program = subprocess.Popen([harness.program("hosts"), "load", "1"], stdout=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: os.sched_setaffinity(0, {processors[0]}),
                                   env=harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace))
        counts = {"nobody looks": [], "gzip works": [], "heapprof reads": []}
        phase = ["nobody looks"]
        looked = 0

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
                if name == "gzip works":
                    with open("/dev/urandom", "rb") as noise:
                        other = subprocess.Popen(["gzip", "-9"], stdin=noise, stdout=subprocess.DEVNULL,
                                                 preexec_fn=lambda: os.sched_setaffinity(0, {processors[1]}))
                time.sleep(0.15)
                phase[0] = name
                end = time.monotonic() + 1.5
                while time.monotonic() < end:
                    if name != "heapprof reads":
                        time.sleep(0.1)
                        continue
                    command = COMMANDS[looked % len(COMMANDS)]
                    arguments = [command[0], str(trace), *command[1:]]
                    subprocess.run([harness.HEAPPROF, *arguments], stdout=subprocess.DEVNULL, check=True,
                                   preexec_fn=lambda: os.sched_setaffinity(0, {processors[1]}))
                    looked += 1
                if other is not None:
                    other.kill()
                    other.wait()
        phase[0] = "over"
        program.send_signal(signal.SIGTERM)
        program.wait()
    for name, found in counts.items():
        print(f"{name:15} median {statistics.median(found):8.0f} pairs in 100 ms, quartiles "
              f"{statistics.quantiles(found)[0]:.0f} to {statistics.quantiles(found)[2]:.0f}, {len(found)} readings")
    for name in ("nobody looks", "gzip works"):
        ratio = statistics.median(counts["heapprof reads"]) / statistics.median(counts[name])
        print(f"while {looked} commands read it: {100 * (ratio - 1):+.1f} % of its pace while {name}")


if __name__ == "__main__":
    main()
