"""Every question can be asked of a program that still runs, without disturbing it."""

import json
import os
import signal
import subprocess
import time

import harness


class Running(harness.Case):
    def start(self, threads):
        trace = self.dir / "steady.hprof"
        environment = harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace)
        process = subprocess.Popen([harness.program("steady"), str(threads)], env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        self.assertEqual(process.stdout.readline(), "up\n")
        return process, trace

    def test_report_while_it_runs(self):
        process, trace = self.start(3)
        events = 0
        deadline = time.monotonic() + 4
        reports = 0
        while time.monotonic() < deadline or reports < 5:
            report = self.report(trace)
            self.assert_sound(report, ended_by=("running",))
            self.assertGreaterEqual(report["events"], events)
            # Three threads of at most 64 blocks each, and what starting them takes.
            self.assertLess(report["heap"]["leaked_blocks"], 3 * 64 + 30)
            self.assertEqual(report["pid"], process.pid)
            events = report["events"]
            reports += 1
        self.assertGreater(events, 1000)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, errors), (0, ""))
        report = self.report(trace)
        self.assert_sound(report)
        self.assertGreaterEqual(report["events"], events)

    def test_every_command_while_it_runs(self):
        process, trace = self.start(2)
        time.sleep(0.3)
        before = os.stat(trace).st_ino
        for command in (("info",), ("info", "--json"), ("report",), ("leaks",), ("leaks", "--json"), ("timeline",),
                        ("timeline", "--format", "svg"), ("flamegraph",), ("flamegraph", "--format", "folded")):
            out = self.heapprof(command[0], trace, *command[1:])
            self.assertTrue(out.strip(), command)
            if "--json" in command:
                json.loads(out)
        self.heapprof("export", "heaptrack", trace, "-o", self.dir / "running.heaptrack")
        self.assertEqual(os.stat(trace).st_ino, before)
        process.kill()
        process.wait()
        self.assert_sound(self.report(trace), ended_by=("unknown", "signal"))


if __name__ == "__main__":
    harness.main()
