"""A program in a terminal of this process, whose screen can be read: a pseudo-terminal, and pyte, which interprets what
the program writes."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

# Debian's package, also for a python3 that is not Debian's.
sys.path.append("/usr/lib/python3/dist-packages")
import pyte  # noqa: E402


class EmulatedScreen(pyte.Screen):
    """With `rep` and dim text, which pyte lacks and xterm has. Dim text is black."""

    last = " "

    def draw(self, data):
        super().draw(data)
        self.last = data[-1:] or self.last

    def select_graphic_rendition(self, *attributes, **_):
        super().select_graphic_rendition(*(90 if attribute == 2 else attribute for attribute in attributes))

    def repeat(self, count=1, **_):
        self.draw(self.last * (count or 1))


class EmulatedStream(pyte.ByteStream):
    csi = dict(pyte.ByteStream.csi, b="repeat")
    events = pyte.ByteStream.events | {"repeat"}


class Terminal:
    """Runs `command` as the foreground program of a terminal with `columns` and `lines`."""

    def __init__(self, command, columns, lines, environment):
        self.master, self.slave = pty.openpty()
        self.screen = EmulatedScreen(columns, lines)
        self.stream = EmulatedStream(self.screen)
        self.output = b""
        self.resize(columns, lines)
        self.modes = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(
            command, stdin=self.slave, stdout=self.slave, stderr=self.slave, env=environment, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.slave)
        os.close(self.master)

    def resize(self, columns, lines):
        self.screen.resize(lines, columns)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, seconds=60):
        """Shows what the program has written since. False: nothing within the time."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        data = os.read(self.master, 1 << 16)
        self.output += data
        self.stream.feed(data)
        return True

    def press(self, keys):
        os.write(self.master, keys.encode())

    def page(self):
        """The lines of the screen, without blanks at their ends."""
        return [line.rstrip() for line in self.screen.display]

    def wait_for(self, condition, what, seconds=60):
        """Reads until the screen, lines in one text, fulfils the condition; returns its lines. Afterwards, the rest of
        the page may still be old."""
        end = time.monotonic() + seconds
        while not condition("\n".join(page := self.page())):
            if time.monotonic() > end or not self.read(max(0.0, end - time.monotonic())):
                raise AssertionError(f"{what} is not on the screen:\n" + "\n".join(page))
        return page

    def is_restored(self):
        """Whether the terminal is as it was before the program: its modes, its cursor and the page that it showed."""
        return (termios.tcgetattr(self.slave) == self.modes and not self.screen.cursor.hidden and
                self.output.count(b"\x1b[?1049h") == self.output.count(b"\x1b[?1049l"))

    def wait_for_end(self, seconds=60):
        """Returns the exit status."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > end:
                raise AssertionError("the program has not ended; on the screen is:\n" + "\n".join(self.page()))
            self.read(0.05)
        while self.read(0):
            pass
        return self.process.returncode
