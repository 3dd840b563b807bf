"""Redraw a screen in place, in two windows; then let one of them print plain lines."""
import os
import pathlib
import subprocess
import sys
import time

socket = os.environ["RUN"] + "/socket"
tmux = [os.environ["OUT"] + "/tmux", "-S", socket]
clean = {name: value for name, value in os.environ.items() if name not in ("TMUX", "LD_PRELOAD")}
paint = pathlib.Path(os.environ["RUN"]) / "paint.py"
paint.write_text("""
import sys
for frame in range(60):
    sys.stdout.write("\\x1b[48;2;%d;%d;%dm\\x1b[2J\\x1b[H" % (frame % 250, 20, 90))
    for line in range(1, 45):
        sys.stdout.write("\\x1b[%d;4Hload of host %d: %d" % (line, line, frame * line))
    sys.stdout.flush()
sys.stdout.write("\\x1b[0m\\x1b[2J")
for line in range(20000):
    sys.stdout.write("%d: nothing to report today\\r\\n" % line)
sys.stdout.flush()
""")
for _ in range(3000):
    if os.path.exists(socket):
        break
    time.sleep(0.02)


def run(*arguments: str) -> None:
    subprocess.run(tmux + list(arguments), check=True, env=clean)


painter = f"{sys.executable} {paint}; {tmux[0]} -S {socket} wait-for -S painted"
run("new-session", "-d", "-x", "180", "-y", "50", f"{sys.executable} -c 'import time; time.sleep(3600)'")
run("new-window", "-d", painter + "; sleep 3600")
run("wait-for", "painted")
run("new-window", "-d", painter + "; sleep 3600")
run("wait-for", "painted")
run("kill-server")
