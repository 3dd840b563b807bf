"""The cost of an event, by counts that do not depend on the machine's speed: no system call while the stream's block
has space, and no more instructions than tools/bench/instructions.json allows: with one thread, in a process with
several, where most paths are not at their first place, and with lines of Python."""

import functools
import json
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import harness

TOOL = Path(__file__).resolve().parents[2] / "tools" / "bench" / "instructions.py"
sys.path.append(str(TOOL.parent))

import instructions  # noqa: E402


def needs(*programs):
    missing = [program for program in programs if shutil.which(program) is None]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


@functools.cache
def same_addresses():
    """A command prefix that runs a program at the same addresses each time, if this is permitted here: the number of
    stack pages that the recorder probes depends on the stack's address."""
    command = ["setarch", "-R"]
    return command if shutil.which("setarch") and subprocess.run([*command, "true"], capture_output=True,
                                                                 check=False).returncode == 0 else []


class FastPath(harness.Case):
    def system_calls(self, times):
        """The minimum of some runs, without the samples and snapshots of resident memory: those depend on time, not
        on events."""
        counts = []
        for _ in range(5):
            log, trace = self.dir / "strace", self.dir / "trace"
            trace.unlink(missing_ok=True)
            subprocess.run([*same_addresses(), "strace", "-o", log, "-E", f"LD_PRELOAD={harness.LIBRARY}", "-E",
                            f"HEAPPROF_OUTPUT={trace}", "-E", "HEAPPROF_SNAPSHOTS=0",
                            harness.program("burst"), str(times)], check=True, env=harness.clean_environment())
            calls = [line.partition("(")[0] for line in log.read_text().splitlines()]
            samples = sum(calls[i:i + 3] == ["statx", "pread64", "clock_gettime"] for i in range(len(calls)))
            counts.append(len(calls) - 3 * samples)
            events = self.report(trace)["events"]
            self.assertGreaterEqual(events, 2 * times)
        return min(counts)

    @needs("strace")
    def test_events_make_no_system_calls(self):
        self.assertEqual(self.call_once(self.system_calls, 400), self.system_calls(800))

    @needs("strace")
    def test_a_full_block_makes_system_calls(self):
        self.assertGreater(self.system_calls(400_000), self.call_once(self.system_calls, 400))

    @needs("valgrind", "g++")
    def test_instruction_counts(self):
        result = subprocess.run([sys.executable, TOOL, "--build", harness.BUILD, "--check",
                                 TOOL.with_suffix(".json")],
                                capture_output=True, text=True, env=harness.clean_environment(), check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_instruction_counts_that_differ(self):
        expected = json.loads(TOOL.with_suffix(".json").read_text())
        self.assertEqual(set(expected), set(instructions.programs(instructions.DEPTH)))
        self.assertEqual(instructions.differences(expected, expected), [])
        for part, change, differs in (("total", 1.09, False), ("total", 1.11, True), ("total", 0.89, True),
                                      ("event_path", 1.01, False), ("event_path", 1.03, True),
                                      ("event_path", 0.97, True)):
            for name, figures in expected.items():
                with self.subTest(name, part=part, change=change):
                    changed = {name: {**figures, part: figures[part] * change}}
                    self.assertEqual(len(instructions.differences(changed, expected)), int(differs))
        self.assertEqual(len(instructions.differences(expected, {})), len(expected))


if __name__ == "__main__":
    harness.main()
