"""inferno-flamegraph (the flamegraph.pl of the Rust world): it reads folded stacks without a complaint, and its picture's total is the
report's; of a comparison too."""

import re

import consumers
import harness

UNITS = {"peak": "peak_bytes", "leaked": "leaked_bytes", "allocated": "allocated_bytes", "allocations": "allocations",
         "temporary": "temporary"}


class Folded(consumers.Case):
    def picture(self, folded):
        return self.run_consumer(consumers.inferno(), "--countname", "units", "--deterministic", folded)

    def total_of(self, picture):
        """Of the picture's lowest frame."""
        return int(re.search(r"<title>all \(([\d,]+) units, 100%\)</title>", picture).group(1).replace(",", ""))

    def folded(self, command, *arguments):
        path = self.dir / "stacks.folded"
        self.heapprof(command, *arguments, "--format", "folded", "-o", path, *self.options)
        return path

    def test_totals(self):
        self.each_sample(self.check)

    def test_selections(self):
        """What report takes, the flame graph takes."""
        self.each_selection(self.check, of_mappings=True)

    def check(self, name, trace):
        totals = self.totals(trace)
        for cost in ("leaked",) if name == "many" else UNITS:
            folded = self.folded("flamegraph", trace, "--cost", cost)
            if totals[UNITS[cost]] == 0:
                self.assertEqual(folded.read_text(), "")
                continue
            self.assertEqual(self.total_of(self.picture(folded)), totals[UNITS[cost]], cost)

    def test_names_arrive(self):
        picture = self.picture(self.folded("flamegraph", self.real(), "--cost", "leaked"))
        function = self.all_stacks(self.real(), "leaked")[0]["stack"][0]["function"]
        self.assertIn(function.split("(")[0].replace("<", "&lt;").replace(">", "&gt;"), picture)

    def test_comparison(self):
        """As wide as what is there after; more is red, less is blue."""
        before, after = self.folder / "plain.hprof", self.real()
        picture = self.picture(self.folded("diff", before, after, "--cost", "allocated"))
        self.assertEqual(self.total_of(picture), self.totals(after)["allocated_bytes"])
        self.assertRegex(picture, r"\+\d")


if __name__ == "__main__":
    harness.skip_unless(consumers.inferno(), "inferno-flamegraph: not built (tools/consumers.sh)")
    harness.main()
