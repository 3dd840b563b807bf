#!/usr/bin/env python3
"""Judges how soon a heap profiler names the culprit, on the cases of the corpus (corpus.py), which build.py builds.

usage: tools/answers/judge.py [--heapprof PROGRAM] [--tools TOOL,...] [--ends END,...] [--json FILE] [CASE...]
       tools/answers/judge.py --prove [CASE...]

Each program is recorded to its end, and killed by SIGKILL when it has used 50 % and 90 % of the processor time of a
whole run. Then the tools print what they print by default:

  leaks       heapprof leaks TRACE
  report      heapprof report TRACE
  heaptrack   heaptrack_print -f DATA -a 0 -T 0, with -p 0 -l 1 (leaks) and with -p 1 -l 0 (peak); the better counts

and the first line that names a right function of the case is looked for. `line` is its number, from 1, of the lines
that are not empty. A name that is cut short counts if at least ten letters of it are left. `rank` is the number of
rows and stacks, from 1, that a reader has seen by then. `in_row` is true if the line is the row, or the heading of
the stack, itself. `seconds` is how long the tool took. `leaks` is not judged at the end of programs that free the
memory before they end.

--prove runs the program before and after the fix, without a profiler, and compares the highest resident
memory without files, of samples every two milliseconds: the difference is what the case is about.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import build
import corpus

ENDS = {"end": None, "90": 0.9, "50": 0.5}
TOOLS = ["leaks", "report", "heaptrack"]
RUN_LIMIT_SECONDS = 900
MAX_TRIES = 5
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass
class Run:
    """What was observed of a program while it ran."""
    cpu_seconds: float = 0.0
    max_resident_bytes: int = 0  # of samples every two milliseconds
    killed: bool = False


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def anonymous_bytes(pid: int) -> int:
    """Resident memory without files; 0 when the process is about to end. (ru_maxrss would include the memory of this
    process, from which the program was forked.)"""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def find_process(parent: int, executable: pathlib.Path) -> int | None:
    """The descendant of `parent`, or the parent itself, that executes this file."""
    waiting = [parent]
    while waiting:
        pid = waiting.pop(0)
        try:
            if os.path.samefile(f"/proc/{pid}/exe", executable):
                return pid
            waiting += map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        except OSError:
            pass
    return None


class Program:
    """A case's program, which runs by itself, or under a command such as `heaptrack`."""

    def __init__(self, case: corpus.Case, out: pathlib.Path, inputs: pathlib.Path, run: pathlib.Path):
        self.case = case
        self.places = {"OUT": str(out), "INPUT": str(inputs), "RUN": str(run), "CASE": str(case.directory)}
        self.arguments = [self.replace(argument) for argument in case.program]
        found = shutil.which(self.arguments[0])
        if found is None:
            raise corpus.CorpusError(f"{case.name}: {self.arguments[0]} does not exist; build the case again")
        self.executable = pathlib.Path(found).resolve()
        self.run_directory = run

    def replace(self, text: str) -> str:
        return re.sub(r"\$(OUT|INPUT|RUN|CASE)\b", lambda match: self.places[match[1]], text)

    def run(self, prefix: list[str], kill_at_seconds: float | None) -> Run:
        """Run the program; kill it when it has used so much processor time."""
        environment = dict(os.environ, **{name: self.replace(value) for name, value in self.case.environment.items()})
        log_path = self.run_directory / "program.log"
        observed = Run()
        loader = None
        with log_path.open("w") as log:
            process = subprocess.Popen(prefix + self.arguments, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log, cwd=self.run_directory, start_new_session=True)
            if self.case.load:
                load_environment = dict(os.environ, **self.places,
                                        PYTHONPATH=str(pathlib.Path(__file__).resolve().parent))
                loader = subprocess.Popen([sys.executable, self.case.directory / "load.py"], env=load_environment,
                                          stdout=log, stderr=log, cwd=self.run_directory, start_new_session=True)
            try:
                observed.killed = self.watch(process, loader, kill_at_seconds, observed)
                status = process.wait(timeout=RUN_LIMIT_SECONDS)
                if loader is not None and not observed.killed:
                    loader.wait(timeout=RUN_LIMIT_SECONDS)
            finally:
                for other in (process, loader):
                    if other is not None and other.poll() is None:
                        os.killpg(other.pid, signal.SIGKILL)
                        other.wait()
        if not observed.killed:
            # SIGTERM ends a server whose load is complete.
            failed = status != 0 if not self.case.load else status not in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
            if failed or (loader is not None and loader.returncode != 0):
                raise corpus.CorpusError(f"{self.case.name}: the program ended with status {status}, the load with "
                                         f"{loader and loader.returncode}: {log_path.read_text()[-500:]}")
        return observed

    def watch(self, process, loader, kill_at_seconds: float | None, observed: Run) -> bool:
        """Follow the program until it ends, and return whether it was killed."""
        deadline = time.monotonic() + RUN_LIMIT_SECONDS
        pid = None
        stopped_at = None
        while process.poll() is None:
            if time.monotonic() > deadline:
                raise corpus.CorpusError(f"{self.case.name}: the program ran for more than {RUN_LIMIT_SECONDS} s")
            pid = pid or find_process(process.pid, self.executable)
            if pid is not None:
                try:
                    observed.cpu_seconds = cpu_seconds(pid) or observed.cpu_seconds
                    resident = anonymous_bytes(pid)
                except (OSError, IndexError):
                    resident = 0
                observed.max_resident_bytes = max(observed.max_resident_bytes, resident)
                if kill_at_seconds is not None and observed.cpu_seconds >= kill_at_seconds:
                    os.kill(pid, signal.SIGKILL)
                    return True
                if loader is not None and loader.poll() is not None and stopped_at is None:
                    stopped_at = time.monotonic()
                if stopped_at is not None and time.monotonic() > stopped_at + 0.5:
                    os.kill(pid, signal.SIGTERM)  # for servers that their load cannot stop
                    stopped_at = float("inf")
            elif loader is not None and loader.poll() not in (None, 0):
                raise corpus.CorpusError(f"{self.case.name}: load.py failed; see {self.run_directory}/program.log")
            time.sleep(0.002)
        return False


