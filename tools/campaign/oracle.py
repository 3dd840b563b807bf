#!/usr/bin/env python3
"""Compare stacks of real programs with libunwind.

usage: tools/campaign/oracle.py [--only NAME,...] [--seconds S] [--build DIR] [--mimalloc-bench DIR] [-o FILE.md]

Each program of tools/bench/programs.py and some more run with the oracle (tests/unit/unwind/oracle_preload.cpp). It
captures a stack at every allocation as the recorder does. It compares each stack with a full walk, and every N-th
also with libunwind, frame by frame.

Prints a table. Exit status 1: a stack differed, or a program died. A program that takes longer than S seconds
(default 200) is terminated; the stacks until then are compared. Needs a build with tests (tools/test.sh).
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../bench"))
import programs  # noqa: E402  (the path is set just above)

NODE = ("let t = 0; for (let i = 0; i < 3e5; i++) { t += JSON.stringify({a: [i, 'x'.repeat(i % 50)]}).length } "
        "console.log(t)")

# Every N-th stack is compared with libunwind, which needs 20 to 100 us for one.
EVERY = {"cc1plus": 200, "rsvg-convert": 20, "redis-server": 50, "larson": 500, "mix": 200, "mix-threads": 200,
         "espresso": 500, "cfrac": 500, "node": 200, "python3": 20,
         "python3-threads": 50,
         "perl": 50, "sqlite3": 20, "jq": 20, "git": 10}


def more():
    """Programs that are not in the benchmark."""
    wanted = [
        ("node", ["node", "-e", NODE]),
        ("heaptrack_gui (Qt)", ["xvfb-run", "-a", "timeout", "20", "heaptrack_gui"]),
        ("openssl", ["openssl", "genrsa", "2048"]),
        ("xz", ["sh", "-c", "exec xz -9 -T2 -c /usr/bin/python3.11 >/dev/null"]),
        ("bash", ["bash", "-c", "for i in {1..3000}; do a[$i]=$((i * i)); done; echo ${#a[@]}"]),
    ]
    return [programs.Program(name, command) for name, command in wanted if shutil.which(command[0])]


def totals_of(report):
    """(captures, compared, frames, different, truncated) in the oracle's report. Its lines are cumulative; the
    largest of each process name counts."""
    last = {}
    if os.path.exists(report):
        with open(report) as file:
            for name, *row in re.findall(r"(\S+): (\d+) captures, (\d+) compared, (\d+) frames, (\d+) "
                                         r"different, (\d+) truncated",
                                         file.read()):
                last[name] = max(last.get(name, [0] * 5), [int(figure) for figure in row])
    return [sum(column) for column in zip([0] * 5, *last.values())]


def run(program, oracle, directory, seconds):
    report = os.path.join(directory, "report." + re.sub(r"\W", "_", program.name))
    environment = dict(os.environ, **program.environment, LD_PRELOAD=oracle, ORACLE_REPORT=report,
                       ORACLE_EVERY=str(EVERY.get(program.name, 10)))
    stdin = open(program.stdin) if program.stdin else subprocess.DEVNULL
    process = subprocess.Popen(program.command, env=environment, stdin=stdin, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE,
                               start_new_session=True)
    program.drive(process)
    try:
        errors = process.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        # SIGTERM, not SIGKILL, because the oracle writes its report at exit.
        os.killpg(process.pid, signal.SIGTERM)
        errors = process.communicate(timeout=20)[1]
    died = process.returncode in (-signal.SIGILL, -signal.SIGTRAP, -signal.SIGSEGV, -signal.SIGABRT)
    return totals_of(report), died, errors.decode(errors="replace")[-300:], report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--seconds", type=float, default=200, help="time limit of each program")
    parser.add_argument("--build", default=os.path.join(HERE, "../../build"), help="build directory")
    parser.add_argument("--mimalloc-bench", metavar="DIR", help="a checkout of it, for espresso and cfrac")
    parser.add_argument("-o", "--output", help="also write the table to this file")
    options = parser.parse_args()
    oracle = os.path.abspath(os.path.join(options.build, "tests/unit/unwind/libunwind_oracle_preload.so"))
    if not os.path.exists(oracle):
        sys.exit(f"{oracle} does not exist: run tools/test.sh first, or set --build")
    lines = ["| program | captures, each compared with a full walk | compared | frames | different | truncated |",
             "|---|---:|---:|---:|---:|---:|"]
    print("\n".join(lines))
    bad = False
    with tempfile.TemporaryDirectory(prefix="heapprof-oracle-") as directory:
        for name in ("larson", "mix"):
            subprocess.run(["g++", "-O2", "-g", "-std=c++20", "-pthread", os.path.join(HERE, f"../bench/{name}.cpp"),
                            "-o", os.path.join(directory, name)], check=True)
        for program in [*programs.programs(directory, options.mimalloc_bench), *more()]:
            if options.only and program.name not in options.only.split(","):
                continue
            (captures, compared, frames, different, truncated), died, errors, report = run(program, oracle, directory,
                                                                                           options.seconds)
            lines.append(f"| {program.name} | {captures:,} | {compared:,} | {frames:,} | {different:,} "
                         f"| {truncated:,} |")
            print(lines[-1], flush=True)
            if different or died or captures == 0:
                bad = True
                if os.path.exists(report):
                    with open(report) as file:
                        print(file.read()[:3000], file=sys.stderr)
                what = "died" if died else "nothing was captured" if captures == 0 else "stacks differ"
                print(f"{program.name}: {what} {errors}", file=sys.stderr)
    if options.output:
        with open(options.output, "w") as file:
            file.write("\n".join(lines) + "\n")
    return bad


if __name__ == "__main__":
    sys.exit(main())
