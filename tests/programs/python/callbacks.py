"""Calls Python functions from C functions of the interpreter and of extensions, and allocates a block of a unique size
in each. Writes a JSON list to the file RESULT: [size, Python functions innermost first, and between two of them the
names of C functions, one of which must be in the stack there].

    callbacks.py RESULT LIBRARY

LIBRARY: python_callbacks.so
"""

import ctypes
import functools
import json
import re
import sys

FIRST_SIZE = 7_000_013
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
malloc.argtypes = [ctypes.c_size_t]
cases = []
PATTERN = re.compile("a")
SORT = ["list_sort", "list_sort_impl", "builtin_sorted"]
REDUCE = ["functools_reduce", "_functools_reduce", "functools_reduce_impl"]
SUB = ["pattern_subx"]
CLOSURE = ["closure_fcn", "qsort_r", "msort_with_tmp", "qsort"]
MAP = ["map_next"]
FILTER = ["filter_next"]
CALL_BACK = ["call_back"]
CALL_BACK_AGAIN = ["call_back_again"]
library = ctypes.CDLL(sys.argv[2])
Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


def allocate(*frames):
    """`frames`: functions and lists of C functions, outermost first, from the caller's frame outwards."""
    size = FIRST_SIZE + len(cases)
    cases.append([size, ["allocate", *frames]])
    return malloc(size)


def key(_):
    allocate("key", SORT, "sort_key")
    return 0


def sort_key():
    sorted([1, 2], key=key)


def add(a, b):
    allocate("add", REDUCE, "reduce_values")
    return a + b


def reduce_values():
    functools.reduce(add, range(3))


def replacement(match):
    allocate("replacement", SUB, "substitute")
    return "b"


def substitute():
    PATTERN.sub(replacement, "aa")


def compare(a, b):
    allocate("compare", CLOSURE, "sort_in_c")
    return 0


def sort_in_c():
    array = (ctypes.c_int * 3)(3, 1, 2)
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(compare)
    ctypes.CDLL(None).qsort(array, 3, 4, callback)


def nested_key(_):
    return functools.reduce(nested_add, (1, 2))


def nested_add(a, b):
    return list(map(nested_map, (1,)))[0]


def nested_map(_):
    plain()
    return 0


def plain():
    allocate("plain", "nested_map", MAP, "nested_add", REDUCE, "nested_key", SORT, "nested")


def nested():
    sorted((1,), key=nested_key)


def called_by_library(_):
    allocate("called_by_library", CALL_BACK, "calls_library")
    return 0


def calls_library():
    library.call_back(Callback(called_by_library), 1)


def called_again(_):
    allocate("called_again", CALL_BACK_AGAIN, "calling_key", SORT, "called_first", CALL_BACK, "calls_library_twice")
    return 0


def calling_key(_):
    return library.call_back_again(Callback(called_again), 1)


def called_first(_):
    sorted((1,), key=calling_key)
    return 0


def calls_library_twice():
    library.call_back(Callback(called_first), 1)


def waiting():
    try:
        yield
    except ValueError:
        allocate("waiting", "delegating", "throwing_key", SORT, "throw_through_delegation")
        yield


def delegating():
    yield from waiting()


def throwing_key(_):
    generator = delegating()
    next(generator)
    # No evaluation executes `delegating` in this call: C calls the generator to which it delegates.
    generator.throw(ValueError())
    return 0


def throw_through_delegation():
    sorted((1,), key=throwing_key)


def trace_calls(frame, event, _):
    """While a line of a frame is traced, its operands are stored in it, as those of a delegating generator are."""
    if event == "call" and frame.f_code.co_name == "traced":
        return trace_lines
    return None


def trace_lines(frame, event, _):
    if event == "line":
        allocate("trace_lines", "traced", "tracing")
    return trace_lines


def traced():
    yield 0


def tracing():
    sys.settrace(trace_calls)
    for _ in traced():
        pass
    sys.settrace(None)


def by_either(_):
    allocate("by_either", *way, "two_ways")
    return 0


def two_ways():
    """The same frames of Python at the same instructions, with different C frames between them."""
    global way
    for way, iterator in (([MAP], map(by_either, (1,))), ([FILTER], filter(by_either, (1,)))):
        list(iterator)


for _ in range(2):
    for function in (two_ways, sort_key, reduce_values, substitute, sort_in_c, nested, calls_library,
                     calls_library_twice, throw_through_delegation, tracing):
        function()
with open(sys.argv[1], "w") as result:
    result.write(json.dumps(cases))
