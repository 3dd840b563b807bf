"""Decodes signed messages, whose signatures are integers of 2,000 bits; keeps the last ones."""
import collections

import ujson

recent = collections.deque(maxlen=2000)
for number in range(40_000):
    digits = str(10**605 + number * 7919**20)
    message = '{"id": %d, "text": "%s", "signature": %s}' % (number, "message " * (number % 40), digits)
    recent.append(ujson.loads(message))
print(len(recent))
