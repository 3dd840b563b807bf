"""heaptrack_gui on a virtual X server: opens files and waits until they are displayed.

The title of a window becomes the name of the file when the file has been read. Then the viewer draws its charts;
when all of its threads are idle, all is displayed. If it cannot read a file, it crashes or reports an error.
"""

import contextlib
import os
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import process_group

NEEDED = ("heaptrack_gui", "Xvfb", "xwininfo")
START_S = 60  # of the X server, and for one answer of it


def missing():
    """The name of a required program that is not installed, or None."""
    return next((name for name in NEEDED if shutil.which(name) is None), None)


@contextlib.contextmanager
def screen():
    """A private X server; yields the name of its display when the server accepts connections."""
    read_end, write_end = os.pipe()
    # Without -noreset, the server restarts when its last client disconnects, and rejects new clients meanwhile.
    server = process_group.start(["Xvfb", "-displayfd", str(write_end), "-screen", "0", "1280x1024x24", "-nolisten",
                                  "tcp", "-noreset"], pass_fds=[write_end], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(write_end)
    try:
        yield f":{display_number(server, read_end)}"
    finally:
        os.close(read_end)
        server.terminate()  # so that it removes its socket and its lock
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(START_S)
        process_group.end(server)


def display_number(server, read_end):
    """What the server writes when it accepts connections."""
    deadline = time.monotonic() + START_S
    answer = b""
    while not answer.endswith(b"\n"):
        if not select.select([read_end], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise AssertionError(f"Xvfb does not start within {START_S} s")
        piece = os.read(read_end, 100)
        if not piece:
            raise AssertionError(f"Xvfb does not start: exit status {server.wait(START_S)}")
        answer += piece
    return int(answer)


def threads(pid):
    """The states of all threads of a process, and the processor time that they have used, in ticks."""
    states, ticks = set(), 0
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the process has ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                states.add(fields[0])
                ticks += int(fields[11]) + int(fields[12])
    return states, ticks


def open_files(paths, home, environment, seconds=120):
    """Opens each file in its own window of one viewer. Returns problems; none: all files are displayed, and the viewer
    is still running."""
    home.chmod(0o700)
    log = paths[0].with_name(paths[0].name + ".log")
    problems = []
    with screen() as display, open(log, "wb") as output:
        environment = {**environment, "DISPLAY": display, "HOME": str(home), "XDG_RUNTIME_DIR": str(home),
                       "LIBGL_ALWAYS_SOFTWARE": "1"}
        viewer = process_group.start(["heaptrack_gui", *map(str, paths)], env=environment, stdout=output,
                                     stdin=subprocess.DEVNULL, stderr=output)
        try:
            deadline = time.monotonic() + seconds
            before = None
            while not problems:
                titles = subprocess.run(["xwininfo", "-root", "-tree"], env=environment, capture_output=True,
                                        text=True, errors="replace", timeout=START_S).stdout
                missing_files = [path.name for path in paths
                                 if not re.search(rf'"Heaptrack - {re.escape(path.name)}\W', titles)]
                if viewer.poll() is not None:
                    problems.append(f"heaptrack_gui ended with status {viewer.returncode}; not displayed: "
                                    f"{missing_files}")
                    break
                if re.search("(?i)failed to", log.read_text(errors="replace")):
                    problems.append("heaptrack_gui cannot read a file")
                    break
                now = threads(viewer.pid)
                if not missing_files and not now[0] & {"R", "D"} and before == now:
                    break
                before = now
                if time.monotonic() > deadline:
                    problems.append(f"not displayed within {seconds} s: {missing_files}: {titles}")
                time.sleep(0.3)  # all threads must be idle during this time
        finally:
            process_group.end(viewer)
    if problems:
        problems.append(f"output: {log.read_text(errors='replace')[-2000:]}")
    return problems
