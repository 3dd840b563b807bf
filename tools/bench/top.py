#!/usr/bin/env python3
"""Measure what following a recording with `heapprof top` costs.

usage: tools/bench/top.py [--seconds 30] [--interval 1] [--build DIR] [-o FILE.md]

Programs are recorded for --seconds while `top --batch --json` follows them: an allocator stress test with few stacks,
and python3, without its own allocator, with many. Printed: the events, the processor time of top for each, and its
share of a core. Limit, which sets the exit status: 10 % of a core at up to one million events a second, in proportion
above.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_SHARE = 0.10

PYTHON = """
import ast, json, tokenize, io, sys
source = open(ast.__file__).read()
while True:
    tree = ast.parse(source)
    text = ast.unparse(tree)
    list(tokenize.generate_tokens(io.StringIO(text).readline))
    json.loads(json.dumps([ast.dump(node) for node in tree.body[:20]]))
"""


def measure(name, command, library, arguments, environment, directory):
    trace = directory / f"{name}.heapprof"
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(
        environment, LD_PRELOAD=str(library), HEAPPROF_OUTPUT=str(trace)))
    while not trace.exists() or trace.stat().st_size == 0:
        time.sleep(0.01)
    count = max(2, round(arguments.seconds / arguments.interval))
    begin = os.times()
    tables = subprocess.run(
        [str(arguments.build / "analyzer" / "heapprof"), "top", str(trace), "--batch", "--json", "--count", str(count),
         "--interval", str(arguments.interval)], env=dict(environment, XDG_CACHE_HOME=str(directory / "cache")),
        stdout=subprocess.PIPE, check=True).stdout.splitlines()
    end = os.times()
    program.kill()
    program.wait()
    last = json.loads(tables[-1])
    used = end.children_user + end.children_system - begin.children_user - begin.children_system
    events = last["total"]["allocations"] + last["total"]["frees"]
    seconds = last["at_ns"] / 1e9
    stacks = subprocess.run([str(arguments.build / "analyzer" / "heapprof"), "top", str(trace), "--once", "--json",
                             "--by", "stack", "--no-symbols", "--top", "1"], stdout=subprocess.PIPE, env=environment,
                            check=False).stdout
    trace.unlink()
    ns = used * 1e9 / events
    return [name, f"{json.loads(stacks)['all_rows']:,}", f"{events / seconds / 1e6:.2f}", f"{ns:.0f}",
            f"{100 * used / seconds:.1f} %"], used / seconds / max(1, events / seconds / 1e6)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--interval", type=float, default=1)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    library = (arguments.build / "preload" / "libheapprof.so").resolve()
    if not library.exists():
        sys.exit(f"{library} does not exist: run tools/build.sh first, or set --build")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HEAPPROF_")}
    environment["PYTHONMALLOC"] = "malloc"
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        stress = directory / "larson"
        subprocess.run(["c++", "-std=c++20", "-O2", "-pthread", "-o", stress, ROOT / "tools/bench/larson.cpp"],
                       check=True)
        programs = {"larson": [str(stress), "1", "1000000"], "python3": [sys.executable, "-c", PYTHON]}
        rows, shares = zip(*(measure(program, command, library, arguments, environment, directory)
                             for program, command in programs.items()))
    text = "| program | stacks | million events/s | ns per event | share of a core |\n"
    text += "|---|---|---|---|---|\n" + "".join("| " + " | ".join(row) + " |\n" for row in rows)
    if arguments.output:
        arguments.output.write_text(text)
    print(text, end="")
    return 0 if max(shares) <= MAX_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
