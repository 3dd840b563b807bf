"""tests/support/harness.py, ports.py, profile_receiver.py and terminal.py, which the end-to-end tests share, and
case_runner.py and process_group.py, which all tests in Python share."""

import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import case_runner
import harness
import ports
import process_group
import profile_receiver

IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)

# Prints the blocked and ignored signals of a child process, without the harness and with it.
INHERITED = """
import subprocess, sys
show = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]
subprocess.run(show)
import harness
subprocess.run(show)
"""

# Asks for a folder, which takes long to fill, and prints its path.
ASKING = """
import sys, time
import harness
def make(folder):
    with open(sys.argv[1], "a") as calls:
        calls.write("made\\n")
    (folder / "first").write_text("1")
    time.sleep(60 if "hangs" in sys.argv else 0.5)
    if "fails" in sys.argv:
        raise OSError("no space")
    (folder / "second").write_text(str(folder))
print(harness.made_once(make, "example", 1), flush=True)
"""

# A case that never ends. It has started a script, which has started another program.
SCRIPT = ("sh", "-c", "sleep 600 & echo started; wait")
WAITING = f"""
import case_runner, process_group, subprocess, sys, unittest
class Case(unittest.TestCase):
    def test_waiting(self):
        script = process_group.start({SCRIPT}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        script.stdout.readline()
        print(script.pid, "waits", flush=True)
        sys.stdin.read()
case_runner.main()
"""


# Test cases, and the exit status of a module that has them.
PASSING = "    def test_passing(self): pass\n"
SKIPPING = "    def test_skipping(self): self.skipTest('why')\n"
SUBTESTS = """
    def test_subtests(self):
        for number in (1, 2):
            with self.subTest(number=number):
                if number in {skipped}:
                    self.skipTest('why')
"""
SKIPPING_ALL = """
    @classmethod
    def setUpClass(cls): raise unittest.SkipTest('why')
"""
STATUSES = {
    "one test passes": (PASSING, 0),
    "one of two is skipped": (PASSING + SKIPPING, 0),
    "all are skipped": (SKIPPING, case_runner.SKIPPED),
    "the class is skipped": (SKIPPING_ALL + PASSING, case_runner.SKIPPED),
    "one subtest is skipped": (SUBTESTS.format(skipped="(1,)"), 0),
    "as many subtests as there are tests are skipped": (PASSING + SUBTESTS.format(skipped="(1, 2)"), 0),
    "all subtests are skipped": (SUBTESTS.format(skipped="(1, 2)"), case_runner.SKIPPED),
    "one fails": (SKIPPING + "    def test_failing(self): self.fail()\n", 1),
}


