"""Programs with file capabilities: they and their children have the same capabilities under `heapprof record` as
without it. Programs that were started through their loader read their own name, path and arguments. Needs root; the
programs run as an unprivileged user that only this test uses."""

import functools
import os
import shutil
import subprocess

import harness
import ports

USER = 54321
OUTPUT_STATUS = 7  # of the program


@functools.cache
def stripped_heapprof():
    """heapprof without debug information, which every test copies: it has 200 MB with it."""
    stripped = harness.shared_folder() / "heapprof"
    subprocess.run(["strip", "--strip-debug", "-o", stripped, harness.HEAPPROF], check=True)
    return stripped


class Privileged(harness.Case):
    def setUp(self):
        super().setUp()
        # An installation that the user can access, wherever the build directory is.
        self.dir.chmod(0o755)
        self.heapprof_path = self.dir / "bin" / "heapprof"
        self.heapprof_path.parent.mkdir()
        (self.dir / "lib").mkdir()
        shutil.copy(stripped_heapprof(), self.heapprof_path)
        shutil.copy(harness.LIBRARY, self.dir / "lib" / "libheapprof.so")
        self.out = self.dir / "out"
        self.out.mkdir()
        self.out.chmod(0o777)
        self.app = self.make_app("app")

    def make_app(self, name, capabilities=None, directory=None):
        app = (directory or self.dir) / name
        shutil.copy(harness.program("privileged"), app)
        app.chmod(0o755)
        if capabilities:
            subprocess.run(["setcap", *capabilities.split(), str(app)], check=True)
        return app

    def run_as_user(self, *command, options=(), status=OUTPUT_STATUS, **environment):
        """(standard output, standard error) of a command run as the user."""
        return self.run_as_root("setpriv", f"--reuid={USER}", f"--regid={USER}", f"--groups={USER}", *options, "--",
                                *command,
                                status=status, **environment)

    def run_as_root(self, *command, status=OUTPUT_STATUS, **environment):
        done = subprocess.run([str(part) for part in command], env=harness.clean_environment(**environment),
                              capture_output=True,
                              text=True, cwd=self.out, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout, done.stderr

    def record_by_sudo(self, app, *arguments, **options):
        self.count += 1
        trace = self.out / f"{self.count}.heapprof"
        # The variables that sudo sets.
        output, messages = self.run_as_root(self.heapprof_path, "record", "-o", trace, app, *arguments, SUDO_UID=USER,
                                        SUDO_GID=USER,
                                        **options)
        return output, messages, trace

    def assert_recorded(self, trace, app):
        report = self.report(trace, "--cost", "leaked")
        self.assert_sound(report)
        self.assertEqual(report["program"], str(app))
        leaks = [row for row in report["top"] if row["bytes"] == 4321]
        self.assertEqual([harness.plain_name(frame["function"]) for row in leaks for frame in row["stack"][:2]],
                         ["leak", "main"])
        self.assertIn(f"command line    {app}", self.heapprof("info", trace))

    def test_same_capabilities(self):
        """Every kind of file capability, under sudo: the program and a child have the same sets and bind the port."""
        port = ports.privileged_port()
        for number, capabilities in enumerate(("cap_net_bind_service=ep", "cap_net_bind_service=p",
                                               "cap_net_bind_service,cap_chown=ep",
                                               "cap_net_raw=eip", "cap_net_bind_service=i")):
            with self.subTest(capabilities):
                app = self.make_app(f"app{number}", capabilities)
                plain, _ = self.run_as_user(app, port)
                self.assertEqual("port bound" in plain, "bind_service" in capabilities and "=ep" in capabilities)
                recorded, _, trace = self.record_by_sudo(app, port)
                self.assertEqual(recorded, plain)
                self.assert_recorded(trace, app)
                status = trace.stat()
                self.assertEqual((status.st_uid, status.st_mode & 0o777), (USER, 0o600))

    def test_launcher_with_capabilities(self):
        port = ports.privileged_port()
        app = self.make_app("service", "cap_net_bind_service=ep")
        plain, _ = self.run_as_user(app, port)
        subprocess.run(["setcap", "cap_net_bind_service+p", str(self.heapprof_path)], check=True)
        trace = self.out / "launcher.heapprof"
        recorded, messages = self.run_as_user(self.heapprof_path, "record", "-o", trace, app, port)
        self.assertEqual(recorded, plain)
        self.assert_recorded(trace, app)
        # The system removes variables from the environment of heapprof itself. Only programs with capabilities would
        # not get them anyway.
        self.assertNotIn("LD_LIBRARY_PATH", messages)
        _, messages = self.run_as_user(self.heapprof_path, "record", "-o", self.out / "plain.heapprof", self.app)
        self.assertIn("heapprof itself has privileges, so the system has removed variables like LD_LIBRARY_PATH",
                      messages)

    def test_without_permission(self):
        app = self.make_app("service", "cap_net_bind_service,cap_net_raw=ep")
        output, messages = self.run_as_user(self.heapprof_path, "record", "-o", self.out / "none", app, status=126)
        self.assertEqual(output, "")
        for text in ("cap_net_bind_service,cap_net_raw", "sudo heapprof record",
                     f"setcap cap_net_bind_service,cap_net_raw+p {self.heapprof_path}",
                     "install-secure"):
            self.assertIn(text, messages)
        self.assertFalse((self.out / "none").exists())

    def test_no_more_than_the_kernel_grants(self):
        """no_new_privs, the root user of another user namespace, a nosuid mount."""
        port = ports.privileged_port()
        app = self.make_app("service", "cap_net_bind_service=ep")
        # Executed by the setpriv of run_as_user(), which keeps capabilities until it executes a program.
        confined = ["setpriv", "--no-new-privs", "--"]
        plain, _ = self.run_as_user(*confined, app, port)
        self.assertIn("port Permission denied", plain)
        trace = self.out / "nnp.heapprof"
        recorded, _ = self.run_as_user(*confined, self.heapprof_path, "record", "-o", trace, app, port)
        self.assertEqual(recorded, plain)
        self.assert_recorded(trace, app)

        app = self.make_app("foreign", "-n 100000 cap_net_bind_service=ep")
        plain, _ = self.run_as_user(app, port)
        self.assertIn("port Permission denied", plain)
        trace = self.out / "foreign.heapprof"
        recorded, _ = self.run_as_user(self.heapprof_path, "record", "-o", trace, app, port)
        self.assertEqual(recorded, plain)
        self.assert_recorded(trace, app)

        mount = self.dir / "mount"
        mount.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "nosuid", "none", str(mount)], capture_output=True,
                          check=False).returncode != 0:
            self.skipTest("mounting is not permitted here")
        self.addCleanup(subprocess.run, ["umount", "-l", str(mount)], check=True)
        app = self.make_app("nosuid", "cap_net_bind_service=ep", directory=mount)
        plain, _ = self.run_as_user(app, port)
        self.assertIn("port Permission denied", plain)
        trace = self.out / "nosuid.heapprof"
        recorded, _ = self.run_as_user(self.heapprof_path, "record", "-o", trace, app, port)
        self.assertEqual(recorded, plain)
        self.assert_recorded(trace, app)

    def test_refused(self):
        for mode, words in ((0o4755, "setuid"), (0o2755, "setgid"), (0o711, "not read")):
            app = self.make_app(f"mode{mode:o}")
            app.chmod(mode)
            _, messages = self.run_as_user(self.heapprof_path, "record", "-o", self.out / "none", app, status=126)
            self.assertIn(words, messages)
        script = self.dir / "script"
        interpreter = self.make_app("interpreter", "cap_net_bind_service=ep")
        script.write_text(f"#!{interpreter}\n")
        script.chmod(0o755)
        _, messages = self.run_as_user(self.heapprof_path, "record", "-o", self.out / "none", script, status=126)
        self.assertIn("record the interpreter", messages)

    def test_refused_under_sudo(self):
        """What root may do, but not the user of the program: write to the directory, read the program."""
        app = self.make_app("service", "cap_net_bind_service=ep")
        closed = self.dir / "closed"
        closed.mkdir(mode=0o755)
        as_alice = {"SUDO_UID": USER, "SUDO_GID": USER}
        _, messages = self.run_as_root(self.heapprof_path, "record", "-o", closed / "x", app, status=2, **as_alice)
        self.assertIn(f"{closed}: Permission denied; name another file with -o", messages)
        self.assertEqual(list(closed.iterdir()), [])
        app.chmod(0o711)
        _, messages = self.run_as_root(self.heapprof_path, "record", "-o", self.out / "none", app, status=126,
                                       **as_alice)
        self.assertIn("cannot be read by the user that it runs as (Permission denied)", messages)
        self.assertFalse((self.out / "none").exists())
        # Without the recorder, the program and its children would keep ambient capabilities.
        app.chmod(0o755)
        library = self.dir / "lib" / "libheapprof.so"
        library.chmod(0o600)
        _, messages = self.run_as_root(self.heapprof_path, "record", "-o", self.out / "none", app, status=126,
                                       **as_alice)
        self.assertIn(f"{library} cannot be read by the user that the program runs as (Permission denied)", messages)

    def test_an_unprivileged_program_under_sudo(self):
        """The program runs as root, as without the recorder; its trace belongs to the user after it has ended."""
        plain, _ = self.run_as_root(self.app)
        recorded, _, trace = self.record_by_sudo(self.app)
        self.assertEqual(recorded, plain)
        status = trace.stat()
        self.assertEqual((status.st_uid, status.st_gid, status.st_mode & 0o777), (USER, USER, 0o600))


