#!/usr/bin/env python3
"""Check that `heapprof rss` explains all resident memory, for four allocators and five programs.

usage: tools/campaign/resident_memory.py [--only NAME,...] [--allocators NAME,...] [--build DIR] [-o FILE.md]

Programs: the fragmented heap of tests/programs/fragmentation.cpp with 1 and 4 threads, python3, larson.cpp of
tools/bench (C++, 8 threads), redis-server while keys are written and deleted. Each is recorded with glibc, jemalloc,
tcmalloc and mimalloc. The lines of a snapshot must sum to what the kernel counted as resident (statm) within 1 % or
200 kB, and the line `unknown` must have at most 1 % or 200 kB. Snapshots that took longer than 20 ms, because the
recorder continued them later, are not compared with statm, since memory changed meanwhile; the table has their number.
It has the worst snapshot of each program.

Prints a table. Exit status 1: a snapshot did not hold, or a program failed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARIES = {"glibc": "", "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
             "mimalloc": "libmimalloc.so.2.0"}
PYTHON = """
import json, random
random.seed(1)
kept = []
for round in range(40):
    text = json.dumps([{"id": i, "name": "x" * random.randrange(60), "tags": [*range(i % 9)]} for i in range(3000)])
    kept.append(json.loads(text))
    if round % 2:
        del kept[random.randrange(len(kept))]
buffers = [bytearray(random.randrange(1 << 20)) for _ in range(60)]
del buffers[::2], text
"""
MIN_BYTES = 200_000
MAX_SNAPSHOTS = 12
MAX_NS = 20_000_000


def drive_redis(process, folder):
    """Writes keys of several kinds and deletes most of them, several times."""
    del process
    address = os.path.join(folder, "socket")
    client = ["redis-cli", "-s", address]
    deadline = time.monotonic() + 60
    while subprocess.run([*client, "ping"], capture_output=True).returncode:
        if time.monotonic() > deadline:
            sys.exit("redis-server does not answer")
        time.sleep(0.05)
    for number in range(3):
        subprocess.run(["redis-benchmark", "-s", address, "-q", "-n", "60000", "-r", "40000", "-d",
                        str(100 + 300 * number), "-P", "16", "-t", "set,lpush,sadd,hset,zadd"], check=True,
                       capture_output=True)
        script = "for i, key in ipairs(redis.call('keys', '*')) do if i % 8 ~= 0 then redis.call('del', key) end end"
        subprocess.run([*client, "eval", script, "0"], check=True, capture_output=True)
    subprocess.run([*client, "shutdown", "nosave"], capture_output=True)


def programs(build, folder):
    """[(name, command, driver)]"""
    larson = os.path.join(folder, "larson")
    subprocess.run(["g++", "-O2", "-g", "-std=c++20", "-pthread", os.path.join(HERE, "../bench/larson.cpp"), "-o",
                    larson], check=True)
    fragmentation = os.path.join(build, "tests/programs/fragmentation")
    return [("fragmentation, 1 thread", [fragmentation, "400000"], None),
            ("fragmentation, 4 threads", [fragmentation, "400000", "4"], None),
            ("python3", ["python3", "-c", PYTHON], None),
            ("larson, 8 threads", [larson, "8", "3"], None),
            ("redis-server", ["redis-server", "--port", "0", "--unixsocket", os.path.join(folder, "socket"), "--dir",
                              folder, "--save", "", "--appendonly", "no"], drive_redis)]


class Rss:
    """Answers of `heapprof rss`."""

    def __init__(self, heapprof, trace):
        self.command = [heapprof, "rss", trace, "--json", "--no-symbols"]

    def __call__(self, *options):
        return json.loads(subprocess.run([*self.command, *options], check=True, capture_output=True,
                                         text=True).stdout)


def lines_of(answer):
    return {line["name"]: line["bytes"] for line in answer["lines"]}


class Worst:
    """The largest of several differences, with the resident memory to which it belongs."""

    def __init__(self):
        self.bytes, self.share, self.ok = 0, 0.0, True

    def add(self, size, rss):
        self.ok = self.ok and size <= max(0.01 * rss, MIN_BYTES)
        if size / rss >= self.share:
            self.bytes, self.share = size, size / rss

    def __str__(self):
        return f"{self.bytes / 1e3:,.0f} kB ({100 * self.share:.2f} %)"


def check(rss):
    """(complete snapshots, those that took long, largest RSS, difference of the sum, unknown)"""
    complete = [one for one in rss()["snapshots"] if one["complete"] and one["statm_bytes"]]
    # The largest ones, the first and the last: each takes a replay of the trace.
    chosen = sorted(complete, key=lambda one: -one["statm_bytes"])[:MAX_SNAPSHOTS - 2] + [complete[0], complete[-1]]
    difference, unknown = Worst(), Worst()
    largest = continued = 0
    for snapshot in {one["number"]: one for one in chosen}.values():
        answer = rss("--at", f"{snapshot['begin_ns']}ns")
        if answer["source"] != "snapshot" or answer["snapshot"]["number"] != snapshot["number"]:
            continue  # two snapshots at nearly the same time
        total = answer["rss_bytes"]
        assert sum(lines_of(answer).values()) == total
        largest = max(largest, total)
        if snapshot["end_ns"] - snapshot["begin_ns"] > MAX_NS:
            continued += 1
        else:
            difference.add(abs(total - snapshot["statm_bytes"]), total)
        unknown.add(lines_of(answer)["unknown"], total)
    return len(complete), continued, largest, difference, unknown


def record(build, program, library, folder):
    name, command, drive = program
    trace = os.path.join(folder, "trace.heapprof")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HEAPPROF_")}
    environment["LD_PRELOAD"] = library
    recorder = [os.path.join(build, "analyzer/heapprof"), "record", "-q", "--force", "-o", trace, "--"]
    process = subprocess.Popen([*recorder, *command], env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if drive:
        drive(process, folder)
    errors = process.communicate(timeout=600)[1]
    if process.returncode:
        sys.exit(f"{name}: exit status {process.returncode}\n{errors[-1000:]}")
    return trace


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts of names of programs, separated by commas")
    parser.add_argument("--allocators", default=",".join(LIBRARIES), help="names, separated by commas")
    parser.add_argument("--build", default=os.path.join(HERE, "../../build"), help="build directory")
    parser.add_argument("-o", "--output", help="also write the table to this file")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    lines = ["| program | allocator | snapshots | continued | largest RSS | lines less statm | unknown |",
             "|---|---|---:|---:|---:|---:|---:|"]
    print("\n".join(lines))
    bad = False
    with tempfile.TemporaryDirectory(prefix="heapprof-rss-") as folder:
        for program in programs(build, folder):
            if options.only and not any(part in program[0] for part in options.only.split(",")):
                continue
            if shutil.which(program[1][0]) is None:
                print(f"{program[0]}: not installed", file=sys.stderr)
                continue
            for allocator in options.allocators.split(","):
                trace = record(build, program, LIBRARIES[allocator], folder)
                answer = check(Rss(os.path.join(build, "analyzer/heapprof"), trace))
                count, continued, largest, difference, unknown = answer
                ok = difference.ok and unknown.ok
                bad = bad or not ok
                lines.append(f"| {program[0]} | {allocator} | {count} | {continued} | {largest / 1e6:.1f} MB | {difference} "
                             f"| {unknown}{'' if ok else ' **too much**'} |")
                print(lines[-1], flush=True)
    if options.output:
        with open(options.output, "w") as file:
            file.write("\n".join(lines) + "\n")
    return bad


if __name__ == "__main__":
    sys.exit(main())
