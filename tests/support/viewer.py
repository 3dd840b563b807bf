"""heaptrack_gui on a virtual X server: opens files and waits until they are displayed.

The title of the window becomes the name of the file when the file has been read. Then the viewer draws its charts;
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
    """Opens each file in its own viewer, on one display. Returns problems; none: all files are displayed, and
    all viewers are still running."""
    home.chmod(0o700)
    logs = [path.with_name(path.name + ".log") for path in paths]
    problems = []
    with screen() as display:
        environment = {**environment, "DISPLAY": display, "HOME": str(home), "XDG_RUNTIME_DIR": str(home),
                       "LIBGL_ALWAYS_SOFTWARE": "1"}
        viewers = []
        try:
            for path, log in zip(paths, logs):
                with open(log, "wb") as output:
                    viewers.append(subprocess.Popen(["heaptrack_gui", str(path)], env=environment, stdout=output,
                                                    stdin=subprocess.DEVNULL, stderr=output, start_new_session=True))
            deadline = time.monotonic() + seconds
            waiting = dict(zip(paths, viewers))
            log_of = dict(zip(paths, logs))
            before = {}
            while waiting:
                titles = subprocess.run(["xwininfo", "-root", "-tree"], env=environment, capture_output=True,
                                        text=True, errors="replace").stdout
                for path, viewer in list(waiting.items()):
                    if viewer.poll() is not None:
                        problems.append(f"{path.name}: heaptrack_gui ended with status {viewer.returncode}")
                        del waiting[path]
                        continue
                    if re.search("(?i)failed to", log_of[path].read_text(errors="replace")):
                        del waiting[path]  # rejected; its output becomes a problem below
                        continue
                    now = threads(viewer.pid)
                    shown = re.search(rf'"Heaptrack - {re.escape(path.name)}\W', titles)
                    if shown and not now[0] & {"R", "D"} and before.get(path) == now:
                        del waiting[path]
                    before[path] = now
                if time.monotonic() > deadline:
                    problems += [f"{path.name}: not displayed within {seconds} s: {titles}" for path in waiting]
                    break
                time.sleep(0.3)  # all threads must be idle during this time
            # Viewers that were ready early must still be running.
            problems += [f"{path.name}: heaptrack_gui ended with status {viewer.returncode}"
                         for path, viewer in zip(paths, viewers) if path not in waiting and viewer.poll() is not None]
        finally:
            for viewer in viewers:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(viewer.pid, signal.SIGKILL)
                viewer.wait()
    outputs_of = {path.name: log.read_text(errors="replace") for path, log in zip(paths, logs)}
    problems += [f"{name}: {text[-2000:]}" for name, text in outputs_of.items() if re.search("(?i)failed to", text)]
    outputs = [f"output for {name}: {text[-1000:]}" for name, text in outputs_of.items() if problems]
    return list(dict.fromkeys(problems)) + outputs
