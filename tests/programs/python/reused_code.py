"""Creates code objects whose memory the interpreter reuses, and allocates a block of a unique size in each.

    reused_code.py RESULT

Writes a JSON file: for each size the name and the first line of the function that allocated the block.
"""

import ctypes
import json
import sys

FIRST_SIZE = 5_000_011
ROUNDS = 400
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
malloc.argtypes = [ctypes.c_size_t]
free = ctypes.CDLL(None).free
free.argtypes = [ctypes.c_void_p]
expected = []


def allocate(name, line):
    expected.append((name, line))
    free(malloc(FIRST_SIZE + len(expected) - 1))


def executed():
    """Each turn compiles another function, which is freed after its call, so that the next one gets its memory."""
    for turn in range(ROUNDS):
        name, line = f"f{turn % 97:03}", 1 + turn % 89
        exec("\n" * (line - 1) + f"def {name}(): allocate('{name}', {line})\n{name}()\ndel {name}",
             {"allocate": allocate})


def replaced():
    """The same by code.replace: equal bytecode and, in part, equal constants and tables."""
    def template():
        allocate(template.__code__.co_name, template.__code__.co_firstlineno)
    original = template.__code__
    for turn in range(ROUNDS):
        template.__code__ = original.replace(co_name=f"g{turn % 83:03}", co_firstlineno=1 + turn % 79,
                                             **({"co_qualname": f"g{turn % 83:03}"}
                                                if sys.version_info >= (3, 11) else {}))
        template()
    template.__code__ = original


for _ in range(2):
    executed()
    replaced()
with open(sys.argv[1], "w") as result:
    json.dump({"first_size": FIRST_SIZE, "expected": expected}, result)