# A row of a table, or the first line of a stack: an optional number, then a size; and the groups of heaptrack_print.
ITEM = re.compile(r"\s*(#?\d+\.?\s+)?<?\d[\d.,]*\s?(B|KiB|MiB|GiB|TiB)\s")
# The line before a common path.
PATH_HEADING = re.compile(r"(Look first at|Rose until the peak:) ")
HEAPTRACK_ITEM = re.compile(r"[\d.]+[BKMGT]? (leaked|peak memory consumed) over \d+ calls from$")


# Directories of builds and runs, which contain the names of cases.
PATHS = re.compile(rf"({re.escape(str(corpus.cache_directory()))}|{re.escape(tempfile.gettempdir())}/answers\.)\S*")


def find_answer(case: corpus.Case, text: str, item: re.Pattern) -> dict:
    line_number = rank = 0
    of_path = False  # the line continues a common path
    for line in PATHS.sub("...", text).splitlines():
        if not line.strip():
            continue
        line_number += 1
        if not line.startswith("  "):
            of_path = bool(PATH_HEADING.match(line))
        rank += bool(item.match(line))
        if case.answers(line):
            in_row = of_path or bool(item.match(line))
            return {"rank": max(rank, 1), "line": line_number, "in_row": in_row, "text": line.strip()}
    return {"rank": None, "line": None, "in_row": False, "text": None}


def timed(command: list) -> tuple[str, float, float]:
    """Output, elapsed seconds and processor seconds of a command."""
    before, start = os.times(), time.monotonic()
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, errors="replace")
    elapsed, after = time.monotonic() - start, os.times()
    if result.returncode != 0:
        raise corpus.CorpusError(f"'{command[0]} {command[1]}' failed with status {result.returncode}: "
                                 f"{result.stderr[-500:]}")
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return result.stdout, elapsed, used


