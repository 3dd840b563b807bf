"""The screen of `top`, in a terminal of this test: keys change what it shows, marks and pauses arrive in the recording,
and it adapts to the size of the terminal and to the end of the program."""

import json
import os
import re
import shutil
import signal
import subprocess

import harness

try:
    from terminal import Terminal
except ImportError:
    Terminal = None

DOWN, ENTER, ESCAPE = "\x1b[B", "\r", "\x1b"
CONTROL_C, CONTROL_Z = "\x03", "\x1a"


class TopScreen(harness.Case):
    def screen(self, columns, lines, *arguments, shell=(), **variables):
        """`top` in a terminal of its own. `shell` runs the command that follows it."""
        environment = harness.analyzer_environment(TERM="xterm", LC_ALL="C.UTF-8")
        environment.update({name: str(value) for name, value in variables.items() if value is not None})
        for name in [name for name, value in variables.items() if value is None]:
            environment.pop(name, None)
        screen = Terminal([*shell, str(harness.HEAPPROF), "top", *map(str, arguments)], columns, lines, environment)
        self.addCleanup(screen.close)
        return screen

    def assert_ends(self, screen, status=0):
        self.assertEqual(screen.wait_for_end(), status)
        self.assertTrue(screen.is_restored(), screen.output[-200:])

    def start(self, binary="commanded", *arguments, name=None):
        """Starts tests/programs/BINARY.cpp, under another name if given."""
        self.trace = self.dir / "run.heapprof"
        path = harness.program(binary)  # or an absolute path
        if name:
            path = shutil.copy(path, self.dir / name)
        environment = harness.clean_environment(LD_PRELOAD=str(harness.LIBRARY), HEAPPROF_OUTPUT=str(self.trace))
        self.program = self.popen([path, *arguments], env=environment, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def command(self, commands):
        self.program.stdin.write(commands)
        self.program.stdin.flush()
        self.assertEqual(self.program.stdout.read(len(commands)), "." * len(commands))

    def test_keys_change_what_is_shown(self):
        self.start()
        self.command("abb")
        screen = self.screen(100, 30, self.program.pid, "--interval", "0.05")
        page = screen.wait_for(lambda text: re.search(r"grow_first(.|\n)*grow_second(.|\n)*\? keys, q quit", text),
                               "the table")
        self.assertIn(f"commanded, pid {self.program.pid}, recording", page[0])
        # What the program does appears without a key.
        self.command("t")
        screen.wait_for(lambda text: re.search(r"20\.5 KiB +7 .*grow_in_thread", text), "the thread's blocks")
        # Order: by blocks, the 10 blocks of grow_first precede the 7 of the thread.
        screen.press("s")
        screen.wait_for(lambda text: "by call site, live blocks" in text and
                        text.index("grow_first") < text.index("grow_in_thread"), "the order by blocks")
        screen.press("sss")
        screen.wait_for(lambda text: "by call site, live bytes" in text, "the first order")
        # Groups.
        for heading in ("function", "line", "module", "thread"):
            screen.press("g")
            screen.wait_for(lambda text, heading=heading: f"by {heading}, live bytes" in text, heading)
        # Stacks of the thread "worker", which has only what it has allocated itself.
        screen.wait_for(lambda text: re.search("^>.*worker ", text, re.M), "the thread")
        screen.press(ENTER)
        page = screen.wait_for(lambda text: re.search(r"20\.5 KiB live in 7 blocks\n    grow_in_thread ", text) and
                               "esc: back" in text, "the stacks of the thread")
        self.assertEqual(sum(" live in " in line for line in page), 1, page)
        screen.press(ESCAPE)
        screen.wait_for(lambda text: "by thread" in text, "the threads again")
        screen.press("gg")
        # Stacks of the second row.
        screen.wait_for(lambda text: "by call site" in text, "call sites again")
        screen.press(DOWN)
        page = screen.wait_for(lambda text: re.search(r"^>.*grow_first", text, re.M), "the second row")
        self.assertEqual(sum(line.startswith(">") for line in page), 1)
        screen.press(ENTER)
        screen.wait_for(lambda text: re.search(r"9\.77 KiB live in 10 blocks.*\n    grow_first .*\n    main .*\n", text),
                        "the stack")
        screen.press("?")
        screen.wait_for(lambda text: all(key in text for key in ("next grouping", "page down", "home, end")), "the help")
        screen.press(ESCAPE)
        screen.wait_for(lambda text: "by call site" in text, "the table again")
        screen.press("o")
        screen.wait_for(lambda text: "own code" in text, "own code only")
        screen.press("q")
        self.assert_ends(screen)
        self.assertIsNone(self.program.poll(), "the program has ended with top")

    def test_marks_and_pauses_arrive(self):
        self.start("steady", "1")
        self.assertEqual(self.program.stdout.readline(), "up\n")
        screen = self.screen(100, 24, self.trace, "--interval", "0.05")
        screen.wait_for(lambda text: "since the start of top" in text, "growth")
        # The screen waits for an answer of the recorder for 0.2 s, and sends nothing before it has the one before.
        def has_answer():
            return not json.loads(self.heapprof("control", self.trace, "status", "--json"))["request_pending"]
        screen.press("m")
        screen.wait_for(lambda text: "since top mark 1" in text, "growth since the mark")
        harness.wait_until(lambda: json.loads(self.heapprof("info", self.trace, "--json"))["marks"] and has_answer(),
                           "the mark does not arrive")
        screen.press("p")
        screen.wait_for(lambda text: ", paused, " in text and re.search("paused: only frees|pausing is pending", text),
                        "that it is paused")
        harness.wait_until(has_answer, "the pause is not answered")
        screen.press("p")
        screen.wait_for(lambda text: ", recording, " in text and re.search("resumed: |resuming is pending", text),
                        "that it is recorded again")
        harness.wait_until(has_answer, "the end of the pause is not answered")
        self.program.send_signal(signal.SIGTERM)
        self.program.communicate(timeout=60)
        screen.wait_for(lambda text: ", exited after " in text, "the end")
        screen.press("m")
        screen.wait_for(lambda text: "the program has ended" in text, "that no mark can be set")
        screen.press("q")
        self.assert_ends(screen)
        timeline = json.loads(self.heapprof("timeline", self.trace, "--format", "json"))
        self.assertEqual([mark["text"] for mark in timeline["marks"]], ["top mark 1"])
        self.assertEqual(len(timeline["pauses"]), 1)

    def test_ends(self):
        """How the program has ended is on the screen, and in which recording the process continues."""
        self.start("/bin/sh", "-c", f"echo up; read line; exec {harness.program('commanded')}")
        self.assertEqual(self.program.stdout.readline(), "up\n")
        screen = self.screen(160, 24, self.trace, "--interval", "0.05")
        screen.wait_for(lambda text: "recording" in text, "the recording")
        self.program.stdin.write("\n")
        self.program.stdin.flush()
        later = f"{self.trace}.1"
        screen.wait_for(lambda text: "executed another program after " in text and
                        f"the process is recorded in {later} now" in text, "the next recording")
        screen.press("q")
        self.assert_ends(screen)
        screen = self.screen(160, 24, later, "--interval", "0.05")
        screen.wait_for(lambda text: "commanded, pid" in text, "the next recording")
        self.program.stdin.close()
        screen.wait_for(lambda text: ", exited after " in text, "the end")

    def test_project_file(self):
        self.start()
        self.command("a")
        settings = self.dir / "settings.toml"
        settings.write_text('own = ["grow_.*"]\n')
        screen = self.screen(160, 24, self.trace, "--config", settings)
        screen.wait_for(lambda text: f"settings of {settings}" in text, "the project file")
        screen.press("q")
        self.assert_ends(screen)

    def test_sizes(self):
        self.start()
        self.command("abt")
        screen = self.screen(100, 30, self.trace)
        rows = ("grow_first", "grow_second", "grow_in_thread")

        def all_rows(text):
            return all(row in text for row in rows) and "q quit" in text.rpartition("\n")[2]
        screen.wait_for(lambda text: all_rows(text) and "allocated/s" in text, "a wide table")
        screen.press(DOWN * 10)
        screen.wait_for(lambda text: re.search("^>.*start_worker", text, re.M), "the last row")
        for columns, lines in ((40, 12), (100, 30), (20, 8), (101, 25), (20, 6), (130, 50), (300, 10)):
            screen.resize(columns, lines)
            page = screen.wait_for(
                lambda text: "by call site" in text.rpartition("\n")[2] and
                (all_rows(text) if columns >= 100 else re.search(r"^>.*0\.3 KiB|^> +288 B", text, re.M)),
                f"{columns}x{lines}")
            self.assertEqual(sum(line.startswith(">") for line in page), 1, page)
        screen.press(CONTROL_C)
        self.assert_ends(screen)

    def test_signals(self):
        """The terminal is restored by every end, and while top is stopped."""
        self.start()
        self.command("ab")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            screen = self.screen(80, 24, self.trace)
            screen.wait_for(lambda text: "grow_first" in text, "the table")
            screen.process.send_signal(number)
            self.assert_ends(screen)
        # Stopped and continued by a shell.
        script = '"$@"; echo stopped; read; fg; echo stopped; read; fg'
        screen = self.screen(80, 24, self.trace, "--interval", "0.05", shell=["bash", "-mc", script, "bash"])
        for row in ("grow_first", "grow_in_thread"):
            screen.wait_for(lambda text, row=row: row in text and screen.screen.cursor.hidden, "the table")
            screen.press(CONTROL_Z)
            screen.wait_for(lambda text: "stopped" in text, "the shell")
            self.assertTrue(screen.is_restored())
            self.command("t")
            screen.press("\n")
        screen.wait_for(lambda text: "41.0 KiB" in text and screen.screen.cursor.hidden, "the table")
        screen.press("q")
        self.assert_ends(screen)

    def test_kinds_of_terminals(self):
        self.start(name="caf\u00e9")
        self.command("ab")
        for terminal, locale, name in (("xterm", "C.UTF-8", "caf\u00e9"), ("vt100", "C", "caf?"),
                                       ("screen", "no_SUCH.UTF-8", "caf\u00e9"), ("linux", "POSIX", "caf?")):
            screen = self.screen(80, 24, self.trace, TERM=terminal, LC_ALL=locale, COLUMNS=300, LINES=3)
            page = screen.wait_for(lambda text: "grow_first" in text and "q quit" in text, terminal)
            self.assertTrue(page[0].startswith(name + ", pid"), (terminal, locale, page[0]))
            screen.press("q")
            self.assert_ends(screen)
        for terminal, reason in ((None, "TERM is not set"), ("", "TERM is not set"), ("dumb", "cannot move its cursor"),
                                 ("no-such", "not in the terminfo database")):
            screen = self.screen(120, 24, self.trace, TERM=terminal)
            self.assert_ends(screen, 2)
            self.assertIn(reason, screen.output.decode())
            self.assertIn("add --once", screen.output.decode())


if __name__ == "__main__":
    harness.skip_unless(Terminal, "pyte is not installed")
    harness.main()
