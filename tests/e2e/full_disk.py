"""The trace's file system is full: the program is not affected, and the trace is readable up to that point."""

import atexit
import subprocess
import tempfile
from pathlib import Path

import harness

disk = Path(tempfile.mkdtemp(prefix="heapprof-test-disk-"))


def unmount():
    subprocess.run(["umount", disk], check=False, stderr=subprocess.DEVNULL)
    disk.rmdir()


class FullDisk(harness.Case):
    def check(self, size):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", disk], check=True)
        try:
            run = self.record(harness.program("ledger_threads"), 60_000, 1, 4, 1, OUTPUT=disk / "full.heapprof")
            self.assert_ledger_clean(run.ledger())
            messages = [line for line in run.stderr.splitlines() if line.startswith("heapprof")]
            self.assertEqual(len(messages), 1, run.stderr)
            trace = disk / "full.heapprof"
            if not trace.exists() or trace.stat().st_size == 0:
                return None
            report = self.report(trace, status=(0, 1))
            self.assertEqual(report["integrity"]["ended_by"], "stopped")
            self.assertTrue(report["integrity"]["stop_reason"])
            self.assertEqual(report["integrity"]["bytes_damaged"], 0)
            self.assertEqual((report["heap"]["unmatched_frees"], report["heap"]["implied_frees"]), (0, 0))
            return report
        finally:
            subprocess.run(["umount", disk], check=True)

    def test_almost_no_space(self):
        for size in (4096, 16384, 65536, 131072):
            with self.subTest(size=size):
                self.check(size)

    def test_full_while_recording(self):
        events = 0
        for size in ("600k", "1m", "2m"):
            with self.subTest(size=size):
                report = self.check(size)
                self.assertIsNotNone(report)
                events = max(events, report["events"])
        self.assertGreater(events, 1000)


if __name__ == "__main__":
    atexit.register(unmount)
    attempt = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True)
    harness.skip_unless(attempt.returncode == 0, "mounting a small tmpfs is not permitted here")
    subprocess.run(["umount", disk], check=True)
    harness.main()
