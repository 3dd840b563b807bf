#!/usr/bin/env python3
"""Runs library_probe with each installed allocator.

The libraries are those of Debian 12; one that is not installed is named and left out."""
import os
import subprocess
import sys

LIBRARIES = {
    "glibc": "",
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.2.0",
}


def installed(library):
    """Whether the loader finds the library; it only warns when it does not."""
    result = subprocess.run(["/bin/true"], env={**os.environ, "LD_PRELOAD": library}, capture_output=True, check=True)
    return not result.stderr


def main():
    failed = []
    left_out = 0
    for allocator, library in LIBRARIES.items():
        if library and not installed(library):
            print(f"{allocator}: {library} is not installed, not compared")
            left_out += 1
            continue
        result = subprocess.run([sys.argv[1], allocator], env={**os.environ, "LD_PRELOAD": library}, check=False)
        if result.returncode != 0:
            failed.append(allocator)
    print(f"{len(LIBRARIES) - left_out - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


sys.exit(main())
