"""Fill the server; overwrite values, with a failing BITFIELD now and then; then only overwrite values."""
import os
import random

from redis_client import Connection, command

KEYS = 50_000
server = Connection(os.environ["RUN"] + "/socket")
choose = random.Random(1)


def set_key(key: int) -> bytes:
    return command("SET", f"page:{key}", b"x" * choose.randrange(300, 700))


server.send([set_key(key) for key in range(KEYS)])
server.send([command("RPUSH", "queue", "a", "b", "c")])
fields = [argument for bit in range(0, 160, 8) for argument in ("GET", "u8", bit)]
for _ in range(800):
    batch = []
    for _ in range(10):
        batch += [set_key(choose.randrange(KEYS)) for _ in range(10)] + [command("BITFIELD", "queue", *fields)]
    server.send(batch)
for _ in range(800):
    server.send([set_key(choose.randrange(KEYS)) for _ in range(60)])
server.shutdown()
