#!/usr/bin/env python3
"""Measure `heapprof query` on a large recording, and print a table.

usage: tools/bench/query.py --work DIR [--build DIR] [--events N] [--live N] [--turnover N] [--rounds N]

Records ranges.cpp once (DIR/ranges.heapprof, the recording of tools/bench/ranges.py), indexes it, and runs each query
in each round in turn. The table has medians: processor time of all threads, wall time, peak resident memory.
--turnover is the number of live blocks that are replaced in each million events.
"""

import argparse
import os
import statistics
import subprocess

import ranges

QUERIES = (
    ("call sites", "SELECT name, sum(peak_bytes) FROM call_sites GROUP BY name ORDER BY 2 DESC"),
    ("stacks by module of the innermost frame", "SELECT frames.module, sum(allocated_bytes), count(*) FROM stacks "
     "JOIN frames USING (stack_id) WHERE position = 0 GROUP BY frames.module"),
    ("allocations, counted", "SELECT count(*), sum(size_bytes) FROM allocations"),
    ("allocations, grouped by thread", "SELECT thread_id, count(*), sum(size_bytes) FROM allocations "
     "GROUP BY thread_id"),
    ("a slice of 0.1 % of the time", "SELECT count(*), sum(size_bytes) FROM allocations WHERE allocated_ns BETWEEN "
     "{from_ns} AND {to_ns}"),
    ("sizes above 4,000", "SELECT count(*), sum(size_bytes) FROM allocations WHERE size_bytes > 4000"),
    ("rows above 4,000", "SELECT * FROM allocations WHERE size_bytes > 4000"),
    ("sizes with rows in each frame", "SELECT count(*), sum(size_bytes) FROM allocations WHERE size_bytes BETWEEN "
     "100 AND 104"),
    ("a stack with rows in each frame", "SELECT count(*), sum(size_bytes) FROM allocations WHERE stack_id = {often}"),
    ("one stack", "SELECT count(*), sum(size_bytes) FROM allocations WHERE stack_id = {stack}"),
    ("live blocks at 50 %", "SELECT count(*), sum(size_bytes) FROM live_blocks('50%')"),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True)
    parser.add_argument("--build", default=os.path.join(ranges.HERE, "../../build"))
    parser.add_argument("--events", type=int, default=100_000_000)
    parser.add_argument("--live", type=int, default=1_000_000)
    parser.add_argument("--turnover", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    heapprof, trace, _ = ranges.recorded(options)

    def first(sql):
        rows = subprocess.run([heapprof, "query", trace, sql, "--csv"], check=True, capture_output=True, text=True)
        return int(rows.stdout.splitlines()[1])

    duration = first("SELECT duration_ns FROM processes")
    values = {"from_ns": duration * 500 // 1000, "to_ns": duration * 501 // 1000,
              "stack": first("SELECT stack_id FROM stacks ORDER BY allocations LIMIT 1"),
              "often": first("SELECT stack_id FROM stacks ORDER BY allocations DESC LIMIT 1")}
    results = {name: [] for name, _ in QUERIES}
    for _ in range(options.rounds):
        for name, sql in QUERIES:
            results[name].append(ranges.run(heapprof, "query", trace, sql.format(**values)))
    print("| query | processor time | time | memory |\n|---|---:|---:|---:|")
    for name, rows in results.items():
        cpu, wall, memory = (statistics.median(column) for column in zip(*rows))
        print(f"| {name} | {cpu:.2f} s | {wall:.2f} s | {memory:.0f} MB |")


if __name__ == "__main__":
    main()
