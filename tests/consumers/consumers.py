"""Shared by the tests of exports: the traces to export, their figures from `report --json`, and the paths of
consumers. Each test file is for one consumer, and is skipped if that is not installed.

Consumers from npm and PyPI are expected where tools/consumers.sh installs them."""

import functools
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import harness
import nasty
import process_group
import session_bus

SAMPLES = ("plain", "names", "empty", "truncated", "huge", "many")
COSTS = {"peak_bytes": ("peak", "bytes"), "peak_blocks": ("peak", "blocks"),
         "leaked_bytes": ("leaked", "bytes"), "leaked_blocks": ("leaked", "blocks"),
         "allocated_bytes": ("allocated", "bytes"), "allocations": ("allocations", "blocks"),
         "temporary_bytes": ("temporary", "bytes"), "temporary": ("temporary", "blocks")}
FOLDER = harness.BUILD / "consumers"

# Selections that every command accepts. For each, the trace "plain" has blocks that match and blocks that do not.
SELECTIONS = (
    ("--from", "20%", "--to", "70%"), ("--to", "0.055"), ("--thread", "4243"), ("--module", "libleaf.so.1"),
    ("--function", r"\+0x300$"), ("--not-function", r"\+0x300$"), ("--min-size", "1000"), ("--max-size", "60"),
    ("--min-lifetime", "20ms"), ("--max-lifetime", "5ms"), ("--live-at", "50%"),
)
OF_MAPPINGS = (("--kind", "mmap"), ("--kind", "all"))


