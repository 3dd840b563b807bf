"""The trace has every call that the ledger has as completed, however the program ends (programs/ledger_kill.cpp)."""

import os
import resource
import signal
import subprocess
from pathlib import Path

import harness
import unfinished_calls
from ledger import calls_made

# Of this process: the same test with programs for musl may run at the same time.
GROUP = Path(f"/sys/fs/cgroup/memory/heapprof-test-{os.getpid()}")
FIGURES = ("allocations", "allocated_bytes", "frees", "failed", "leaked_bytes", "leaked_blocks")


class Terminations(harness.Case):
    def check(self, run, ended_by):
        problem, figures = unfinished_calls.compare(run.trace, run.ledger_path)
        self.assertIsNone(problem)
        report = self.report(run.trace)
        self.assert_sound(report, ended_by=ended_by)
        for name in FIGURES:
            self.assertEqual(report["heap"][name], figures[name], name)
        return report

    def end(self, how, status, ended_by, by_launcher, delays=(2, 7, 15)):
        events = 0
        for number, delay in enumerate(delays):
            for block_bytes in (4096, 65536):
                way = ("preload", "record", "loader")[number % 3]
                with self.subTest(delay=delay, block_bytes=block_bytes, way=way):
                    wanted = status if way != "record" or status >= 0 else 128 - status
                    run = self.record(harness.program("ledger_kill"), delay * 1_000_000, delay, 3, how, how=way,
                                      BLOCK_BYTES=block_bytes, status=wanted)
                    events += self.check(run, by_launcher if way == "record" else ended_by)["events"]
        self.assertGreater(events, 1000, "the programs ended before they recorded enough events")

    def test_segmentation_fault(self):
        self.end("segv", -signal.SIGSEGV, ("unknown",), ("signal",))

    def test_abort(self):
        self.end("abort", -signal.SIGABRT, ("unknown",), ("signal",))

    def test_exit_without_handlers(self):
        self.end("_exit", 7, ("unknown",), ("exit",))

    def test_quick_exit(self):
        self.end("quick_exit", 8, ("unknown",), ("exit",))

    def test_exec_without_fork(self):
        self.end("exec", 0, ("exec",), ("exec",))

    def test_interrupt_of_the_process_group(self):
        """Ctrl-C: the launcher and the program get SIGINT at the same time, after a given number of calls."""
        trace, ledger = self.dir / "group.heapprof", self.dir / "group.ledger"
        for calls in (100, 5_000):
            process = self.popen([harness.HEAPPROF, "record", "-o", trace, harness.program("ledger_kill"), "0",
                                  "5", "3"],
                                 env=harness.clean_environment(LEDGER_FILE=ledger, HEAPPROF_BLOCK_BYTES=4096),
                                 stderr=subprocess.PIPE, text=True, start_new_session=True)
            harness.wait_until(lambda: calls_made(ledger) >= calls, f"the program has not made {calls} calls")
            os.killpg(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, errors)
            self.assertIn(str(trace), errors)
            self.check(harness.Recording(trace, 130, "", errors, ledger), ("signal",))
            trace.unlink()
            ledger.unlink()

    def test_out_of_memory_in_a_cgroup(self):
        try:
            GROUP.mkdir(exist_ok=True)
            self.addCleanup(GROUP.rmdir)  # called after that of popen(), which ends the program
            (GROUP / "memory.limit_in_bytes").write_text(str(96 << 20))
        except OSError as error:
            self.skipTest(f"no memory cgroup is available: {error}")
        trace, ledger = self.dir / "oom.heapprof", self.dir / "oom.ledger"
        environment = harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace, LEDGER_FILE=ledger,
                                                HEAPPROF_BLOCK_BYTES=4096)

        def join():
            (GROUP / "cgroup.procs").write_text(str(os.getpid()))

        # Once is enough: on a slow disk, killing a memory cgroup with a full page cache takes some time.
        process = self.popen([harness.program("ledger_kill"), "0", "9", "3", "hog"], env=environment,
                             preexec_fn=join)
        self.assertEqual(process.wait(timeout=120), -signal.SIGKILL)
        self.check(harness.Recording(trace, -9, "", "", ledger), ("unknown",))

    def test_address_space_used_up(self):
        """ulimit -v: the program gets a null pointer, as without the recorder. The recorder continues in its memory
        and, when it needs more, stops with a reason. All events of all threads before that are recorded."""
        trace, ledger = self.dir / "limit.heapprof", self.dir / "limit.ledger"
        environment = harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace, LEDGER_FILE=ledger,
                                                HEAPPROF_BLOCK_BYTES=4096)

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))

        process = subprocess.run([harness.program("ledger_kill"), "0", "9", "3", "hog"], env=environment,
                                 preexec_fn=limit,
                                 capture_output=True, text=True, timeout=120)
        self.assertEqual(process.returncode, 3, process.stderr)
        report = self.report(trace)
        self.assertTrue(report["integrity"]["complete"], report["integrity"])
        self.assertEqual((report["heap"]["unmatched_frees"], report["heap"]["implied_frees"]), (0, 0))
        if report["integrity"]["ended_by"] == "stopped":
            self.assertRegex(report["integrity"]["stop_reason"], "memory|address space")
            self.assertEqual(len(process.stderr.splitlines()), 1, process.stderr)
        else:
            problem, _ = unfinished_calls.compare(trace, ledger)
            self.assertIsNone(problem)
        self.assertGreater(report["events"], 1000)


if __name__ == "__main__":
    harness.main()
