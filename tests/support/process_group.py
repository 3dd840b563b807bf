"""Programs that start others, such as browsers and buses of messages: they are ended with all of these, also where the
command is a script that starts the program.

    process = process_group.start(["chromium", ...], stdout=subprocess.DEVNULL)
    process_group.end(process)
"""

import atexit
import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

_started = set()  # (process that has started the group, number of the group)


def start(command, **options):
    """subprocess.Popen() of a program that leads a session and a process group of its own."""
    return adopt(subprocess.Popen(command, start_new_session=True, **options))


def adopt(process):
    """Returns the process, which leads a group of its own."""
    _started.add((os.getpid(), process.pid))
    return process


def members(group):
    """The processes of the group that have not ended. A zombie has: who gets an orphan may never wait for it."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it is gone
            stat = Path("/proc", name, "stat").read_text(errors="replace")
            state, _, its_group = stat.rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                found.append(int(name))
    return found


def end(process, seconds=60):
    """Kills all processes of the group of the process, and waits until none is left: then nobody writes to their
    files."""
    deadline = time.monotonic() + seconds
    while process.poll() is None or members(process.pid):
        if time.monotonic() > deadline:
            raise AssertionError(f"{process.args[0]}: processes {members(process.pid)} have not ended within "
                                 f"{seconds} s")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.005)
    forget(process)


def forget(process):
    """It has ended: another process can get its number."""
    _started.discard((os.getpid(), process.pid))


def kill_all():
    """Kills the groups that this process has started and not ended."""
    for starter, group in list(_started):  # in a signal handler, while a thread may start another one
        if starter == os.getpid():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


def end_all_with(number):
    """If this signal ends this process, it kills the groups first: meson ends a test that exceeds its limit, and the
    processes of the test's own group."""
    def handle(*_):
        kill_all()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    signal.signal(number, handle)


atexit.register(kill_all)
