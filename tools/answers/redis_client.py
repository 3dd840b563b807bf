"""Talks to a redis-server at a Unix socket: what the load.py of the cases with Redis need."""
import socket
import time


def command(*arguments) -> bytes:
    parts = [str(argument).encode() if not isinstance(argument, bytes) else argument for argument in arguments]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Connection:
    def __init__(self, path: str):
        deadline = time.monotonic() + 60
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(path)
                break
            except OSError:
                self.socket.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def send(self, commands: list[bytes]) -> None:
        """Send the commands, and wait until the server has executed all of them."""
        for first in range(0, len(commands), 500):
            batch = b"".join(commands[first:first + 500])
            self.socket.sendall(batch + command("ECHO", "done-with-batch"))
            received = b""
            while not received.endswith(b"$15\r\ndone-with-batch\r\n"):
                block = self.socket.recv(1 << 20)
                if not block:
                    raise ConnectionError("the server closed the connection")
                received = received[-64:] + block

    def shutdown(self) -> None:
        self.socket.sendall(command("SHUTDOWN", "NOSAVE"))
