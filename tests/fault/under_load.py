"""Commands and control requests for a program under full load, and the functions of heapprof.h, with and without the
recorder."""

import json
import signal
import subprocess
from pathlib import Path

import harness

HEADER = Path(__file__).resolve().parents[2] / "preload" / "heapprof.h"

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "heapprof.h"
int main(void) {
  void *block, *pool[2];
  printf("%d", heapprof_is_recording());
  heapprof_mark("begin");
  heapprof_pause();
  printf("%d", heapprof_is_recording());
  block = malloc(2222);
  heapprof_resume();
  printf("%d\n", heapprof_is_recording());
  free(block);
  heapprof_report_alloc(pool, 3333);
  heapprof_report_alloc(pool + 1, 3334);
  heapprof_report_free(pool);
  heapprof_mark("end");
  return 0;
}
"""


class UnderLoad(harness.Case):
    def load(self):
        trace = self.dir / "load.heapprof"
        process = self.popen([harness.program("hosts"), "load", "2"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE,
                             text=True, env=harness.clean_environment(LD_PRELOAD=harness.LIBRARY,
                                                                      HEAPPROF_OUTPUT=trace,
                                                                      HEAPPROF_MAX_FILE_SIZE="3G"))
        process.stdout.readline()
        return process, trace

    def end(self, process):
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, errors), (0, ""))

    def report_after(self, trace, events):
        """A report with more events. Both threads may wait for the processor for the time of a report."""
        def later():
            report = self.report(trace)
            return report if report["events"] > events else None
        return harness.wait_until(later, f"no more than {events} events")

    def test_every_command_under_full_load(self):
        """No event is torn, and the live blocks are possible: each report shows a state that the program had."""
        process, trace = self.load()
        events = 0
        for _ in range(3):
            report = self.report_after(trace, events)
            self.assert_sound(report, ended_by=("running",))
            events = report["events"]
            self.assertLessEqual(report["heap"]["leaked_blocks"], 2 * 64 + 30)
            self.assertLessEqual(report["heap"]["leaked_blocks"], report["heap"]["peak_blocks"] + 2 * 64)
        for command in (("info", "--json"), ("leaks", "--json"), ("timeline", "--format", "json"),
                        ("flamegraph", "--format", "folded")):
            out = self.heapprof(command[0], trace, *command[1:])
            if "json" in command[-1]:
                json.loads(out)
        self.end(process)
        report = self.report(trace)
        self.assert_sound(report)
        self.assertGreaterEqual(report["events"], events)

    def test_pauses_and_marks_under_full_load(self):
        process, trace = self.load()
        for number in range(5):
            for action in (("mark", f"round {number}"), ("pause",), ("resume",)):
                self.heapprof("control", trace, *action, "--wait", "60")
        self.assertIn("recording", self.heapprof("control", "--pid", process.pid, "status"))
        resumed = self.report(trace)["events"]
        harness.wait_until(lambda: self.report(trace)["events"] > resumed, "nothing recorded after a resume")
        self.end(process)
        timeline = json.loads(self.heapprof("timeline", trace, "--format", "json"))
        self.assertEqual([mark["text"] for mark in timeline["marks"]], [f"round {number}" for number in range(5)])
        self.assertEqual(len(timeline["pauses"]), 5)
        report = self.report(trace)
        self.assertTrue(report["integrity"]["complete"])
        self.assertEqual(report["heap"]["implied_frees"], 0)

    def test_the_header_in_c_and_cpp_with_and_without_recorder(self):
        for compiler, source, options in (("gcc", "t.c", ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused"]),
                                          ("gcc", "u.c", ["-std=c11", "-no-pie"]),
                                          ("g++", "t.cpp", ["-std=c++11", "-Wall", "-Wextra", "-Werror"])):
            with self.subTest(source=source):
                (self.dir / source).write_text(PROGRAM)
                program = self.dir / source.replace(".", "_")
                subprocess.run([compiler, *options, "-O1", "-fno-builtin", f"-I{HEADER.parent}", "-o", program,
                                self.dir / source],
                               check=True)
                self.assertEqual(self.record(program, how="plain").stdout, "000\n")
                for how in harness.WAYS:
                    run = self.record(program, how=how)
                    self.assertEqual(run.stdout, "101\n")
                    sizes = {row["bytes"]: row["blocks"] for row in self.all_stacks(run.trace, "allocated")}
                    self.assertIn(3333, sizes)
                    self.assertNotIn(2222, sizes)
                    leaked = [row["bytes"] for row in self.all_stacks(run.trace, "leaked")]
                    self.assertIn(3334, leaked)
                    self.assertNotIn(3333, leaked)
                    timeline = json.loads(self.heapprof("timeline", run.trace, "--format", "json"))
                    self.assertEqual([mark["text"] for mark in timeline["marks"]], ["begin", "end"])
                    self.assertEqual(len(timeline["pauses"]), 1)


if __name__ == "__main__":
    harness.main()
