#!/usr/bin/env python3
"""Run real programs without and with the recorder, and compare.

usage: tools/real-programs/run.py [options] [NAME...]

NAME          programs; default: all of them
--list        print names and descriptions
--build DIR   build directory; default build/ of this tree
--work DIR    directory for the programs and their traces; default a new one in /tmp, which is removed
--keep        keep the traces
--read        run nothing; read the traces that an earlier run with --keep left in --work
--json FILE   append a line of JSON for each program
--table FILE  run nothing; print a Markdown table of the lines in FILE, which --json wrote

Each program has a function in programs.py, which runs it with its helpers, servers and children, and collects facts:
exit statuses, outputs, files, results of its own tests. The function runs twice, each time in a new directory with
the same name: without the recorder, then with libheapprof.so preloaded into all processes. Each fact that differs is
printed. Then all traces are read: they must be complete, without unmatched frees; their figures are printed
(figures.py).

Exit status: 0: no differences, and all traces are complete; 1: otherwise; 2: wrong command line, or FILE of --table
is malformed. Programs that are not installed are skipped.
"""

import argparse
import difflib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import figures
import programs

ROOT = Path(__file__).resolve().parents[2]
PATH = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"


class Run:
    """One execution of a program: its directory, its environment, and its facts."""

    def __init__(self, directory, recorded, variables, user=None):
        self.dir = directory
        self.recorded = recorded
        self.variables = variables
        self.facts = []
        self.background = []
        self.seconds = 0.0
        self.user = user

    def environment(self, recorded, extra):
        environment = {"PATH": PATH, "HOME": str(self.dir), "LANG": "C.UTF-8", "TZ": "UTC",
                       "TMPDIR": str(self.dir / "tmp")}
        environment.update({key: str(value) for key, value in extra.items()})
        if recorded and self.recorded:
            environment.update(self.variables)
        return environment

    def fact(self, name, value):
        self.facts.append((name, str(value)))

    def __call__(self, *command, name=None, input=None, timeout=600, normalise=None, output=True, errors=True,
                 cwd=None,
                 user=None, **extra):
        """Runs a command, adds status and outputs to the facts, returns standard output. `extra`: environment."""
        name = name or " ".join(map(str, command))[:100]
        status, out, err = self.execute(command, True, input, timeout, cwd, user, extra)
        clean = normalise or (lambda text: text)
        self.fact(f"{name}: status", status)
        if output:
            self.fact(f"{name}: output", clean(out))
        if errors:
            self.fact(f"{name}: errors", clean(err))
        return out

    def quiet(self, *command, input=None, timeout=600, cwd=None, user=None, check=True, **extra):
        """Runs a command without the recorder; a failure is a fact."""
        status, out, err = self.execute(command, False, input, timeout, cwd, user, extra)
        if check and status != 0:
            self.fact(f"preparation {command[0]}", f"{status}: {err[-2000:]}")
            raise RuntimeError(f"{command}: {err[-500:]}")
        return out

    def execute(self, command, recorded, input, timeout, cwd, user, extra):
        process = self.popen(command, recorded, cwd, user, extra, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        data = input.encode() if isinstance(input, str) else input
        try:
            out, err = process.communicate(data, timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            err += b"\n(killed: timeout)\n"
        return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    def popen(self, command, recorded, cwd, user, extra, **streams):
        ids = {}
        if user and os.geteuid() == 0:
            entry = pwd.getpwnam(user)
            ids = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        return subprocess.Popen([str(part) for part in command], env=self.environment(recorded, extra),
                                cwd=cwd or self.dir, start_new_session=True, **ids, **streams)

    def start(self, *command, cwd=None, user=None, recorded=True, **extra):
        """Starts a server, which is killed at the end of the run."""
        log = open(self.dir / "tmp" / f"server{len(self.background)}.log", "wb")
        process = self.popen(command, recorded, cwd, user, extra, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.background.append(process)
        return process

    def wait_for(self, condition, seconds=60, what="a condition"):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.05)
        raise RuntimeError(f"{what} was not true within {seconds} s")

    def stop(self, process, number=signal.SIGTERM, name="server", timeout=60):
        if process.poll() is None:
            process.send_signal(number)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.fact(f"{name}: end", "did not end by itself")
            return
        self.fact(f"{name}: status", process.returncode)

    def finish(self):
        for process in self.background:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def execute(program, work, recorded, library, witness, traces):
    directory = work / "here"
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "tmp").mkdir(parents=True)
    if program.user:
        for path in (directory, directory / "tmp"):
            shutil.chown(path, program.user, program.user)
    variables = {"LD_PRELOAD": str(library), "HEAPPROF_CHILDREN": "on",
                 "HEAPPROF_OUTPUT": str(traces / "%e.%p.heapprof"),
                 "HEAPPROF_LOG_FILE": str(traces / "log")}
    if program.witness and witness:
        variables["LD_PRELOAD"] += f":{witness}"
        variables["HEAPPROF_WITNESS"] = str(traces / "witness")
        variables["GLIBC_TUNABLES"] = "glibc.malloc.tcache_count=0"
    run = Run(directory, recorded, variables, program.user)
    began = time.monotonic()
    try:
        program.function(run)
    except Exception as problem:  # is also a fact, which must not differ
        run.fact("the program's function failed", f"{type(problem).__name__}: {problem}")
        run.failed = True
    finally:
        run.finish()
    run.seconds = time.monotonic() - began
    return run


def differences(plain, recorded):
    """A line for each difference."""
    lines = []
    names = list(dict.fromkeys([name for name, _ in plain.facts] + [name for name, _ in recorded.facts]))
    for name in names:
        before = [value for key, value in plain.facts if key == name]
        after = [value for key, value in recorded.facts if key == name]
        if before != after:
            diff = list(difflib.unified_diff("\n".join(before).splitlines(), "\n".join(after).splitlines(), "plain",
                                             "recorded", lineterm="", n=1))
            lines.append(f"differs: {name}")
            lines += [f"    {line[:300]}" for line in diff[:40]]
    return lines


def read_again(options):
    """Updates the rows of --json with figures that this build reads from the traces."""
    rows = {row["name"]: row for row in map(json.loads, options.json.read_text().splitlines())}
    for program in programs.ALL:
        traces = options.work / f"traces-{program.name}"
        if program.name not in rows or not traces.exists() or (options.names and program.name not in options.names):
            continue
        rows[program.name].update(figures.of(program, traces, options.build / "analyzer" / "heapprof"))
        for line in (figures.line(rows[program.name]), *(f"  {line}" for line in rows[program.name]["problems"])):
            print(line, flush=True)
    options.json.write_text("".join(json.dumps(row) + "\n" for row in rows.values()))
    return 1 if any(row["problems"] for row in rows.values()) else 0


def main():
    # The docstring is the help.
    parser = argparse.ArgumentParser(add_help=False, usage=argparse.SUPPRESS)
    parser.format_help = lambda: __doc__
    parser.add_argument("-h", "--help", action="help")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--read", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.list:
        for program in programs.ALL:
            print(f"{program.name:14} {program.description}")
        return 0
    if options.table:
        if options.names or options.json or options.read:
            parser.error("--table excludes names, --json and --read")
        try:
            print(figures.table(options.table))
        except (OSError, ValueError) as error:
            print(f"--table: {error}", file=sys.stderr)
            return 2
        return 0
    if options.read:
        return read_again(options)
    chosen = [program for program in programs.ALL if not options.names or program.name in options.names]
    unknown = set(options.names) - {program.name for program in chosen}
    if unknown:
        parser.error(f"unknown program: {', '.join(sorted(unknown))}")

    work = options.work or Path(tempfile.mkdtemp(prefix="heapprof-real-"))
    work.mkdir(parents=True, exist_ok=True)
    work.chmod(0o755)
    # Other users (that of PostgreSQL) must be able to read the library.
    library = work / "libheapprof.so"
    shutil.copy(options.build / "preload" / "libheapprof.so", library)
    witness = work / "witness.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-I", ROOT, "-o", witness, Path(__file__).parent / "witness.c"],
                   check=True)
    bad = False
    for program in chosen:
        missing = program.missing(PATH)
        if missing:
            print(f"{program.name}: skipped, not installed: {', '.join(missing)}", flush=True)
            continue
        traces = work / f"traces-{program.name}"
        shutil.rmtree(traces, ignore_errors=True)
        (traces / "witness").mkdir(parents=True)
        for path in (traces, traces / "witness"):
            path.chmod(0o777)
        plain = execute(program, work, False, library, witness, traces)
        recorded = execute(program, work, True, library, witness, traces)
        lines = differences(plain, recorded)
        if hasattr(plain, "failed"):
            lines.append(f"fails without the recorder, too: {plain.facts[-1]}")
        row = figures.of(program, traces, options.build / "analyzer" / "heapprof")
        row.update(facts=len(plain.facts), differences=sum(line.startswith("differs") for line in lines),
                   plain_seconds=round(plain.seconds, 1), recorded_seconds=round(recorded.seconds, 1),
                   verdicts=next((int(value) for name, value in plain.facts if name == "verdicts"), 0))
        lines += row["problems"]
        bad = bad or bool(lines)
        print(figures.line(row), flush=True)
        for line in lines:
            print(f"  {line}", flush=True)
        if options.json:
            with options.json.open("a") as out:
                out.write(json.dumps(row) + "\n")
        if not options.keep:
            shutil.rmtree(traces)
    if not options.keep and not options.work:
        shutil.rmtree(work, ignore_errors=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
