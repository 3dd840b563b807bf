"""heaptrack_gui opens exported files and stays open, on a display of its own."""

import shutil
import subprocess

import harness


class HeaptrackGui(harness.Case):
    def opens(self, path, seconds=12):
        result = subprocess.run(
            ["xvfb-run", "-a", "timeout", str(seconds), "heaptrack_gui", str(path)],
            env=harness.clean_environment(HOME=self.dir, XDG_RUNTIME_DIR=self.dir, LIBGL_ALWAYS_SOFTWARE=1),
            capture_output=True, text=True, timeout=120)
        # 124: it was still there when its time was up. A crash would be 134 or 139, a refused file 0 or 1.
        self.assertEqual(result.returncode, 124, result.stderr[-3000:])
        self.assertNotIn("failed to", result.stderr.lower())

    def test_single_and_threads(self):
        run = self.record(harness.program("ledger_single"), 8_000, 1)
        path = self.dir / "single.heaptrack.zst"
        self.heapprof("export", "heaptrack", run.trace, "-o", path)
        self.opens(path)
        run = self.record(harness.program("ledger_threads"), 5_000, 1)
        path = self.dir / "threads.heaptrack.gz"
        self.heapprof("export", "heaptrack", run.trace, "-o", path)
        self.opens(path)

    def test_nearly_empty(self):
        run = self.record(harness.program("ledger_single"), 0)
        path = self.dir / "empty.heaptrack"
        self.heapprof("export", "heaptrack", run.trace, "-o", path)
        self.opens(path, seconds=6)


if __name__ == "__main__":
    for needed in ("heaptrack_gui", "xvfb-run"):
        harness.skip_unless(shutil.which(needed), f"{needed} is not installed")
    harness.main()