class Case(harness.Case):
    """The traces, and their figures, are made once for all test files. `options` are added to every command."""

    options = ()
    many_stacks = 70_000  # more than numbers of 16 bits can count

    @classmethod
    def setUpClass(cls):
        def make(folder):
            subprocess.run([harness.BUILD / "tests" / "consumers" / "consumer_samples", folder,
                            str(cls.many_stacks // 1_000)], check=True, timeout=60)
        cls.folder = harness.made_once(make, "samples", cls.many_stacks)

    def each_sample(self, check, leave_out=()):
        """Calls check(name, path) for each trace, each as a subtest. The last two are of programs with symbols, the
        second with names that are difficult for every format (nasty.py)."""
        for name in SAMPLES:
            if name not in leave_out:
                with self.subTest(trace=name):
                    check(name, self.folder / f"{name}.heapprof")
        with self.subTest(trace="real"):
            check("real", self.real())
        with self.subTest(trace="nasty"):
            check("nasty", self.nasty())

    def check_nasty_names(self, text, names=None, changed=lambda name: name):
        """Checks that the consumer shows each function's name. `changed` converts it for the format."""
        for name in nasty.clean_functions() if names is None else names:
            self.assertTrue(changed(name) in text, f"{changed(name)[:100]!r} is not in the consumer's output")

    def each_selection(self, check, of_mappings):
        """Calls check("plain", its path) with each selection. `of_mappings`: the format supports mappings; otherwise
        they must be rejected."""
        trace = self.folder / "plain.heapprof"
        for self.options in SELECTIONS + (OF_MAPPINGS if of_mappings else ()):
            with self.subTest(options=self.options):
                check("plain", trace)
        self.options = ()

    def check_peak(self, running, totals):
        """`running`: the highest sum of the exported events. In a time slice these are only the slice's events, while
        its peak includes the blocks that were live before (docs/concepts/analysis.md)."""
        if "--from" in self.options:
            self.assertLessEqual(running, totals["peak_bytes"])
        else:
            self.assertEqual(running, totals["peak_bytes"])

    def refuses_mappings(self, format_name):
        for options in OF_MAPPINGS:
            self.heapprof("export", format_name, self.folder / "plain.heapprof", "-o", self.dir / "none", *options,
                          status=2)

    def real(self):
        def make(folder):
            # Snapshots for which the processor stands still are not complete. One must be.
            for _ in range(10):
                trace = self.record(harness.program("ledger_names")).trace
                if any(one["complete"] for one in json.loads(self.heapprof("rss", trace, "--json"))["snapshots"]):
                    break
            shutil.copy(trace, folder / "real.heapprof")
        return harness.made_once(make, "real") / "real.heapprof"

    def nasty(self):
        def make(folder):
            shutil.copy(self.record(*nasty.build(folder)).trace, folder / "nasty.heapprof")
        return harness.made_once(make, "nasty") / "nasty.heapprof"

    def export(self, format_name, trace, *options, suffix=""):
        """The path of an export. exports.py checks that two exports are equal."""
        path = self.dir / f"{trace.stem}.{format_name}{suffix}"
        self.heapprof("export", format_name, trace, "-o", path, *options, *self.options)
        return path

    def totals(self, trace):
        """Each cost's sum over all stacks. They are the figures of the heap, as exports.py checks, so one report has
        nearly all. The trace does not change."""
        def make(folder):
            figures = self.sums_over_stacks(trace) if "--kind" in self.options else self.figures_of_heap(trace)
            (folder / "totals.json").write_text(json.dumps(figures))
        return load(harness.made_once(make, "totals", str(trace), self.options) / "totals.json")

    def figures_of_heap(self, trace):
        report = self.report(trace, "--cost", "temporary", "--top", "1", *self.options)
        heap, total = report["heap"], report["total"]
        return {"temporary_bytes": total["bytes"], "temporary": heap["temporary_allocations"],
                **{name: heap[name] for name in COSTS if not name.startswith("temporary")}}

    def sums_over_stacks(self, trace):
        reports = {cost: self.report(trace, "--cost", cost, "--top", "1", *self.options)
                   for cost in ("peak", "leaked", "allocated", "allocations", "temporary")}
        return {name: reports[cost]["total"][unit] for name, (cost, unit) in COSTS.items()}

    def run_consumer(self, *command, timeout=100, environment=None):
        """Runs a consumer and returns its standard output. Its exit status must be 0, and standard error empty."""
        done = subprocess.run([str(part) for part in command], capture_output=True, timeout=timeout, cwd=self.dir,
                              env=harness.clean_environment(**(environment or {})), stdin=subprocess.DEVNULL)
        errors = done.stderr.decode(errors="replace")
        self.assertEqual((done.returncode, errors), (0, ""), f"{command}: {done.stdout[-500:]}")
        return done.stdout.decode(errors="replace")


def window(*command, until, folder, timeout=100):
    """Runs a graphical program without a screen until its output has a line that matches `until`. Returns its output.
    Its settings are in `folder`."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    environment = harness.clean_environment(QT_QPA_PLATFORM="offscreen", HOME=home, XDG_RUNTIME_DIR=home,
                                            LC_ALL="C.UTF-8")
    shown = folder / "shown.txt"
    with open(shown, "wb") as output, session_bus.session_bus(output, environment) as environment_with_bus:
        process = process_group.start([*map(str, command)], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                      env=environment_with_bus, cwd=folder)
        try:
            deadline = time.monotonic() + timeout
            while not re.search(until, text := shown.read_text(errors="replace"), re.M):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"{command} does not print {until!r} within {timeout} s: {text}")
                time.sleep(0.1)
        finally:
            process_group.end(process)
    # Without the messages of Qt and the bus about the missing screen.
    return [line for line in text.splitlines()
            if not re.match("dbus-|This plugin does not support|QStandardPaths", line)]


@functools.cache
def go():
    """The go command that has pprof, or None."""
    for command in (shutil.which("go"), "/usr/local/go/bin/go"):
        if command and os.path.exists(command):
            return command
    return None


@functools.cache
def pprof():
    """The program that `go tool pprof` starts, after tens of times as much processor time as pprof needs."""
    found = subprocess.run([go(), "tool", "-n", "pprof"], capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.exists(found):  # newer versions of Go compile it when it is used first, as tools/consumers.sh does
        subprocess.run([go(), "tool", "pprof", "-help"], capture_output=True, check=False)
    return found


def inferno():
    """inferno-flamegraph, or None."""
    command = FOLDER / "cargo" / "bin" / "inferno-flamegraph"
    return command if command.exists() else shutil.which("inferno-flamegraph")


def debian_file(path):
    """A file of a package that tools/consumers.sh has unpacked, or None."""
    file = FOLDER / "debian" / path
    return file if file.exists() else None


def load(path):
    return json.loads(Path(path).read_text())
