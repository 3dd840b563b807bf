"""The file system is full. Of a trace: the program is not affected, and the trace is readable up to that point. Of an
output: the file that had its name is unchanged."""

import atexit
import os
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

    def test_outputs_leave_the_old_file(self):
        trace = self.record(harness.program("ledger_single"), 60_000, 1, 1).trace
        small = self.record(harness.program("ledger_single"), 50, 1, 1).trace
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk], check=True)
        try:
            for command in (["export", "csv"], ["export", "heaptrack"], ["bundle"], ["report", "--json", "--top", "0"]):
                old = disk / "old"
                old.write_bytes(small.read_bytes()[:4096] if command == ["bundle"] else b"old")
                before = old.read_bytes()
                free = os.statvfs(disk)
                filler = disk / "filler"
                filler.write_bytes(bytes((free.f_bavail - 2) * free.f_bsize))
                result = self.run_heapprof(*command, trace, "-o", old)
                self.assertEqual(result.returncode, 1, command)
                self.assertIn(f"{old}: cannot be written: No space left on device", result.stderr, command)
                self.assertEqual(old.read_bytes(), before, command)
                self.assertEqual(sorted(disk.iterdir()), [filler, old], command)
                filler.unlink()
        finally:
            subprocess.run(["umount", disk], check=True)


if __name__ == "__main__":
    atexit.register(unmount)
    attempt = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True)
    harness.skip_unless(attempt.returncode == 0, "mounting a small tmpfs is not permitted here")
    subprocess.run(["umount", disk], check=True)
    harness.main()
