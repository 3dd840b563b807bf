"""The Python interpreters of this machine, for tests that record them: those of pyenv and the system's.

HEAPPROF_TEST_PYTHONS: the paths of others, which are tested instead. With HEAPPROF_TEST_EMULATOR, a command that
enters another system, they are paths in that system, whose root directory is HEAPPROF_TEST_ROOT.
"""

import functools
import glob
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import harness

ROOT = os.environ.get("HEAPPROF_TEST_ROOT", "")

# The releases whose frames the recorder reads.
SUPPORTED = ((3, 8), (3, 9), (3, 10), (3, 11), (3, 12), (3, 13), (3, 14), (3, 15))


@dataclass(frozen=True)
class Python:
    path: str
    version: tuple  # (major, minor, micro)
    free_threaded: bool
    tail_calls: bool  # its instructions are functions that jump to each other (from 3.14 on)

    @property
    def supported(self):
        return self.version[:2] in SUPPORTED and not self.free_threaded

    def __str__(self):
        return f"{'.'.join(map(str, self.version))}{'t' if self.free_threaded else ''} ({self.path})"


def what_they_are(paths):
    """{path: [major, minor, micro, whether it is free-threaded, whether it has tail calls]}."""
    known = {}
    for path in paths:
        asked = subprocess.run([*harness.EMULATOR, path, "-c",
                                "import sys, sysconfig; print(*sys.version_info[:3], "
                                "int(bool(sysconfig.get_config_var('Py_GIL_DISABLED'))), "
                                "int('--with-tail-call-interp' in (sysconfig.get_config_var('CONFIG_ARGS') or '')))"],
                               capture_output=True, text=True)
        if asked.returncode == 0:
            known[path] = [int(word) for word in asked.stdout.split()]
    return known


def what_they_are_once(paths):
    """As above; the interpreters are asked once for all test files. tools/campaign/python.py has no build for it."""
    if not (harness.HEAPPROF.exists() and harness.LIBRARY.exists()):
        return what_they_are(paths)

    def make(folder):
        (folder / "pythons.json").write_text(json.dumps(what_they_are(paths)))
    made = harness.made_once(make, "pythons", ROOT, *harness.EMULATOR, *paths)
    return json.loads((made / "pythons.json").read_text())


@functools.cache
def all_pythons():
    """One interpreter per release and origin, in the order of releases."""
    paths = os.environ.get("HEAPPROF_TEST_PYTHONS", "").split() or \
        [*glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")), "/usr/bin/python3"]
    known = what_they_are_once([path for path in paths if os.access(ROOT + path, os.X_OK)])
    found = [Python(path, tuple(version), bool(free_threaded), bool(tail_calls))
             for path, (*version, free_threaded, tail_calls) in known.items()]
    return sorted(found, key=lambda python: (python.version, python.path))


def supported_pythons():
    return [python for python in all_pythons() if python.supported]


def packages_of(python):
    """The folder with packages from PyPI for `python`: pip install --target FOLDER greenlet numpy pybind11. None: there is
    none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "heapprof-python" / ".".join(map(str, python.version[:2]))
    return folder if folder.is_dir() else None
