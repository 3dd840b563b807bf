"""Every command prints the same, byte for byte, with an index and without one."""

import os

import harness

# Random programs, and slices of all kinds, are in tests/unit/replay/index_test.cpp.
SLICES = ((), ("--to", "87%"), ("--from", "90%", "--to", "91%"), ("--from", "40%"))
OTHERS = (("tree", "--json"), ("tree", "--json", "--from", "40%", "--to", "95%"), ("report", "--by", "thread", "--json"), ("report", "--by", "line", "--csv", "--cost", "live"),
          ("report", "--no-history"), ("callers", "site_small"), ("source", "sites.h", "--json"),
          ("flamegraph", "--format", "folded"), ("leaks", "--no-history", "--json"),
          ("export", "speedscope", "-o", "-"), ("diff", "--json"),
          ("timeline", "--json"), ("timeline", "--by", "thread", "--json"), ("timeline", "--format", "csv"),
          ("timeline", "--by", "module"), ("report", "--history"), ("leaks", "--json"), ("churn", "--json"),
          ("threads", "--json"), ("threads", "--json", "--live-at", "50%"),
          ("reallocs", "--json"), ("reallocs", "--json", "--from", "40%", "--to", "95%"))
INTERVAL = 1 << 18  # events of an interval of an index, at least: kIntervalRecords in analyzer/replay/index


class Index(harness.Case):
    def test_same_answers(self):
        # So that slices from 40 % begin after the end of an interval, and those to 95 % end after that of a third.
        trace = self.record(harness.program("ledger_threads"), 230_000, 3, 2).trace
        events = self.report(trace)["events"]
        self.assertLess(INTERVAL, 0.4 * events)
        self.assertLess(3 * INTERVAL, 0.95 * events)
        self.heapprof("index", trace)
        for options in SLICES:
            self.check(trace, "report", "--json", *options)
        for command in OTHERS:
            self.check(trace, *command)

    def test_info(self):
        """`info` of a large trace, with more than 16 MB of frames, leaves an index, and the next one reads nothing
        else."""
        trace = self.record(harness.program("ledger_threads"), 350_000, 3, 2).trace
        without = self.heapprof("info", trace, "--json", "--no-index")
        indexes = harness.cache_folder() / "heapprof" / "index"
        self.assertFalse(indexes.exists())
        self.assertEqual(self.heapprof("info", trace, "--json"), without)
        self.assertEqual(len(list(indexes.iterdir())), 1)
        self.assertEqual(self.heapprof("info", trace, "--json"), without)

    def check(self, trace, command, *options):
        traces = [trace, trace] if command == "diff" else [trace]
        format_first = 1 if command == "export" else 0
        words = [command, *options[:format_first], *traces, *options[format_first:]]
        with self.subTest(words):
            with_index = self.run_heapprof(*words)
            without = self.run_heapprof(*words, "--no-index")
            self.assertEqual((with_index.returncode, with_index.stderr), (0, without.stderr))
            self.assertEqual(with_index.stdout, without.stdout)


if __name__ == "__main__":
    # A cache in which other tests write no indexes.
    os.environ.pop("HEAPPROF_TEST_CACHE", None)
    harness.main()
