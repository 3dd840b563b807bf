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
        text = self.heapprof("check", self.trace, "--json", "--junit", junit, "--max-peak", 1, "--max-allocations",
                             "100G",
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

    def test_a_name_that_nothing_goes_by(self):
        """A limit on a function that was renamed must not pass for ever."""
        for selection in (["--function", "nosuch"], ["--module", "nosuch"], ["--thread", "nosuch"],
                          ["--function", "nosuch", "--from", "50%"]):
            with self.subTest(selection=selection):
                junit = self.dir / "junit.xml"
                result = self.run_heapprof("check", self.trace, *selection, "--max-leaked", 0, "--json", "--junit",
                                           junit)
                self.assertEqual(result.returncode, 1, result)
                self.assertIn(" ".join(selection[:2]), result.stderr)
                answer = json.loads(result.stdout)
                self.assertEqual((answer["ok"], answer["names_found"]), (False, False))
                suite = xml.etree.ElementTree.parse(junit).getroot().find("testsuite")
                self.assertEqual((suite.get("tests"), suite.get("failures")), ("2", "1"))
                text = self.heapprof("check", self.trace, *selection, "--max-leaked", 0, status=1)
                self.assertEqual(text.splitlines()[0].split()[:2], ["FAILED", "names:"])
                # That nothing is allocated there may be just what is asked for.
                for none in ("--max-allocations", "--max-allocated", "--max-peak"):
                    self.heapprof("check", self.trace, *selection, "--max-leaked", 0, none, 0)
                self.heapprof("check", self.trace, *selection, "--baseline", self.trace, status=1)
        # The names are there, but nothing else fits: a limit on that is met.
        self.heapprof("check", self.trace, "--function", "^main$", "--min-size", "1T", "--max-leaked", 0)
        self.heapprof("check", self.trace, "--min-size", "1T", "--max-leaked", 0)
        self.heapprof("check", self.trace, "--function", "^main$", "--max-allocations", "100G")

    def test_wrong_commands(self):
        self.heapprof("check", self.trace, status=2)
        self.heapprof("check", self.trace, "--baseline", self.dir / "missing", status=1)


if __name__ == "__main__":
    harness.main()
