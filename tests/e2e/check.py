"""Limits: passed by one byte they fail, met exactly they hold; the JUnit file says the same as the exit status."""

import json
import xml.etree.ElementTree

import harness


class Check(harness.Case):
    def setUp(self):
        super().setUp()
        self.trace = self.record(harness.program("ledger_single"), 6_000, 1).trace
        self.heap = self.report(self.trace)["heap"]

    def test_limits_are_exact(self):
        figures = {"--max-peak": "peak_bytes", "--max-leaked": "leaked_bytes", "--max-leaked-blocks": "leaked_blocks",
                   "--max-allocated": "allocated_bytes", "--max-allocations": "allocations",
                   "--max-temporary": "temporary_allocations"}
        for option, name in figures.items():
            with self.subTest(option=option):
                self.heapprof("check", self.trace, option, self.heap[name])
                self.heapprof("check", self.trace, option, self.heap[name] - 1, status=3)

    def test_junit_and_json(self):
        junit = self.dir / "junit.xml"
        text = self.heapprof("check", self.trace, "--json", "--junit", junit, "--max-peak", 1, "--max-allocations", "100G",
                             status=3)
        result = json.loads(text)
        self.assertEqual([(check["name"], check["ok"]) for check in result["checks"]],
                         [("peak", False), ("allocations", True)])
        suite = xml.etree.ElementTree.parse(junit).getroot().find("testsuite")
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("2", "1"))
        self.assertEqual([case.find("failure") is not None for case in suite], [True, False])

    def test_baseline(self):
        self.heapprof("check", self.trace, "--baseline", self.trace, "--tolerance", 0)
        larger = self.record(harness.program("ledger_single"), 12_000, 1).trace
        self.heapprof("check", larger, "--baseline", self.trace, status=3)
        self.heapprof("check", self.trace, "--baseline", larger)

    def test_wrong_commands(self):
        self.heapprof("check", self.trace, status=2)
        self.heapprof("check", self.trace, "--baseline", self.dir / "missing", status=1)


if __name__ == "__main__":
    harness.main()
