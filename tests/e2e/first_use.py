"""What a new user types before reading anything: no command, a file in the place of a command, a command without a
file, options in the wrong place, pictures on a terminal. Each does what the user meant, or prints what to type
instead."""

import json
import os
import pty
import re
import shutil
import subprocess
from pathlib import Path

import harness

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "1.0.hprof"


class FirstUse(harness.Case):
    def setUp(self):
        super().setUp()
        self.older, self.newer = self.dir / "1.heapprof", self.dir / "2.heapprof"
        # Copies, because some tests remove them.
        for trace, count in ((self.older, 10_000), (self.newer, 20_000)):
            shutil.copy(self.record_once(harness.program("hello"), count).trace, trace)
        # One is older, whatever the resolution of the file system's clock.
        os.utime(self.older, ns=(1_000_000_000, 1_000_000_000))

    def on_terminal(self, *words):
        """(exit status, standard output and error) of heapprof where standard output is a terminal."""
        terminal, end = pty.openpty()
        # A file for standard error, so that it does not mix with standard output.
        with open(self.dir / "stderr", "wb") as errors:
            process = subprocess.Popen([harness.HEAPPROF, *map(str, words)], stdin=subprocess.DEVNULL, stdout=end,
                                       stderr=errors, cwd=self.dir,
                                       env=harness.analyzer_environment())
        os.close(end)
        output = b""
        while True:
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            output += piece
        os.close(terminal)
        return process.wait(timeout=60), output.decode(errors="replace"), (self.dir / "stderr").read_text()

    # --- arguments in the place of a command ---------------------------------------------------------

    def test_no_arguments(self):
        result = self.run_heapprof()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for words in ("heapprof record -- PROGRAM", "heapprof report", "heapprof leaks", "heapprof help",
                      f"{self.newer.name} (of 2 recordings)"):
            self.assertIn(words, result.stdout)
        self.assertLess(len(result.stdout.splitlines()), 24)
        self.assertEqual([line for line in result.stdout.splitlines() if len(line) > 100], [])
        for trace in (self.older, self.newer):
            trace.unlink()
        self.assertIn("There is no recording in this directory yet", self.heapprof())

    def test_a_file_is_reported(self):
        wanted = self.heapprof("report", self.newer, "--top", 1)
        self.assertEqual(self.heapprof(self.newer, "--top", 1), wanted)
        self.assertEqual(self.heapprof(self.newer.name, "--top", 1), wanted)
        # Any name works, except that of a command.
        shutil.copy(self.newer, self.dir / "plain")
        shutil.copy(self.newer, self.dir / "info")
        self.assertEqual(self.heapprof("plain", "--top", 1), wanted)
        self.assertEqual(self.heapprof("./info", "--top", 1), wanted)
        self.assertEqual(self.heapprof("info"), self.heapprof("info", self.newer))
        result = self.run_heapprof("missing.heapprof")
        self.assertEqual(result.returncode, 1)
        self.assertIn("missing.heapprof", result.stderr)
        self.assertIn("unknown command 'repotr'; did you mean 'report'?", self.run_heapprof("repotr").stderr)

    def test_a_program_in_the_place_of_a_command(self):
        program = harness.program("hello")
        result = self.run_heapprof(program)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn(f"heapprof record -- {program}", result.stderr)

    def test_help_and_version(self):
        self.assertEqual(self.heapprof("help"), self.heapprof("--help"))
        for command in (["report"], ["record"], ["export"], ["export", "csv"], ["help"], ["control"]):
            self.assertEqual(self.heapprof("help", *command), self.heapprof(*command, "--help"), command)
        result = self.run_heapprof("help", "repotr")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("unknown command 'repotr'; did you mean 'report'?", result.stderr)
        self.assertEqual(self.heapprof("-V"), self.heapprof("--version"))

    def test_options_before_the_command(self):
        for words, where in ((["--json", "report"], "'heapprof report --json'"),
                             (["--json", "report", self.newer], "'heapprof report --json'"),
                             (["--top", "3", "report", self.newer], "'heapprof report --top'"),
                             (["--top=3", "report", self.newer], "'heapprof report --top'"),
                             (["export", "--rows", "csv", self.newer], "'heapprof export csv --rows'"),
                             (["--children", "record", "true"], "'heapprof record --children'"),
                             (["--json"], "--json'")):
            result = self.run_heapprof(*words)
            self.assertEqual((result.returncode, result.stdout), (2, ""), words)
            first, second = result.stderr.splitlines()
            self.assertIn("is an option of ", first)
            self.assertIn(where, first)
            self.assertNotIn("did you mean", first)

    # --- a command without its file --------------------------------------------------------------------

    def test_the_newest_recording(self):
        for command in (["report"], ["info"], ["leaks"], ["pins"], ["histogram"], ["churn"], ["reallocs"],
                        ["threads"], ["frees"], ["timeline"], ["flamegraph"], ["check", "--max-peak", "1G"],
                        ["export", "csv", "-o", "-"]):
            with self.subTest(command=command):
                result = self.run_heapprof(*command)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stderr, f"heapprof: reading {self.newer.name}, the newest of 2 recordings in "
                                                "this directory\n")
                named = self.run_heapprof(*command, self.newer.name)
                self.assertEqual((result.stdout, named.stderr), (named.stdout, ""))
        for command in ("bundle", "compact", "index"):
            result = self.run_heapprof(command, "-o", self.dir / f"out.{command}")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"reading {self.newer.name}, the newest", result.stderr)

    def test_which_is_the_newest(self):
        def read():
            return re.search(r"reading (\S+), ", self.run_heapprof("info").stderr).group(1)

        # Java's heap dumps are *.hprof too; files with other names are ignored.
        (self.dir / "java.hprof").write_bytes(b"JAVA PROFILE 1.0.2\0" + bytes(100))
        os.mkfifo(self.dir / "fifo.heapprof")
        (self.dir / "folder.heapprof").mkdir()
        shutil.copy(self.older, self.dir / "copy.bin")
        self.assertEqual(read(), self.newer.name)
        for number, name in enumerate(("later.heapprof", "later.heapprof.1", "old.hprof", "old.hprof.1")):
            shutil.copy(self.older, self.dir / name)
            os.utime(self.dir / name, (4e9 + number, 4e9 + number))
            self.assertEqual(read(), name)

    def test_a_recording_of_an_older_version(self):
        """Its name ends in .hprof."""
        for trace in (self.older, self.newer):
            trace.unlink()
        trace = self.dir / "heapprof.server.12.hprof"
        shutil.copy(GOLDEN, trace)
        result = self.run_heapprof("report", "--no-symbols")
        self.assertEqual((result.returncode, result.stderr),
                         (0, f"heapprof: reading {trace.name}, the only recording in this directory\n"))
        self.assertIn("peak", result.stdout)
        self.assertEqual(result.stdout, self.heapprof("report", trace, "--no-symbols"))
        self.assertEqual(result.stdout, self.heapprof(trace, "--no-symbols"))

    def test_an_output_does_not_replace_another_recording(self):
        """'heapprof flamegraph -o old.heapprof' may mean old.heapprof as TRACE."""
        bytes_before = self.older.read_bytes()
        for command in (["flamegraph", "-o"], ["report", "-o"], ["export", "csv", "-o"], ["compact", "-o"],
                        ["index", "-o"], ["bundle", "-o"], ["check", "--max-peak", "1G", "--junit"],
                        ["check", "--max-peak", "1G", "-o"]):
            with self.subTest(command=command):
                result = self.run_heapprof(*command, self.older.name)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                first, second = result.stderr.splitlines()
                self.assertIn(f"{self.older.name} is a recording", first)
                self.assertIn("TRACE", first)
                self.assertEqual(self.older.read_bytes(), bytes_before)

    def test_a_recording_as_the_value_of_an_option(self):
        for option in ("--function", "--not-function", "--thread", "--module", "--sysroot", "--debug-dir",
                       "--from", "--suppressions"):
            with self.subTest(option=option):
                result = self.run_heapprof("leaks", option, self.older.name)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                first, second = result.stderr.splitlines()
                self.assertEqual(first, f"heapprof: missing argument TRACE; {self.older.name} is the value of "
                                        f"{option}")
        # With a TRACE, the value of an option may be any name.
        self.heapprof("leaks", self.newer.name, "--module", self.older.name)

    def test_the_newest_recording_is_not_its_own_baseline(self):
        for name in (self.newer, self.newer.name, f"./{self.newer.name}"):
            result = self.run_heapprof("check", "--baseline", name)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(f"heapprof check TRACE --baseline {name}", result.stderr)
        self.heapprof("check", self.newer, "--baseline", self.newer)
        result = self.run_heapprof("check", "--baseline", self.older, "--tolerance", "1000")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_an_empty_argument_is_not_a_missing_one(self):
        """Usually a variable is not set: heapprof check "$TRACE" --max-peak 1G."""
        for command in (["check", "", "--max-peak", "1G"], ["report", ""], ["index", ""], ["compact", "", "-o", "x"]):
            result = self.run_heapprof(*command)
            self.assertEqual((result.returncode, result.stdout), (2, ""), command)
            self.assertIn("TRACE: the value is empty", result.stderr)

    def test_no_recording(self):
        for trace in (self.older, self.newer):
            trace.unlink()
        for command in (["report"], ["export", "csv", "-o", "-"], ["index"]):
            result = self.run_heapprof(*command)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            first, second = result.stderr.splitlines()
            self.assertRegex(first, "missing argument TRACE: .* in this directory; .*'heapprof record -- PROGRAM'")
        # An unknown option is reported first.
        self.assertIn("unknown option '--bogus'", self.run_heapprof("report", "--bogus").stderr)

    def test_the_newest_is_the_one_that_record_named(self):
        """Also if a wrapper ends after the program that it starts."""
        for trace in (self.older, self.newer):
            trace.unlink()
        script = self.dir / "wrapper"
        script.write_text(f"#!/bin/sh\n{harness.program('hello')} 3000000\nls /\n")
        script.chmod(0o755)
        result = subprocess.run([harness.HEAPPROF, "record", "--children", "--", script], cwd=self.dir,
                                env=harness.clean_environment(), capture_output=True, text=True, timeout=60)
        reported = re.match("heapprof: (.*)\n", result.stderr).group(1)
        self.assertIn("/heapprof.hello.", reported)
        self.assertIn(f"reading {os.path.basename(reported)}, the newest of", self.run_heapprof("report").stderr)

    def test_a_wrappers_trace_names_the_next_one(self):
        """If a wrapper executes the program, the trace named by -o is the wrapper's."""
        for trace in (self.older, self.newer):
            trace.unlink()
        script = self.dir / "wrapper"
        script.write_text(f"#!/bin/bash\nlist=$(ls /)\nexec {harness.program('hello')} 3000000\n")
        script.chmod(0o755)
        for name in ("run.heapprof", "plain"):
            result = subprocess.run([harness.HEAPPROF, "record", "-o", name, "--", script], cwd=self.dir,
                                    env=harness.clean_environment(), capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"heapprof report {self.dir}/{name}.1\n", result.stderr)
            for given in (name, self.dir / name):
                result = self.run_heapprof("report", given)
                self.assertEqual((result.returncode, result.stderr),
                                 (0, f"heapprof: {given}: bash executed another program; the recording of the "
                                     f"process continues in {given}.1\n"))
            self.assertEqual(self.run_heapprof("report", f"{name}.1").stderr, "")
        # Without a later trace there is no message.
        (self.dir / "run.heapprof.1").unlink()
        self.assertEqual(self.run_heapprof("report", "run.heapprof").stderr, "")

    # --- the output -------------------------------------------------------------------------

    def test_the_name_of_the_output_decides_the_format(self):
        for command, endings in ((["timeline"], {"svg": "svg", "csv": "csv", "json": "json", "txt": "text",
                                                 "om": "openmetrics"}),
                                 (["flamegraph"], {"svg": "svg", "folded": "folded", "txt": "folded",
                                                   "other": "svg"}),
                                 (["diff", self.older], {"svg": "svg", "folded": "folded", "txt": "text"})):
            for ending, form in endings.items():
                with self.subTest(command=command, ending=ending):
                    out = self.dir / f"out.{ending}"
                    self.heapprof(*command, self.newer, "-o", out)
                    wanted = self.heapprof(*command, self.newer, "--format", form)
                    self.assertEqual(out.read_text(), wanted)
                    # An option overrides the name.
                    other = "svg" if form != "svg" else "folded" if command[0] != "timeline" else "csv"
                    self.heapprof(*command, self.newer, "-o", out, "--format", other)
                    self.assertEqual(out.read_text(), self.heapprof(*command, self.newer, "--format", other))
        for command in (["report"], ["leaks"], ["info"], ["check", "--max-peak", "1G"], ["threads"],
                        ["diff", self.older]):
            with self.subTest(command=command):
                out = self.dir / "out.json"
                self.heapprof(*command, self.newer, "-o", out)
                self.assertEqual(json.loads(out.read_text()),
                                 json.loads(self.heapprof(*command, self.newer, "--json")))
        # A name that only consists of an ending is that of a hidden file.
        self.heapprof("report", self.newer, "-o", self.dir / ".json")
        self.assertIn("peak", (self.dir / ".json").read_text().splitlines()[3])

    def test_pictures_are_not_for_terminals(self):
        for command, name in ((["flamegraph"], "flamegraph.svg"), (["timeline", "--format", "svg"], "timeline.svg"),
                              (["diff", self.older, "--format", "svg"], "diff.svg"),
                              (["export", "pprof", "-o", "-"], "profile.pb.gz"),
                              (["bundle", "-o", "-"], "bundled.heapprof")):
            with self.subTest(command=command):
                status, output, errors = self.on_terminal(*command, self.newer)
                self.assertEqual((status, output), (2, ""))
                self.assertIn("standard output is a terminal", errors)
                self.assertIn(f"-o {name}", errors)
                # The output is written to a pipe.
                piped = subprocess.run([harness.HEAPPROF, *map(str, command), self.newer], capture_output=True,
                                       env=harness.analyzer_environment(), timeout=60)
                self.assertEqual(piped.returncode, 0, piped.stderr)
                self.assertTrue(piped.stdout)
        for command in (["flamegraph", "--format", "folded"], ["timeline"], ["timeline", "--format", "csv"]):
            status, output, errors = self.on_terminal(*command, self.newer)
            self.assertEqual((status, errors), (0, ""), command)
            self.assertTrue(output)


if __name__ == "__main__":
    harness.main()
