"""heaptrack itself records the same deterministic program: two recorders, one truth."""

import shutil
import subprocess

import harness
import heaptrack_file


class Differential(harness.Case):
    def heaptrack(self, *arguments):
        """heaptrack's own recording of ledger_single, as totals."""
        folder = self.dir / f"heaptrack-{self.count}"
        folder.mkdir()
        self.count += 1
        subprocess.run(["heaptrack", harness.program("ledger_single"), *map(str, arguments)], cwd=folder, check=True,
                       env=harness.clean_environment(), capture_output=True, timeout=120)
        (path,) = folder.glob("heaptrack.ledger_single.*")
        return heaptrack_file.printed_totals(path)

    def test_same_figures(self):
        for seed in (1, 2):
            with self.subTest(seed=seed):
                arguments = (10_000, seed, 1)
                theirs, theirs_idle = self.heaptrack(*arguments), self.heaptrack(0, seed, 1)
                run = self.record(harness.program("ledger_single"), *arguments)
                idle = self.record(harness.program("ledger_single"), 0, seed, 1)
                ours, ours_idle = self.report(run.trace)["heap"], self.report(idle.trace)["heap"]
                truth = run.ledger().figures()
                self.assertEqual(ours["allocations"] - ours_idle["allocations"], truth.allocations)
                self.assertEqual(theirs["calls"] - theirs_idle["calls"], truth.allocations)
                # heaptrack has libstdc++ and libc free their own at the end, so its leaks are the program's alone.
                self.assertEqual(theirs["leaked"], heaptrack_file.rounded(truth.leaked_bytes))
                self.assertEqual(theirs["peak"], heaptrack_file.rounded(ours["peak_bytes"]))


if __name__ == "__main__":
    harness.skip_unless(shutil.which("heaptrack"), "heaptrack is not installed")
    harness.main()
