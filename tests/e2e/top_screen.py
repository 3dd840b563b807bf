"""The screen of `top`, in a terminal of this test: keys change what it shows, marks and pauses arrive in the recording,
and it adapts to the size of the terminal and to the end of the program."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import harness

DOWN, ENTER, ESCAPE = "\x1b[B", "\r", "\x1b"


class Screen:
    """A terminal that knows the control sequences that heapprof may use, and fails at any other."""

    def __init__(self, case, columns, lines, *arguments, **variables):
        self.case = case
        self.master, slave = pty.openpty()
        case.addCleanup(os.close, self.master)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        case.addCleanup(os.close, slave)
        self.columns = columns
        self.resize(columns, lines)
        self.process = case.popen(
            [str(harness.HEAPPROF), "top", *map(str, arguments)], stdin=slave, stdout=slave, stderr=slave,
            env=harness.clean_environment(**dict({"TERM": "xterm", "LC_ALL": "C.UTF-8",
                                                  "XDG_CACHE_HOME": case.dir / "cache"}, **variables)),
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.output = ""
        self.data = b""

    def resize(self, columns, lines):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.size = columns, lines

    def read(self, seconds=60):
        """What the program has written since. False: nothing within the time."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self.data += os.read(self.master, 1 << 16)
        self.output = self.data.decode(errors="ignore")
        return True

    def page(self):
        """The lines of the last complete page."""
        begin, found, _ = self.output.rpartition("\x1b[J")
        if not found:
            return []
        page = begin.rpartition("\x1b[H")[2]
        lines = re.sub(r"\x1b\[[\d;]*[mK]", "", page).split("\r\n")
        for line in lines:
            self.case.assertFalse([char for char in line if ord(char) < 32 or 127 <= ord(char) < 160], repr(line))
        return lines

    def wait_for(self, condition, what):
        """Reads until the page fulfils the condition; returns it."""
        end = time.monotonic() + 60
        while not (page := self.page()) or not condition("\n".join(page)):
            self.case.assertTrue(self.read() and time.monotonic() < end,
                                 f"{what} is not on the screen:\n" + "\n".join(page))
        return page

    def press(self, keys):
        os.write(self.master, keys.encode())

    def wait_for_end(self):
        while self.process.poll() is None:
            self.read(0.05)
        while self.read(0):
            pass
        # The terminal is as before: its modes, the cursor, and the page that it showed.
        self.case.assertEqual(termios.tcgetattr(self.slave), self.before)
        self.case.assertIn("\x1b[?7h\x1b[?25h\x1b[?1049l", self.output)
        return self.process.returncode


class TopScreen(harness.Case):
    def start(self, binary="commanded", *arguments):
        self.trace = self.dir / "run.heapprof"
        environment = harness.clean_environment(LD_PRELOAD=str(harness.LIBRARY), HEAPPROF_OUTPUT=str(self.trace))
        self.program = self.popen([harness.program(binary), *arguments], env=environment, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def command(self, commands):
        self.program.stdin.write(commands)
        self.program.stdin.flush()
        self.assertEqual(self.program.stdout.read(len(commands)), "." * len(commands))

    def test_keys_change_what_is_shown(self):
        self.start()
        self.command("abb")
        screen = Screen(self, 100, 30, self.program.pid, "--interval", "0.05")
        page = screen.wait_for(lambda text: "grow_first" in text and "grow_second" in text, "the table")
        self.assertEqual(len(page), 30)
        self.assertIn(f"commanded, pid {self.program.pid}, recording", page[0])
        self.assertLess(*(next(i for i, line in enumerate(page) if name in line)
                          for name in ("grow_first", "grow_second")))
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
        page = screen.wait_for(lambda text: "worker " in text, "the thread")
        screen.press(ENTER)
        screen.wait_for(lambda text: "stacks of a thread are not known" in text, "a message")
        screen.press("gg")
        # Stacks of the second row.
        screen.wait_for(lambda text: "by call site" in text, "call sites again")
        screen.press(DOWN)
        page = screen.wait_for(lambda text: re.search(r"^>.*grow_first", text, re.M), "the second row")
        self.assertEqual(sum(line.startswith(">") for line in page), 1)
        screen.press(ENTER)
        page = screen.wait_for(lambda text: "9.77 KiB live in 10 blocks" in text, "the stack")
        functions = [line.split(" ")[4] for line in page if line.startswith("    ")]
        self.assertEqual(functions[:2], ["grow_first", "main"])
        screen.press("?")
        screen.wait_for(lambda text: "next grouping" in text, "the help")
        screen.press(ESCAPE)
        screen.wait_for(lambda text: "by call site" in text, "the table again")
        screen.press("o")
        screen.wait_for(lambda text: "own code" in text, "own code only")
        screen.press("q")
        self.assertEqual(screen.wait_for_end(), 0)
        self.assertIsNone(self.program.poll(), "the program has ended with top")

    def test_marks_and_pauses_arrive(self):
        self.start("steady", "1")
        self.assertEqual(self.program.stdout.readline(), "up\n")
        screen = Screen(self, 100, 24, self.trace, "--interval", "0.05")
        screen.wait_for(lambda text: "since the start of top" in text, "growth")
        screen.press("m")
        screen.wait_for(lambda text: "since top mark 1" in text, "growth since the mark")
        screen.press("p")
        screen.wait_for(lambda text: ", paused, " in text, "that it is paused")
        screen.press("p")
        screen.wait_for(lambda text: ", recording, " in text, "that it is recorded again")
        self.program.send_signal(signal.SIGTERM)
        self.program.communicate(timeout=60)
        screen.wait_for(lambda text: ", ended after " in text, "the end")
        screen.press("m")
        screen.wait_for(lambda text: "the program has ended" in text, "that no mark can be set")
        screen.press("q")
        self.assertEqual(screen.wait_for_end(), 0)
        timeline = json.loads(self.heapprof("timeline", self.trace, "--format", "json"))
        self.assertEqual([mark["text"] for mark in timeline["marks"]], ["top mark 1"])
        self.assertEqual(len(timeline["pauses"]), 1)

    def test_sizes(self):
        self.start()
        self.command("ab")
        screen = Screen(self, 100, 30, self.trace)
        screen.wait_for(lambda text: "over time" in text or "allocated/s" in text, "a wide table")
        for columns, lines in ((40, 12), (20, 6), (130, 50)):
            screen.resize(columns, lines)
            page = screen.wait_for(lambda text, lines=lines: text.count("\n") == lines - 1, f"a page of {lines} lines")
            self.assertLessEqual(max(map(len, page)), columns)
            if columns >= 40:
                self.assertTrue(any("grow_first" in line for line in page), page)
        screen.press("\x03")
        self.assertEqual(screen.wait_for_end(), 0)
        # Signals restore the terminal, too.
        screen = Screen(self, 80, 24, self.trace)
        screen.wait_for(lambda text: "grow_first" in text, "the table")
        screen.process.terminate()
        self.assertEqual(screen.wait_for_end(), 0)

    def test_no_terminal(self):
        self.start()
        for terminal in ("", "dumb"):
            screen = Screen(self, 80, 24, self.trace, TERM=terminal)
            self.assertEqual(screen.process.wait(60), 2)
            screen.read()
            self.assertIn("add --once", screen.output)


if __name__ == "__main__":
    harness.main()
