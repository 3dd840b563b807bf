"""Fill the server with keys that it overwrites; compute differences of sorted sets."""
import os
import random

from redis_client import Connection, command

server = Connection(os.environ["RUN"] + "/socket")
choose = random.Random(2)
server.send([command("SET", f"session:{key}", b"s" * choose.randrange(50, 400)) for key in range(20_000)])


def members(count: int, prefix: str) -> list:
    return [argument for number in range(count) for argument in (number, f"{prefix}-member-{number:06}")]


server.send([command("ZADD", "seen", *members(400, "user"))])
blocked_keys = [f"blocked:{blocked}" for blocked in range(6)]
for key in blocked_keys:
    server.send([command("ZADD", key, *members(30, "user"))])
for _ in range(1_500):
    server.send([command("SET", f"session:{choose.randrange(20_000)}", b"s" * choose.randrange(50, 400))
                 for _ in range(20)] + [command("ZDIFF", 7, "seen", *blocked_keys)])
server.shutdown()
