"""`heapprof check`: a value equal to its limit is accepted, one byte more fails. The JUnit file agrees with the exit
status."""

import json
import re
import xml.etree.ElementTree

import harness


class Check(harness.Case):
    def setUp(self):
        super().setUp()
        self.trace = self.record_once(harness.program("ledger_single"), 6_000, 1).trace
        self.heap = self.call_once(self.report, self.trace)["heap"]

    def test_limits_are_exact(self):
        figures = {"--max-peak": "peak_bytes", "--max-leaked": "leaked_bytes", "--max-leaked-blocks": "leaked_blocks",
                   "--max-allocated": "allocated_bytes", "--max-allocations": "allocations",
                   "--max-temporary": "temporary_allocations"}
        for option, name in figures.items():
            with self.subTest(option=option):
                self.heapprof("check", self.trace, option, self.heap[name], "--no-suppressions")
                self.heapprof("check", self.trace, option, self.heap[name] - 1, "--no-suppressions", status=3)

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

    def test_a_recording_that_stopped_early(self):
        """What the program did after the largest file size was reached may have exceeded the limits."""
        trace = self.record(harness.program("ledger_single"), 60_000, 1, MAX_FILE_SIZE="256K").trace
        info = json.loads(self.heapprof("info", trace, "--json"))
        self.assertEqual((info["integrity"]["ended_by"], info["integrity"]["complete"]), ("stopped", True))
        self.assertIn("  complete        yes, until it stopped", self.heapprof("info", trace))
        junit = self.dir / "junit.xml"
        result = self.run_heapprof("check", trace, "--max-peak", "1G", "--json", "--junit", junit)
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("recording stopped after", result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual((answer["ok"], answer["checks"][0]["ok"]), (False, True))
        self.assertIn("no verdict", answer["no_verdict"])
        suite = xml.etree.ElementTree.parse(junit).getroot().find("testsuite")
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("2", "1"))
        # What was recorded is enough for a limit that it exceeds, and for a slice that ends before it.
        self.heapprof("check", trace, "--max-peak", 1, status=3)
        self.heapprof("check", trace, "--max-peak", "1G", "--to", "50%")
        self.assertIsNone(json.loads(self.heapprof("check", self.trace, "--max-peak", "1G", "--json"))["no_verdict"])

    def test_recordings_that_are_incomplete_or_cannot_be_read(self):
        """Exit status, text, JSON and JUnit agree that there is no verdict, of one recording and of several."""
        data = bytearray(self.record(harness.program("ledger_single"), 20_000, 1, BLOCK_BYTES=4096).trace.read_bytes())
        frames = [found.start() for found in re.finditer(b"HFRM", data)]
        data[frames[len(frames) // 2] + 100] ^= 1
        damaged, text = self.dir / "damaged.heapprof", self.dir / "text.heapprof"
        damaged.write_bytes(data)
        text.write_text("no recording\n" * 1000)
        junit = self.dir / "junit.xml"
        for traces, reason, cases in (([damaged], "incomplete", 2), ([self.trace, damaged], "incomplete", 3),
                                      ([self.trace, text], "1 recording cannot be read", 2)):
            with self.subTest(traces=traces):
                result = self.run_heapprof("check", *traces, "--max-peak", "1T", "--json", "--junit", junit)
                self.assertEqual(result.returncode, 1, result)
                answer = json.loads(result.stdout)
                self.assertFalse(answer["ok"])
                self.assertIn(reason, answer["no_verdict"])
                self.assertTrue(all(check["ok"] for check in answer["checks"]))
                suite = xml.etree.ElementTree.parse(junit).getroot().find("testsuite")
                self.assertEqual((suite.get("tests"), suite.get("failures")), (str(cases), "1"))
                self.assertRegex(self.heapprof("check", *traces, "--max-peak", "1T", status=1),
                                 f"(?m)^FAILED .*{reason}")
                self.heapprof("check", *traces, "--max-peak", 1, status=3)

    def test_mappings_that_were_not_recorded(self):
        """There is no verdict about them, of one recording and of several, and no limit is called met by a recording that
        lacks them."""
        without = self.record_once(harness.program("hello"), MMAP=0).trace
        junit = self.dir / "junit.xml"
        for traces, cases in (([without], 1), ([self.trace, without], 2)):
            for kind in ("mmap", "all"):
                with self.subTest(traces=traces, kind=kind):
                    result = self.run_heapprof("check", *traces, "--kind", kind, "--max-peak", "1T", "--json",
                                               "--junit", junit)
                    self.assertEqual(result.returncode, 1, result)
                    answer = json.loads(result.stdout)
                    self.assertFalse(answer["ok"])
                    self.assertIn("mappings were not recorded (HEAPPROF_MMAP=0), so no verdict", answer["no_verdict"])
                    self.assertEqual(len(answer["checks"]), cases - 1)
                    self.assertEqual(result.stderr.count("mappings were not recorded"), 1, result.stderr)
                    text = self.heapprof("check", *traces, "--kind", kind, "--max-peak", "1T", status=1)
                    self.assertEqual(len(re.findall("(?m)^ok ", text)), cases - 1, text)
                    suite = xml.etree.ElementTree.parse(junit).getroot().find("testsuite")
                    self.assertEqual((suite.get("tests"), suite.get("failures")), (str(cases), "1"))
        text = self.heapprof("check", self.trace, without, "--kind", "mmap", "--max-sum-peak", "1T", "--max-sum-leaked",
                             "1T", status=1)
        self.assertNotIn("all processes together", text)
        self.heapprof("check", without, "--kind", "all", "--max-peak", 1, status=3)
        self.heapprof("check", self.trace, "--kind", "mmap", "--max-peak", "1T")

    def test_several_recordings_without_figures(self):
        """If the suppressions cannot be read, no limit is met."""
        result = self.run_heapprof("check", self.trace, self.record_once(harness.program("hello")).trace, "--max-leaked",
                                   "1T", "--suppressions", self.dir / "missing")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("missing: cannot be read", result.stderr)

    def test_a_name_that_matches_nothing(self):
        """After a function was renamed, a limit for its old name fails instead of being met for ever."""
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
                # A limit of 0 for allocations requires that no function with this name allocates: it is met.
                for none in ("--max-allocations", "--max-allocated", "--max-peak"):
                    self.heapprof("check", self.trace, *selection, "--max-leaked", 0, none, 0)
                self.heapprof("check", self.trace, *selection, "--baseline", self.trace, status=1)
        # The names match, but no block matches the other filters: the limit holds.
        self.heapprof("check", self.trace, "--function", "^main$", "--min-size", "1T", "--max-leaked", 0)
        self.heapprof("check", self.trace, "--min-size", "1T", "--max-leaked", 0)
        self.heapprof("check", self.trace, "--function", "^main$", "--max-allocations", "100G")

    def test_a_program_without_leaks_passes(self):
        """Blocks of the runtime (stdio's buffer, libstdc++'s pool) are suppressed as in `leaks`, and counted."""
        trace = self.record_once(harness.program("hello")).trace
        leaks = json.loads(self.heapprof("leaks", trace, "--json"))
        leaked = leaks["heap"]["leaked_bytes"], leaks["heap"]["leaked_blocks"]
        self.assertGreater(leaked[0], 0)
        self.assertEqual((leaks["suppressed_bytes"], leaks["suppressed_blocks"]), leaked)
        self.assertIn("no leaks", self.heapprof("leaks", trace))
        junit = self.dir / "junit.xml"
        limits = ("--max-leaked", 0, "--max-leaked-blocks", 0)
        text = self.heapprof("check", trace, *limits, "--junit", junit)
        self.assertRegex(text, rf"(?m)^ok +leaked: 0 B .*\({leaked[0]:,}\) suppressed$")
        self.assertRegex(text, rf"(?m)^ok +leaked blocks: 0 .*; {leaked[1]:,} suppressed$")
        cases = xml.etree.ElementTree.parse(junit).getroot().find("testsuite").findall("testcase")
        for case in cases:
            self.assertIsNone(case.find("failure"))
            self.assertIn("suppressed", case.find("system-out").text)
        answer = json.loads(self.heapprof("check", trace, *limits, "--json"))
        self.assertEqual((answer["suppressed_bytes"], answer["suppressed_blocks"]), leaked)
        self.assertEqual((answer["leaked_bytes"], answer["leaked_blocks"]), leaked)
        self.assertEqual(answer["suppressed"], leaks["suppressed"])
        self.assertEqual([check["figure"] for check in answer["checks"]], [0, 0])
        # Without the built-in suppressions, all blocks are compared.
        for switch in ("--no-suppressions", "--no-default-suppressions"):
            answer = json.loads(self.heapprof("check", trace, *limits, "--json", switch, status=3))
            self.assertEqual([check["figure"] for check in answer["checks"]], list(leaked))
            self.assertEqual((answer["leaked_bytes"], answer["suppressed_bytes"]), (leaked[0], 0))
        self.assertEqual(json.loads(self.heapprof("leaks", trace, "--json", "--no-suppressions"))["suppressed_bytes"],
                         0)

    def test_leaks_that_are_not_suppressed_fail(self):
        leaked = 12_345
        clean = self.record_once(harness.program("hello")).trace
        trace = self.record(harness.program("hello"), leaked).trace
        junit = self.dir / "junit.xml"
        text = self.heapprof("check", trace, "--max-leaked", leaked - 1, "--junit", junit, status=3)
        self.assertIn(f"({leaked:,}) exceeds the limit of", text)
        failure = xml.etree.ElementTree.parse(junit).getroot().find("testsuite/testcase/failure")
        self.assertIn(f"({leaked:,}) exceeds the limit of", failure.get("message"))
        self.heapprof("check", trace, "--max-leaked", leaked, "--max-leaked-blocks", 1)
        file = self.dir / "suppressions"
        file.write_text("leak:leak_one_block\n")
        answer = json.loads(self.heapprof("check", trace, "--max-leaked", 0, "--suppressions", file, "--json"))
        self.assertEqual([hit["bytes"] for hit in answer["suppressed"]["by"] if not hit["built_in"]], [leaked])
        # Suppressions apply to the baseline too: the runtime's blocks in it do not offset a leak.
        generous = ("--tolerance", 5000)
        self.heapprof("check", trace, "--baseline", clean, *generous, status=3)
        self.heapprof("check", trace, "--baseline", clean, *generous, "--suppressions", file)
        self.heapprof("check", trace, "--baseline", clean, *generous, "--no-suppressions")
        self.heapprof("check", trace, "--max-leaked", 0, "--suppressions", file, "--no-suppressions", status=2)
        self.heapprof("check", trace, "--max-leaked", 0, "--suppressions", self.dir / "missing", status=1)

    def test_wrong_commands(self):
        self.heapprof("check", self.trace, status=2)
        self.heapprof("check", self.trace, "--baseline", self.dir / "missing", status=1)


if __name__ == "__main__":
    harness.main()
