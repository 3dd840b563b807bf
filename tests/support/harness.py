"""Shared by the end-to-end tests: record a program, run heapprof, compare.

A test file is a unittest module that ends with `harness.main()`. Meson runs each file as one test and sets
HEAPPROF_TEST_BUILD to the build folder; by hand:

    HEAPPROF_TEST_BUILD=build python3 tests/e2e/figures_single_thread.py -v [Class.test]
"""

import atexit
import contextlib
import fcntl
import functools
import gc
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import case_runner
import ledger as ledger_module
import process_group
import trace_reader
from case_runner import skip_unless  # noqa: F401: tests take it from here

BUILD = Path(os.environ.get("HEAPPROF_TEST_BUILD", "build")).resolve()
# The recorder under test can be built for another architecture: its build folder, and the command line of the
# emulator (qemu-user) for its programs.
TARGET = Path(os.environ.get("HEAPPROF_TEST_TARGET", BUILD)).resolve()
EMULATOR = os.environ.get("HEAPPROF_TEST_EMULATOR", "").split()
HEAPPROF = BUILD / "analyzer" / "heapprof"
LIBRARY = TARGET / "preload" / "libheapprof.so"
# The programs can be those that are linked with musl (tests/programs/musl).
MUSL = os.environ.get("HEAPPROF_TEST_LIBC") == "musl"
PROGRAMS = TARGET / "tests" / "programs" / ("musl" if MUSL else "")
LOADER = "/lib/ld-musl-x86_64.so.1" if MUSL else "/lib64/ld-linux-x86-64.so.2"

# Programs that are recorded find no compiled modules, and write none: each run of one is as the first.
os.environ.pop("PYTHONPYCACHEPREFIX", None)
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

# Traces and ledgers are millions of objects without cycles. The search for cycles would visit all of them repeatedly.
gc.disable()

# Seed of all random choices in the tests and in the programs that they record. 0: the default choices.
SEED = int(os.environ.get("HEAPPROF_TEST_SEED") or 0)

# Tests must not depend on how they were started: background jobs of a shell ignore SIGINT and SIGQUIT, nohup ignores
# SIGHUP, and programs inherit that.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, ())

WAYS = ("preload", "loader", "record")


not_with_musl = functools.partial(unittest.skipIf, MUSL)  # (reason)


def program(name):
    return str(PROGRAMS / name)


def clean_environment(**extra):
    """This process's environment without variables of a recorder."""
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("HEAPPROF_") and key not in ("LD_PRELOAD", "LEDGER_FILE")}
    if SEED:
        environment["LEDGER_SEED"] = str(SEED)  # tests/support/ledger.h
    environment.update({key: str(value) for key, value in extra.items()})
    return environment


@functools.cache
def shared_folder():
    """A folder for what several tests of this process use, which is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="heapprof-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def cache_folder():
    """heapprof's cache. All tests have one, as the commands of a user: the first one that shows a module resolves its
    symbols. tools/test.sh makes it; without that, the tests of one process have one."""
    return Path(os.environ.get("HEAPPROF_TEST_CACHE") or shared_folder() / "cache")


@functools.cache
def suite_folder():
    """The folder of made_once(), which has no symbolic links in its path."""
    folder = cache_folder() / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def made_once(make, *what):
    """A folder that make(folder) has filled, once for all test files of a run of tools/test.sh that ask for the same:
    `what` begins with a word and has all that the contents depend on, besides the build and the seed. Others that
    ask meanwhile wait. If make() fails, the next one that asks makes it. The folder keeps the path that make() got.
    Nobody changes what is in it."""
    build = [(str(path), path.stat().st_mtime_ns) for path in (HEAPPROF, LIBRARY)]
    key = hashlib.sha256(repr((what, build, str(PROGRAMS), SEED)).encode()).hexdigest()[:16]
    made = suite_folder() / f"{what[0]}-{key}"
    with open(f"{made}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed, also by the end of the process
        if not made.exists():
            folder = Path(tempfile.mkdtemp(prefix=f"{what[0]}-", dir=suite_folder()))
            try:
                make(folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            made.symlink_to(folder)
    return made.resolve()


def lock_folder(folder):
    """Waits until no other process has locked the folder so, also one of another run of the tests: for what a machine
    has once. The lock ends when the descriptor that it returns is closed, also by the end of this process."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def analyzer_environment(**extra):
    """The environment for heapprof."""
    return clean_environment(**{"XDG_CACHE_HOME": cache_folder(), **extra})