class Harness(unittest.TestCase):
    def test_status_of_skipped_tests(self):
        """A test file is skipped if nothing of it has run."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for path in (folder / "analyzer" / "heapprof", folder / "preload" / "libheapprof.so"):
                path.parent.mkdir()
                path.touch()
            for what, (cases, status) in STATUSES.items():
                with self.subTest(what):
                    module = folder / "cases.py"
                    module.write_text("import unittest, harness\n"
                                      f"class Case(unittest.TestCase):\n{cases}\nharness.main()\n")
                    result = subprocess.run([sys.executable, module], capture_output=True, text=True,
                                            env={**harness.clean_environment(), "HEAPPROF_TEST_BUILD": name,
                                                 "PYTHONPATH": os.path.dirname(harness.__file__)})
                    self.assertEqual(result.returncode, status, result.stdout + result.stderr)

    def test_a_case_that_is_ended_says_what_it_waits_for(self):
        """As meson ends a test that exceeds its limit: otherwise a wait without one would fail without a message."""
        with subprocess.Popen([sys.executable, "-c", WAITING], text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, "PYTHONPATH": os.path.dirname(case_runner.__file__)}) as process:
            *_, group, word = process.stdout.readline().split()
            self.assertEqual(word, "waits")
            self.assertEqual(len(process_group.members(int(group))), 2)
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM, errors)
        self.assertIn("in test_waiting", errors)
        # What it has started has ended with it, although it is not in its process group.
        harness.wait_until(lambda: not process_group.members(int(group)), "the end of the script")

    def test_what_a_script_has_started_ends_with_it(self):
        script = process_group.start(SCRIPT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.addCleanup(script.stdout.close)
        self.assertEqual(script.stdout.readline(), b"started\n")
        self.assertEqual(len(process_group.members(script.pid)), 2)
        process_group.end(script)
        self.assertEqual(process_group.members(script.pid), [])
        self.assertEqual(script.returncode, -signal.SIGKILL)

    def test_skipped_cases_are_named(self):
        """unittest's own main() only counts them, which the summary of the tests does not show."""
        tests = Path(__file__).resolve().parents[1]
        own = [str(path.relative_to(tests)) for path in sorted(tests.rglob("*.py"))
               if re.search(r"^\s*unittest\.main\(", path.read_text(), re.M)]
        self.assertEqual(own, [])

    def test_programs_inherit_no_ignored_or_blocked_signals(self):
        """Tests that send signals to programs must not depend on how they were started: background jobs of a shell
        ignore SIGINT and SIGQUIT, nohup ignores SIGHUP."""
        def ignore():
            for number in IGNORED:
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGUSR1})
        result = subprocess.run([sys.executable, "-c", INHERITED], preexec_fn=ignore, capture_output=True, text=True,
                                env={**os.environ, "PYTHONPATH": os.path.dirname(harness.__file__)}, check=True)
        masks = [int(line.split()[1], 16) for line in result.stdout.splitlines()]
        self.assertEqual(len(masks), 4, result.stdout)
        wanted = sum(1 << number - 1 for number in IGNORED)
        self.assertEqual(masks[1] & wanted, wanted)
        self.assertNotEqual(masks[0], 0)
        self.assertEqual((masks[2], masks[3] & wanted), (0, 0))

    def test_waiting_fails_with_the_last_value(self):
        answers = iter((0, None, "yes"))
        self.assertEqual(harness.wait_until(lambda: next(answers), "no answer"), "yes")
        with self.assertRaisesRegex(AssertionError, "no answer: not within 0.01 s; last value: 0"):
            harness.wait_until(lambda: 0, "no answer", seconds=0.01)

    def test_all_random_choices_depend_on_one_seed(self):
        program = ("import harness\n"
                   "print(harness.random_generator('x').random(), harness.clean_environment().get('LEDGER_SEED'))")

        def drawn(**environment):
            return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                                  env={**harness.clean_environment(), **environment,
                                       "PYTHONPATH": os.path.dirname(harness.__file__)}).stdout.split()
        self.assertEqual(drawn(HEAPPROF_TEST_SEED="5"), drawn(HEAPPROF_TEST_SEED="5"))
        self.assertNotEqual(drawn(HEAPPROF_TEST_SEED="5")[0], drawn(HEAPPROF_TEST_SEED="6")[0])
        self.assertEqual(drawn(HEAPPROF_TEST_SEED="5")[1], "5")
        self.assertEqual(drawn(), drawn(HEAPPROF_TEST_SEED="0"))
        self.assertEqual(drawn()[1], "None")

    def test_a_port_is_of_one_process_until_it_ends(self):
        """Of two runs of the tests on a machine, too."""
        port = 70000 + os.getpid()  # no real one, and of this process
        program = f"import ports, sys; print(ports.reserve({port}), flush=True); sys.stdin.read()"
        with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, env={**os.environ, "PYTHONPATH": os.path.dirname(ports.__file__)}) as other:
            self.assertEqual(other.stdout.readline(), "True\n")
            self.assertFalse(ports.reserve(port))
            self.assertTrue(ports.reserve(-port))
            other.communicate()
        self.assertTrue(ports.reserve(port))

    def test_free_ports(self):
        """Each is another one, and no program gets one that asks for any port."""
        ports_of_tests = {ports.free_port() for _ in range(3)}
        self.assertEqual(len(ports_of_tests), 3)
        if len(ephemeral := ports.ephemeral_ports()) < (1 << 16) - 1024:
            self.assertEqual(ports_of_tests & set(ephemeral), set())

    def test_a_locked_folder_is_of_one_process_until_it_ends(self):
        folder = tempfile.mkdtemp(prefix="heapprof-locked-")
        self.addCleanup(os.rmdir, folder)
        here = os.open(folder, os.O_RDONLY)
        self.addCleanup(os.close, here)
        program = "import harness, sys; harness.lock_folder(sys.argv[1]); print('mine', flush=True); sys.stdin.read()"
        with subprocess.Popen([sys.executable, "-c", program, folder], text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE,
                              env={**os.environ, "PYTHONPATH": os.path.dirname(harness.__file__)}) as other:
            self.assertEqual(other.stdout.readline(), "mine\n")
            with self.assertRaises(BlockingIOError):
                fcntl.flock(here, fcntl.LOCK_EX | fcntl.LOCK_NB)
            other.communicate()
        os.close(harness.lock_folder(folder))

    def test_a_program_in_a_terminal_that_does_not_end(self):
        """It is waited for with a limit, and the message has the page."""
        try:
            from terminal import Terminal
        except ImportError:
            self.skipTest("pyte is not installed")
        screen = Terminal(["sh", "-c", "echo still here; exec sleep 60"], 40, 5, os.environ)
        self.addCleanup(screen.close)
        screen.wait_for(lambda text: "still here" in text, "what the program wrote")
        with self.assertRaisesRegex(AssertionError, "has not ended.*\nstill here"):
            screen.wait_for_end(seconds=0.1)

    def test_nobody_else_gets_a_closed_port(self):
        port = profile_receiver.closed_port()
        with socket.socket() as other, self.assertRaises(OSError):
            other.bind(("127.0.0.1", port))
        with socket.socket() as client, self.assertRaises(ConnectionRefusedError):
            client.connect(("127.0.0.1", port))

    def test_what_test_files_share_is_made_once(self):
        """Also if several ask at the same time, and if one that makes it fails or is killed."""
        with tempfile.TemporaryDirectory() as directory:
            calls = Path(directory) / "calls"
            environment = {**os.environ, "HEAPPROF_TEST_CACHE": f"{directory}/cache",
                           "PYTHONPATH": os.path.dirname(harness.__file__)}

            def start(*arguments):
                return subprocess.Popen([sys.executable, "-c", ASKING, calls, *arguments], env=environment, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

            def number_of_calls():
                return len(calls.read_text().splitlines()) if calls.exists() else 0
            killed = start("hangs")
            harness.wait_until(lambda: number_of_calls() == 1, "nobody makes the folder")
            killed.kill()
            killed.communicate()
            output, errors = start("fails").communicate(timeout=60)
            self.assertEqual((output, errors.splitlines()[-1]), ("", "OSError: no space"))
            asking = [start() for _ in range(3)]
            answers = [process.communicate(timeout=60) for process in asking]
            self.assertEqual([errors for _, errors in answers], [""] * 3)
            self.assertEqual(number_of_calls(), 3)
            (folder,) = {Path(output.strip()) for output, _ in answers}
            self.assertEqual((folder / "second").read_text(), str(folder))


if __name__ == "__main__":
    case_runner.main()
