"""Creates objects in all kinds of Python code under tracemalloc, and writes down where each of them was allocated:

    live_objects.py RESULT [large]

Each object's memory is a block of malloc, so it needs PYTHONMALLOC=malloc. The result is a JSON file: `stacks`, lists
of [file, line], innermost first; `objects`, a list of [address, name of the type, index of a stack]. `large`: many
modules of the standard library, too.
"""

import array
import ast
import collections
import ctypes
import datetime
import decimal
import enum
import gc
import glob
import importlib
import json
import os
import re
import sys
import textwrap
import tracemalloc

import instants

MODULES = ("argparse", "bz2", "calendar", "cmd", "configparser", "csv", "difflib", "doctest", "email.message",
           "fractions", "ftplib", "gettext", "html.parser", "http.client", "http.server", "imaplib",
           "logging.handlers", "mailbox", "multiprocessing.pool", "optparse", "pathlib", "pdb", "pickletools",
           "plistlib", "pprint", "pydoc", "shelve", "smtplib", "sqlite3", "ssl", "statistics", "tarfile", "tkinter",
           "turtle", "unittest.mock", "urllib.request", "uuid", "wave", "xml.dom.minidom", "xml.etree.ElementTree",
           "xmlrpc.client", "zipfile")
keep = []


class Plain:
    def __init__(self, value):
        self.value = str(value) * 2


class Slotted:
    __slots__ = ("first", "second")

    def __init__(self, value):
        self.first, self.second = bytes(value % 40), {value}


class Text(str):
    pass


def make(*_):
    """Takes the place of instants.instant, and so is called from all kinds of code."""
    number = len(keep)
    keep.append(Plain(number))
    keep.append(Slotted(number)), keep.append(Text("text %d" % number))
    keep.append([1000 + number * value for value in range(number % 5)])
    keep.append(lambda: number)
    keep.append(bytearray(b"x" * (number % 70)))
    return number


def generator(name):
    held = name * 3
    yield Plain(held)
    keep.append(held)


def library():
    """Objects that the interpreter and its library allocate."""
    keep.append(json.loads(json.dumps([{"key %d" % i: [i * 1e9, None, "ä" * i]} for i in range(30)])))
    keep.append(collections.namedtuple("Pair", "one two")("1" * 5, 2 ** 70))
    keep.append(re.compile(r"(?P<name>a+|b[c-x]*)\d{2,3}"))
    keep.append(ast.parse("def f(a, *b, c=1):\n    return [x async for x in a if x] or {**b}\n"))
    keep.append(compile("class A:\n    def m(self): return lambda x: (x, self)\n", "<compiled>", "exec"))
    keep.append(decimal.Decimal(2) ** 300)
    keep.append(datetime.datetime(2026, 1, 2) + datetime.timedelta(days=1))
    keep.append(array.array("d", range(40)))
    keep.append(collections.OrderedDict((str(i), Plain(i)) for i in range(20)))
    keep.append(collections.deque(str(i) + "!" for i in range(200)))
    keep.append(enum.Enum("Colour", "red green blue"))
    keep.append(textwrap.wrap("some words of a text " * 20, 30))
    keep.append("".join("piece %d" % i for i in range(300)).encode())
    generators = [generator("g%d" % i) for i in range(20)]
    keep.append((generators, [next(each) for each in generators], [next(each, None) for each in generators[::2]]))
    # realloc
    growing = ""
    for step in range(100):
        growing += "part %d" % step
        keep.append(growing) if step == 50 else None
    keep.append(growing)
    keep.append(tuple(str(i) for i in range(100)))


def more_library():
    for name in MODULES:
        try:
            keep.append(importlib.import_module(name))
        except ImportError:
            pass
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py")))[:25]:
        with open(path, encoding="utf-8") as file:
            keep.append(compile(file.read(), path, "exec"))


def reachable():
    """All objects that `keep` refers to, directly or not."""
    found = {}
    waiting = {id(keep): keep}
    while waiting:
        found.update(waiting)
        referents = {id(each): each for each in gc.get_referents(*waiting.values())}
        waiting = {number: each for number, each in referents.items() if number not in found}
    return list(found.values())


def places(objects):
    stacks, rows = {}, []
    for each in objects:
        traceback = tracemalloc.get_object_traceback(each)
        if traceback:
            rows.append((id(each), type(each).__name__, stacks.setdefault(traceback, len(stacks))))
    tracemalloc.stop()
    return rows, [[(frame.filename, frame.lineno) for frame in reversed(stack)] for stack in stacks]


if __name__ == "__main__":
    instants.instant = make
    tracemalloc.start(1000)
    instants.everything()
    library()
    if sys.argv[2:] == ["large"]:
        more_library()
    # The child is not recorded. os.fork would replace objects in it.
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        rows, stacks = places(reachable())
        with open(sys.argv[1], "w") as result:
            result.write(json.dumps({"stacks": stacks, "objects": rows}))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    os._exit(1 if status else 0)
