"""Allocates under recursions of C functions: repr of nested lists, and of lists in tuples. Pairs of them differ in
their outermost C frames only.

usage: deep_c_stacks.py RESULT

Writes [[size of the allocation under lists, of that under lists in tuples], ...] to RESULT.
"""

import array
import json
import sys

ONE_BYTE = array.array("b", b"\0")
FIRST_SIZE = 1_000_003
TUPLES = 6


class Innermost:
    def __repr__(self):
        ONE_BYTE * size  # exactly so many bytes, which a bytearray has not in all versions
        return ""


def nested(depth, tuples):
    value = Innermost()
    for level in range(depth):
        value = (value,) if level >= depth - tuples else [value]
    return value


def called(frames, depth):
    """With so many more frames of Python."""
    if frames:
        return called(frames - 1, depth)
    global size
    # Twice, so that both follow each other in both orders.
    for value in [nested(depth, tuples) for tuples in (0, TUPLES)] * 2:
        size += 1
        repr(value)


size = FIRST_SIZE
pairs = []
for depth in range(TUPLES, 60):
    called(24, depth)
    pairs += [[size - 3, size - 2], [size - 1, size]]
with open(sys.argv[1], "w") as file:
    json.dump(pairs, file)
