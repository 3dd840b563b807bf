#!/usr/bin/env python3
"""Measure what recording adds to Python programs: without and with Python frames, and by memray.

usage: tools/bench/python.py [--python PATH] [--runs N] [--malloc malloc,pymalloc] [--build DIR] [-o FILE.md]

Each script runs with nothing, with heapprof without and with Python frames, and with memray (--native), in turns. The
table has medians of processor time (user and system, of all threads) in seconds, and what each recorder adds. Writes
to temporary files.

--python PATH   the interpreter, which needs memray: python3 -m venv DIR; DIR/bin/pip install memray. Default: the one
                that executes this. Without memray its columns are empty.
--malloc        malloc: PYTHONMALLOC=malloc, all objects are blocks of malloc; pymalloc: the interpreter's default
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]

SCRIPTS = {
    "json": """
import json, re
rows = [{'k': str(i), 'v': [i] * (i % 7), 's': 'x' * (i % 700)} for i in range(30000)]
text = json.dumps(rows); back = json.loads(text)
print(len(text), sum(len(m) for m in re.findall('[0-9]+', text)))
""",
    "objects": """
class Node:
    def __init__(self, value, next):
        self.value, self.next = str(value), next
def chain(count):
    last = None
    for i in range(count): last = Node(i, last)
    return last
for turn in range(40): chain(20000)
""",
    "deep": """
def tree(depth): return [] if depth == 0 else [tree(depth - 1), {str(depth): bytes(depth)}]
def under(depth): return under(depth - 1) if depth else [tree(9) for _ in range(5000)]
under(25)
""",
    "library": """
import ast, glob, os, tokenize
for path in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), '*.py')))[:40]:
    with tokenize.open(path) as file: source = file.read()
    compile(ast.unparse(ast.parse(source)), path, 'exec')
""",
    "threads": """
import json, threading
def work(seed):
    for i in range(500): json.loads(json.dumps([{'k': str(j), 'v': [j] * (j % 5)} for j in range(seed, seed + 60)]))
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
""",
}
RESOLUTION = 0.01  # seconds; less is noise
RECORDERS = ("nothing", "heapprof, C only", "heapprof, Python frames", "memray --native")


def processor_seconds(command, environment):
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"error: {command[:4]} ended with status {process.returncode}\n"
                 f"{errors.decode(errors='replace')[-2000:]}")
    return usage.ru_utime + usage.ru_stime


def measure(recorder, python, script, environment, library, folder):
    command, environment = [python, script], dict(environment)
    output = Path(folder) / "output"
    output.unlink(missing_ok=True)
    if recorder.startswith("heapprof"):
        environment.update(LD_PRELOAD=str(library), HEAPPROF_OUTPUT=str(output),
                           HEAPPROF_PYTHON="1" if "Python" in recorder else "0")
    elif recorder.startswith("memray"):
        command = [python, "-m", "memray", "run", "--native", "--quiet", "-o", str(output), script]
    return processor_seconds(command, environment)


def row(name, allocator, times):
    nothing, c_only, frames, memray = (statistics.median(times[each]) if times.get(each) else None
                                       for each in RECORDERS)
    cells = [name, allocator, f"{nothing:.2f}"]
    cells += ["" if each is None else f"{each - nothing:+.2f}" for each in (c_only, frames, memray)]
    cells.append(f"{(frames - nothing) / (c_only - nothing):.2f}" if c_only - nothing >= RESOLUTION else "")
    cells.append(f"1/{(memray - nothing) / (frames - nothing):.1f}" if memray and frames - nothing >= RESOLUTION else "")
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--malloc", default="malloc,pymalloc", help="allocators of Python, separated by commas")
    parser.add_argument("--build", default=TREE / "build")
    parser.add_argument("-o", "--output", help="also write the table to this file")
    options = parser.parse_args()
    library = Path(options.build).resolve() / "preload" / "libheapprof.so"
    if not library.exists():
        sys.exit(f"error: {library} does not exist: run tools/build.sh first, or set --build")
    has_memray = subprocess.run([options.python, "-c", "import memray"], capture_output=True).returncode == 0
    if not has_memray:
        print(f"{options.python} has no memray: {options.python} -m pip install memray", file=sys.stderr)
    recorders = RECORDERS if has_memray else RECORDERS[:3]
    lines = ["| script | allocator | nothing, s | heapprof without Python frames | heapprof with them | memray | "
             "with to without | heapprof to memray |", "|---|---|---:|---:|---:|---:|---:|---:|"]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory(prefix="heapprof-python-") as folder:
        for allocator in options.malloc.split(","):
            environment = {key: value for key, value in os.environ.items()
                           if not key.startswith("HEAPPROF_") and key != "LD_PRELOAD"}
            environment.update({"PYTHONMALLOC": allocator, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "1"})
            for name, source in SCRIPTS.items():
                script = os.path.join(folder, name + "_script.py")
                Path(script).write_text(source)
                times = {}
                for turn in range(options.runs + 1):  # the first one fills caches
                    for recorder in recorders:
                        seconds = measure(recorder, options.python, script, environment, library, folder)
                        if turn:
                            times.setdefault(recorder, []).append(seconds)
                lines.append(row(name, allocator, times))
                print(lines[-1], flush=True)
    if options.output:
        Path(options.output).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
