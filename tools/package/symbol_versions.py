#!/usr/bin/env python3
"""Check which glibc the files of the packages need.

usage: tools/package/symbol_versions.py [--program FILE] [--recorder FILE]

Fails if a file needs a symbol of a newer glibc than it may, or a library that is not part of glibc. The output names
the newest version that each file needs.
"""

import argparse
import re
import subprocess
import sys

# Debian 10, RHEL 8, Ubuntu 18.10; the recorder: RHEL 7.
NEWEST = {"program": (2, 28), "recorder": (2, 17)}
GLIBC = re.compile(r"(libc|libm|libpthread|libdl|librt)\.so\.[0-9]+|ld-linux-[a-z0-9-]+\.so\.[0-9]+")


def readelf(*words):
    return subprocess.run(["readelf", "-W", *words], check=True, capture_output=True, text=True,
                          env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout


def number(version):
    return tuple(int(part) for part in version.split("."))


def check(path, newest):
    """(newest version needed, problems)"""
    problems = []
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", path)):
        if not GLIBC.fullmatch(library):
            problems.append(f"{path}: needs {library}, which is not part of glibc")
    found = {}
    # "123: 0000 0 FUNC GLOBAL DEFAULT UND sigabbrev_np@GLIBC_2.32 (4)"
    for name, version in re.findall(r" UND (\S+?)@+GLIBC_([0-9.]+)", readelf("--dyn-syms", path)):
        found[name] = number(version)
    if not found:
        problems.append(f"{path}: no symbol of glibc was found")
    for name, version in sorted(found.items()):
        if version > newest:
            problems.append(f"{path}: {name} needs glibc {version[0]}.{version[1]}; at most {newest[0]}.{newest[1]}")
    return max(found.values(), default=(0, 0)), problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind in NEWEST:
        parser.add_argument("--" + kind, metavar="FILE", action="append", default=[])
    options = vars(parser.parse_args())
    failed = False
    for kind, newest in NEWEST.items():
        for path in options[kind]:
            needed, problems = check(path, newest)
            for problem in problems:
                print("error: " + problem, file=sys.stderr)
            failed = failed or bool(problems)
            print(f"{path}: needs glibc {needed[0]}.{needed[1]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
