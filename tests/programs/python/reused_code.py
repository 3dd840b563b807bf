"""Creates code objects whose memory the interpreter reuses, and allocates a block of a unique size in each.

    reused_code.py RESULT ROUNDS

Writes a JSON file: for each size the name, the first line, and the line in execution of the function that allocated
the block.
"""

import ctypes
import json
import sys

FIRST_SIZE = 5_000_011
ROUNDS = int(sys.argv[2])
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
malloc.argtypes = [ctypes.c_size_t]
free = ctypes.CDLL(None).free
free.argtypes = [ctypes.c_void_p]
expected = []


def allocate(name, first_line, line):
    expected.append((name, first_line, line))
    free(malloc(FIRST_SIZE + len(expected) - 1))


def executed():
    """Each turn compiles another function, which is freed after its call, so that the next one gets its memory."""
    for turn in range(ROUNDS):
        name, line = f"f{turn % 97:03}", 1 + turn % 89
        exec("\n" * (line - 1) + f"def {name}(): allocate('{name}', {line}, {line})\n{name}()\ndel {name}",
             {"allocate": allocate})


def with_name(code, name, line):
    names = {"co_name": name, **({"co_qualname": name} if sys.version_info >= (3, 11) else {})}
    return code.replace(co_firstlineno=line, **names)


def replaced():
    """The same by code.replace: equal bytecode and, in part, equal constants and tables."""
    def template():
        allocate(template.__code__.co_name, template.__code__.co_firstlineno, template.__code__.co_firstlineno + 1)
    original = template.__code__
    for turn in range(ROUNDS):
        template.__code__ = with_name(original, f"g{turn % 83:03}", 1 + turn % 79)
        template()
        template.__code__ = original


def similar_names():
    """Names that are freed, and have equal beginnings."""
    def template():
        code = sys._getframe().f_code
        allocate(int(code.co_name[-3:]), 1, 3)
    original = template.__code__
    begin = len(expected)
    for turn in range(ROUNDS):
        name = f"a_function_with_a_long_name_{turn % 97:03}"
        template.__code__ = with_name(original, name, 1)
        del name
        template()
        template.__code__ = original
    expected[begin:] = [(f"a_function_with_a_long_name_{number:03}", *lines) for number, *lines in expected[begin:]]


def similar_tables():
    """Tables of lines that are equal at both ends."""
    def template(turn):
        turn += 0
        turn += 0
        turn += 0
        turn += 0
        turn += 0
        allocate(full_name, first_line, first_line + 6 + turn % 2)

        turn += 0
        turn += 0
        turn += 0
        turn += 0
        turn += 0
    def other(turn):
        turn += 0
        turn += 0
        turn += 0
        turn += 0
        turn += 0

        allocate(full_name, first_line, first_line + 6 + turn % 2)
        turn += 0
        turn += 0
        turn += 0
        turn += 0
        turn += 0
    original = template.__code__
    first_line = original.co_firstlineno
    full_name = getattr(original, "co_qualname", original.co_name)
    name = "co_linetable" if sys.version_info >= (3, 10) else "co_lnotab"
    tables = [bytearray(getattr(function.__code__, name)) for function in (template, other)]
    for turn in range(ROUNDS):
        template.__code__ = original.replace(**{name: bytes(tables[turn % 2])})
        template(turn)
        template.__code__ = original


for _ in range(2):
    for reuse in (executed, replaced, similar_names, similar_tables):
        reuse()
with open(sys.argv[1], "w") as result:
    result.write(json.dumps({"first_size": FIRST_SIZE, "expected": expected}))
