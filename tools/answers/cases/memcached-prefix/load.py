"""Store items under keys whose prefix is a new session number every time; read some again."""
import os

from memcached_client import connect

SESSIONS, BATCH = 160_000, 200
server = connect(os.environ["RUN"] + "/socket")
replies = server.makefile("rb")
server.sendall(b"stats detail on\r\n")
replies.readline()
for first in range(0, SESSIONS, BATCH):
    request = b""
    for session in range(first, first + BATCH):
        value = b"v" * (100 + session % 400)
        request += b"set session%06d:state 0 0 %d\r\n%s\r\n" % (session, len(value), value)
    server.sendall(request + b"get session%06d:state\r\n" % first)
    for _ in range(BATCH):
        replies.readline()
    while replies.readline() != b"END\r\n":
        pass
