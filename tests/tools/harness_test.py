"""tests/support/harness.py, which the end-to-end tests share."""

import os
import signal
import subprocess
import sys
import unittest

import harness

IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)

# Prints the blocked and ignored signals of a child process, without the harness and with it.
INHERITED = """
import subprocess, sys
show = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]
subprocess.run(show)
import harness
subprocess.run(show)
"""


class Harness(unittest.TestCase):
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


if __name__ == "__main__":
    unittest.main()
