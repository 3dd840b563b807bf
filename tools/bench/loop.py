"""Allocates and frees a block in each round of a loop, below a few frames of Python.

usage: python3 loop.py PAIRS
"""
import sys


def allocate(times):
    for _ in range(times):
        bytes(1000)  # Python's own allocator only has blocks of up to 512 bytes.


def run(times):
    allocate(times)


run(int(sys.argv[1]))
