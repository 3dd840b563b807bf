"""Every command works on the trace of a running program, without affecting the program."""

import json
import os
import shutil
import signal
import subprocess
import time

import harness
import heaptrack_file


class RunningProgram(harness.Case):
    def start(self, threads):
        trace = self.dir / "steady.heapprof"
        return self.start_steady(trace, threads), trace

    def test_report_while_it_runs(self):
        process, trace = self.start(3)
        events = 0
        for _ in range(40):
            report = self.report(trace)
            self.assert_sound(report, ended_by=("running",))
            self.assertGreaterEqual(report["events"], events)
            # Three threads with at most 64 blocks each, and the blocks that pthread_create needs.
            self.assertLess(report["heap"]["leaked_blocks"], 3 * 64 + 30)
            self.assertEqual(report["pid"], process.pid)
            events = report["events"]
        self.assertGreater(events, 1000)
        # Calls before the command are in its output.
        self.steady_rounds(process)
        self.assertGreater(self.report(trace)["events"], events)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, errors), (0, ""))
        report = self.report(trace)
        self.assert_sound(report)
        self.assertGreaterEqual(report["events"], events)

    def test_times_of_an_idle_program(self):
        """It has hardly a sample of the clock, and a virtual machine does not say how fast the cycle counter runs.
        Nevertheless its recording is not longer than the time since its start."""
        trace = self.dir / "idle.heapprof"
        begin = time.monotonic_ns()
        process = self.popen(["cat"], env=harness.clean_environment(LD_PRELOAD=str(harness.LIBRARY),
                                                                    HEAPPROF_OUTPUT=str(trace)),
                             text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdin.write("up\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "up\n")
        for _ in range(3):
            duration = self.report(trace)["duration_ns"]
            self.assertLessEqual(duration, time.monotonic_ns() - begin)
            table = json.loads(self.heapprof("top", trace, "--once", "--json"))
            self.assertLessEqual(table["at_ns"], time.monotonic_ns() - begin)
            self.assertGreaterEqual(table["at_ns"], duration)
        process.communicate("", timeout=60)

    def test_every_command_while_it_runs(self):
        process, trace = self.start(2)
        self.steady_rounds(process, 50)
        before = os.stat(trace).st_ino
        for command in (("info",), ("info", "--json"), ("report",), ("leaks",), ("leaks", "--json"), ("timeline",),
                        ("timeline", "--format", "svg"), ("flamegraph",), ("flamegraph", "--format", "folded")):
            out = self.heapprof(command[0], trace, *command[1:])
            self.assertTrue(out.strip(), command)
            if "--json" in command:
                json.loads(out)
        # The number of calls in an export is between those of the reports before and after it.
        first = self.report(trace)["heap"]["allocations"]
        calls = self.exported(trace).calls
        self.assertLessEqual(first, calls)
        self.assertLessEqual(calls, self.report(trace)["heap"]["allocations"])
        # While the program is stopped, its trace does not change: report and export are equal.
        process.send_signal(signal.SIGSTOP)
        harness.wait_until(lambda: harness.process_state(process.pid) == "T", "the program does not stop")
        report = self.report(trace)
        self.assert_sound(report, ended_by=("running",))
        self.compare_totals(self.exported(trace), report["heap"])
        process.send_signal(signal.SIGCONT)
        self.steady_rounds(process)
        self.assertEqual(os.stat(trace).st_ino, before)
        process.kill()
        process.wait()
        report = self.report(trace)
        self.assert_sound(report, ended_by=("unknown", "signal"))
        self.compare_totals(self.exported(trace), report["heap"])

    def test_a_copy_of_a_running_recording(self):
        """Nobody can say that its program executed another one. Where the program still runs, its recording is
        named; afterwards, a copy and the recording of a killed program are alike."""
        process, trace = self.start(1)
        self.steady_rounds(process)
        process.send_signal(signal.SIGSTOP)
        harness.wait_until(lambda: harness.process_state(process.pid) == "T", "the program does not stop")
        copy = self.dir / "copy.heapprof"
        shutil.copy(trace, copy)
        for command in ("info", "report", "leaks"):
            done = self.run_heapprof(command, copy)
            self.assertNotIn("executed another program", done.stdout + done.stderr)
            self.assertIn("no end recorded (killed, _exit, or a copy)", done.stdout)
            self.assertIn(f"its recording is {trace}", " ".join(done.stdout.split()))
        report = self.report(copy)
        self.assert_sound(report, ended_by=("unknown",))
        # Only a running recorder's machine says how fast its clock is.
        heaps = [report["heap"], self.report(trace)["heap"]]
        for heap in heaps:
            heap.pop("peak_time_ns")
        self.assertEqual(*heaps)
        self.heapprof("check", copy, "--max-peak", "1T")
        process.kill()
        process.wait()
        done = self.heapprof("info", copy)
        self.assertIn("no end recorded (killed, _exit, or a copy)", done)
        self.assertNotIn("its recording is", done)

    def exported(self, trace):
        """The totals of an export by heaptrack's definitions."""
        path = self.dir / "running.heaptrack"
        path.unlink(missing_ok=True)
        self.heapprof("export", "heaptrack", trace, "-o", path)
        return heaptrack_file.HeaptrackFile(path).totals()

    def compare_totals(self, totals, heap):
        self.assertEqual((totals.calls, totals.leaked, totals.peak, sum(totals.allocated_by_trace.values())),
                         (heap["allocations"], heap["leaked_bytes"], heap["peak_bytes"], heap["allocated_bytes"]))


if __name__ == "__main__":
    harness.main()
