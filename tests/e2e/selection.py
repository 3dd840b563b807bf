"""Selections split what a program did without losing or doubling any of it, and wrong ones are refused."""

import re

import harness


class Selection(harness.Case):
    def setUp(self):
        super().setUp()
        self.run_ = self.record(harness.program("ledger_single"), 6_000, 1)
        self.trace = self.run_.trace
        self.whole = self.report(self.trace)["heap"]

    def heap(self, *options):
        return self.report(self.trace, *options)["heap"]

    def test_halves_add_up(self):
        middle = self.report(self.trace)["duration_ns"] // 2
        first = self.heap("--to", f"{middle}ns")
        second = self.heap("--from", f"{middle + 1}ns")
        for name in ("allocations", "allocated_bytes", "frees", "failed"):
            self.assertEqual(first[name] + second[name], self.whole[name], name)
        # A pair that the cut runs through is temporary in neither half.
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
                         sum(row["bytes"] for row in rows if any(pasted in frame["function"] for frame in row["stack"])))
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

    def test_reports_say_what_was_selected(self):
        """Figures of a part never look like those of all."""
        chosen = ("--function", "site_.*", "--min-size", "8K", "--live-at", "50%")
        words = "--function site_.*, --min-size 8192, --live-at 50%"
        for command, head in (("report", "only "), ("leaks", "only "), ("timeline", "Only: ")):
            self.assertIn(f"\n{head}{words}\n", self.heapprof(command, self.trace, *chosen), command)
            self.assertNotIn(head, self.heapprof(command, self.trace).split("\n\n")[0], command)
        self.assertIn(words, self.heapprof("flamegraph", self.trace, *chosen))
        self.assertEqual(self.report(self.trace, *chosen)["selected"], words)
        self.assertIsNone(self.report(self.trace)["selected"])

    def test_wrong_ones_are_refused(self):
        for options in (("--from", "x"), ("--from", "101%"), ("--function", "(("), ("--min-lifetime", "5%"),
                        ("--live-at", "1", "--kind", "mmap"), ("--min-size", "9", "--max-size", "8")):
            with self.subTest(options=options):
                self.heapprof("report", self.trace, *options, status=2)
        self.heapprof("report", self.trace, "--from", "3", "--to", "2", status=1)


if __name__ == "__main__":
    harness.main()
