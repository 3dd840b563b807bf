#!/usr/bin/env python3
"""Compare Python frames with what the interpreters show, on many interpreters.

usage: tools/campaign/python.py [--only NAME,...] [--roots [SUITE,...]] [--build DIR] [-o FILE.md]

Runs the end-to-end tests of Python frames with each interpreter of the machine (pyenv's and the system's), one after
the other:

frames      tests/e2e/python_frames.py: file, name and line of each frame equal those of sys._getframe in all kinds of
            code, also when memory of code objects is reused; callbacks through C stand between the right C frames
objects     tests/e2e/python_objects.py, large: the stacks of live objects equal those of tracemalloc
embedding   tests/e2e/python_embedding.py: a C++ program that is linked with the interpreter's library, or loads it
hazards     tests/e2e/python_hazards.py: finalisation, forks, greenlets, subinterpreters, ...

--roots also runs them in minimal systems of Debian (mmdebstrap) with the Python packages of the suite: bullseye (3.9),
bookworm (3.11), trixie (3.13), sid (3.14 and 3.15). Needs root, for chroot. The systems are downloaded once, and kept
in $HEAPPROF_ROOTS (default: ~/.cache/heapprof-roots). greenlet, numpy and pybind11 are fetched from PyPI.

Prints a table. "-": the interpreter's version is not supported, "skipped": a part of the tests could not run.
Exit status 1: a test failed, or an interpreter that was to be tested is missing.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tests/support"))
SUITES = {"bullseye": ["python3.9"], "bookworm": ["python3.11"], "trixie": ["python3.13"],
          "sid": ["python3.14", "python3.15", "libpython3.15"]}
TESTS = ("frames", "objects", "embedding", "hazards")
SKIPPED = 77
MIRROR = "http://deb.debian.org/debian"


def cache():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def system_archive(suite):
    """A tar archive of the minimal system with Python."""
    archive = Path(os.environ.get("HEAPPROF_ROOTS") or cache() / "heapprof-roots") / f"{suite}-python.tar"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        fresh = archive.with_suffix(".new.tar")
        print(f"downloading {suite}", file=sys.stderr)
        # Mirrors keep suites whose description has expired.
        result = subprocess.run(["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--components=main",
                                 '--aptopt=Acquire::Check-Valid-Until "false"', "--include=" + ",".join(SUITES[suite]),
                                 suite, str(fresh), MIRROR], capture_output=True, text=True)
        if result.returncode:
            sys.exit(f"error: cannot make a system of {suite}\n{result.stderr[-3000:]}")
        fresh.rename(archive)
    return archive


ENTER = """#!/bin/sh
# [-E NAME=VALUE] COMMAND...
variable=HEAPPROF_TEST_EMULATOR=
if [ "$1" = -E ]; then variable=$2; shift 2; fi
exec unshare --mount sh -ec 'mount -t proc proc {root}/proc
  for folder in {folders}; do mount --rbind $folder {root}$folder; done
  exec chroot {root} env -C "$PWD" "$@"' sh "$variable" "$@"
