"""Every HEAPPROF_ variable has its documented effect, and an invalid value is reported once."""

import os
import re

import harness
import trace_reader


class Variables(harness.Case):
    def single(self, **variables):
        return self.record(harness.program("ledger_single"), 2_000, 1, **variables)

    def warnings(self, run):
        return [line for line in run.stderr.splitlines() if line.startswith("heapprof")]

    def test_silent_by_default(self):
        self.assertEqual(self.single().stderr, "")

    def test_output_pattern(self):
        run = self.record(harness.program("ledger_single"), 10,
                          OUTPUT=self.dir / "new" / "folder" / "%e-%p-%t-%h-%%.heapprof")
        (path,) = (self.dir / "new" / "folder").iterdir()
        pid = run.ledger().pid
        match = re.fullmatch(rf"ledger_single-{pid}-(.+)-(.+)-%\.heapprof", path.name)
        self.assertIsNotNone(match, path.name)
        self.assertIn(os.uname().nodename.lstrip("."), path.name)
        self.assert_sound(self.report(path))
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)

    def test_output_is_never_overwritten(self):
        for _ in range(3):
            self.record(harness.program("ledger_single"), 10, OUTPUT=self.dir / "same.heapprof")
        self.assertEqual(sorted(path.name for path in self.dir.glob("same*")),
                         ["same.heapprof", "same.heapprof.1", "same.heapprof.2"])
        for path in self.dir.glob("same*"):
            self.assert_sound(self.report(path))

    def test_output_by_default_in_the_working_folder(self):
        folder = self.dir / "here"
        folder.mkdir()
        run = self.record(harness.program("ledger_single"), 10, cwd=folder, OUTPUT=None)
        names = [path.name for path in folder.iterdir()]
        self.assertEqual(names, [f"heapprof.ledger_single.{run.ledger().pid}.heapprof"])

    def test_unwritable_output(self):
        """The program runs anyway; one message gives the reason why there is no trace."""
        blocker = self.dir / "file"
        blocker.write_text("not a folder")
        run = self.single(OUTPUT=blocker / "x.heapprof")
        self.assert_ledger_clean(run.ledger())
        self.assertEqual(len(self.warnings(run)), 1, run.stderr)
        self.assertIn("x.heapprof", run.stderr)
        self.assertEqual(blocker.read_text(), "not a folder")

    def test_log(self):
        for level in ("off", "error", "warn"):
            self.assertEqual(self.single(LOG=level).stderr, "", level)
        self.assertTrue(self.warnings(self.single(LOG="info")) or self.warnings(self.single(LOG="debug")))
        log = self.dir / "log"
        run = self.single(LOG="debug", LOG_FILE=log)
        self.assertEqual(run.stderr, "")
        self.assertTrue(log.read_text().startswith("heapprof"))
        run = self.record(harness.program("ledger_single"), 10, OUTPUT="/proc/no/such.heapprof", LOG="off")
        self.assertEqual(run.stderr, "")

    def test_log_file_that_cannot_be_opened(self):
        """The messages are written to standard error."""
        run = self.single(MAX_DEPTH="many", LOG_FILE=self.dir / "no" / "such" / "log")
        self.assertEqual(len(self.warnings(run)), 1, run.stderr)
        self.assertIn("HEAPPROF_MAX_DEPTH", run.stderr)
        self.assert_sound(self.report(run.trace))

    def test_debug_log(self):
        """The settings that apply, and why an executed child is not recorded. No other level logs that."""
        def lines_of(level):
            return self.warnings(self.record(harness.program("exec_chain"), "vfork", harness.program("ledger_names"),
                                             LOG=level, MAX_DEPTH=77))

        not_recording = "heapprof: not recording: a recorded program started this one, and HEAPPROF_CHILDREN is off"
        lines = lines_of("debug")
        settings = [line for line in lines if line.startswith("heapprof: settings: HEAPPROF_LOG=debug ")]
        self.assertEqual((len(settings), lines.count(not_recording)), (1, 1), lines)
        self.assertIn(" HEAPPROF_MAX_DEPTH=77 ", settings[0])
        lines = lines_of("info")
        self.assertTrue(lines)
        self.assertFalse([line for line in lines if "settings" in line or line == not_recording], lines)

    def test_invalid_values(self):
        for name, value in (("MAX_DEPTH", "many"), ("MMAP", "perhaps"), ("SHADOW_STACK", "2"), ("LOG", "loud"),
                            ("MAX_FILE_SIZE", "2X"), ("FREE_STACKS", "-"), ("CHILDREN", "yep"), ("PAUSED", "?")):
            with self.subTest(name=name):
                run = self.single(**{name: value})
                warnings = self.warnings(run)
                self.assertEqual(len(warnings), 1, run.stderr)
                self.assertIn(f"HEAPPROF_{name}", warnings[0])
                self.assertIn(value, warnings[0])
                self.assert_sound(self.report(run.trace))

    def test_switch_spellings(self):
        for on in ("1", "on", "yes"):
            self.assertEqual(self.single(PAUSED=on).read().settings["HEAPPROF_PAUSED"], "1")
        for off in ("0", "off", "no"):
            self.assertEqual(self.single(PAUSED=off).read().settings["HEAPPROF_PAUSED"], "0")

    def test_max_depth(self):
        run = self.record(harness.program("deep_recursion"), 3000, 20, MAX_DEPTH=200)
        rows = [row for row in self.all_stacks(run.trace, "leaked") if row["bytes"] and row["bytes"] % 333 == 0]
        self.assertEqual(sum(row["blocks"] for row in rows), 20)
        for row in rows:
            self.assertIsNotNone(row["truncated"])
            self.assertLessEqual(len(row["stack"]), 200 + 2)
            self.assertGreater(len(row["stack"]), 0)
        # A deep recursion with default settings: one stack, not truncated.
        run = self.record(harness.program("deep_recursion"), 900, 20)
        rows = [row for row in self.all_stacks(run.trace, "leaked") if row["bytes"] == 20 * 333]
        self.assertEqual(len(rows), 1)
        self.assertIsNone(rows[0]["truncated"])
        self.assertEqual(sum("recurse" in frame["function"] for frame in rows[0]["stack"]), 901)
        # A report for people folds the frames between the innermost and the outermost of the recursion.
        self.assertEqual(self.heapprof("report", run.trace).count("899 frames of recursion of "), 1)
        all_frames = self.heapprof("report", run.trace, "--frames", "0")
        self.assertNotIn("frames of recursion", all_frames)
        self.assertEqual(all_frames.count("recurse(unsigned long)"), 901)

    def test_mmap(self):
        run = self.record(harness.program("ledger_mmap"), 300, MMAP=0)
        self.assertFalse(any(self.report(run.trace)["mmap"].values()))
        for thread in run.read().threads():
            self.assertFalse([event for event in thread.events if event.op >= trace_reader.MAP])

    def test_free_stacks(self):
        plain, stacks = self.single(), self.single(FREE_STACKS=1)
        heap, other = self.report(plain.trace)["heap"], self.report(stacks.trace)["heap"]
        for heaps in (heap, other):
            heaps.pop("peak_time_ns")
        self.assertEqual(heap, other)
        trace = stacks.read()
        site_of = trace.functions(trace_reader.Symbols(harness.program("ledger_single")))
        frees = [event for thread in trace.threads() for event in thread.events
                 if event.op in (trace_reader.FREE, trace_reader.FREE_STACK)]
        self.assertTrue(all(event.op == trace_reader.FREE_STACK for event in frees))
        self.assertEqual({site_of(event.node) for event in frees} - {None},
                         {"site_free", "site_delete", "site_delete_aligned"})

    def test_paused(self):
        run = self.single(PAUSED=1)
        self.assert_ledger_clean(run.ledger())
        report = self.report(run.trace)
        heap = report["heap"]
        # The recorder does not know whether the blocks of these frees are recorded, so it records all frees; none
        # matches a block.
        self.assertEqual((heap["allocations"], heap["frees"] - heap["unmatched_frees"], heap["peak_bytes"]),
                         (0, 0, 0))
        self.assertTrue(any("paused" in note for note in report["integrity"]["notes"]), report["integrity"]["notes"])

    def test_max_file_size(self):
        run = self.record(harness.program("ledger_threads"), 30_000, 1, 4, 3, MAX_FILE_SIZE="1M", timeout=120)
        self.assert_ledger_clean(run.ledger())
        self.assertLessEqual(run.trace.stat().st_size, 1 << 20)
        report = self.report(run.trace, status=(0, 1))
        self.assertEqual(report["integrity"]["ended_by"], "stopped")
        self.assertTrue(report["integrity"]["stop_reason"])
        self.assertGreater(report["events"], 10_000)
        self.assertEqual(report["heap"]["unmatched_frees"], 0)

    def test_settings_are_echoed(self):
        settings = self.single(MAX_DEPTH=77, MMAP="off").read().settings
        self.assertEqual((settings["HEAPPROF_MAX_DEPTH"], settings["HEAPPROF_MMAP"]), ("77", "0"))

    def test_record_options(self):
        run = self.record(harness.program("deep_recursion"), 300, 5, how="record",
                          options=("--max-depth", "100", "--mmap", "off"))
        settings = run.read().settings
        self.assertEqual((settings["HEAPPROF_MAX_DEPTH"], settings["HEAPPROF_MMAP"]), ("100", "0"))
        marker = self.dir / "ran"
        for options in (("--max-depth", "many"), ("--shadow-stack", "perhaps"), ("--no-such-option",)):
            with self.subTest(options=options):
                result = self.run_heapprof("record", "-o", self.dir / "x.heapprof", *options, "--", "touch", marker)
                self.assertEqual(result.returncode, 2)
                self.assertTrue(result.stderr)
                self.assertFalse(marker.exists())


if __name__ == "__main__":
    harness.main()
