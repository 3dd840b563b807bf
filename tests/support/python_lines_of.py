"""Prints what an interpreter knows about the lines of code objects, for tests/e2e/python_lines.py. Runs with 3.8 and
later, and uses only their standard libraries.

The arguments are Python files. Standard output has, for each code object, a line of JSON: the encoding of its table
(common/trace_format.h, PythonLines), its first line, its number of instructions, the table in hexadecimal digits, and
the lines of the instructions: by co_lines() (3.10 and later), else by dis."""

import dis
import json
import sys

SOURCE = '''
def straight(a):
    b = [a,
         a + 1,

         a + 2]
    return b


def loop(n):
    """A text
    of several lines."""
    total = 0
    for i in range(
            n):
        if i % 2: continue
        total += (
            i *
            i)
    else:
        total -= 1
    while total > 10: total //= 2
    return total


class Box:
    size = 1

    def __init__(self, *, text="x", **rest):
        self.text = text; self.rest = rest

    @property
    def both(self):
        return (self.text,
                [y
                 for y in self.rest
                 if y])

    async def wait(self):
        async with self as x:
            await x
        async for y in x:
            yield y


def closure(a):
    def inner(b):
        nonlocal a
        a = lambda: (
            a,
            b)
        return a
    return inner


def tries(x):
    try:
        with open(x) as f, open(x) as g:
            return f.read()
    except (OSError,
            ValueError) as e:
        raise RuntimeError from e
    finally:
        print(
            x)


def generator():
    x = yield
    yield from (
        z for z in x
    )
''' + "\n" * 300 + "far = {\n" + "".join(f"  'k{i}': {i},\n" for i in range(400)) + "}\n" + "\n" * 1000 + """
def after(x):
    return (x,
""" + "\n" * 200 + "     x.y," + "\n" * 500 + "x.z)\n" + "value = (" + "1 + far['k1'] + " * 150 + "\n" + "2)\n"


def lines_of(code):
    count = len(code.co_code) // 2
    lines = [0] * count
    if hasattr(code, "co_lines"):
        for begin, end, line in code.co_lines():
            for at in range(begin // 2, end // 2):
                lines[at] = line or 0
        return lines
    starts = dict(dis.findlinestarts(code))
    line = code.co_firstlineno
    for at in range(count):
        line = starts.get(2 * at, line)
        lines[at] = line
    return lines


def encoding():
    if sys.version_info >= (3, 11):
        return 3
    return 2 if sys.version_info >= (3, 10) else 1


def show(code):
    table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
    # co_code has no inline caches before 3.11, and has them from then on.
    print(json.dumps([encoding(), code.co_firstlineno, len(code.co_code) // 2, table.hex(), lines_of(code)]))
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            show(constant)


show(compile(SOURCE, "varied.py", "exec"))
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        show(compile(file.read(), path, "exec"))
