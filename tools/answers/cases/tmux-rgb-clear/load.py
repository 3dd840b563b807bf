"""Redraw the lines of a screen in place, as a monitor of hosts does; then print plain lines in another window."""
import os
import pathlib
import subprocess
import sys
import time

run_directory = pathlib.Path(os.environ["RUN"])
socket = run_directory / "socket"
tmux = [os.environ["OUT"] + "/tmux", "-S", str(socket)]
clean = {name: value for name, value in os.environ.items() if name not in ("TMUX", "LD_PRELOAD")}
(run_directory / "paint.py").write_text(r"""
import sys
for frame in range(200):
    for line in range(1, 45):
        # Clear from the second column to the end of the line, to a colour.
        sys.stdout.write("\x1b[%d;2H\x1b[48;2;%d;20;90m\x1b[Kload of host %d: %d" % (line, frame, line, frame * line))
    sys.stdout.flush()
sys.stdout.write("\x1b[0m\x1b[1;1H")
sys.stdout.flush()
""")
(run_directory / "print.py").write_text(r"""
for line in range(30000):
    print("%d: nothing to report today" % line)
""")
for _ in range(3000):
    if socket.exists():
        break
    time.sleep(0.02)


def run(*arguments: str) -> None:
    subprocess.run(tmux + list(arguments), check=True, env=clean)


def window(script: str, command: list[str]) -> None:
    """Run a script in a new window, which stays open, and wait until the script has ended."""
    line = f"{sys.executable} {run_directory}/{script}; {' '.join(tmux)} wait-for -S done; sleep 3600"
    run(*command, line)
    run("wait-for", "done")


window("paint.py", ["new-session", "-d", "-x", "180", "-y", "50"])
window("print.py", ["new-window", "-d"])
run("kill-server")
