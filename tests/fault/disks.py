"""Full disks, removed files, limits: the program is not affected, and the trace is readable up to that point. File
systems are on loop devices. A file system that cannot be mounted here is skipped."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import harness

SIZE = {"ext4": 8, "xfs": 320, "btrfs": 120}  # MB: the minimum of mkfs
MAKE = {"ext4": ["mkfs.ext4", "-q", "-O", "^has_journal"], "xfs": ["mkfs.xfs", "-q", "-f"],
        "btrfs": ["mkfs.btrfs", "-q", "-f"]}


class Disks(harness.Case):
    def mounted(self, kind, options=None, make=()):
        """The folder of a new file system, which is unmounted after the test."""
        for program in (MAKE[kind][0], "losetup"):
            if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
                self.skipTest(f"{program} is not installed")
        image, folder = self.dir / f"{kind}.image", self.dir / kind
        folder.mkdir(exist_ok=True)
        with open(image, "wb") as file:
            file.truncate(SIZE[kind] << 20)
        subprocess.run([*MAKE[kind], *make, image], check=True, capture_output=True,
                       env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin"))
        wanted = "loop" + (f",{options}" if options else "")
        done = subprocess.run(["mount", "-t", kind, "-o", wanted, image, folder], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"{kind} cannot be mounted here: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False, capture_output=True)
        return folder

    def fill(self, folder, leave):
        """Fills the file system, except for `leave` bytes. They are reserved first, because a file system may provide
        less than it reports as free."""
        aside = folder / "aside"
        with open(aside, "wb") as file:
            file.write(harness.random_generator("filler").randbytes(leave))
            os.fsync(file.fileno())
        with open(folder / "filler", "wb") as file:
            at, piece = 0, 16 << 20
            while piece >= 4096:
                try:
                    os.posix_fallocate(file.fileno(), at, piece)
                    at += piece
                except OSError:
                    piece //= 2
        aside.unlink()
        os.sync()

    def check_recording(self, trace, times=100_000, reason=None, stopped=True, **options):
        """The program's own checks hold, the recorder prints one line, and the figures of the trace agree."""
        run = self.record(harness.program("ledger_threads"), times, 1, 4, 1, OUTPUT=trace, BLOCK_BYTES=4096,
                          **options)
        self.assert_ledger_clean(run.ledger())
        messages = [line for line in run.stderr.splitlines() if line.startswith("heapprof")]
        self.assertEqual(len(messages), 1 if stopped else 0, run.stderr)
        if not trace.exists() or trace.stat().st_size == 0:
            return None
        report = self.report(trace, status=(0, 1))
        integrity = report["integrity"]
        self.assertEqual(integrity["bytes_damaged"], 0, integrity)
        self.assertEqual((report["heap"]["unmatched_frees"], report["heap"]["implied_frees"]), (0, 0))
        if stopped:
            self.assertEqual(integrity["ended_by"], "stopped")
            if reason:
                self.assertRegex(integrity["stop_reason"], reason)
        else:
            self.assert_sound(report)
        return report

    def full(self, kind, room):
        folder = self.mounted(kind)
        self.fill(folder, 0)
        # No space, and different small amounts of space: the recording stops at a different point each time.
        self.check_recording(folder / "none.heapprof")
        events = 0
        for number, bytes_ in enumerate(room):
            os.unlink(folder / "filler")
            self.fill(folder, bytes_)
            report = self.check_recording(folder / f"{number}.heapprof", reason="space")
            events = max(events, report["events"] if report else 0)
        self.assertGreater(events, 100)

    def test_full_ext4(self):
        self.full("ext4", (150_000, 400_000, 700_000))

    def test_full_xfs(self):
        self.full("xfs", (150_000, 400_000, 700_000))

    def test_full_btrfs(self):
        """btrfs reports that it is full later than its count of free space indicates. Reserved space is rewritten in
        place."""
        self.full("btrfs", (600_000, 1_500_000))

    def test_disk_quota(self):
        folder = self.mounted("btrfs")
        for command in (["quota", "enable", folder], ["qgroup", "limit", "3M", folder]):
            done = subprocess.run(["btrfs", *command], capture_output=True, text=True,
                                  env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin"))
            if done.returncode != 0:
                self.skipTest(f"quotas are not available: {done.stderr.strip()}")
        # With a quota, writing a reserved page can still fail, which would end the program with SIGBUS.
        run = self.record(harness.program("ledger_threads"), 100_000, 1, 4, 1, OUTPUT=folder / "quota.heapprof")
        self.assert_ledger_clean(run.ledger())
        self.assertRegex(run.stderr, "not recording: .*quota")
        # A quota without a limit does not prevent recording.
        subprocess.run(["btrfs", "qgroup", "limit", "none", folder], check=True, capture_output=True)
        self.check_recording(folder / "counted.heapprof", stopped=False, times=1000)

    def test_read_only_file_system(self):
        folder = self.mounted("ext4")
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        run = self.record(harness.program("ledger_threads"), 100, 1, 2, 1, OUTPUT=folder / "x.heapprof")
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertIn("read-only", run.stderr)

    def test_read_only_while_it_is_written(self):
        """Remounted with force, as after a disk error."""
        folder = self.mounted("ext4")
        trace = folder / "x.heapprof"
        process = self.start_steady(trace, 3, HEAPPROF_BLOCK_BYTES=4096)
        subprocess.run(["mount", "-o", "remount,ro,force", folder], capture_output=True, check=False)
        self.steady_rounds(process, 100)
        process.terminate()
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)

    def test_file_size_limit(self):
        """RLIMIT_FSIZE: the program does not get the recorder's SIGXFSZ."""
        for limit in (4096, 50_000, 400_000):
            trace = self.dir / f"limit.{limit}"
            run = subprocess.run([harness.program("hosts"), "work"], capture_output=True, text=True, timeout=60,
                                 env=harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace,
                                                               HEAPPROF_BLOCK_BYTES=4096),
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
            self.assertEqual((run.returncode, run.stdout), (0, "201000\n"), run.stderr)
            self.assertIn("file size limit", run.stderr)
            self.assertLessEqual(trace.stat().st_size, limit)
            if limit > 100_000:
                self.assertIn("ulimit -f", self.report(trace)["integrity"]["stop_reason"])

    def test_file_size_limit_before_exec(self):
        """The executed program writes to the trace of the one before, to mark it as ended by exec: it gets no SIGXFSZ
        either."""
        run = self.record("bash", "-c", "ulimit -f 0; exec /bin/true", status=0)
        self.assertIn("file size limit", run.stderr)

    def test_max_file_size(self):
        for limit in (100_000, 500_000):
            trace = self.dir / f"max.{limit}"
            self.check_recording(trace, reason="HEAPPROF_MAX_FILE_SIZE", MAX_FILE_SIZE=limit)
            self.assertLessEqual(trace.stat().st_size, limit)

    def while_it_runs(self, change):
        trace = self.dir / "here.heapprof"
        process = self.start_steady(trace, 3, HEAPPROF_BLOCK_BYTES=4096)
        self.steady_rounds(process, 50)
        kept = change(trace)
        self.steady_rounds(process, 100)
        process.terminate()
        _, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, errors), (0, ""))
        return kept

    def test_deleted_while_it_is_written(self):
        kept = self.dir / "kept.heapprof"

        def delete(trace):
            held = open(trace, "rb")
            trace.unlink()
            return held

        with self.while_it_runs(delete) as held:
            kept.write_bytes(held.read())
        self.assert_sound(self.report(kept))

    def test_renamed_while_it_is_written(self):
        other = self.dir / "other.heapprof"
        self.while_it_runs(lambda trace: trace.rename(other))
        self.assert_sound(self.report(other))

    def test_another_file_in_its_place(self):
        """The recorder does not reopen its file by a path that names another file by now."""
        trace = self.dir / "swap.heapprof"

        def swap(trace):
            trace.rename(self.dir / "moved.heapprof")
            trace.write_text("precious")

        self.while_it_runs(swap)
        self.assertEqual((self.dir / "here.heapprof").read_text(), "precious")
        self.assert_sound(self.report(self.dir / "moved.heapprof"))
        self.assertFalse(trace.exists())

    def test_fuse(self):
        """Blocks are staged in private memory; the header has a flag for it, and the report a note."""
        if shutil.which("bindfs") is None or not Path("/dev/fuse").exists():
            self.skipTest("bindfs is not installed, or there is no FUSE")
        below, folder = self.dir / "below", self.dir / "fuse"
        below.mkdir()
        folder.mkdir()
        if subprocess.run(["bindfs", below, folder], capture_output=True).returncode != 0:
            self.skipTest("FUSE cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False, capture_output=True)
        run = self.record(harness.program("hosts"), "work", OUTPUT=folder / "f.heapprof", status=0)
        self.assertEqual(run.stdout, "201000\n")
        self.assert_sound(self.report(below / "f.heapprof"))
        counted = self.report(below / "f.heapprof", "--min-size", 777, "--max-size", 777)["heap"]
        self.assertEqual((counted["allocations"], counted["leaked_blocks"]), (201_000, 10))
        self.check_ends_on_fuse(below, folder)
        self.record(harness.program("ledger_kill"), 20_000_000, 1, 3, OUTPUT=folder / "k.heapprof", status=-9)
        report = self.report(below / "k.heapprof", status=(0, 1))
        self.assertTrue(any("last" in note for note in report["integrity"]["notes"]), report["integrity"]["notes"])

    def check_ends_on_fuse(self, below, folder):
        """A program's events are in the file however it ends by itself, also those of threads that have ended, and a
        note says that other threads ran."""
        for how, status in (("_exit", 7), ("exec", 0)):
            self.record(harness.program("exec_chain"), how, "/bin/true", OUTPUT=folder / f"{how}.heapprof",
                        status=status)
            sizes = self.report(below / f"{how}.heapprof", "--min-size", 55, "--max-size", 55, status=(0, 1))["heap"]
            self.assertGreaterEqual(sizes["allocations"], 100, how)
        running = "threads still ran when the program ended: on this file system, their last events may be missing"
        for attempt in range(10):
            trace = f"t{attempt}.heapprof"
            run = self.record(harness.program("ledger_threads"), 1000, 1, 4, 1, OUTPUT=folder / trace)
            report = self.report(below / trace, status=(0, 1))
            # The kernel may have taken long to end a thread that was joined.
            if running not in report["integrity"]["notes"]:
                break
        self.assert_sound(report)
        self.assertGreaterEqual(report["heap"]["allocations"], run.ledger().figures().allocations)
        script = self.dir / "daemon.py"
        script.write_text("import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n")
        self.record(sys.executable, script, OUTPUT=folder / "d.heapprof")
        self.assertIn(running, self.report(below / "d.heapprof", status=(0, 1))["integrity"]["notes"])


if __name__ == "__main__":
    harness.skip_unless(os.geteuid() == 0, "mounting file systems needs root")
    harness.main()
