"""Calls a Python function from the C code of a package, and allocates a block of SIZE bytes in it.

    package_callbacks.py numpy|pybind11 SIZE
"""

import ctypes
import sys

malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
malloc.argtypes = [ctypes.c_size_t]


def called(value):
    malloc(int(sys.argv[2]))
    return value


def calling():
    if sys.argv[1] == "numpy":
        import numpy
        numpy.frompyfunc(called, 1, 1)(numpy.array([1], dtype=object))
    else:
        import pybind_callback
        pybind_callback.call(called)


calling()
