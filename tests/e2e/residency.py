"""Snapshots of resident pages: which pages of which mappings they have, and when they are taken. They are read by the
tests' own reader (trace_reader.Snapshot)."""

import json
import os
import subprocess

import harness
import trace_reader


class Residency(harness.Case):
    def recorded(self, *arguments, **options):
        """A recording whose last snapshot, if any, did not have too little time."""
        for _ in range(10):
            run = self.record(harness.program("residency"), *arguments, **options)
            snapshots = run.read().snapshots
            if not snapshots or not snapshots[-1].had_too_little_time:
                break
        return run

    def ranges(self, run):
        """(name, address, pages, step, state) that the program printed."""
        for line in run.stdout.splitlines():
            name, address, pages, step, state = line.split()
            yield name, int(address, 16), int(pages), int(step), state

    def check_range(self, snapshot, address, pages, step, state):
        expected = {"present": {"present"}, "zero": {"present", "zero"}, "huge": {"present", "huge"}}[state]
        for page in range(pages):
            found = snapshot.state(address + page * snapshot.page)
            if found != (expected if step and page % step == 0 else set()):
                self.fail(f"page {page}: {found}")

    def test_exactly_the_touched_pages(self):
        run = self.recorded()
        trace = run.read()
        self.assertEqual(trace.notes, [])
        # On a busy machine the one at the mark may not fit into its time.
        snapshots = [one for one in trace.snapshots if one.complete and one.reason in ("mark", "exit")]
        self.assertTrue(snapshots)
        names = []
        for snapshot in snapshots:
            for name, address, pages, step, state in self.ranges(run):
                with self.subTest(name=name, reason=snapshot.reason):
                    if snapshot.method == 2:
                        # mincore knows neither zero pages nor huge pages.
                        state = "present"
                    if state == "huge" and snapshot.state(address) == {"present"}:
                        continue  # this system has no transparent huge pages
                    self.check_range(snapshot, address, pages, step, state)
                    names.append(name)
        self.assertTrue({"every_second", "all", "untouched", "shared", "file"} <= set(names), names)

    def test_the_pages_sum_to_rss(self):
        snapshot = self.recorded().read().snapshots[-1]
        self.assertEqual((snapshot.reason, snapshot.complete), ("exit", True))
        # statm is read before the pages; the recorder itself may touch a few pages in between.
        self.assertLess(abs(snapshot.resident_bytes() - snapshot.resident), 200_000)
        self.assertGreater(snapshot.resident, 10 << 20)
        self.assertLess(snapshot.shared, snapshot.resident)

    def test_mappings_stacks_and_recorder(self):
        run = self.recorded()
        trace = run.read()
        snapshot = trace.snapshots[-1]
        self.assertEqual(snapshot.reason, "exit")
        names = [mapping[6] for mapping in snapshot.mappings]
        program = os.path.realpath(harness.program("residency"))
        self.assertIn(program, names)
        self.assertIn("[heap]", names)
        for before, after in zip(snapshot.mappings, snapshot.mappings[1:]):
            self.assertLessEqual(before[1], after[0])
        by_name = {mapping[6]: mapping for mapping in snapshot.mappings}
        code = [mapping for mapping in snapshot.mappings if mapping[6] == program]
        self.assertTrue(all(mapping[4] == os.stat(program).st_ino for mapping in code))
        self.assertEqual({m[2] & 8 for m in code}, {0})  # private
        self.assertTrue(any(m[2] & 4 for m in code))  # executable
        # The main thread's stack.
        self.assertEqual([stack[0] for stack in snapshot.stacks], [trace.pid])
        begin, end = by_name["[stack]"][:2]
        self.assertTrue(begin <= snapshot.stacks[0][1] < snapshot.stacks[0][2] <= end)
        # The recorder's library and its parts of the trace.
        recorder = [(begin, end) for begin, end, *_, name in snapshot.mappings
                    if name.endswith((".heapprof", "libheapprof.so"))]
        self.assertTrue(recorder)
        for begin, end in recorder:
            self.assertTrue(any(own[0] <= begin and end <= (own[1] + 4095) // 4096 * 4096
                                for own in snapshot.recorder), (hex(begin), hex(end)))
        # The program's own ranges are not the recorder's.
        for name, address, pages, _, _ in self.ranges(run):
            for begin, end in snapshot.recorder:
                self.assertFalse(begin < address + pages * 4096 and address < end, name)

    def test_a_snapshot_at_each_mark_within_the_budget(self):
        for _ in range(10):
            trace = self.record(harness.program("marks")).read()
            # One that is cut at the end of the budget is replaced by the next one.
            marks = [one for one in trace.snapshots if one.reason == "mark" and one.complete]
            # 5 ms and 0.5 % of the time, but for the last system call of a snapshot; exit is not in the budget.
            spent = sum(one.spent_ns for one in trace.snapshots if one.reason != "exit")
            elapsed = trace.snapshots[-1].end_ns - trace.start_monotonic_ns
            limit = 5_000_000 + elapsed / 200 + 20_000_000
            # A snapshot that waits for the processor may use up the budget of all others; a virtual machine can count
            # the time for which its processor stood still as spent.
            if len(marks) > 2 and spent < limit:
                break
        self.assertEqual(len(trace.marks), 200)
        self.assertGreater(len(marks), 2)
        self.assertLess(spent, limit)
        self.assertLess(len(marks), 200)

    def requested(self, number):
        """The snapshots of a program for which three are requested."""
        trace = self.dir / f"trace{number}.heapprof"
        environment = harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace)
        process = self.popen([harness.program("residency"), "waits", "64"], env=environment, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        for _ in range(3):
            result = self.run_heapprof("control", trace, "snapshot", "--wait", "30")
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "snapshot taken\n", ""))
        process.communicate("", timeout=60)
        return trace_reader.Trace(trace).snapshots

    def test_growth_and_requests(self):
        for number in range(10):
            snapshots = self.requested(number)
            if not any(one.reason == "request" and one.had_too_little_time for one in snapshots):
                break
        reasons = [one.reason for one in snapshots]
        self.assertEqual(reasons.count("request"), 3)
        self.assertEqual(reasons[-1], "exit")
        self.assertIn("residency", reasons)
        for one in snapshots:
            # One that had too little time, on a busy machine, is ended when another one is requested.
            self.assertTrue(one.complete or one.reason == "residency", one.reason)
            if one.reason == "request":
                self.assertGreater(one.resident_bytes(), 64 << 20)

    def test_none_for_changed_memory_in_the_first_20_ms(self):
        # While a program starts, its memory changes by 10 % at each sample.
        trace = self.dir / "trace.heapprof"
        environment = harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace)
        process = self.popen([harness.program("residency"), "waits", "1"], env=environment, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        reader = trace_reader.while_written(trace)
        earliest = reader.start_monotonic_ns + 20_000_000

        def has_one():
            self.assertIsNone(process.poll())
            return any(one.reason == "residency" for one in trace_reader.while_written(trace).snapshots)
        harness.wait_until(has_one, "no snapshot is taken for changed memory")
        process.communicate("", timeout=60)
        snapshots = trace_reader.Trace(trace).snapshots
        self.assertEqual([one.begin_ns for one in snapshots if one.begin_ns < earliest], [])
        self.assertEqual(snapshots[-1].reason, "exit")

    def test_off(self):
        run = self.recorded(SNAPSHOTS=0)
        self.assertEqual((run.read().snapshots, run.read().notes), ([], []))
        self.assertEqual(run.read().settings["HEAPPROF_SNAPSHOTS"], "0")
        self.assertEqual(self.recorded(how="record", options=("--snapshots", "off")).read().snapshots, [])

    def test_a_request_to_a_recording_without_snapshots_is_refused(self):
        trace = self.dir / "trace.heapprof"
        environment = harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace,
                                                HEAPPROF_SNAPSHOTS="off")
        process = self.popen([harness.program("residency"), "waits", "1"], env=environment, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        result = self.run_heapprof("control", "--pid", process.pid, "snapshot")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("HEAPPROF_SNAPSHOTS=0", result.stderr)
        process.communicate("", timeout=60)

    def test_commands_read_a_trace_with_snapshots(self):
        """Also when it is compacted; figures are those of a recording without snapshots."""
        run = self.recorded("many", 5000)
        report = self.report(run.trace)
        self.assertTrue(report["integrity"]["complete"])
        compacted = self.dir / "compacted.heapprof"
        self.heapprof("compact", "--exact", run.trace, "-o", compacted)
        self.assertEqual(self.report(compacted)["heap"], report["heap"])
        without = self.report(self.recorded("many", 5000, SNAPSHOTS=0).trace)
        del report["heap"]["peak_time_ns"], without["heap"]["peak_time_ns"]
        self.assertEqual(report["heap"], without["heap"])
        self.assertEqual(json.loads(self.heapprof("info", run.trace, "--json"))["snapshots"],
                         len(run.read().snapshots))
        self.assertEqual(json.loads(self.heapprof("info", compacted, "--json"))["snapshots"],
                         len(run.read().snapshots))


if __name__ == "__main__":
    harness.main()
