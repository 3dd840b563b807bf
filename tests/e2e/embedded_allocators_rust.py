"""Rust programs whose #[global_allocator] is jemalloc or mimalloc: the figures equal those of a counting allocator
that wraps it, with and without optimisation, and stacks have Rust's names. And a service with jemalloc and a file
capability, recorded unmodified."""

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import harness
import ports

SOURCE = Path(__file__).parent.parent / "rust"
PROGRAMS = harness.BUILD / "rust"
VARIANTS = ("plain_jemalloc", "plain_mimalloc", "optimised_jemalloc", "optimised_mimalloc")
# Compiling jemalloc takes most of a minute, so cargo's output is kept where tools/deps.sh keeps its own.
CACHE = Path(os.environ.get("HEAPPROF_DEPS") or
             Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heapprof-deps") / "rust"
# By default, jemalloc's makefile compiles every file three times: for a position-dependent library, which is not
# linked here; for the list of names that get a prefix; and for the library that is linked.
JEMALLOC = {"MAKEFLAGS": "C_OBJS= C_SYMS=/dev/null", "CFLAGS": "-g0"}


@contextlib.contextmanager
def locked(directory):
    """Locks the directory against other builds."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build():
    harness.skip_unless(os.uname().machine == "x86_64", "functions are patched on x86-64 only")
    harness.skip_unless(shutil.which("cargo"), "cargo is not installed")
    command = ["cargo", "build", "--manifest-path", str(SOURCE / "Cargo.toml"), "--target-dir", str(CACHE),
               "--locked"]
    with locked(CACHE):
        for options in (["--offline"], []):
            result = subprocess.run(command + options, capture_output=True, text=True, env={**os.environ, **JEMALLOC})
            if result.returncode == 0:
                break
        harness.skip_unless(result.returncode == 0, "cargo could not build: " + result.stderr[-1500:])
        PROGRAMS.mkdir(exist_ok=True)
        for name in (*VARIANTS, "service"):
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
        # libc's own allocations, mostly for threads, are not Rust's: they are the same in a run without work.
        _, idle_counted, idle_report = self.run_once(program, 0, threads)
        for figure, number in (("allocations", 0), ("allocated_bytes", 1), ("frees", 2)):
            self.assertEqual(heap[figure] - counted[number], idle_report["heap"][figure] - idle_counted[number],
                             figure)
        self.assertEqual(heap["leaked_bytes"] - (counted[1] - counted[3]),
                         idle_report["heap"]["leaked_bytes"] - (idle_counted[1] - idle_counted[3]))
        self.assertTrue([n for n in report["integrity"]["notes"]
                         if n.startswith(f"embedded allocator: {name.split('_')[1]} in ")])
        leaked = 0
        for row in self.all_stacks(run.trace, "leaked"):
            functions = [frame["function"] for frame in row["stack"]]
            self.assertFalse([frame for frame in row["stack"] if "libheapprof" in frame["module"]])
            if any("site_leak" in function for function in functions):
                leaked += row["bytes"]
                self.assertIsNone(row["truncated"])
                self.assertTrue(any("counting_allocator::run" in function for function in functions), functions)
                self.assertTrue({"start_thread", "clone3", "clone", "__clone3"} & set(functions), functions)
        self.assertEqual(leaked, threads * 100 * 1000)

    def test_exact(self):
        for name in VARIANTS:
            for threads in (1, 4):
                with self.subTest(f"{name} {threads}"):
                    self.check(name, threads)


    def test_stripped(self):
        """Functions cannot be found by name: a message names the allocator and what to do."""
        for allocator in ("jemalloc", "mimalloc"):
            with self.subTest(allocator):
                program = self.dir / allocator
                shutil.copy(PROGRAMS / f"optimised_{allocator}", program)
                subprocess.run(["strip", program], check=True)
                run = self.record(program, 100, 1)
                warning = (f"the program seems to contain {allocator}, but its symbols are stripped: blocks that "
                           f"{allocator} allocates are not recorded. Record an unstripped build, or a build that "
                           f"links {allocator} as a shared library")
                self.assertIn(f"heapprof: warning: {warning}\n", run.stderr)
                report = self.report(run.trace)
                self.assertEqual(report["integrity"]["notes"], [warning])
                self.assertLess(report["heap"]["allocations"], 100)


class Service(harness.Case):
    """The example of docs/embedded-allocators.md."""

    USER = 54321

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0 or shutil.which("setcap") is None:
            self.skipTest("needs root and setcap")
        self.port = ports.privileged_port()
        # The user must be able to reach it, whatever the path of the build directory.
        self.dir.chmod(0o755)
        for directory, file in (("bin", harness.HEAPPROF), ("lib", harness.LIBRARY), ("", PROGRAMS / "service")):
            (self.dir / directory).mkdir(exist_ok=True)
            shutil.copy(file, self.dir / directory)
        self.service = self.dir / "service"
        subprocess.run(["setcap", "cap_net_bind_service=ep", self.service], check=True)
        self.out = self.dir / "out"
        self.out.mkdir()
        self.out.chmod(0o777)

    def run_service(self, *command, **environment):
        """Opens 150 sessions, closes 140, and quits. Returns the service's output."""
        process = self.popen([*command, self.service, str(self.port)], cwd=self.out, text=True,
                             stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=harness.clean_environment(**environment))
        listens = process.stdout.readline()
        self.assertIn("listens", listens, process.poll() is not None and process.stderr.read())
        client = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        with client, client.makefile("rw") as lines:
            for line in (line for i in range(150) for line in (f"open user{i}", f"close user{i - 10}")):
                lines.write(line + "\n")
                lines.flush()
                self.assertEqual(lines.readline(), "ok\n")
            lines.write("quit\n")
            lines.flush()
            output, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, error)
        return listens + output

    def test_the_leak_is_found(self):
        as_user = ["setpriv", f"--reuid={self.USER}", f"--regid={self.USER}", "--clear-groups", "--"]
        # current_exe is the program, although the kernel executed the loader.
        expected = (f"{self.service} listens on 127.0.0.1:{self.port}\n"
                    f"10 open, 150 in the index with {150 * 4000} bytes\n")
        self.assertEqual(self.run_service(*as_user), expected)
        trace = self.out / "service.heapprof"
        output = self.run_service(self.dir / "bin" / "heapprof", "record", "-o", trace, "--", SUDO_UID=self.USER,
                                SUDO_GID=self.USER)
        self.assertEqual(output, expected)
        self.assertEqual((trace.stat().st_uid, trace.stat().st_mode & 0o777), (self.USER, 0o600))
        report = self.report(trace)
        self.assert_sound(report)
        self.assertEqual(report["program"], str(self.service))
        note = report["integrity"]["notes"][0]
        self.assertTrue(note.startswith(f"embedded allocator: jemalloc in {self.service}, "), note)
        top = self.all_stacks(trace, "leaked")[0]
        self.assertEqual((top["bytes"], top["blocks"]), (150 * 4000, 150))
        functions = [frame["function"] for frame in top["stack"]]
        self.assertTrue(any(function.endswith("Sessions::open") for function in functions), functions)
        self.assertTrue(any(function.endswith("service::serve") for function in functions), functions)
        self.assertIn("session", [thread["name"] for thread in report["threads"]])

    def test_current_exe(self):
        """With the loader's --preload option. Without the recorder, /proc/self/exe is the loader."""
        for how in (["--preload", self.dir / "lib" / "libheapprof.so"], []):
            trace = self.out / f"loader{len(how)}.heapprof"
            output = self.run_service(harness.LOADER, *how, HEAPPROF_OUTPUT=trace)
            self.assertEqual(output.startswith(f"{self.service} listens"), bool(how), output)


if __name__ == "__main__":
    build()
    if sys.argv[1:] != ["--only-build"]:
        harness.main()
