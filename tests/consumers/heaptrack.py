"""heaptrack_print: calls, peak, leaks, the histogram of sizes and the sums over all stacks equal the report's."""

import json
import re
import shutil
from collections import Counter

import consumers
import harness
import heaptrack_file
import nasty
import viewer

UNCHANGED = ("--disable-builtin-suppressions", "--disable-embedded-suppressions", "--shorten-templates=0")
# Without lists of the largest stacks, which are printed once for each file.
TOTALS_ONLY = ("--print-peaks=0", "--print-allocators=0", "--print-temporary=0")


class Heaptrack(consumers.Case):
    def test_totals(self):
        self.each_sample(self.check)

    def test_selections(self):
        """The export accepts the selections that report accepts."""
        self.each_selection(self.check, of_mappings=False)
        self.refuses_mappings("heaptrack")

    def stacks_of(self, file, cost, *options):
        """The stacks of heaptrack_print's folded output. Its text is in `printed`."""
        stacks = self.dir / "stacks"
        self.printed = self.run_consumer("heaptrack_print", "-f", file, *UNCHANGED, "-F", stacks,
                                         "--flamegraph-cost-type", cost, *options,
                                         environment=heaptrack_file.HUGE_PAGES)
        self.shown = stacks.read_bytes()
        return [int(line.rpartition(b" ")[2]) for line in self.shown.split(b"\n") if line]

    def check(self, name, trace):
        file = self.export("heaptrack", trace)
        totals = self.totals(trace)
        sizes = self.dir / "sizes"
        self.assertEqual(sum(self.stacks_of(file, "allocations", "-H", sizes)), totals["allocations"])
        calls = int(re.search(r"calls to allocation functions: (\d+)", self.printed).group(1))
        self.assertEqual(calls, totals["allocations"])
        histogram = [line.split("\t") for line in sizes.read_text().splitlines()]
        self.assertEqual(sum(int(count) for _, count in histogram), totals["allocations"])
        self.assertEqual(sum(int(size) * int(count) for size, count in histogram), totals["allocated_bytes"])
        leaked = re.search(r"total memory leaked: (\S+)", self.printed).group(1)
        self.assertEqual(leaked, heaptrack_file.rounded(totals["leaked_bytes"]))
        self.assertEqual(sum(self.stacks_of(file, "leaked", *TOTALS_ONLY)), totals["leaked_bytes"])
        if name == "nasty":
            self.check_nasty_names(self.shown.decode())
            self.check_nasty_names(self.shown.decode(), [f"({file})" for file in nasty.clean_files()])
        self.check_peak(sum(self.stacks_of(file, "peak", *TOTALS_ONLY)), totals)

    def test_runtime_of_a_slice(self):
        """The total runtime, from which heaptrack computes rates, ends with the slice."""
        file = self.export("heaptrack", self.folder / "plain.heapprof", "--to", "50ms")
        self.stacks_of(file, "peak", *TOTALS_ONLY)
        seconds = float(re.search(r"total runtime: ([\d.]+)s\.", self.printed).group(1))
        self.assertAlmostEqual(seconds, 0.05, delta=0.002)

    def test_inclusive_sums(self):
        """The totals of `report --by function` are the sums over heaptrack_print's stacks that have the function."""
        trace = self.record(harness.program("ledger_single"), 2_000, 1, 1).trace
        file = self.export("heaptrack", trace)
        rows = json.loads(self.heapprof("report", trace, "--by", "function", "--json"))["rows"]
        names = Counter(row["name"] for row in rows)
        for cost, figure in (("allocations", "allocations"), ("leaked", "leaked_bytes")):
            self.stacks_of(file, cost)
            theirs = Counter()
            for line in self.shown.decode().splitlines():
                frames, _, value = line.rpartition(" ")
                # A frame is "name (file)". heaptrack_print omits the callers of main.
                for name in {re.sub(r" \([^()/ ]+\.\w+\)$", "", frame) for frame in frames.split(";")}:
                    theirs[name] += int(value)
            ours = {row["name"]: row["total"][figure] for row in rows
                    if row["origin"] == "own" and names[row["name"]] == 1 and row["total"][figure] != 0}
            self.assertGreater(len(ours), 5)
            self.assertEqual({name: theirs[name] for name in ours}, ours, cost)


@harness.unittest.skipIf(viewer.missing(), f"{viewer.missing()} is not installed")
class Gui(consumers.Case):
    def test_samples_are_shown(self):
        """All samples at once, each in its own window."""
        files = {}
        self.each_sample(lambda name, trace: files.update({name: self.export("heaptrack", trace, suffix=".zst")}))
        self.assertEqual(viewer.open_files(list(files.values()), self.dir, harness.clean_environment()), [])


if __name__ == "__main__":
    harness.skip_unless(shutil.which("heaptrack_print"), "heaptrack_print is not installed")
    harness.main()
