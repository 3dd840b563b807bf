"""Ask for a title with limited length through a client in control mode; then list commands, which does not leak."""
import os
import subprocess
import sys
import time

socket = os.environ["RUN"] + "/socket"
tmux = [os.environ["OUT"] + "/tmux", "-S", socket]
clean = {name: value for name, value in os.environ.items() if name not in ("TMUX", "LD_PRELOAD")}
for _ in range(3000):
    if os.path.exists(socket):
        break
    time.sleep(0.02)
idle = f"{sys.executable} -c 'import time; time.sleep(3600)'"
subprocess.run(tmux + ["new-session", "-d", "-s", "work", "-x", "180", "-y", "50", idle], check=True, env=clean)
client = subprocess.Popen(tmux + ["-C", "attach-session", "-t", "work"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env=clean)


def command(line: str) -> None:
    """Send a command, and wait for its reply."""
    client.stdin.write(line.encode() + b"\n")
    client.stdin.flush()
    while True:
        reply = client.stdout.readline()
        if not reply:
            raise ConnectionError("the server closed the connection")
        if reply.startswith((b"%end", b"%error")):
            return


title = "editing the report of the third quarter " * 8
command(f"select-pane -T '{title}'")
for number in range(12_000):
    command("display-message -p '#{=/9/...:pane_title} #{=/-9/...:pane_title} #{window_name}'")
    if number % 100 == 0:
        command("list-commands")
for number in range(80):
    command("list-commands")
client.stdin.write(b"kill-server\n")
client.stdin.flush()
client.wait(timeout=60)
