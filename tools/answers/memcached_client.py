"""Connects to a memcached at a Unix socket: what the load.py of the cases with memcached need."""
import socket
import time


def connect(path: str) -> socket.socket:
    deadline = time.monotonic() + 60
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(path)
            return connection
        except OSError:
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
