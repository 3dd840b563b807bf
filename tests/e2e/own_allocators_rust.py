"""Rust programs whose #[global_allocator] is jemalloc or mimalloc: the figures are those that an allocator between the
program and its allocator counted, with optimisation and without, and stacks have Rust's names."""

import os
import shutil
import subprocess
from pathlib import Path

import harness

SOURCE = Path(__file__).parent.parent / "rust"
TARGET = harness.BUILD / "rust"
# Without optimisation one of them is enough: compiling jemalloc takes a minute.
PROGRAMS = (("debug", "rust_mimalloc"), ("release", "rust_mimalloc"), ("release", "rust_jemalloc"))


def cargo(*options):
    return subprocess.run(["cargo", *options, "--manifest-path", str(SOURCE / "Cargo.toml"), "--target-dir", str(TARGET),
                           "--locked"], capture_output=True, text=True)


def build():
    harness.skip_unless(os.uname().machine == "x86_64", "functions are diverted on x86-64 only")
    harness.skip_unless(shutil.which("cargo"), "no cargo here")
    for options in ((), ("--release", "--features", "jemalloc")):
        result = cargo("build", *options, "--offline")
        if result.returncode != 0:
            result = cargo("build", *options)
        harness.skip_unless(result.returncode == 0, "cargo could not build: " + result.stderr[-1500:])


class Rust(harness.Case):
    def run_once(self, program, work, threads):
        run = self.record(program, work, threads)
        counted = [int(word) for word in run.stderr.split()[-4:]]
        return run, counted, self.report(run.trace)

    def check(self, profile, name, threads):
        program = TARGET / profile / name
        run, counted, report = self.run_once(program, 1000, threads)
        self.assert_sound(report)
        heap = report["heap"]
        # What libc allocates for itself, for its threads above all, is not Rust's: the same without work.
        _, idle_counted, idle_report = self.run_once(program, 0, threads)
        for figure, number in (("allocations", 0), ("allocated_bytes", 1), ("frees", 2)):
            self.assertEqual(heap[figure] - counted[number], idle_report["heap"][figure] - idle_counted[number], figure)
        self.assertEqual(heap["leaked_bytes"] - (counted[1] - counted[3]),
                         idle_report["heap"]["leaked_bytes"] - (idle_counted[1] - idle_counted[3]))
        self.assertTrue([n for n in report["integrity"]["notes"] if n.startswith(f"own allocator: {name[5:]} in ")])
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
        for profile, name in PROGRAMS:
            for threads in (1, 4):
                with self.subTest(f"{profile} {name} {threads}"):
                    self.check(profile, name, threads)


if __name__ == "__main__":
    build()
    harness.main()