class Judge:
    def __init__(self, options):
        self.heapprof = options.heapprof
        self.tools = options.tools
        self.ends = options.ends
        self.record_again = options.record
        self.keep_outputs = options.outputs

    def judge(self, case: corpus.Case) -> list[dict]:
        results = []
        recorders = (["heapprof"] if {"leaks", "report"} & set(self.tools) else []) + \
                    (["heaptrack"] if "heaptrack" in self.tools else [])
        for recorder in recorders:
            for end in self.ends:
                trace = self.record(case, recorder, end)
                for tool in self.tools:
                    nothing_left = tool == "leaks" and end == "end" and case.freed_at_end
                    if (tool == "heaptrack") == (recorder == "heaptrack") and not nothing_left:
                        results.append(self.ask(case, tool, end, trace))
        return results

    def trace_path(self, case: corpus.Case, recorder: str, end: str) -> pathlib.Path:
        suffix = "zst" if recorder == "heaptrack" else "hprof"
        return corpus.cache_directory() / "traces" / f"{case.name}.{end}.{suffix}"

    def seconds_path(self, case: corpus.Case, recorder: str) -> pathlib.Path:
        """The file with the processor time of a whole run under this recorder."""
        return corpus.cache_directory() / "traces" / f"{case.name}.{recorder}.seconds"

    def record(self, case: corpus.Case, recorder: str, end: str) -> pathlib.Path:
        """The trace of the case that ends so: one of an earlier run, or a new one."""
        trace = self.trace_path(case, recorder, end)
        newest = max(path.stat().st_mtime for path in case.directory.iterdir())
        if trace.exists() and trace.stat().st_mtime > newest and not self.record_again:
            return trace
        trace.parent.mkdir(parents=True, exist_ok=True)
        times = self.seconds_path(case, recorder)
        if ENDS[end] is None:
            times.write_text(str(self.record_once(case, recorder, trace, None).cpu_seconds))
            return trace
        # The times are those under the same recorder, whose own work is included.
        if not times.exists():
            times.write_text(str(self.record_once(case, recorder, trace, None).cpu_seconds))
        for _ in range(MAX_TRIES):
            observed = self.record_once(case, recorder, trace, ENDS[end] * float(times.read_text()))
            if observed.killed:
                return trace
            # This run was faster than the one that was measured.
            times.write_text(str(observed.cpu_seconds))
        trace.unlink()
        raise corpus.CorpusError(f"{case.name}: the program ended {MAX_TRIES} times before it could be killed at "
                                 f"{end} %; is the machine busy?")

    def record_once(self, case: corpus.Case, recorder: str, trace: pathlib.Path,
                    kill_at_seconds: float | None) -> Run:
        trace.unlink(missing_ok=True)
        out = build.build(case, case.built_commit, os.cpu_count())
        inputs = build.prepare(case)
        if recorder == "heapprof":
            command = [self.heapprof, "record", "--quiet", "-o", str(trace), "--force", "--"]
        else:
            command = ["heaptrack", "-o", str(trace.with_suffix(""))]
        with tempfile.TemporaryDirectory(prefix="answers.") as run_directory:
            program = Program(case, out, inputs, pathlib.Path(run_directory))
            try:
                observed = program.run(command, kill_at_seconds)
            except corpus.CorpusError:
                trace.unlink(missing_ok=True)
                raise
        if not trace.exists():
            raise corpus.CorpusError(f"{case.name}: {command[0]} wrote no {trace}")
        return observed

    def ask(self, case: corpus.Case, tool: str, end: str, trace: pathlib.Path) -> dict:
        if tool != "heaptrack":
            text, elapsed, used = timed([self.heapprof, tool, trace])
            found = find_answer(case, text, ITEM)
        else:
            options = [["-p", "0", "-l", "1"], ["-p", "1", "-l", "0"]]
            answers = []
            for kind in options:
                text, elapsed, used = timed(["heaptrack_print", "-f", trace, "-a", "0", "-T", "0", *kind])
                answers.append((find_answer(case, text, HEAPTRACK_ITEM), text, elapsed, used))
            found, text, elapsed, used = min(answers, key=lambda answer: answer[0]["line"] or float("inf"))
        if self.keep_outputs:
            self.keep_outputs.mkdir(parents=True, exist_ok=True)
            (self.keep_outputs / f"{case.name}.{end}.{tool}.txt").write_text(text)
        return {"case": case.name, "tool": tool, "end": end, **found, "seconds": round(elapsed, 2),
                "processor_seconds": round(used, 2)}


