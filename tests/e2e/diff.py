"""`heapprof diff`: two recordings compared, stacks by their functions' names."""

import json
import re

import harness


class Diff(harness.Case):
    def trace(self, times):
        return self.record(harness.program("burst"), times).trace

    def diff(self, before, after, *options):
        return json.loads(self.heapprof("diff", before, after, "--json", "--top", "0", *options))

    def test_more_of_one_stack(self):
        few, many = self.trace(1000), self.trace(1700)
        diff = self.diff(few, many, "--cost", "allocated")
        self.assertEqual((diff["before"]["allocations"], diff["after"]["allocations"]),
                         (self.report(few)["heap"]["allocations"], self.report(many)["heap"]["allocations"]))
        self.assertEqual(diff["changed_stacks"], 1)
        (change,) = diff["top"]
        self.assertEqual((change["blocks_before"], change["blocks_after"], change["blocks"]), (1000, 1700, 700))
        self.assertEqual((change["bytes_before"], change["bytes_after"], change["bytes"]), (100_000, 170_000, 70_000))
        self.assertEqual(change["stack"][0]["function"], "main")
        (back,) = self.diff(many, few, "--cost", "allocations")["top"]
        self.assertEqual((back["bytes"], back["blocks"]), (-70_000, -700))

    def test_a_stack_in_only_one_trace(self):
        burst = self.trace(100)
        other = self.record(harness.program("ledger_single"), 500, 1).trace
        for options in (("--cost", "allocated"), ("--cost", "leaked"), ("--cost", "peak")):
            diff = self.diff(burst, other, *options)
            after = sum(row["bytes_after"] - row["bytes_before"] for row in diff["top"])
            name = {"allocated": "allocated_bytes", "leaked": "leaked_bytes", "peak": "peak_bytes"}[options[1]]
            self.assertEqual(after, diff["after"][name] - diff["before"][name], options)

    def test_the_same_trace_twice(self):
        trace = self.trace(100)
        self.assertEqual(self.diff(trace, trace)["top"], [])
        self.assertIn("none", self.heapprof("diff", trace, trace))

    def test_flame_graph(self):
        """Each frame has both values and is as wide as the larger one; the totals are those of the traces."""
        few, many = self.trace(1000), self.trace(1700)
        other = self.record(harness.program("ledger_single"), 500, 1).trace
        for before, after, cost, name in ((few, many, "allocated", "allocated_bytes"),
                                          (many, few, "allocations", "allocations"),
                                          (few, other, "leaked", "leaked_bytes")):
            with self.subTest(cost):
                expected = tuple(self.report(trace)["heap"][name] for trace in (before, after))
                svg = self.heapprof("diff", before, after, "--cost", cost, "--format", "svg")
                data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', svg, re.DOTALL)[1])
                self.assertEqual((data["was"][0], data["is"][0]), expected)
                for value, was, now, grade in zip(data["value"], data["was"], data["is"], data["grade"]):
                    self.assertGreaterEqual(value, max(was, now))
                    self.assertEqual((grade > 4) - (grade < 4), (now > was * 1.0101) - (was > now * 1.0101),
                                     (was, now))
                folded = self.heapprof("diff", before, after, "--cost", cost, "--format", "folded")
                rows = [line.rsplit(" ", 2) for line in folded.splitlines()]
                self.assertEqual(tuple(sum(int(row[i]) for row in rows) for i in (1, 2)), expected)
        self.heapprof("diff", few, many, "--format", "svg", "--json", status=2)

    def test_unreadable_traces(self):
        trace = self.trace(100)
        self.heapprof("diff", trace, self.dir / "none", status=1)
        self.heapprof("diff", self.dir / "none", trace, status=1)
        self.heapprof("diff", trace, status=2)

    def test_a_first_recording_of_which_nothing_is_left(self):
        trace, header = self.trace(100), self.dir / "header.heapprof"
        header.write_bytes(trace.read_bytes()[:5000])
        changes = json.loads(self.heapprof("diff", header, trace, "--json", status=1))
        self.assertEqual(changes["before"]["allocations"], 0)
        heap = self.report(trace)["heap"]
        for figure in ("peak_bytes", "leaked_bytes", "allocated_bytes", "allocations"):
            self.assertEqual(changes["after"][figure], heap[figure])


if __name__ == "__main__":
    harness.main()
