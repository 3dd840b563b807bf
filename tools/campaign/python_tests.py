#!/usr/bin/env python3
"""Run CPython's own tests with a checked build of the recorder.

usage: tools/campaign/python_tests.py --checked DIR [--tests NAME,...] [--seconds S] [--build DIR] [-o FILE.md]

The checked build captures each stack, reads its Python frames and places them again in full, and compares code
objects of one number. It ends the process at the first difference, after it has written the difference to a log that
all processes of the test share (HEAPPROF_LOG_FILE). So a difference in a child is counted, too:

    meson setup DIR -Dcpp_args=-DHEAPPROF_CHECK_STACKS -Danalyzer=false -Dtests=false
    ninja -C DIR preload/libheapprof.so

Each test runs in a process of its own with PYTHONMALLOC=malloc, on each supported interpreter of the machine that has
the tests (test.regrtest), and is terminated after S seconds (default 120). --tests all: all that the interpreter has.

Prints a table. Exit status 1: frames differed, a process was killed by a signal, or nothing was compared.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tests/support"))
DEFAULT = ("test_generators test_genexps test_coroutines test_asyncgen test_yield_from test_contextlib test_with "
           "test_exceptions test_traceback test_raise test_sys_settrace test_sys_setprofile test_frame test_inspect "
           "test_code test_compile test_funcattrs test_descr test_class test_super test_metaclass test_property "
           "test_functools test_itertools test_sort test_re test_json test_ast test_dis test_pickle test_copy test_gc "
           "test_weakref test_finalization test_threading test_thread test_fork1 test_dict test_set test_list "
           "test_dataclasses test_enum test_typing test_collections test_unittest test_call test_scope test_exec "
           "test_importlib test_import test_cmd_line test_decorators test_dynamic test_listcomps").split()
DIFFERENCE = re.compile(r"heapprof: difference: (.*)")  # preload/sys/difference.cpp
FATAL = (signal.SIGILL, signal.SIGTRAP, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)


def names_of(python, wanted):
    """The names of the tests that the interpreter has."""
    listed = subprocess.run([python.path, "-m", "test", "--list-tests"], capture_output=True, text=True)
    names = {line.strip() for line in listed.stdout.splitlines() if re.fullmatch(r"test_\w+", line.strip())}
    return sorted(names) if wanted == "all" else [name for name in wanted if name in names]


def allocations_of(heapprof, traces):
    total = 0
    for trace in traces:
        run = subprocess.run([heapprof, "info", "--json", trace], capture_output=True, text=True)
        if run.returncode == 0:
            total += sum(thread["allocations"] for thread in json.loads(run.stdout)["threads"])
    return total


def result_of(text, status):
    """What went wrong, or "". `text`: what the test's processes wrote; `status`: of the first one, as of Popen."""
    found = DIFFERENCE.findall(text)
    if found:
        return f"{len(found)} {'difference' if len(found) == 1 else 'differences'}: {'; '.join(sorted(set(found)))}"
    return f"killed by signal {-status}" if -status in FATAL else ""


def run_test(python, name, library, heapprof, seconds):
    """(allocations, what went wrong or "")"""
    with tempfile.TemporaryDirectory(prefix="heapprof-python-tests-") as folder:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HEAPPROF_")}
        log = Path(folder) / "log"
        environment.update(LD_PRELOAD=str(library), HEAPPROF_PYTHON="1", PYTHONMALLOC="malloc", TMPDIR=folder,
                           HEAPPROF_CHILDREN="1", HEAPPROF_OUTPUT=f"{folder}/%p.heapprof", HEAPPROF_LOG="error",
                           HEAPPROF_LOG_FILE=str(log))
        with open(Path(folder) / "output", "w+", errors="replace") as output:
            process = subprocess.Popen([python.path, "-m", "test", name], env=environment, stdout=output,
                                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=folder,
                                       start_new_session=True)
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = process.wait()
            output.seek(0)
            text = output.read()
        if log.exists():
            text += log.read_text(errors="replace")
        return allocations_of(heapprof, Path(folder).glob("*.heapprof")), result_of(text, status)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checked", required=True, help="directory of the checked build")
    parser.add_argument("--tests", default=",".join(DEFAULT), help="names, separated by commas, or all")
    parser.add_argument("--seconds", type=float, default=120, help="time limit of each test")
    parser.add_argument("--build", default=TREE / "build", help="build directory with heapprof")
    parser.add_argument("-o", "--output", help="also write the table to this file")
    options = parser.parse_args()
    library = Path(options.checked).resolve() / "preload" / "libheapprof.so"
    heapprof = Path(options.build).resolve() / "analyzer" / "heapprof"
    for path in (library, heapprof):
        if not path.exists():
            sys.exit(f"error: {path} does not exist: build it, or set --checked and --build")
    os.environ["HEAPPROF_TEST_BUILD"] = str(options.build)
    import pythons
    lines = ["| interpreter | tests | allocations | differences |", "|---|---:|---:|---|"]
    print("\n".join(lines), flush=True)
    good = True
    for python in pythons.supported_pythons():
        names = names_of(python, options.tests if options.tests == "all" else options.tests.split(","))
        total, failures = 0, []
        for name in names:
            allocations, wrong = run_test(python, name, library, heapprof, options.seconds)
            total += allocations
            if wrong:
                failures.append(f"{name}: {wrong}")
                print(f"{python}: {failures[-1]}", file=sys.stderr, flush=True)
        good &= not failures and (total > 0 or not names)
        lines.append(f"| {'.'.join(map(str, python.version))} | {len(names)} | {total:,} | "
                     f"{'; '.join(failures) if failures else 'none'} |")
        print(lines[-1], flush=True)
    if options.output:
        Path(options.output).write_text("\n".join(lines) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
