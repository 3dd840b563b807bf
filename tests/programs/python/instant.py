"""Allocates blocks of unique sizes, and keeps the stack of each as sys._getframe shows it: file, qualified name and
line of every frame, innermost first. Before 3.11 the name is the unqualified one. For programs of tests."""

import ctypes
import json
import os
import sys
import threading

FIRST_SIZE = 3_000_017
libc = ctypes.CDLL(None)
malloc = libc.malloc
malloc.restype = ctypes.c_void_p
malloc.argtypes = [ctypes.c_size_t]
instants = []
lock = threading.Lock()


def stack(frame):
    result = []
    while frame is not None:
        code = frame.f_code
        result.append((code.co_filename, getattr(code, "co_qualname", code.co_name), frame.f_lineno))
        frame = frame.f_back
    return result


def instant(*_):
    with lock:
        number = len(instants); instants.append(None)
    malloc(FIRST_SIZE + number); instants[number] = stack(sys._getframe())
    return number


def write(path):
    with lock, open(path, "w") as result:
        # json.dump, which also writes, works in Python.
        result.write(json.dumps({"first_size": FIRST_SIZE, "instants": instants}))


def resume():
    """Calls heapprof_resume(), if this process is recorded."""
    try:
        ctypes.CDLL(None).heapprof_recorder_resume()
    except AttributeError:
        pass


def begin_again():
    """In a forked child: another thread may have held the lock, and the child has a recording of its own."""
    global lock
    lock = threading.Lock()
    instants.clear()


os.register_at_fork(after_in_child=begin_again)