"""


class Root:
    """A system in a folder, and the command that executes commands in it."""

    def __init__(self, suite, folder, build):
        self.folder = Path(folder) / suite
        self.folder.mkdir()
        with tarfile.open(system_archive(suite)) as archive:
            archive.extractall(self.folder, filter="fully_trusted")
        folders = {"/tmp", str(TREE), str(build), str(cache() / "heapprof-python")}
        for each in folders:
            (self.folder / each.lstrip("/")).mkdir(parents=True, exist_ok=True)
        self.enter = Path(folder) / f"enter-{suite}"
        self.enter.write_text(ENTER.format(root=self.folder, folders=" ".join(sorted(folders))))
        self.enter.chmod(0o755)

    def environment(self):
        return {"HEAPPROF_TEST_EMULATOR": str(self.enter), "HEAPPROF_TEST_ROOT": str(self.folder)}


def fetch_packages(version):
    folder = cache() / "heapprof-python" / ".".join(map(str, version[:2]))
    if not folder.is_dir():
        result = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", folder,
                                 "--python-version", ".".join(map(str, version[:2])), "--only-binary=:all:",
                                 "greenlet", "numpy", "pybind11"], capture_output=True, text=True)
        if result.returncode:
            print(f"packages for Python {version[0]}.{version[1]}: {result.stderr[-200:]}", file=sys.stderr)


def ask(path, environment):
    """The version and what else there is to know about an interpreter, by tests/support/pythons.py."""
    code = ("import pythons\nfor p in pythons.all_pythons(): print(*p.version, int(p.supported), int(p.free_threaded))")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                         env={**os.environ, **environment, "HEAPPROF_TEST_PYTHONS": path,
                              "PYTHONPATH": str(TREE / "tests/support")})
    return [int(word) for word in run.stdout.split()]


def summary(test, output):
    """What a test compared, from what it printed."""
    if test == "frames":
        found = [re.search(pattern, output) for pattern in
                 (r"(\d+) instants, (\d+) frames", r"(\d+) allocations by code", r"(\d+) callbacks")]
        return "{0}, {1}; {2}; {3}".format(*(int(number) for each in found for number in each.groups()))
    if test == "objects":
        return "{0:,}, {1:,}".format(*map(int, re.search(r"(\d+) objects of .* types, (\d+) stacks", output).groups()))
    if test == "embedding":
        return ", ".join(re.findall(r" (linked|loading)\S*: \d+ calls", output)) or "no library"
    # tests/support/case_runner.py names the skipped ones.
    all_tests = int(re.search(r"Ran (\d+) tests", output).group(1))
    skipped = set(re.findall(r"^skipped case: (\S+)", output, re.M))
    return f"{all_tests - len(skipped)} of {all_tests}"


def run_tests(path, environment, build):
    cells, good = [], True
    for test in TESTS:
        run = subprocess.run([sys.executable, TREE / "tests/e2e" / f"python_{test}.py"], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env={**os.environ, **environment, "HEAPPROF_TEST_PYTHONS": path,
                                  "HEAPPROF_TEST_BUILD": str(build), "HEAPPROF_TEST_PYTHON_OBJECTS": "large",
                                  "PYTHONPATH": str(TREE / "tests/support"), "PYTHONDONTWRITEBYTECODE": "1"})
        if run.returncode == SKIPPED:
            cells.append("skipped")
            continue
        if run.returncode:
            print(run.stdout[-6000:], file=sys.stderr)
            good = False
        cells.append("**failed**" if run.returncode else summary(test, run.stdout))
    return cells, good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names as in the table, separated by commas")
    parser.add_argument("--roots", nargs="?", const=",".join(SUITES), default="", help="suites, separated by commas")
    parser.add_argument("--build", default=TREE / "build", help="build directory")
    parser.add_argument("-o", "--output", help="also write the table to this file")
    options = parser.parse_args()
    build = Path(options.build).resolve()
    unknown = set(filter(None, options.roots.split(","))) - set(SUITES)
    if unknown:
        parser.error(f"unknown suite '{min(unknown)}'; expected {', '.join(SUITES)}")
    if options.roots and os.geteuid() != 0:
        sys.exit("error: --roots needs root, for chroot")

    import pythons
    (cache() / "heapprof-python").mkdir(parents=True, exist_ok=True)
    lines = ["| interpreter | instants, frames; reused code; callbacks | live objects, stacks | embedded | hazards |",
             "|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    good = True
    with tempfile.TemporaryDirectory(prefix="heapprof-python-") as folder:
        os.chmod(folder, 0o755)
        wanted = [("pyenv" if ".pyenv" in python.path else "this system", python.path, {})
                  for python in pythons.all_pythons()]
        for suite in filter(None, options.roots.split(",")):
            root = Root(suite, folder, build)
            wanted += [(f"Debian {suite}", f"/usr/bin/{name}", root.environment()) for name in SUITES[suite]
                       if name.startswith("python")]
        for origin, path, environment in wanted:
            answer = ask(path, environment)
            if not answer:
                lines.append(f"| {path}, {origin} | **missing** | | |")
                good = False
            else:
                version, (supported, _) = answer[:3], answer[3:]
                name = f"{'.'.join(map(str, version))}, {origin}"
                if options.only and name not in options.only.split(",") and name.split(",")[0] not in options.only:
                    continue
                cells = ["-"] * len(TESTS)
                if supported:
                    fetch_packages(version)
                    cells, passed = run_tests(path, environment, build)
                    good &= passed
                lines.append(f"| {name} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    if options.output:
        with open(options.output, "w") as file:
            file.write("\n".join(lines) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
