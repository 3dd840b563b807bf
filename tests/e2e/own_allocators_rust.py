"""Rust programs whose #[global_allocator] is jemalloc or mimalloc: the figures are those that an allocator between the
program and its allocator counted, with optimisation and without, and stacks have Rust's names."""

import contextlib
import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import harness

SOURCE = Path(__file__).parent.parent / "rust"
PROGRAMS = harness.BUILD / "rust"
VARIANTS = ("plain_jemalloc", "plain_mimalloc", "optimised_jemalloc", "optimised_mimalloc")
# Compiling jemalloc takes most of a minute, so what cargo makes is kept where tools/deps.sh keeps what it builds.
CACHE = Path(os.environ.get("HEAPPROF_DEPS") or
             Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heapprof-deps") / "rust"
# jemalloc's makefile would compile every file three times: position-dependent, which is not linked; to read off names that
# it then hides behind a prefix; and what is needed.
JEMALLOC = {"MAKEFLAGS": "C_OBJS= C_SYMS=/dev/null", "CFLAGS": "-g0"}


@contextlib.contextmanager
def alone(folder):
    """Nobody else builds there, nor replaces what is being copied."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build():
    harness.skip_unless(os.uname().machine == "x86_64", "functions are diverted on x86-64 only")
    harness.skip_unless(shutil.which("cargo"), "no cargo here")
    command = ["cargo", "build", "--manifest-path", str(SOURCE / "Cargo.toml"), "--target-dir", str(CACHE), "--locked"]
    with alone(CACHE):
        for options in (["--offline"], []):
            result = subprocess.run(command + options, capture_output=True, text=True, env={**os.environ, **JEMALLOC})
            if result.returncode == 0:
                break
        harness.skip_unless(result.returncode == 0, "cargo could not build: " + result.stderr[-1500:])
        PROGRAMS.mkdir(exist_ok=True)
        for name in VARIANTS:
            shutil.copy(CACHE / "debug" / name, PROGRAMS)


class Rust(harness.Case):
    def run_once(self, program, work, threads):
        run = self.record(program, work, threads)
        counted = [int(word) for word in run.stderr.split()[-4:]]
        return run, counted, self.report(run.trace)

    def check(self, name, threads):
        program = PROGRAMS / name
        run, counted, report = self.run_once(program, 1000, threads)
        self.assert_sound(report)
        heap = report["heap"]
        # What libc allocates for itself, for its threads above all, is not Rust's: the same without work.
        _, idle_counted, idle_report = self.run_once(program, 0, threads)
        for figure, number in (("allocations", 0), ("allocated_bytes", 1), ("frees", 2)):
            self.assertEqual(heap[figure] - counted[number], idle_report["heap"][figure] - idle_counted[number], figure)
        self.assertEqual(heap["leaked_bytes"] - (counted[1] - counted[3]),
                         idle_report["heap"]["leaked_bytes"] - (idle_counted[1] - idle_counted[3]))
        self.assertTrue([n for n in report["integrity"]["notes"] if n.startswith(f"own allocator: {name.split('_')[1]} in ")])
        leaked = 0
        for row in self.all_stacks(run.trace, "leaked"):
            functions = [frame["function"] for frame in row["stack"]]
            self.assertFalse([frame for frame in row["stack"] if "libheapprof" in frame["module"]])
            if any("site_leak" in function for function in functions):
                leaked += row["bytes"]
                self.assertIsNone(row["truncated"])
                self.assertTrue(any("own_allocators::run" in function for function in functions), functions)
                self.assertTrue({"start_thread", "clone3", "clone", "__clone3"} & set(functions), functions)
        self.assertEqual(leaked, threads * 100 * 1000)

    def test_exact(self):
        for name in VARIANTS:
            for threads in (1, 4):
                with self.subTest(f"{name} {threads}"):
                    self.check(name, threads)


if __name__ == "__main__":
    build()
    harness.main()
