"""Complementary selections add up to the totals, and invalid selections are rejected."""

import json
import re

import harness


class Selection(harness.Case):
    def setUp(self):
        super().setUp()
        self.trace = self.record_once(harness.program("ledger_single"), 6_000, 1).trace
        self.report_json = self.call_once(self.report, self.trace)
        self.whole = self.report_json["heap"]

    def heap(self, *options):
        return self.report(self.trace, *options)["heap"]

    def test_halves_add_up(self):
        middle = self.report_json["duration_ns"] // 2
        first = self.heap("--to", f"{middle}ns")
        second = self.heap("--from", f"{middle + 1}ns")
        for name in ("allocations", "allocated_bytes", "frees", "failed"):
            self.assertEqual(first[name] + second[name], self.whole[name], name)
        # A temporary allocation that spans both halves counts in neither.
        cut = self.whole["temporary_allocations"] - first["temporary_allocations"] - second["temporary_allocations"]
        self.assertIn(cut, (0, 1))
        self.assertEqual(max(first["peak_bytes"], second["peak_bytes"]), self.whole["peak_bytes"])
        everything = self.heap("--from", "0%", "--to", "100%")
        self.assertEqual(everything, self.whole)

    def test_functions_split(self):
        rows = self.report(self.trace, "--top", 0, "--cost", "allocated")["top"]
        name = next(frame["function"] for row in rows for frame in row["stack"]
                    if frame["function"] not in ("", "main"))
        pattern = "^" + re.sub(r"([^\w ])", r"[\1]", name).replace("[^]", r"\^") + "$"
        pasted = next(frame["function"] for row in rows for frame in row["stack"] if "(" in frame["function"])
        self.assertEqual(self.heap("--function", pasted)["allocated_bytes"],
                         sum(row["bytes"] for row in rows
                             if any(pasted in frame["function"] for frame in row["stack"])))
        expected = sum(row["bytes"] for row in rows if any(frame["function"] == name for frame in row["stack"]))
        with_it = self.heap("--function", pattern)
        without = self.heap("--not-function", pattern)
        self.assertGreater(expected, 0)
        self.assertEqual(with_it["allocated_bytes"], expected)
        self.assertEqual(with_it["allocated_bytes"] + without["allocated_bytes"], self.whole["allocated_bytes"])
        self.assertEqual(with_it["leaked_blocks"] + without["leaked_blocks"], self.whole["leaked_blocks"])

    def test_modules(self):
        self.assertEqual(self.heap("--module", "ledger_singl?")["allocations"],
                         sum(row["blocks"]
                             for row in self.report(self.trace, "--top", 0, "--cost", "allocations")["top"]
                             if any(frame["module"].endswith("/ledger_single") for frame in row["stack"])))

    def test_lifetimes_split(self):
        short = self.heap("--max-lifetime", "50us")
        long_or_never = self.heap("--min-lifetime", "50.001us")
        self.assertLessEqual(short["allocations"] + long_or_never["allocations"], self.whole["allocations"])
        self.assertEqual(short["leaked_blocks"], 0)
        live = self.heap("--live-at", f"{self.whole['peak_time_ns']}ns")
        self.assertGreater(live["peak_bytes"], 0)
        self.assertLessEqual(live["peak_bytes"], self.whole["peak_bytes"])

    def test_classes_of_the_histogram(self):
        """Options select each class of sizes and lifetimes, also in a slice and of a moment."""
        # The peak is at the same event in each run; shares of the time depend on the load of the machine.
        peak = f"{self.whole['peak_time_ns']}ns"
        for selection in ((), ("--from", "1us", "--to", peak), ("--live-at", peak)):
            cells = json.loads(self.heapprof("histogram", self.trace, "--json", *selection))["cells"]
            left = [cell for cell in cells if cell["from_ns"] is None]
            freed = [cell for cell in cells if cell["from_ns"] is not None]
            self.assertTrue(left and freed)
            for cell in left[::8] + freed[::8]:
                options = ["--min-size", cell["from_bytes"], "--max-size", cell["to_bytes"]]
                if cell["from_ns"] is None:
                    options += ["--freed", "no"]
                else:
                    options += ["--freed", "yes", "--min-lifetime", f"{cell['from_ns']}ns"]
                if cell["below_ns"] is not None:
                    options += ["--max-lifetime", f"{cell['below_ns'] - 1}ns"]
                with self.subTest(selection=selection, options=options):
                    found = json.loads(self.heapprof("histogram", self.trace, "--json", *selection, *options))
                    self.assertEqual(found["cells"], [cell])
                    self.assertEqual((found["allocations"], found["allocated_bytes"]), (cell["blocks"], cell["bytes"]))

    def test_outputs_name_the_selection(self):
        """Every output of a selection names the selection."""
        chosen = ("--function", "site_.*", "--min-size", "8K", "--live-at", "50%")
        words = "--function site_.*, --min-size 8192, --live-at 50%"
        for command, head in (("report", "only "), ("leaks", "only "), ("timeline", "Only: ")):
            self.assertIn(f"\n{head}{words}\n", self.heapprof(command, self.trace, *chosen), command)
            self.assertNotIn(head, self.heapprof(command, self.trace).split("\n\n")[0], command)
        self.assertIn(words, self.heapprof("flamegraph", self.trace, *chosen))
        self.assertEqual(self.report(self.trace, *chosen)["selected"], words)
        self.assertIsNone(self.report_json["selected"])

    def test_invalid_selections(self):
        for options in (("--from", "x"), ("--from", "101%"), ("--function", "(("), ("--min-lifetime", "5%"),
                        ("--live-at", "1", "--kind", "mmap"), ("--freed", "no", "--kind", "mmap"),
                        ("--min-size", "9", "--max-size", "8")):
            with self.subTest(options=options):
                self.heapprof("report", self.trace, *options, status=2)
        self.heapprof("report", self.trace, "--from", "2ms", "--to", "1ms", status=2)


