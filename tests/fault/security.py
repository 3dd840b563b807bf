"""What docs/security.md promises about the trace, the environment and control requests."""

import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import harness

NOBODY = 65534


def as_root(test):
    return test if os.geteuid() == 0 else harness.unittest.skip("needs root")(test)


class Security(harness.Case):
    def steady(self, trace):
        return self.start_steady(trace, 2, SECRET_TOKEN="swordfish-4711")

    def public_folder(self):
        folder = Path(tempfile.mkdtemp(prefix="heapprof-public-"))
        folder.chmod(0o777)
        self.addCleanup(shutil.rmtree, folder)
        return folder

    def test_only_the_owner_may_read_whatever_the_umask(self):
        for mask in (0, 0o022, 0o777):
            trace = self.dir / f"mask.{mask}"
            before = os.umask(mask)
            try:
                self.record(harness.program("ledger_single"), 10, OUTPUT=trace)
            finally:
                os.umask(before)
            self.assertEqual(stat.S_IMODE(trace.stat().st_mode) & ~0o600, 0)
            self.assertEqual(stat.S_IMODE(trace.stat().st_mode), 0o600 & ~mask)

    def test_no_symbolic_link_is_followed_and_nothing_overwritten(self):
        precious = self.dir / "precious"
        precious.write_text("precious")
        for target in (precious, self.dir / "not-there"):
            link = self.dir / "link"
            link.symlink_to(target)
            self.record(harness.program("ledger_single"), 10, OUTPUT=link)
            self.assertTrue(link.is_symlink())
            self.assertTrue((self.dir / "link.1").is_file())
            link.unlink()
            (self.dir / "link.1").unlink()
        self.assertEqual(precious.read_text(), "precious")
        self.assertFalse((self.dir / "not-there").exists())
        self.record(harness.program("ledger_single"), 10, OUTPUT=precious)
        self.assertEqual(precious.read_text(), "precious")
        # The same for the log file.
        log = self.dir / "log"
        log.symlink_to(precious)
        self.record(harness.program("ledger_single"), 10, LOG="debug", LOG_FILE=log)
        self.assertEqual(precious.read_text(), "precious")

    def test_the_environment_is_not_recorded(self):
        run = self.record(harness.program("ledger_single"), 1_000, _SECRET_TOKEN="swordfish-4711", LOG="debug")
        self.assertNotIn(b"swordfish", run.trace.read_bytes())
        trace = self.dir / "children.%p"
        self.record("sh", "-c", f"{harness.program('ledger_single')} 100; true", _SECRET_TOKEN="swordfish-4711",
                    OUTPUT=trace,
                    CHILDREN=1)
        traces = list(self.dir.glob("children.*"))
        self.assertGreaterEqual(len(traces), 2)
        for path in traces:
            self.assertNotIn(b"swordfish", path.read_bytes())

    @as_root
    def test_privileged_programs_take_nothing_from_the_environment(self):
        """AT_SECURE, with the library in a folder from which the loader preloads it even then: no variable has an
        effect."""
        # Nobody else has the library there, and e2e/install_secure.py no settings for privileged programs.
        self.addCleanup(os.close, harness.lock_folder("/etc"))
        # A folder that the loader trusts, for the duration of the test; mode u+s as ld.so(8) requires.
        debian_folder = Path("/usr/lib/x86_64-linux-gnu")
        trusted = debian_folder if debian_folder.is_dir() else Path("/usr/lib")
        library = trusted / "libheapprof-test-secure.so"
        folder = self.public_folder()
        program = folder / "setuid"
        shutil.copy(harness.LIBRARY, library)
        self.addCleanup(library.unlink)
        library.chmod(0o4755)
        shutil.copy(harness.program("ledger_single"), program)
        os.chown(program, NOBODY, NOBODY)
        program.chmod(0o4755)
        environment = harness.clean_environment(LD_PRELOAD=library.name, HEAPPROF_OUTPUT=folder / "stolen.heapprof",
                                                HEAPPROF_LOG="debug", HEAPPROF_LOG_FILE=folder / "stolen.log",
                                                HEAPPROF_SESSION=f"1.1.0:{folder / 'stolen.session'}")
        run = subprocess.run([program, "100"], env=environment, capture_output=True, text=True, cwd=folder, user=1,
                             group=1,
                             extra_groups=())
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual([path.name for path in folder.iterdir() if path.name.startswith("stolen")], [])

    @as_root
    def test_control_needs_write_access_to_the_trace(self):
        folder = self.public_folder()
        trace = folder / "t.heapprof"
        process = self.steady(trace)
        heapprof = folder / "heapprof"
        shutil.copy(harness.HEAPPROF, heapprof)
        for command in (["control", trace, "pause"], ["control", trace, "mark", "x"],
                        ["control", "--pid", str(process.pid), "pause"],
                        ["report", trace]):
            done = subprocess.run([heapprof, *command], user=NOBODY, group=NOBODY, extra_groups=(),
                                  capture_output=True, text=True,
                                  env=harness.clean_environment(), cwd="/")
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertRegex(done.stderr, "[Pp]ermission|may not|denied|another user")
        # Read access is not enough.
        trace.chmod(0o644)
        done = subprocess.run([heapprof, "control", trace, "pause"], user=NOBODY, group=NOBODY, extra_groups=(),
                              capture_output=True, text=True, env=harness.clean_environment(), cwd="/")
        self.assertNotEqual(done.returncode, 0)
        state = self.heapprof("control", trace, "status")
        self.assertIn("recording", state)

    def test_the_mapping_is_overwritten_while_the_program_runs(self):
        for shadow_stack in (1, 0):
            run = self.record(harness.program("overwritten_trace"), 1.5, BLOCK_BYTES=4096, SHADOW_STACK=shadow_stack)
            self.assertGreater(int(run.stdout), 100_000)
            # heapprof reports the damage, and does not crash.
            done = self.run_heapprof("report", run.trace)
            self.assertIn(done.returncode, (0, 1), done.stderr)

    def test_the_file_is_overwritten_by_another_process(self):
        trace = self.dir / "s.heapprof"
        process = self.steady(trace)
        random = harness.random_generator("scribbles")
        with open(trace, "r+b", buffering=0) as file:
            for _ in range(300):
                self.steady_rounds(process)
                for _ in range(100):
                    file.seek(random.randrange(os.fstat(file.fileno()).st_size))
                    file.write(random.randbytes(64))
        process.terminate()
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn(self.run_heapprof("report", trace).returncode, (0, 1))

    def test_descriptors_are_not_inherited(self):
        run = self.record("sh", "-c", "ls -l /proc/self/fd; true")
        self.assertIn(" 0 -> /dev/null", run.stdout)
        self.assertNotIn(".heapprof", run.stdout.replace(str(self.dir), ""))
        self.assertNotIn("statm", run.stdout)


if __name__ == "__main__":
    harness.main()
