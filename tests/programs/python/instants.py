"""Allocates blocks of unique sizes in all kinds of Python code, and writes down the stack of each to a JSON file: the
file, the qualified name and the line of every frame, innermost first, as sys._getframe shows them.

    instants.py RESULT

From 3.8 on. Before 3.11 the name is the unqualified one.
"""

import asyncio
import collections
import contextlib
import ctypes
import functools
import gc
import json
import os
import re
import signal
import sys
import tempfile
import threading
import types
import weakref

from instant import instant, resume, write


def recursion(depth):
    instant() if depth % 40 == 0 else None
    return recursion(depth - 1) if depth else instant()


def generator():
    instant()
    yield instant()
    yield from inner_generator()
    for value in (instant() for _ in range(2)):
        yield value


def inner_generator():
    try:
        yield instant()
    finally:
        instant()


async def asynchronous_generator():
    yield instant()
    await asyncio.sleep(0)
    yield instant()


async def awaited(depth):
    if depth:
        return await awaited(depth - 1)
    instant()
    await asyncio.sleep(0)
    return instant()


async def main_task():
    await asyncio.gather(awaited(0), awaited(3))
    async for _ in asynchronous_generator():
        instant()
    return [instant() async for _ in asynchronous_generator()]


resume()  # the imports above were not recorded


class Meta(type):
    def __call__(cls, *arguments):
        instant()
        return super().__call__(*arguments)


class Special(metaclass=Meta):
    instant()

    def __init__(self, value=0):
        self.value = value
        instant()

    def __del__(self):
        instant()

    def __lt__(self, other):
        instant()
        return self.value < other.value

    def __hash__(self):
        instant()
        return 1

    def __eq__(self, other):
        instant()
        return self is other

    def __str__(self):
        return str(instant())

    def __getattr__(self, name):
        return instant()

    def __getitem__(self, index):
        instant()
        if index > 1:
            raise IndexError
        return index

    def __enter__(self):
        return instant()

    def __exit__(self, *_):
        instant()

    @property
    def computed(self):
        return instant()

    @classmethod
    def of_class(cls):
        return instant()

    @staticmethod
    def static():
        def nested():
            return instant()
        return nested()


def exceptions():
    try:
        try:
            raise ValueError(instant())
        except ValueError:
            instant()
            raise KeyError(instant())
        finally:
            instant()
    except KeyError as error:
        return instant(error)


def traced():
    value = 1
    value += 1
    return value


def trace_function(frame, event, _):
    if frame.f_code is traced.__code__:
        instant()
    return trace_function


def profile_function(frame, event, _):
    if frame.f_code is traced.__code__:
        instant()


@contextlib.contextmanager
def context():
    instant()
    yield
    instant()


@functools.lru_cache(maxsize=None)
def cached(value):
    return instant()


def cycle():
    first, second = Special(1), Special(2)
    first.other, second.other = second, first


def long_call():
    return (instant(),
            instant(
                1,
                2),
            [instant()
             for _
             in range(2)],
            {key: instant()
             for key in "ab"},
            (lambda: instant())())


def thread_body():
    for _ in range(3):
        instant()
    recursion(5)
    list(generator())


def callbacks():
    """Callbacks from C into Python and back."""
    sorted(range(3), key=instant)
    sorted([Special(2), Special(1)])
    functools.reduce(lambda a, b: instant(), range(3))
    list(map(instant, range(2)))
    list(filter(instant, range(2)))
    sum(instant() for _ in range(2))
    any(instant() < 0 for _ in range(2))
    re.sub("a", lambda match: str(instant()), "aba")
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda a, b: instant() and 0)
    array = (ctypes.c_int * 3)(3, 1, 2)
    ctypes.CDLL(None).qsort(array, 3, 4, callback)
    json.dumps(object(), default=lambda value: instant())
    json.loads('{"a": 1}', object_hook=instant)
    collections.defaultdict(instant)[1]
    min([1, 2], key=lambda value: instant())
    str(Special())
    {Special(1): 1, Special(2): 2}
    list(Special())
    next(iter(instant, -1))
    functools.partial(instant, 1)()
    type("Made", (), {"__init_subclass__": classmethod(lambda cls: instant())})
    types.new_class("New", (), {}, lambda namespace: instant())


def everything():
    instant()
    recursion(5)
    recursion(200)
    recursion(3)
    list(generator())
    next(generator())
    for value in generator():
        instant()
    asyncio.run(main_task())
    Special().computed
    Special.of_class()
    Special.static()
    Special().missing
    with Special(), context():
        instant()
    exceptions()
    sys.settrace(trace_function)
    traced()
    sys.settrace(None)
    sys.setprofile(profile_function)
    traced()
    sys.setprofile(None)
    cached(1), cached(2), cached(1)
    cycle()
    gc.collect()
    long_call()
    callbacks()
    exec("def executed():\n\n  return instant()\nexecuted()\ninstant()", globals())
    exec(compile("\n\ninstant(); \\\n  instant()", "späte Datei \u4e2d\U0001f40d.py", "exec"), globals())
    eval("[instant() for _ in range(2)]")
    exec("def ünïcode_\u4e2d(): return instant()\nünïcode_\u4e2d()", globals())
    exec("def wide(): return instant()".replace("wide", "w" + "x" * 900) + "\n" * 300 + "w" + "x" * 900 + "()", globals())
    threads = [threading.Thread(target=thread_body) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    signal.signal(signal.SIGUSR1, instant)
    os.kill(os.getpid(), signal.SIGUSR1)
    value = Special()
    reference = weakref.ref(value, instant)
    del value
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "imported_module.py"), "w") as file:
            file.write("import builtins\nbuiltins.instant()\nclass Inner:\n  builtins.instant()\n")
        sys.path.insert(0, folder)
        import builtins
        builtins.instant = instant
        sys.dont_write_bytecode = True
        import imported_module


if __name__ == "__main__":
    everything()
    for turn in range(3):
        for _ in range(4):
            instant()
            instant(), instant()
        recursion(turn)
    write(sys.argv[1])
