"""Fill the server; run scripts whose text contains their arguments."""
import os
import random

from redis_client import Connection, command

server = Connection(os.environ["RUN"] + "/socket")
choose = random.Random(3)
server.send([command("SET", f"page:{key}", b"x" * choose.randrange(100, 500)) for key in range(30_000)])
script = """
local limit = %d
local name = 'page:' .. limit
local value = redis.call('get', name)
if value and #value > limit then redis.call('set', name, string.sub(value, 1, 90)) end
for index = 1, 3 do limit = limit + index end
return limit
"""
for first in range(0, 12_000, 20):
    server.send([command("EVAL", script % number, 0) for number in range(first, first + 20)] +
                [command("SET", f"page:{choose.randrange(30_000)}", b"x" * choose.randrange(100, 500))
                 for _ in range(80)])
server.shutdown()
