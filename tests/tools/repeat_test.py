"""tools/repeat.sh with a fake meson that writes a given log: runs are counted, appended and resumed."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import case_runner
import process_group

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "repeat.sh"

# A fake `meson test`: in the n-th run it writes the results in the n-th line of `plan`, NAME:RESULT each; "wait": it
# does not end.
MESON = f"#!{sys.executable}" + """
import json, os, pathlib, sys, time
directory = pathlib.Path(__file__).parent
runs = (directory / "plan").read_text().splitlines()
number = int((directory / "number").read_text())
if "--list" in sys.argv:
    print("\\n".join(word.split(":")[0] for word in runs[number].split() if ":" in word))
    sys.exit()
(directory / "number").write_text(str(number + 1))
if runs[number] == "wait":
    print("waiting", flush=True)
    os.kill(int((directory / "tester").read_text()), 10)
    time.sleep(600)
with open(pathlib.Path(sys.argv[sys.argv.index("-C") + 1]) / "meson-logs" / "testlog.json", "w") as log:
    for word in runs[number].split():
        name, result = word.split(":")
        entry = {"name": name, "result": result, "stdout": f"{name} in run {number}", "stderr": ""}
        log.write(json.dumps(entry) + "\\n")
"""


class Repeat(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = Path(directory.name)
        (self.dir / "meson").write_text(MESON)
        (self.dir / "meson").chmod(0o755)
        # For the scripts: python3 may be a wrapper of a version manager, which takes longer to start than they run.
        (self.dir / "python3").symlink_to(sys.executable)
        (self.dir / "number").write_text("0")
        self.results = self.dir / "results.tsv"
        self.environment = {**os.environ, "PATH": f"{self.dir}:{os.environ['PATH']}",
                            "BUILD_DIR": str(self.dir / "build")}

    def command(self, *options):
        return [str(SCRIPT), "--no-build", "--results", str(self.results), *options]

    def repeat(self, *options):
        return subprocess.run(self.command(*options), capture_output=True, text=True, env=self.environment)

    def plan(self, *runs):
        (self.dir / "plan").write_text("".join(run + "\n" for run in runs))

    def rows(self):
        lines = [line.split("\t") for line in self.results.read_text().splitlines()]
        self.assertEqual({len(line) for line in lines}, {8})
        return [dict(zip(lines[0], line)) for line in lines[1:]]

    def test_each_run_adds_a_line(self):
        self.plan("a:OK b:OK", "a:OK b:FAIL c:SKIP", "a:TIMEOUT b:FAIL")
        result = self.repeat("--runs", "3")
        self.assertEqual(result.returncode, 1, result.stderr)
        rows = self.rows()
        self.assertEqual([(row["load"], row["passed"], row["failed"], row["skipped"]) for row in rows],
                         [("idle", "2", "0", "0"), ("idle", "1", "1", "1"), ("idle", "0", "2", "0")])
        self.assertEqual(rows[0]["failed tests"], "")
        (name, path), = (entry.split("=") for entry in rows[1]["failed tests"].split())
        self.assertEqual(name, "b")
        self.assertIn("b in run 1", Path(path).read_text())
        self.assertEqual([entry.split("=")[0] for entry in rows[2]["failed tests"].split()], ["a", "b"])
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=SCRIPT.parent, capture_output=True, text=True)
        if head.returncode == 0:
            self.assertTrue(head.stdout.startswith(rows[0]["commit"].rstrip("+")))
        self.assertIn("3 runs", result.stdout.splitlines()[-1])
        self.assertIn("2 with failures", result.stdout.splitlines()[-1])

    def test_a_second_call_resumes(self):
        self.plan(*["a:OK"] * 8)
        self.assertEqual(self.repeat("--runs", "2").returncode, 0)
        self.assertEqual(self.repeat("--runs", "3").returncode, 0)
        self.assertEqual(len(self.rows()), 3)
        self.assertEqual(self.repeat("--runs", "3").returncode, 0)
        self.assertEqual(len(self.rows()), 3)
        # Runs under load are counted separately.
        self.assertEqual(self.repeat("--runs", "2", "--loaded").returncode, 0)
        self.assertEqual([row["load"] for row in self.rows()], ["idle"] * 3 + ["loaded"] * 2)

    def test_an_interrupted_run_leaves_no_line_and_no_busy_loop(self):
        self.plan("a:OK", "wait")
        (self.dir / "tester").write_text(str(os.getpid()))
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        process = process_group.start(self.command("--runs", "3", "--loaded"), env=self.environment,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                      preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, ()))
        self.addCleanup(process.stderr.close)
        self.addCleanup(process_group.end, process)  # also its busy loops, if the test fails
        self.assertIsNotNone(signal.sigtimedwait({signal.SIGUSR1}, 60), "the second run does not start")
        os.killpg(process.pid, signal.SIGTERM)
        # Standard error is closed when the busy loops have ended.
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 143, errors)
        self.assertEqual(len(self.rows()), 1)

    def test_invalid_options(self):
        for options in (("--runs", "0"), ("--runs", "many"), ("--runs",), ("--results", "")):
            with self.subTest(options=options):
                result = self.repeat(*options)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertTrue(result.stderr)

    def test_help(self):
        result = subprocess.run([SCRIPT, "--help"], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for word in ("--runs", "--loaded", "--no-install", "--results"):
            self.assertIn(word, result.stdout)

    def test_a_run_without_tests_fails(self):
        self.plan("a:SKIP")
        self.assertEqual(self.repeat("--runs", "1").returncode, 1)


if __name__ == "__main__":
    case_runner.main()