class StartedByLoader(harness.Case):
    """A program that its loader started gets the same information about itself."""

    def both(self, *command):
        plain = self.record(*command, how="plain", status=None)
        loaded = self.record(*command, how="loader", status=None)
        self.assertEqual((loaded.status, loaded.stdout), (plain.status, plain.stdout))
        return loaded

    def test_own_program(self):
        run = self.both(harness.program("privileged"))
        self.assertIn(f"exe {harness.program('privileged')}", run.stdout)
        info = self.heapprof("info", run.trace)
        self.assertIn(f"command line    {harness.program('privileged')}", info)
        self.assertIn("privileged\n", info[info.index("Threads"):])

    def test_real_programs(self):
        for program, *arguments in (
                ("/usr/bin/python3", "-c", "import sys, os; print(sys.executable, sys.prefix, "
                                           "os.readlink('/proc/self/exe'), "
                                           "os.path.realpath('/proc/%d/exe' % os.getpid()), "
                                           "open('/proc/self/comm').read())"),
                ("/usr/bin/perl", "-e", 'print "$^X $0\\n"; exec $^X, "-e", q(print "$^X\\n")'),
                ("/usr/bin/node", "-e", "console.log(process.execPath, process.argv[0], "
                                        "require('fs').readlinkSync('/proc/self/exe'))")):
            if not os.path.exists(program):
                continue
            with self.subTest(program):
                self.both(os.path.realpath(program), *arguments)


if __name__ == "__main__":
    if os.geteuid() != 0 or not shutil.which("setcap") or not shutil.which("setpriv"):
        harness.skip_unless(None, "needs root, setcap and setpriv")
    harness.main()
