"""heaptrack records the same deterministic program: both recorders must report the same figures."""

import re
import shutil
import subprocess
from collections import Counter

import harness
import heaptrack_file


class Differential(harness.Case):
    def heaptrack(self, *arguments):
        """Records ledger_single with heaptrack."""
        directory = self.dir / f"heaptrack-{self.count}"
        directory.mkdir()
        self.count += 1
        subprocess.run(["heaptrack", harness.program("ledger_single"), *map(str, arguments)], cwd=directory,
                       check=True, env=harness.clean_environment(), capture_output=True, timeout=120)
        (path,) = directory.glob("heaptrack.ledger_single.*")
        return path

    def histogram(self, path):
        """{size: number of allocations}, from heaptrack_print."""
        sizes = self.dir / "sizes"
        heaptrack_file.run_heaptrack_print(path, "-H", sizes)
        return Counter({int(size): int(count) for size, count in
                        (line.split("\t") for line in sizes.read_text().splitlines())})

    def by_function(self, path, cost):
        """{site: sum} of the program's call sites, from heaptrack_print's folded stacks."""
        stacks = self.dir / "stacks"
        heaptrack_file.run_heaptrack_print(path, "-F", stacks, "--flamegraph-cost-type", cost,
                                           "--shorten-templates=0")
        sums = Counter()
        for line in stacks.read_text(errors="replace").splitlines():
            stack, _, value = line.rpartition(" ")
            sites = re.findall(r"(?:^|;)\s*(site_\w+)", stack)
            if sites:
                sums[sites[-1]] += int(value)
        return +sums

    def test_same_sizes_and_functions(self):
        """Both have the same number of allocations of each size, and the same allocations, leaked bytes and bytes at
        the peak for each function."""
        theirs, theirs_idle = self.heaptrack(6_000, 7, 1), self.heaptrack(0, 7, 1)
        ours, ours_idle = (self.dir / f"{name}.heaptrack.gz" for name in ("work", "idle"))
        for work, path in ((6_000, ours), (0, ours_idle)):
            trace = self.record(harness.program("ledger_single"), work, 7, 1).trace
            self.heapprof("export", "heaptrack", trace, "-o", path)
        sizes = [self.histogram(path) for path in (theirs, theirs_idle, ours, ours_idle)]
        self.assertEqual(sizes[0] - sizes[1], sizes[2] - sizes[3])
        self.assertGreater(len(sizes[0] - sizes[1]), 300)
        for cost in ("allocations", "leaked", "peak"):
            wanted = self.by_function(theirs, cost)
            self.assertEqual(self.by_function(ours, cost), wanted, cost)
            self.assertGreater(len(wanted), 8, cost)

    def test_same_figures(self):
        for seed in (1, 2):
            with self.subTest(seed=seed):
                arguments = (10_000, seed, 1)
                theirs, theirs_idle = (heaptrack_file.printed_totals(self.heaptrack(*words))
                                       for words in (arguments, (0, seed, 1)))
                run = self.record(harness.program("ledger_single"), *arguments)
                idle = self.record(harness.program("ledger_single"), 0, seed, 1)
                ours, ours_idle = self.report(run.trace)["heap"], self.report(idle.trace)["heap"]
                truth = run.ledger().figures()
                self.assertEqual(ours["allocations"] - ours_idle["allocations"], truth.allocations)
                self.assertEqual(theirs["calls"] - theirs_idle["calls"], truth.allocations)
                # heaptrack makes libstdc++ and libc free their blocks at the end: its leaks are only the program's.
                self.assertEqual(theirs["leaked"], heaptrack_file.rounded(truth.leaked_bytes))
                self.assertEqual(theirs["peak"], heaptrack_file.rounded(ours["peak_bytes"]))


if __name__ == "__main__":
    harness.skip_unless(shutil.which("heaptrack"), "heaptrack is not installed")
    harness.main()
