"""Store items, and read them with multigets; one in four multigets ends with a key that is too long."""
import os

from memcached_client import connect

KEYS = 40_000
server = connect(os.environ["RUN"] + "/socket")
replies = server.makefile("rb")
for first in range(0, KEYS, 200):
    value = b"v" * (50 + first % 1000)
    server.sendall(b"".join(b"set key%d 0 0 %d\r\n%s\r\n" % (key, len(value), value)
                            for key in range(first, first + 200)))
    for _ in range(200):
        replies.readline()
too_long = b"k" * 251
for number in range(16_000):
    keys = b" ".join(b"key%d" % (number % KEYS + key) for key in range(12))
    if number % 4:
        server.sendall(b"gets " + keys + b"\r\n")
        while replies.readline() != b"END\r\n":
            pass
    else:
        server.sendall(b"gets " + keys + b" " + too_long + b"\r\n")
        assert replies.readline().startswith(b"CLIENT_ERROR")