def prove(case: corpus.Case) -> dict:
    """Memory of the program before and after the fix."""
    result = {"case": case.name}
    for name, revision in (("built", case.built_commit), ("fixed", case.fixed_commit)):
        out = build.build(case, revision, os.cpu_count())
        inputs = build.prepare(case)
        with tempfile.TemporaryDirectory(prefix="answers.") as run_directory:
            observed = Program(case, out, inputs, pathlib.Path(run_directory)).run([], None)
        result[f"{name}_max_mib"] = round(observed.max_resident_bytes / 2**20, 1)
        result[f"{name}_seconds"] = round(observed.cpu_seconds, 2)
    return result


def print_results(results: list[dict]) -> None:
    """Print the tables of docs/answers.md."""
    ends = {"end": "at the end", "90": "killed at 90 %", "50": "killed at 50 %"}
    tools = [tool for tool in TOOLS if any(result["tool"] == tool for result in results)]
    shown = [end for end in ENDS if any(result["end"] == end for result in results)]
    print("| tool | program | first | on the path or in the first row | named | median line | first and within 2 s |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for tool in tools:
        for end in shown:
            found = [result for result in results if result["tool"] == tool and result["end"] == end]
            if not found:
                continue
            first = [result for result in found if result["rank"] == 1]
            row = sum(result["in_row"] for result in first)
            soon = sum(result["seconds"] <= 2 for result in first)
            named = [result for result in found if result["line"]]
            line = statistics.median_low([result["line"] or sys.maxsize for result in found])
            print(f"| {tool} | {ends[end]} | {len(first)} of {len(found)} | {row} | {len(named)} | "
                  f"{line if line < sys.maxsize else 'none'} | {soon} |")

    def cell(result: dict | None) -> str:
        if result is None:
            return "–"
        return f"{result['rank'] or 'no'}, {result['line'] or 'no'}, {result['seconds']:.1f}"

    by_key = {(result["case"], result["tool"], result["end"]): result for result in results}
    print("\n| case | " + " | ".join(f"{tool}, {end}" for tool in tools for end in shown) + " |")
    print("|" + " --- |" * (1 + len(tools) * len(shown)))
    for name in dict.fromkeys(result["case"] for result in results):
        cells = [cell(by_key.get((name, tool, end))) for tool in tools for end in shown]
        print(f"| `{name}` | " + " | ".join(cells) + " |")


def main() -> int:
    default = pathlib.Path(__file__).resolve().parents[2] / "build" / "analyzer" / "heapprof"
    parser = argparse.ArgumentParser(description="Judge how soon a heap profiler names the culprit.")
    parser.add_argument("--heapprof", default=str(default), help="record and ask with this program")
    parser.add_argument("--tools", type=lambda text: text.split(","), default=TOOLS, help=",".join(TOOLS))
    parser.add_argument("--ends", type=lambda text: text.split(","), default=list(ENDS), help=",".join(ENDS))
    parser.add_argument("--record", action="store_true", help="record again; do not use traces of earlier runs")
    parser.add_argument("--outputs", type=pathlib.Path, help="write the outputs of the tools into this directory")
    parser.add_argument("--json", type=pathlib.Path, help="write the results to this file, too")
    parser.add_argument("--prove", action="store_true", help="compare the memory before and after the fix instead")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="judge only these cases")
    options = parser.parse_args()
    for name, values, known in (("--tools", options.tools, TOOLS), ("--ends", options.ends, ENDS)):
        for value in values:
            if value not in known:
                parser.error(f"{name}: invalid value '{value}'; expected {', '.join(known)}")
    judge = Judge(options)
    results = []
    failed = 0
    for case in corpus.read_cases(options.cases):
        try:
            found = [prove(case)] if options.prove else judge.judge(case)
            results += found
            for result in found:
                print(json.dumps(result), file=sys.stderr, flush=True)
        except corpus.CorpusError as error:
            failed += 1
            print(f"{case.name}: error: {error}", file=sys.stderr, flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.prove:
        print("| case | before | after |\n|---|---|---|")
        for result in results:
            print(f"| {result['case']} | {result['built_max_mib']} MiB | {result['fixed_max_mib']} MiB |")
    else:
        print_results(results)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except corpus.CorpusError as error:
        sys.exit(f"error: {error}")
