#!/usr/bin/env python3
"""Kill a recorded program with SIGKILL at random moments, and compare every event with the program's ledger.

usage: tools/campaign/kill.py [--runs N] [--seed N] [--build DIR]

A program with three threads and a ledger (tests/programs/ledger_kill.cpp) is killed by a kernel timer or after a
number of calls, in each run. In seven of eight runs, staging blocks are so small that they are full after a hundred
events. All calls that the ledger marks as complete must be in the trace, in order, and no calls that had not begun.
heapprof's figures must equal those of a replay of the events.
"""
import argparse
import os
import random
import struct
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

FIGURES = ("allocations", "allocated_bytes", "frees", "failed", "leaked_bytes", "leaked_blocks")


def operations_in_progress(path):
    """The operations that the kill interrupted, as far as the file shows them."""
    import trace_reader
    found = []
    trace = trace_reader.Trace(path)
    figures = trace_reader.replay(trace_reader.merged(trace))
    if figures["unfinished"]:
        found.append("during a realloc")
    data = Path(path).read_bytes()
    frames, staging = trace._extents(data)
    for stream, (at, size) in staging.items():
        commit = struct.unpack_from("<Q", data, at + 48)[0]
        sequence, slots = commit >> 32, commit & 0xffffffff
        if (stream, sequence) in frames:
            found.append("between writing a frame and starting the next block")
        elif slots >= (size - 64) // 32:
            found.append("while a full block was written as a frame")
        elif slots <= 1 and sequence:
            found.append("just after starting a block")
    return found


def kill_one(plan):
    import harness
    import unfinished_calls
    case = harness.Case()
    case.count = 0
    with tempfile.TemporaryDirectory(prefix="heapprof-campaign-") as directory:
        case.dir = Path(directory)
        run = case.record(harness.program("ledger_kill"), plan["moment"], plan["seed"], 3, plan["by"],
                          how=plan["how"],
                          status=None, timeout=600,
                          BLOCK_BYTES=plan["block_bytes"])
        if run.status != (137 if plan["how"] == "record" else -9):
            return f"status {run.status}: {run.stderr[-300:]}", 0, []
        problem, figures = unfinished_calls.compare(run.trace, run.ledger_path)
        if problem:
            return problem, 0, []
        report = case.report(run.trace)
        case.assert_sound(report, ended_by=("signal",) if plan["how"] == "record" else ("signal", "unknown"))
        for name in FIGURES:
            if report["heap"][name] != figures[name]:
                return f"{name}: {report['heap'][name]}, not {figures[name]}", 0, []
        return None, report["events"], operations_in_progress(run.trace)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    os.environ["HEAPPROF_TEST_BUILD"] = str(Path(options.build).resolve())
    generator = random.Random(options.seed)
    plans = [dict(by="calls" if run % 4 else "kill", moment=int(300 * 2 ** (6 * generator.random())) if run % 4 else
                  int(50_000 * 2 ** (7 * generator.random())), seed=generator.randrange(1 << 30),
                  block_bytes=4096 if run % 8 else 65536, how=("preload", "record", "loader")[run % 3])
             for run in range(options.runs)]
    print(f"{options.runs} runs, seed {options.seed}")
    begin = time.monotonic()
    events, failed, interrupted = 0, 0, Counter()
    with ProcessPoolExecutor(2) as pool:
        for run, (plan, (problem, count, where)) in enumerate(zip(plans, pool.map(kill_one, plans))):
            if problem:
                failed += 1
                print(f"run {run}, {plan}: {problem}")
            events += count
            interrupted.update(set(where))
            if (run + 1) % 100 == 0:
                print(f"{run + 1} kills, {events} events compared, {failed} failed", flush=True)
    print(f"\n{options.runs} kills, {events} events compared, {time.monotonic() - begin:.0f} "
          f"s: {failed} failed")
    for where, times in interrupted.most_common():
        print(f"  {times:5} {where}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