def random_generator(what):
    """A generator for one purpose, which depends on SEED and `what` only."""
    return random.Random(f"{SEED}:{what}")


def wait_until(condition, what, seconds=60):
    """Polls until condition() is true, and returns its value. After `seconds` it fails with `what` and the last
    value. If the program can signal the condition, wait for that instead."""
    begin = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - begin
        if waited > seconds:
            raise AssertionError(f"{what}: not within {seconds} s; last value: {value!r}")
        # A question can take longer than this pause, in a browser or a server, and takes the processor from what is
        # awaited: the longer that takes, the fewer there are. It is noticed at most a tenth later.
        time.sleep(min(max(0.005, waited / 10), 0.1))
    return value


def process_state(pid):
    """The state in /proc/PID/stat: R, S, T (stopped), Z, ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


RECORDED_ONCE = {}  # Case.record_once()
CALLED_ONCE = {}  # Case.call_once()


@dataclass
class Recording:
    trace: Path
    status: int
    stdout: str
    stderr: str
    ledger_path: Path

    def ledger(self):
        return ledger_module.Ledger(self.ledger_path)

    def read(self):
        return trace_reader.Trace(self.trace)


class Case(unittest.TestCase):
    """A test case with its own folder."""

    maxDiff = None
    longMessage = True

    def setUp(self):
        self.dir = Path(tempfile.mkdtemp(prefix="heapprof-test-"))
        self.addCleanup(self._clean)
        self.count = 0

    def _clean(self):
        # With HEAPPROF_TEST_KEEP, the recordings of a failed test are kept.
        outcome = self._outcome
        failed = any(error for _, error in getattr(outcome, "errors", ())) or \
            bool(getattr(getattr(outcome, "result", None), "failures", None))
        if failed and os.environ.get("HEAPPROF_TEST_KEEP"):
            print(f"kept: {self.dir}", file=sys.stderr)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    def record(self, *command, how="preload", status=0, timeout=120, options=(), cwd=None, **variables):
        """Records `command`. `variables`: HEAPPROF_ variables without the prefix, others with an underscore before
        the name (_PATH=...); None: not set. `status`: the expected exit status; None: any."""
        self.count += 1
        trace = self.dir / f"{self.count}.heapprof"
        ledger_path = self.dir / f"{self.count}.ledger"
        environment = clean_environment(LEDGER_FILE=ledger_path, HEAPPROF_OUTPUT=trace)
        for key, value in variables.items():
            key = key[1:] if key.startswith("_") else f"HEAPPROF_{key}"
            environment.pop(key, None)
            if value is not None:
                environment[key] = str(value)
        command = [str(part) for part in command]
        if how == "record":
            command = [str(HEAPPROF), "record", "-o", str(trace), *options, "--", *command]
            environment.pop("HEAPPROF_OUTPUT", None)
        elif how == "loader":
            command = [LOADER, "--preload", str(LIBRARY), shutil.which(command[0]) or command[0], *command[1:]]
        elif how == "preload" and EMULATOR:
            command = [*EMULATOR, "-E", f"LD_PRELOAD={LIBRARY}", *command]
        elif how == "preload":
            environment["LD_PRELOAD"] = str(LIBRARY)
        else:
            assert how == "plain"
        result = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace",
                                timeout=timeout, cwd=cwd or self.dir, stdin=subprocess.DEVNULL)
        if status is not None:
            self.assertEqual(result.returncode, status, f"{command}\n{result.stdout[-2000:]}{result.stderr[-4000:]}")
        return Recording(trace, result.returncode, result.stdout, result.stderr, ledger_path)

    def record_once(self, *command, **options):
        """record() for tests that do not change the recording: one recording for all tests of this process that give
        the same arguments, which must be hashable."""
        return self._recorded_once(self.record, command, options)

    def recorded_evenly_once(self, *command, **options):
        """The same of recorded_evenly()."""
        return self._recorded_once(self.recorded_evenly, command, options)

    def _recorded_once(self, record, command, options):
        key = (record.__func__, command, *sorted(options.items()))
        if key not in RECORDED_ONCE:
            own, self.dir = self.dir, Path(tempfile.mkdtemp(dir=shared_folder()))
            try:
                RECORDED_ONCE[key] = record(*command, **options)
            finally:
                self.dir = own
        return RECORDED_ONCE[key]

    def recorded_evenly(self, function, *command, until_end=True, **options):
        """record() of a program that leaks in `function` all the time, or until it is idle. If it waits for the
        processor for more than one of the 16 parts of the time by which leaks are judged (analyzer/model/rises.h), they
        look like something else: then it is recorded again. Before the first leak and after the last one, a wait may be
        longer."""
        for _ in range(10):
            run = self.record(*command, **options)
            answer = json.loads(self.heapprof("blocks", run.trace, "--function", function, "--json", status=(0, 1)))
            times = sorted(block["allocated_ns"] for block in answer["blocks"])
            if not times:
                break
            longest = max((later - time for time, later in zip(times, times[1:])), default=0)
            rest = answer["duration_ns"] - times[-1] if until_end else 0
            if 16 * longest < times[-1] - times[0] and 3 * times[0] < times[-1] and 8 * rest < answer["duration_ns"]:
                break
        return run

    def call_once(self, method, *arguments):
        """method(*arguments), called once for all tests of this process that give the same arguments, which must be
        hashable. For questions about a recording that does not change; nobody changes the answer."""
        key = (method.__func__, *arguments)
        if key not in CALLED_ONCE:
            CALLED_ONCE[key] = method(*arguments)
        return CALLED_ONCE[key]

    def popen(self, *arguments, **options):
        """subprocess.Popen. The process, its children, and its process group if it has its own, are killed at the end
        of the test."""
        process = subprocess.Popen(*arguments, **options)
        own_group = options.get("start_new_session") or options.get("process_group") == 0
        if own_group:
            process_group.adopt(process)

        def end():
            children = []
            if process.poll() is None:
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                if own_group:
                    process_group.end(process)
                else:
                    process.kill()
                    process.wait()
            process_group.forget(process)
            for child in map(int, children):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
        self.addCleanup(end)
        return process

    def start_steady(self, trace, threads, command=(), **variables):
        """Starts tests/programs/steady.cpp, preloaded or with `command`, and returns when its threads run."""
        environment = clean_environment(**variables)
        if not command:
            environment.update(LD_PRELOAD=str(LIBRARY), HEAPPROF_OUTPUT=str(trace))
        process = self.popen([*map(str, command), program("steady"), str(threads)], env=environment, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), "up\n")
        return process

    def steady_rounds(self, process, count=1):
        """Returns when each thread of `steady` has executed `count` more rounds, of some hundred calls each."""
        for _ in range(count):
            process.send_signal(signal.SIGUSR1)
            self.assertEqual(process.stdout.readline(), "round\n")

    def heapprof(self, *arguments, status=0, timeout=120):
        """Runs heapprof and returns its standard output. `status`: the expected exit status, or several."""
        result = self.run_heapprof(*arguments, timeout=timeout)
        allowed = (status,) if isinstance(status, int) else status
        self.assertIn(result.returncode, allowed,
                      f"heapprof {arguments}\n{result.stdout[-1000:]}{result.stderr[-4000:]}")
        return result.stdout

    def run_heapprof(self, *arguments, timeout=120):
        return subprocess.run([str(HEAPPROF), *map(str, arguments)], capture_output=True, env=analyzer_environment(),
                              text=True, errors="replace", timeout=timeout, stdin=subprocess.DEVNULL, cwd=self.dir)

    def report(self, trace, *options, status=0):
        """The JSON of `report --json` after check_form()."""
        report = json.loads(self.heapprof("report", trace, "--json", *options, status=status))
        self.check_form(report)
        return report

    def all_stacks(self, trace, cost, *options):
        """Each frame is written and read once, which saves most of the time: e2e-analyses compares with the stacks that
        `report` writes otherwise."""
        report = self.report(trace, "--top", "1000000", "--cost", cost, "--shared-frames", *options)
        frames = report["frames"]
        for row in report["top"]:
            row["stack"] = [frames[position] for position in row["stack"]]
        return report["top"]

    def check_form(self, report):
        """Checks the names and types of the JSON."""
        optional_text = (str, type(None))
        frames = [{"function": str, "module": str, "build_id": optional_text, "address": int, "file": optional_text,
                   "line": (int, type(None)), "inlined": bool}]
        shared = {"frames": frames} if "frames" in report else {}
        form = {
            "program": str, "pid": int, "duration_ns": int, "events": int,
            "integrity": {"complete": bool, "ended_by": str, "stop_reason": optional_text,
                          "events_lost": (int, type(None)), "bytes_damaged": int, "notes": [str]},
            "heap": dict.fromkeys(
                ("allocations", "allocated_bytes", "frees", "failed", "peak_bytes", "peak_time_ns", "peak_blocks",
                 "leaked_bytes", "leaked_blocks", "temporary_allocations", "unmatched_frees", "implied_frees"), int),
            "mmap": dict.fromkeys(("mapped_bytes", "peak_bytes", "live_bytes"), int),
            "threads": [{"index": int, "tid": int, "name": str, "allocations": int, "allocated_bytes": int}],
            "top": [{"bytes": int, "blocks": int, "share": (float, int), "truncated": optional_text,
                     "stack": list if shared else frames}],
            **shared,
        }

        correct = set()  # Names and types of objects that are checked already: a report can have millions of frames.

        def check(value, expected, where):
            if isinstance(expected, dict):
                self.assertIsInstance(value, dict, where)
                names_and_types = (id(expected), *value, *map(type, value.values()))
                if names_and_types in correct:
                    return
                for key, inner in expected.items():
                    self.assertIn(key, value, where)
                    check(value[key], inner, f"{where}.{key}")
                if not any(isinstance(inner, (dict, list)) for inner in expected.values()):
                    correct.add(names_and_types)
            elif isinstance(expected, list):
                self.assertIsInstance(value, list, where)
                for item in value:
                    check(item, expected[0], f"{where}[]")
            else:
                self.assertIsInstance(value, expected, where)
                if expected is int:
                    self.assertNotIsInstance(value, bool, where)

        check(report, form, "report")
        heap = report["heap"]
        self.assertEqual(report["events"], heap["allocations"] + heap["frees"] + heap["failed"], "events")
        self.assertIn(report["integrity"]["ended_by"], ("exit", "exec", "signal", "stopped", "running", "unknown"))

    def assert_sound(self, report, ended_by=("exit",)):
        """Checks that nothing was lost or damaged, and that all frees match an allocation."""
        integrity = report["integrity"]
        self.assertTrue(integrity["complete"], integrity)
        self.assertIn(integrity["ended_by"], ended_by, integrity)
        self.assertEqual(integrity["bytes_damaged"], 0, integrity)
        self.assertIn(integrity["events_lost"], (0, None), integrity)
        self.assertEqual(report["heap"]["unmatched_frees"], 0, report["heap"])
        self.assertEqual(report["heap"]["implied_frees"], 0, report["heap"])

    def assert_ledger_clean(self, ledger):
        self.assertEqual(ledger.errors, 0, f"the program's self-checks: {ledger.error_text}")
        self.assertEqual(ledger.phase, "finished")


def site_of(stack):
    """The ledger's site in a stack of a report (a list of frames), or None."""
    for frame in stack:
        function = frame["function"].split("(")[0]
        if function.startswith("site_"):
            return base_site(function)
    return None


def plain_name(function):
    """A function's name without parameters and without the anonymous namespace."""
    return function.replace("(anonymous namespace)::", "").split("(")[0]


def base_site(function):
    for suffix in ("_stamped", "_overflow"):
        function = function.removesuffix(suffix)
    return function


def sums_by_site(rows):
    """{site: (bytes, blocks)} of a report's rows; rows without a site have the key None."""
    sums = defaultdict(lambda: [0, 0])
    for row in rows:
        entry = sums[site_of(row["stack"])]
        entry[0] += row["bytes"]
        entry[1] += row["blocks"]
    return {site: tuple(entry) for site, entry in sums.items()}


def main():
    for path in (HEAPPROF, LIBRARY):
        if not path.exists():
            print(f"not built: {path}")
            sys.exit(1)
    print(f"HEAPPROF_TEST_SEED={SEED}", flush=True)
    case_runner.main()
