#!/usr/bin/env python3
"""Run CPython's test suite (Debian's libpython3.11-testsuite) module by module, without and with the recorder.

usage: tools/real-programs/python-tests.py [options] [MODULE...]

MODULE        default: all modules of `python3 -m test --list-tests`
--part K/N    only every N-th module, starting with the K-th, so that parts can run one after another or in parallel
--jobs N      number of parallel modules; default 1
--timeout S   time limit of one run of a module in seconds; default 600. A module that exceeds it is not compared
--results F   write a line of JSON for each module to F; modules that are in F do not run again
--summary     run nothing; print a summary of F
--build DIR   build directory; default build/ of this tree

Each module, with all processes that it starts, runs without the recorder and then with it, and the results are
compared test by test. If they differ, both run twice more. A test that had the same result in both ways at least once
is unstable (races, times, the network); the others differ because of the recorder. The trace of the module's main
process must be readable and complete.

Exit status: 0: no differences; 1: otherwise.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import figures
import programs
from run import ROOT, Run

PYTHON = "/usr/bin/python3"
AGAIN = 2
EXIT_STATUS = "(the module's exit status)"
LONG = 60  # seconds; in a module that takes longer, only tests that differ run again


def verdicts_of(run, module, timeout, recorded, only):
    status, verdicts, output = programs.python_verdicts(run, module, timeout, recorded, only)
    named = dict(line.split(": ", 1) for line in verdicts)
    # A module that is skipped or dies has only an exit status to compare.
    named[EXIT_STATUS] = str(status)
    return named, "killed: timeout" in output, output


def unequal(plain, recorded):
    return {name for name in plain.keys() | recorded.keys() if plain.get(name) != recorded.get(name)}


def trace_problem(heapprof, traces):
    """(The problem with the largest trace, which is that of the main process, or None; its number of events)."""
    files = sorted(traces.glob("*.heapprof*"), key=lambda path: -path.stat().st_size)
    if not files:
        return "no trace was written", 0
    status, result, errors = figures.report(heapprof, files[0], "--no-symbols", "--top", "1")
    if result is None:
        return f"unreadable ({status}): {errors.strip()[-200:]}", 0
    if not result["integrity"]["complete"]:
        return f"not complete: {result['integrity']}", result["events"]
    return None, result["events"]


def examine(module, options, library):
    with tempfile.TemporaryDirectory(prefix=f"heapprof-{module}-", ignore_cleanup_errors=True) as directory:
        directory = Path(directory)
        traces = directory / "traces"
        traces.mkdir()
        variables = {"LD_PRELOAD": str(library), "HEAPPROF_CHILDREN": "on",
                     "HEAPPROF_OUTPUT": str(traces / "%e.%p.heapprof"),
                     "HEAPPROF_LOG_FILE": str(traces / "log")}

        def once(recorded, only=()):
            home = directory / "here"
            shutil.rmtree(home, ignore_errors=True)
            (home / "tmp").mkdir(parents=True)
            return verdicts_of(Run(home, True, variables), module, options.timeout, recorded, only)

        row = {"module": module}
        began = time.monotonic()
        plain, cut, _ = once(False)
        row["plain_seconds"] = round(time.monotonic() - began, 1)
        if cut:
            return row | {"cut": "plain"}
        began = time.monotonic()
        recorded, cut, output = once(True)
        row["recorded_seconds"] = round(time.monotonic() - began, 1)
        row["problem"], row["events"] = trace_problem(options.build / "analyzer" / "heapprof", traces)
        row["traces"] = len(list(traces.glob("*.heapprof*")))
        log = traces / "log"
        row["log"] = sorted({line.split(": ", 2)[-1]
                             for line in log.read_text(errors="replace").splitlines()}) if log.exists() else []
        if cut:
            return row | {"cut": "recorded"}
        row["tests"] = len(plain) - 1
        row["kinds"] = Counter(plain.values())
        differing = first = unequal(plain, recorded)
        seen = {name: ({plain.get(name)}, {recorded.get(name)}) for name in first}
        tests = [name for name in first if name.startswith("test.")]
        all_tests = tests and len(tests) + (EXIT_STATUS in first) == len(first)
        only = tests if row["recorded_seconds"] > LONG and all_tests else ()
        for _ in range(AGAIN):
            if not differing:
                break
            plain, _, _ = once(False, only)
            recorded, _, more = once(True, only)
            output += more
            for name, (before, after) in seen.items():
                before.add(plain.get(name))
                after.add(recorded.get(name))
            differing = {name for name, (before, after) in seen.items() if not before & after}
        row["unstable"] = sorted(first - differing)
        row["differ"] = {name: [sorted(map(str, values)) for values in seen[name]] for name in sorted(differing)}
        if differing:
            row["said"] = output[-6000:]
        return row


def summary(path):
    rows = {row["module"]: row
            for row in map(json.loads, path.read_text().splitlines())}.values() if path.exists() else ()
    compared = [row for row in rows if "cut" not in row]
    print(f"{len(rows)} modules, of which {len(rows) - len(compared)} exceeded the timeout; "
          f"{sum(row['tests'] for row in compared):,} tests compared, "
          f"{sum(len(row['unstable']) for row in compared)} unstable, "
          f"{sum(len(row['differ']) for row in compared)} differ; {sum(row.get('traces', 0) for row in rows):,} "
          "processes recorded")
    bad = False
    for row in rows:
        if "cut" in row:
            print(f"  timeout ({row['cut']}): {row['module']}, {row['plain_seconds']} s plain")
        if row.get("unstable"):
            print(f"  unstable: {row['module']}: {', '.join(row['unstable'])}")
        for name, (before, after) in row.get("differ", {}).items():
            bad = True
            print(f"  differs: {row['module']}: {name}: plain {', '.join(before)}; recorded {', '.join(after)}")
        if row.get("problem"):
            bad = True
            print(f"  trace: {row['module']}: {row['problem']}")
    messages = Counter(line for row in rows for line in row.get("log", []))
    for line, count in messages.most_common(10):
        print(f"  the recorder logged in {count} modules: {line}")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    options = parser.parse_args()
    if options.summary:
        return summary(options.results)
    part, parts = map(int, options.part.split("/"))
    listed = options.modules or subprocess.run([PYTHON, "-m", "test", "--list-tests"], capture_output=True, text=True,
                                               check=True).stdout.split()
    done = {json.loads(line)["module"]
            for line in options.results.read_text().splitlines()} if options.results.exists() else set()
    modules = [module for module in listed[part - 1::parts] if module not in done]
    library = (options.build / "preload" / "libheapprof.so").resolve()
    lock = Lock()

    def go(module):
        row = examine(module, options, library)
        with lock, options.results.open("a") as out:
            out.write(json.dumps(row) + "\n")
        print(f"{module}: {row.get('tests', 'no')} tests, {len(row.get('differ', {}))} differ", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(go, modules))
    return summary(options.results)


if __name__ == "__main__":
    sys.exit(main())
