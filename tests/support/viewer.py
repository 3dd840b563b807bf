"""heaptrack_gui on a virtual X server: opens files and waits until they are displayed.

The title of a window becomes the name of the file when the file has been read. Then the viewer draws its charts;
when all of its threads are idle, all is displayed. If it cannot read a file, it crashes or reports an error.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

NEEDED = ("heaptrack_gui", "Xvfb", "xwininfo")


def missing():
    """The name of a required program that is not installed, or None."""
    return next((name for name in NEEDED if shutil.which(name) is None), None)


@contextlib.contextmanager
def screen():
    """A private X server; yields the name of its display when the server accepts connections."""
    read_end, write_end = os.pipe()
    # Without -noreset, the server restarts when its last client disconnects, and rejects new clients meanwhile.
    server = subprocess.Popen(["Xvfb", "-displayfd", str(write_end), "-screen", "0", "1280x1024x24", "-nolisten",
                               "tcp", "-noreset"], pass_fds=[write_end], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(write_end)
    try:
        with open(read_end, encoding="ascii") as answer:
            number = answer.readline().strip()
        if not number:
            raise AssertionError(f"Xvfb does not start: exit status {server.wait()}")
        yield f":{number}"
    finally:
        server.kill()
        server.wait()


def threads(pid):
    """The states of all threads of a process, and the processor time that they have used, in ticks."""
    states, ticks = set(), 0
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
        viewer = subprocess.Popen(["heaptrack_gui", *map(str, paths)], env=environment, stdout=output,
                                  stdin=subprocess.DEVNULL, stderr=output, start_new_session=True)
        try:
            deadline = time.monotonic() + seconds
            before = None
            while not problems:
                titles = subprocess.run(["xwininfo", "-root", "-tree"], env=environment, capture_output=True,
                                        text=True, errors="replace").stdout
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
            with contextlib.suppress(ProcessLookupError):
                os.killpg(viewer.pid, signal.SIGKILL)
            viewer.wait()
    if problems:
        problems.append(f"output: {log.read_text(errors='replace')[-2000:]}")
    return problems
