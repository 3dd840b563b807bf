"""`heapprof control`: pauses, resumes and marks the recording of a running program, and prints its state."""

import json
import re
import signal
import subprocess

import harness


class Control(harness.Case):
    def start(self, *command):
        trace = self.dir / "trace.heapprof"
        environment = harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace)
        process = self.popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True)
        return process, trace

    def steady(self, threads=2):
        trace = self.dir / "trace.heapprof"
        return self.start_steady(trace, threads), trace

    def control(self, *words):
        result = self.run_heapprof("control", *words)
        return result.returncode, result.stdout, result.stderr

    def answered(self, *words):
        """control() that waits for longer than the 2 s by default: the program may wait for the processor."""
        return self.control(*words, "--wait", "60")

    def state(self, *where):
        status, out, _ = self.control(*where, "status", "--json")
        self.assertEqual(status, 0)
        return json.loads(out)["state"]

    def allocations(self, trace):
        return self.report(trace)["heap"]["allocations"]

    def test_pause_and_resume(self):
        process, trace = self.steady()
        self.assertEqual(self.state(trace), "recording")
        self.assertEqual(self.answered(trace, "pause"), (0, "paused\n", ""))
        self.assertEqual(self.state(trace), "paused")
        # A thread may have been inside an allocation.
        self.steady_rounds(process)
        paused_at = self.allocations(trace)
        self.steady_rounds(process, 20)
        self.assertEqual(self.allocations(trace), paused_at)
        self.assertEqual(self.answered("--pid", process.pid, "resume"), (0, "recording\n", ""))
        self.steady_rounds(process, 20)
        self.assertGreater(self.allocations(trace), paused_at + 100)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, errors), (0, ""))
        self.assertEqual(self.state(trace), "ended")
        self.assertTrue(self.report(trace)["integrity"]["complete"])
        timeline = json.loads(self.heapprof("timeline", trace, "--format", "json"))
        self.assertEqual(len(timeline["pauses"]), 1)
        # A time slice that begins within the pause is paused from its beginning.
        pause = timeline["pauses"][0]
        middle = (pause["from_ns"] + pause["to_ns"]) // 2
        slice_ = json.loads(self.heapprof("timeline", trace, "--format", "json", "--from", f"{middle / 1e9:.9f}"))
        self.assertEqual([span["to_ns"] for span in slice_["pauses"]], [pause["to_ns"]])
        self.assertLess(abs(slice_["pauses"][0]["from_ns"] - middle), 1000)
        status, _, errors = self.control(trace, "pause")
        self.assertEqual(status, 1)
        self.assertIn("has ended", errors)

    def test_resume_reaches_a_program_that_only_allocates(self):
        process, trace = self.start(harness.program("slow_leak"))
        self.assertEqual(process.stdout.readline(), "up\n")
        self.assertEqual(self.answered(trace, "pause"), (0, "paused\n", ""))
        self.assertEqual(self.answered(trace, "resume"), (0, "recording\n", ""))
        process.kill()

    def test_marks_in_order(self):
        process, trace = self.steady()
        texts = [f"mark {i} \u00e4 \"quoted\"" for i in range(20)] + ["x" * 256]
        for text in texts:
            self.assertEqual(self.answered(trace, "mark", text), (0, "marked\n", ""))
        process.kill()
        process.wait()
        timeline = json.loads(self.heapprof("timeline", trace, "--format", "json"))
        self.assertEqual([mark["text"] for mark in timeline["marks"]], texts)
        times = [mark["time_ns"] for mark in timeline["marks"]]
        self.assertEqual(times, sorted(times))
        info = json.loads(self.heapprof("info", trace, "--json"))
        self.assertEqual([(mark["text"], mark["time_ns"]) for mark in info["marks"]], list(zip(texts, times)))
        printed = self.heapprof("info", trace)
        for text in texts[:-1]:
            self.assertRegex(printed, rf"(?m)^ +[\d.]+ \S+  {re.escape(text)}$")

    def test_a_request_to_an_idle_program_is_pending(self):
        process, trace = self.steady(threads=0)
        status, _, errors = self.control(trace, "pause", "--wait", "0.2")
        self.assertEqual(status, 1)
        self.assertIn("the request is still pending", errors)
        status, _, errors = self.control(trace, "resume", "--wait", "0.2")
        self.assertEqual(status, 1)
        self.assertIn("an earlier request is still pending", errors)
        process.kill()

    def test_invalid_arguments(self):
        process, trace = self.steady()
        for words in ((trace,), (trace, "stop"), (trace, "mark"), (trace, "pause", "more"),
                      (trace, "mark", "x" * 257), ()):
            with self.subTest(words=words):
                status, out, errors = self.control(*words)
                self.assertEqual((status, out), (2, ""))
                self.assertTrue(errors)
        process.kill()

    def test_the_process_id_of_the_launcher(self):
        """In a shell, `heapprof record PROGRAM &` leaves it in $!."""
        trace = self.dir / "trace.heapprof"
        launcher = self.popen([harness.HEAPPROF, "record", "-o", trace, "--", "cat"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env=harness.clean_environment())
        launcher.stdin.write("up\n")
        launcher.stdin.flush()
        self.assertEqual(launcher.stdout.readline(), "up\n")
        self.assertEqual(self.state("--pid", launcher.pid), "recording")
        top = json.loads(self.heapprof("top", launcher.pid, "--once", "--json"))
        self.assertEqual((top["pid"] != launcher.pid, top["state"]), (True, "recording"))
        launcher.communicate("", timeout=60)

    def test_no_such_program(self):
        for words, reason in (((__file__, "status"), "not a heapprof trace"),
                              ((self.dir / "none", "status"), "No such file"),
                              (("--pid", 1, "status"), "process 1 ")):
            with self.subTest(words=words):
                status, _, errors = self.control(*words)
                self.assertEqual(status, 1)
                self.assertIn(reason, errors)


if __name__ == "__main__":
    harness.main()
