"""`heapprof install-secure`: setuid and setcap programs are recorded, their caller controls no setting, and --remove
undoes the installation. Needs root. It changes this machine while it runs, so that another run of it and
fault/security.py wait, and is skipped where heapprof is already installed in this way."""

import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess

import harness

USER = 54322
OUTPUT_STATUS = 7  # of the program
CONFIGURATION = pathlib.Path("/etc/heapprof.conf")


class Installed(harness.Case):
    def setUp(self):
        super().setUp()
        self.dir.chmod(0o755)
        self.spool = self.dir / "spool"
        self.addCleanup(self.install, "--remove")
        self.messages = self.install("--directory", self.spool)

    def install(self, *options, status=0):
        done = self.run_heapprof("install-secure", *options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def install_without_space(self):
        """The messages of an installation that may write no byte to a file."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        done = subprocess.run([harness.HEAPPROF, "install-secure", "--directory", self.spool], capture_output=True,
                              text=True, env=harness.analyzer_environment(), preexec_fn=limit, check=False)
        self.assertEqual(done.returncode, 1)
        return done.stderr

    def make_app(self, name, mode=0o755, capabilities=None):
        app = self.dir / name
        shutil.copy(harness.program("privileged"), app)
        app.chmod(mode)
        if capabilities:
            subprocess.run(["setcap", capabilities, str(app)], check=True)
        return app

    def run_as_user(self, app, **environment):
        done = subprocess.run(["setpriv", f"--reuid={USER}", f"--regid={USER}", f"--groups={USER}", "--", "env",
                               *(f"{name}={value}" for name, value in environment.items()), str(app)],
                              env=harness.clean_environment(), capture_output=True, text=True, cwd="/", timeout=60,
                              stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, OUTPUT_STATUS, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def traces(self):
        return sorted(self.spool.glob("*"))

    def test_privileged_programs_are_recorded(self):
        for name, mode, capabilities, owner in (("setuid", 0o4755, None, 0),
                                                ("setcap", 0o755, "cap_net_raw=ep", USER)):
            with self.subTest(name):
                app = self.make_app(name, mode, capabilities)
                before = self.traces()
                plain, _ = self.run_as_user(app)
                recorded, messages = self.run_as_user(app, LD_PRELOAD="libheapprof.so")
                self.assertEqual((recorded, messages), (plain, ""))
                (trace,) = set(self.traces()) - set(before)  # one: the executed child is not recorded
                status = trace.stat()
                self.assertEqual((status.st_uid, status.st_mode & 0o777), (owner, 0o600))
                report = self.report(trace, "--cost", "leaked")
                self.assert_sound(report)
                self.assertEqual(report["program"], str(app))
                self.assertIn(4321, [row["bytes"] for row in report["top"]])

    def test_the_caller_controls_nothing(self):
        open_directory = self.dir / "open"
        open_directory.mkdir()
        open_directory.chmod(0o777)
        app = self.make_app("setuid", 0o4755)
        link = open_directory / "..another"
        link.symlink_to(app)
        plain, _ = self.run_as_user(link)
        recorded, messages = self.run_as_user(
            link, LD_PRELOAD="libheapprof.so", HEAPPROF_OUTPUT=open_directory / "%e", HEAPPROF_LOG="debug",
            HEAPPROF_LOG_FILE=open_directory / "log", HEAPPROF_PAUSED="1", HEAPPROF_CHILDREN="1", HEAPPROF_MAX_DEPTH="1",
            HEAPPROF_SESSION="1.1", HEAPPROF_CAPABILITIES="1:0:0", HEAPPROF_DIRECTORY=open_directory,
            HEAPPROF_MAX_FILE_SIZE="1")
        self.assertEqual((recorded, messages), (plain, ""))
        self.assertEqual([path.name for path in open_directory.iterdir()], ["..another"])
        (trace,) = self.traces()
        self.assertTrue(trace.name.startswith("heapprof.setuid."), trace.name)
        settings = "\n".join("=".join(line.split()) for line in self.heapprof("info", trace).splitlines())
        for setting in ("HEAPPROF_PAUSED=0", "HEAPPROF_CHILDREN=0", "HEAPPROF_MAX_DEPTH=1024",
                        "HEAPPROF_MAX_FILE_SIZE=1073741824"):
            self.assertIn(setting, settings)

    def test_settings_that_others_can_write(self):
        app = self.make_app("setuid", 0o4755)
        text = CONFIGURATION.read_text()

        def others_write(): CONFIGURATION.chmod(0o666)
        def owner(): os.chown(CONFIGURATION, USER, USER)
        def link():
            other = self.dir / "other.conf"
            other.write_text(text)
            CONFIGURATION.unlink()
            CONFIGURATION.symlink_to(other)
        def missing(): CONFIGURATION.unlink()
        def no_directory(): CONFIGURATION.write_text("HEAPPROF_OUTPUT=/tmp/%p\n")
        def open_directory(): self.spool.chmod(0o777)
        def foreign_directory(): os.chown(self.spool, USER, USER)

        for wrong in (others_write, owner, link, missing, no_directory, open_directory, foreign_directory):
            with self.subTest(wrong.__name__):
                wrong()
                _, messages = self.run_as_user(app, LD_PRELOAD="libheapprof.so")
                self.assertIn("not recording: the program is privileged (AT_SECURE)", messages)
                self.assertEqual(self.traces(), [])
                CONFIGURATION.unlink(missing_ok=True)
                CONFIGURATION.write_text(text)
                CONFIGURATION.chmod(0o644)
                os.chown(self.spool, 0, 0)
                self.spool.chmod(0o1733)
        self.run_as_user(app, LD_PRELOAD="libheapprof.so")
        self.assertEqual(len(self.traces()), 1)

    def test_install_and_remove(self):
        library = pathlib.Path(self.messages.split("copied ")[1].split(" to ")[1].split(",")[0])
        status = library.stat()
        self.assertEqual((status.st_uid, status.st_mode & 0o7777), (0, 0o4755))
        self.assertEqual(self.spool.stat().st_mode & 0o7777, 0o1733)
        self.assertIn("names", self.install("--directory", self.dir / "elsewhere", status=1))
        messages = self.install("--remove")
        for path in (library, CONFIGURATION, self.spool):
            self.assertIn(f"removed {path}", messages)
            self.assertFalse(path.exists())
        self.assertIn("nothing was installed", self.install("--remove"))

        self.assertIn("cannot be written", self.install_without_space())
        self.assertFalse(CONFIGURATION.exists())

        library.write_text("another's")
        self.addCleanup(library.unlink)
        self.assertIn("not from this command", self.install("--directory", self.spool, status=1))
        self.install("--remove")
        self.assertEqual(library.read_text(), "another's")

    def test_needs_root(self):
        user_copy = self.dir / "heapprof"
        shutil.copy(harness.HEAPPROF, user_copy)
        done = subprocess.run(["setpriv", f"--reuid={USER}", "--clear-groups", "--", str(user_copy), "install-secure",
                               "--remove"],
                              env=harness.clean_environment(), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("needs root", done.stderr)
        self.assertTrue(CONFIGURATION.exists())


def is_left_over():
    """Whether a run of this test that was killed has left its installation. One that goes on would have the lock."""
    return CONFIGURATION.exists() and re.search(r"^HEAPPROF_DIRECTORY=.*/heapprof-test-", CONFIGURATION.read_text(),
                                                 re.MULTILINE) is not None


if __name__ == "__main__":
    if os.geteuid() != 0 or not shutil.which("setcap") or not shutil.which("setpriv"):
        harness.skip_unless(None, "needs root, setcap and setpriv")
    harness.lock_folder(CONFIGURATION.parent)  # until this process ends
    if is_left_over():
        subprocess.run([harness.HEAPPROF, "install-secure", "--remove"], env=harness.clean_environment(), check=True)
    if CONFIGURATION.exists():
        harness.skip_unless(None, f"{CONFIGURATION} exists: heapprof is already installed for privileged programs")
    harness.main()