class Figures(harness.Case):
    """Every figure of an output counts only the selection."""

    def setUp(self):
        super().setUp()
        run = self.record_once(harness.program("idle_times"))
        self.trace = run.trace
        self.truth = json.loads(run.stdout)
        self.report_json = self.call_once(self.report, self.trace)
        self.timeline = json.loads(self.call_once(self.heapprof, "timeline", self.trace, "--json"))
        marks = {mark["text"]: mark["time_ns"] for mark in self.timeline["marks"]}
        self.idle = [(marks[f"idle {i}"] + marks[f"busy {i}"]) // 2 for i in range(len(self.truth["live"]))]

    def rows(self, *options, command="report", trace=None):
        """{label: figure} of a report's header."""
        head = self.heapprof(command, trace or self.trace, *options).split("\n\n")[1]
        return {line[2:13].strip(): re.split(r"  +", line[13:].strip(), maxsplit=1) for line in head.splitlines()}

    def human(self, count):
        mebibytes = count / (1 << 20)
        return f"{mebibytes:.{2 if mebibytes < 9.995 else 1 if mebibytes < 99.95 else 0}f} MiB"

    def test_moments(self):
        resident_of = set()
        for moment, live in zip(self.idle, self.truth["live"]):
            options = ("--live-at", f"{moment}ns", "--function", "hold")
            report = self.report(self.trace, *options)
            self.assertEqual(report["heap"]["peak_bytes"], live)
            self.assertEqual(report["live_at_ns"], moment)
            self.assertEqual(set(report["mmap"].values()), {0})
            sampled = [bytes_ for time, bytes_ in zip(self.timeline["rss"]["time_ns"], self.timeline["rss"]["bytes"])
                       if time <= moment]
            self.assertEqual(report["peak_rss_bytes"], sampled[-1])
            resident_of.add(sampled[-1])
            rows = self.rows(*options)
            self.assertEqual(set(rows), {"live", "never freed", "resident"})
            self.assertEqual(rows["resident"][0], self.human(sampled[-1]))
            if live:
                self.assertEqual(rows["live"][0], self.human(live))
                self.assertIn("\nLive at ", self.heapprof("report", self.trace, *options))
        self.assertGreater(len(resident_of), 1, "the program's resident memory never changes: nothing is tested")

    def test_slices(self):
        """A slice without events: the live blocks, and no peak of another time."""
        moment, live = self.idle[1], self.truth["live"][1]
        options = ("--from", f"{moment}ns", "--to", f"{moment + 50_000_000}ns")
        report = self.report(self.trace, *options)
        self.assertEqual(report["heap"]["peak_time_ns"], moment)
        self.assertEqual(self.report(self.trace, *options, "--function", "hold")["heap"]["peak_bytes"], live)
        self.assertIsNone(report["peak_rss_bytes"])
        self.assertNotIn("resident", self.rows(*options))
        for command in ("report", "leaks", "diff"):
            traces = (self.trace,) * (2 if command == "diff" else 1)
            self.assertIn("\nonly from ", self.heapprof(command, *traces, *options), command)
        self.assertIn("From: ", self.heapprof("flamegraph", self.trace, *options))

    def test_resident_memory_has_no_stack(self):
        for options in (("--function", "hold"), ("--min-size", "4K"), ("--thread", "idler"),
                        ("--min-lifetime", "1ms")):
            self.assertIsNone(self.report(self.trace, *options)["peak_rss_bytes"], options)
            self.assertNotIn("resident", self.rows(*options), options)
        self.assertGreater(self.report_json["peak_rss_bytes"], 0)
        self.assertIn("resident", self.rows())

    def test_times_after_the_end_of_the_recording(self):
        duration = self.report_json["duration_ns"]
        out = self.dir / "out.csv"
        commands = [(command,) for command in ("report", "leaks", "timeline", "flamegraph", "churn", "threads",
                                               "reallocs", "histogram", "frees")]
        commands += [("check", "--max-peak", "1G"), ("diff", self.trace), ("export", "csv", "-o", out)]
        for command in commands:
            for options in (("--live-at", "99"), ("--from", "50"), ("--from", "50", "--to", "60")):
                with self.subTest(command=command, options=options):
                    result = self.run_heapprof(*command, self.trace, *options)
                    self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
                    self.assertEqual(result.stdout, "")
                    self.assertIn(f"{options[0]} {options[1]} is after the recording's end", result.stderr)
                    end = re.search(r" at ([0-9.]+)s; give at most that", result.stderr)
                    self.assertIsNotNone(end, result.stderr)
                    self.assertEqual(round(float(end[1]) * 1e9), duration)
        self.assertFalse(out.exists())
        # The report rounds the duration; a slice may end later than the recording.
        self.assertIn("live", self.rows("--live-at", f"{duration * 1.004:.0f}ns"))
        self.assertEqual(self.report(self.trace, "--to", "99")["heap"], self.report_json["heap"])

    def test_kinds(self):
        """The header has the figures of the kind."""
        rows = self.rows("--kind", "mmap")
        self.assertEqual((rows["peak"][0], rows["live"][0], rows["mapped"][0]), ("0 B",) * 3)
        self.assertNotIn("temporary", rows)
        result = self.run_heapprof("report", self.trace, "--kind", "mmap")
        self.assertIn("the program made no mapping", result.stderr)
        mapping = self.record(harness.program("ledger_mmap")).trace
        report = self.report(mapping, "--kind", "mmap", "--cost", "allocated")
        self.assertGreater(report["mmap"]["mapped_bytes"], 10 << 20)
        rows = self.rows("--kind", "mmap", trace=mapping)
        self.assertEqual(rows["peak"][0], self.human(report["mmap"]["peak_bytes"]))
        self.assertEqual(rows["mapped"][0], self.human(report["mmap"]["mapped_bytes"]))
        self.assertIn(f" {report['mmap']['mappings']:,} mappings", " " + rows["mapped"][1][3:])
        everything = self.report(mapping, "--kind", "all", "--cost", "allocated")["total"]
        self.assertEqual(self.rows("--kind", "all", trace=mapping)["allocated"][0], self.human(everything["bytes"]))
        # If mappings were not recorded, --kind mmap is rejected.
        without = self.record(harness.program("idle_times"), MMAP=0).trace
        for kind in ("mmap", "all"):
            result = self.run_heapprof("report", without, "--kind", kind)
            self.assertEqual(result.returncode, 1)
            self.assertIn("mappings were not recorded (HEAPPROF_MMAP=0)", result.stderr)

    def test_failures_and_unknown_blocks(self):
        """Failed calls outside the selection and frees of unknown blocks do not count."""
        trace = self.record(harness.program("ledger_failures")).trace
        self.assertGreater(self.report(trace)["heap"]["failed"], 0)
        for options in (("--function", "^no_function_has_this_name$"), ("--thread", "nobody"), ("--max-size", "0")):
            heap = self.report(trace, *options)["heap"]
            self.assertEqual((heap["failed"], heap["unmatched_frees"]), (0, 0), options)


if __name__ == "__main__":
    harness.main()
