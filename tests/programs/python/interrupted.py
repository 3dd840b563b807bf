"""Runs code of several kinds while a signal handler maps memory at every instruction of the interpreter.

Usage: interrupted.py LIBRARY. Prints the number of interrupts, "right" if all results are, and how many bytes of stack
an allocation in a handler uses."""

import ctypes
import functools
import sys

library = ctypes.CDLL(sys.argv[1])
api = ctypes.pythonapi.Py_IsInitialized
address = ctypes.cast(api, ctypes.c_void_p).value
with open("/proc/self/maps") as maps:
    ranges = [tuple(int(word, 16) for word in line.split()[0].split("-")) for line in maps if " r-xp " in line]
begin, end = next((begin, end) for begin, end in ranges if begin <= address < end)


class Number:
    def __add__(self, other):
        return other + 1


def numbers():
    yield from (n for n in range(2))


def recursion(n):
    return recursion(n - 1) if n else sorted([2, 1], key=lambda x: -x)


def work():
    return (sorted([3, 1, 2], key=lambda x: -x), functools.reduce(lambda a, b: a + b, [1, 2, 3]), Number() + 1,
            list(numbers()), recursion(2), [*map(lambda x: bytearray(x), range(2))])


expected = work()
library.interrupt_begin(ctypes.c_uint64(begin), ctypes.c_uint64(end))
found = work()
count = library.interrupt_end()
print(count, "right" if found == expected else found, max(map(lambda _: library.handler_stack_use(), range(20))))
