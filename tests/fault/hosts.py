"""Hosts that change their own process (tests/programs/hosts.cpp): they end as without the recorder, and every block
is in the trace, or the trace has the reason why recording stopped."""

import json
import os
import re
import sys
import unittest
from pathlib import Path

import harness
import trace_reader

MARK = 777
# The system calls of a small program with threads: of the loader, of libc, and of the kernel to start it.
OWN_CALLS = ("access arch_prctl brk clock_nanosleep clone clone3 close execve exit exit_group faccessat fstat futex "
             "getrandom madvise mmap mprotect munmap newfstatat openat pread64 prlimit64 read readlink readlinkat "
             "rseq rt_sigaction rt_sigprocmask sched_getaffinity set_robust_list set_tid_address write").split()
REFUSED = 3  # the program's status if the kernel forbids what the test needs


def library(name):
    return harness.PROGRAMS / f"lib{name}.so"


class Hosts(harness.Case):
    def host(self, *arguments, **options):
        run = self.record(harness.program("hosts"), *arguments, status=None, **options)
        if run.status == REFUSED:
            self.skipTest(f"not permitted here: {arguments[0]}")
        self.assertEqual(run.status, 0, run.stderr)
        return run

    def check(self, *arguments, ended_by=("exit",), **options):
        """The recorder prints nothing, every block of the program is in the trace, and 10 leak."""
        run = self.host(*arguments, **options)
        self.assertEqual(run.stderr, "")
        self.assert_sound(self.report(run.trace), ended_by=ended_by)
        marked = self.report(run.trace, "--min-size", MARK, "--max-size", MARK)["heap"]
        self.assertEqual((marked["allocations"], marked["leaked_blocks"]), (int(run.stdout), 10))
        return run

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_chroot(self):
        root = self.dir / "root"
        root.mkdir()
        self.check("chroot", root)

    def test_working_directory_that_was_removed(self):
        """A trace with a relative name is not created in another directory, such as the root directory."""
        folder = self.dir / "removed"
        folder.mkdir()
        name = f"{self.dir.name}.heapprof"
        run = self.record("sh", "-c", 'rm -r "$PWD" && exec "$0" work', harness.program("hosts"), cwd=folder,
                          OUTPUT=name)
        elsewhere = Path("/") / name
        self.addCleanup(elsewhere.unlink, missing_ok=True)
        self.assertEqual(run.stdout, "201000\n")
        self.assertFalse(elsewhere.exists())
        self.assertIn(f"not recording: cannot create the trace: {name}\n", run.stderr)

    def script_that_forks(self, before):
        """A script that executes the statement `before`, and then forks a child. Both allocate a block."""
        script = self.dir / "forks.py"
        script.write_text(f"import os\n{before}\nchild = os.fork()\nblocks = bytearray(100_000)\n"
                          "os._exit(os.waitpid(child, 0)[1] if child else 0)\n")
        return script

    def test_log_file_after_the_working_directory_has_changed(self):
        other = self.dir / "other"
        other.mkdir()
        script = self.script_that_forks(f"os.chdir({str(other)!r})")
        self.record(sys.executable, script, CHILDREN=1, LOG="info", LOG_FILE="log", OUTPUT=self.dir / "t.%p")
        self.assertEqual((self.dir / "log").read_text().count("recording to"), 2)
        self.assertEqual(list(other.iterdir()), [])

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_working_directory_outside_the_root_directory(self):
        """A forked child creates its trace in that directory, which the kernel calls "(unreachable)/..."."""
        root = self.dir / "root"
        root.mkdir()
        script = self.script_that_forks(f"os.chroot({str(root)!r})")
        self.record(sys.executable, script, CHILDREN=1, OUTPUT="outside.%p")
        self.assertEqual(sorted(path.name.split(".")[0] for path in self.dir.iterdir()),
                         ["forks", "outside", "outside", "root"])

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_setuid(self):
        self.check("setuid", 65534)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_setuid_where_the_new_user_may_not_write(self):
        """The recorder keeps its descriptor, so the directory's new mode has no effect."""
        self.dir.chmod(0o700)
        run = self.check("setuid", 65534, BLOCK_BYTES=4096)
        self.assertEqual(run.trace.stat().st_uid, 0)

    def test_without_the_kernels_time_data(self):
        for how in ("no_vvar", "covered_vvar"):
            with self.subTest(how=how):
                self.check(how)

    def test_huge_pages(self):
        found = re.search(r"Hugepagesize: *(\d+) kB", Path("/proc/meminfo").read_text())
        if found is None:
            self.skipTest("this kernel has no huge pages")
        size = int(found[1]) * 1024
        run = self.check("huge_pages", size)
        rows = [row for row in self.all_stacks(run.trace, "allocated", "--kind", "mmap")
                if any("map_huge_page" in frame["function"] for frame in row["stack"])]
        self.assertEqual([row["bytes"] for row in rows], [size])

    def test_dropped_capabilities(self):
        self.check("capabilities")

    def test_new_namespaces(self):
        self.check("namespaces")

    @harness.not_with_musl("musl's malloc needs system calls")
    def test_seccomp_strict_mode(self):
        self.check("strict", ended_by=("unknown", "exit"))

    def test_seccomp_filter(self):
        """Any system call of the recorder would kill the host."""
        for how in ("filter", "filter_by_number"):
            with self.subTest(how=how):
                self.check(how, ended_by=("unknown", "exit"))

    def test_seccomp_until_the_space_is_used_up(self):
        run = self.host("filter", 1_500_000)  # two thirds of them fill the space
        report = self.report(run.trace)
        self.assertEqual(report["integrity"]["ended_by"], "stopped")
        self.assertIn("seccomp", report["integrity"]["stop_reason"])

    def test_seccomp_refused_by_the_kernel(self):
        """The recorder ends its restricted mode: 200,000 events later it still records, with samples."""
        self.check("filter_refused")

    def test_seccomp_filter_that_another_thread_has_not(self):
        self.check("synchronized")

    def test_cycle_clock_forbidden(self):
        run = self.check("no_clock")
        # A clock that cannot be read is not sampled.
        trace = run.read()
        samples = [event for stream in trace.streams.values() for event in stream if event.op == trace_reader.SAMPLE]
        self.assertGreater(len(samples), 0)
        for sample in samples:
            self.assertGreaterEqual(sample.address, trace.start_monotonic_ns)
            self.assertGreater(sample.size, 0)
        self.assertGreaterEqual(trace.end_monotonic_ns, max(sample.address for sample in samples))

    def test_cycle_clock_forbidden_to_a_forked_child(self):
        self.check("no_clock_fork")
        run = self.host("no_clock_fork", CHILDREN=1, LOG="info", OUTPUT=self.dir / "children.%p")
        # The child itself must not log.
        self.assertIn("forked children are not recorded", run.stderr)

    def test_daemon_by_double_fork(self):
        self.check("daemon")
        self.host("daemon", CHILDREN=1, OUTPUT=self.dir / "all.%p")

        def ends():
            # No output: the process has just created its file, which has no header yet.
            outputs = [self.run_heapprof("report", trace, "--json").stdout for trace in self.dir.glob("all.*")]
            return [json.loads(output)["integrity"]["ended_by"] for output in outputs if output]
        # The daemon continues after its parent has ended. The process between them allocates nothing.
        harness.wait_until(lambda: ends() == ["exit", "exit"], "the two processes have no two complete traces")
        for trace in self.dir.glob("all.*"):
            self.assertEqual(self.report(trace)["integrity"]["bytes_damaged"], 0)

    def test_closed_standard_error(self):
        """The recorder's message (its file is full) is not written to the file that has the descriptor now."""
        data = self.dir / "data"
        self.host("closed_stderr", data, MAX_FILE_SIZE="80k", SNAPSHOTS=0, CHILDREN=1, OUTPUT=self.dir / "closed.%p")
        ends = [self.report(trace)["integrity"]["ended_by"] for trace in self.dir.glob("closed.*")]
        self.assertEqual(sorted(ends), ["exec", "stopped"])
        self.assertEqual(data.read_bytes(), b"")

    def test_standard_error_without_reader(self):
        """The recorder prints a message (its file is full) to a closed or full pipe, without SIGPIPE or blocking."""
        for how in ("broken_stderr", "full_stderr"):
            with self.subTest(how=how):
                # Without snapshots the child's events fit into its file.
                run = self.host(how, CHILDREN=1, MAX_FILE_SIZE="80k", SNAPSHOTS=0, OUTPUT=self.dir / f"{how}.%p",
                                timeout=30)
                self.assertEqual(run.stdout.split(), ["201000", "1000"])
                reasons = [self.report(trace)["integrity"]["stop_reason"] for trace in self.dir.glob(f"{how}.*")]
                self.assertEqual(sorted(map(str, reasons)), ["HEAPPROF_MAX_FILE_SIZE is reached", "None"])

    def test_log_file_that_would_block(self):
        fifo = self.dir / "fifo"
        os.mkfifo(fifo)
        run = self.host("work", MAX_FILE_SIZE="80k", LOG_FILE=fifo, timeout=30)
        self.assertEqual(run.stdout, "201000\n")

    @harness.not_with_musl("musl has no swapcontext")
    def test_coroutines_on_16_kb_stacks(self):
        self.check("coroutines")
        self.check("coroutines", BLOCK_BYTES=4096)

    # --- children -------------------------------------------------------------------------------------

    def test_raw_clone(self):
        self.check("clone")

    def test_clone_with_shared_memory(self):
        self.check("shared_clone")

    def test_vfork_that_allocates(self):
        self.check("vfork")

    def test_vfork_as_a_threads_first_act(self):
        """The child has the first event on that stack: its stream is not the thread's."""
        self.check("vfork_first")

    @harness.not_with_musl("musl ends a program that calls exit() a second time")
    def test_vfork_child_that_calls_exit(self):
        """The recording does not end there: the parent continues. Its exit handlers have run then, so the end of its
        recording is unknown."""
        self.check("vfork_exit", ended_by=("unknown",))

    def test_posix_spawn(self):
        self.check("spawn", "/bin/true")
        self.host("spawn", "/bin/true", CHILDREN=1, OUTPUT=self.dir / "spawn.%p")
        self.assertEqual(len(list(self.dir.glob("spawn.*"))), 21)

    def test_executed_program_inherits_a_filter(self):
        """The program is not recorded, and its recorder makes no system call for which the filter kills it."""
        for command in (["/bin/true"], [harness.program("hosts"), "filter_refused"],
                        [str(harness.TARGET / "tests" / "programs" / "jit_frames"), "before"]):
            with self.subTest(command=command):
                self.check("exec_filtered", *command)

    @harness.not_with_musl("the program's own calls are those of glibc")
    def test_documented_system_calls(self):
        """A filter that an executed program inherits, and that kills it at any system call that neither a small
        program makes nor docs/operations.md lists: the program is recorded."""
        page = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text()
        section = page.split("\n## System calls\n")[1].split("\n## ")[0]
        calls = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        names = re.findall(r"`(\w+)`", " ".join(calls))
        self.assertEqual(len(set(names)), len(names))
        for mode in ("work", "loader_lock"):
            with self.subTest(mode=mode):
                run = self.host("exec_allowed", ",".join(names + OWN_CALLS), harness.program("hosts"), mode)
                self.assertEqual(run.stderr, "")
                trace = Path(f"{run.trace}.1")
                self.assert_sound(self.report(trace))
                marked = self.report(trace, "--min-size", MARK, "--max-size", MARK)["heap"]
                self.assertEqual((marked["allocations"], marked["leaked_blocks"]), (int(run.stdout), 10))
                info = json.loads(self.heapprof("info", trace, "--json"))
                self.assertEqual(info["host"], os.uname().nodename)

    # --- the loader -----------------------------------------------------------------------------------

    def test_a_host_lock_nested_with_the_loader_lock(self):
        for shadow_stack in (1, 0):
            self.check("loader_lock", SHADOW_STACK=shadow_stack)

    def test_rtld_deepbind(self):
        self.check("deepbind", library("host_library"))

    def test_dlmopen(self):
        self.check("dlmopen", library("host_library"))

    def test_static_tls_nearly_used_up(self):
        """A library that needs almost all of libc's reserve loads as without the recorder."""
        alone = self.record(harness.program("hosts"), "static_tls", library("host_library_tls"), how="plain",
                            status=None)
        if alone.status != 0:
            self.skipTest("this libc reserves less: " + alone.stderr)
        for how in harness.WAYS:
            self.record(harness.program("hosts"), "static_tls", library("host_library_tls"), how=how)

    # --- figures --------------------------------------------------------------------------------------

    def test_failures_count_once(self):
        run = self.host("fail")
        self.assertEqual(self.report(run.trace)["heap"]["failed"], 3)

    @harness.not_with_musl("the second allocator calls functions of glibc")
    def test_failures_of_calls_between_hooks_count_once(self):
        second = harness.BUILD / "tests" / "abi" / "libsecond_allocator.so"
        if not second.exists():
            self.skipTest("libsecond_allocator.so is not built")
        run = self.host("fail", _LD_PRELOAD=f"{harness.LIBRARY}:{second}", how="plain")
        report = self.report(run.trace)
        self.assert_sound(report)
        self.assertEqual(report["heap"]["failed"], 3)


if __name__ == "__main__":
    harness.main()
