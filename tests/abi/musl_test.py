#!/usr/bin/env python3
"""The recorder can be loaded by musl: musl defines what it needs of libc, and its loader knows its relocations. The
results of a program's calls are the same with and without the recorder.

usage: musl_test.py LIBRARY COUNTING_LIBRARY [PROGRAM]

PROGRAM: behaviour.c for musl, if it was built.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from run_recorded import run

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import case_runner  # noqa: E402

LIBRARY, COUNTING, PROGRAM = None, None, None
LOADER = "/lib/ld-musl-x86_64.so.1"

# Of the types in musl's loader (ldso/dynlink.c, arch/x86_64/reloc.h) those that a library without copies, without
# descriptors and without IFUNC has.
RELOCATIONS = {"R_X86_64_64", "R_X86_64_RELATIVE", "R_X86_64_GLOB_DAT", "R_X86_64_JUMP_SLO", "R_X86_64_JUMP_SLOT",
               "R_X86_64_TPOFF64"}


def symbols(path, defined):
    """{name without version: binding}"""
    result = {}
    output = subprocess.run(["readelf", "-W", "--dyn-syms", path], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        field = line.split()
        if len(field) >= 8 and field[0].rstrip(":").isdigit() and (field[6] != "UND") == defined:
            result[field[7].partition("@")[0]] = field[4]
    return result


class Musl(unittest.TestCase):
    def test_musl_defines_what_is_needed(self):
        needed = {name for name, binding in symbols(LIBRARY, False).items() if binding != "WEAK"}
        self.assertTrue(needed)
        self.assertLessEqual(needed, set(symbols(LOADER, True)))

    def test_musl_defines_its_own_names(self):
        """The weak references by which the recorder finds out that libc is musl."""
        references, musl = symbols(LIBRARY, False), symbols(LOADER, True)
        for name in ("_dl_debug_addr", "pthread_atfork"):
            self.assertEqual(references.get(name), "WEAK", name)
            self.assertIn(name, musl)
        for name in ("_r_debug", "__libc_single_threaded", "__register_atfork", "_dl_find_object"):
            self.assertEqual(references.get(name), "WEAK", name)
            self.assertNotIn(name, musl)

    def test_relocations(self):
        output = subprocess.run(["readelf", "-rW", LIBRARY], check=True, capture_output=True, text=True).stdout
        found = set(re.findall(r"\bR_X86_64_\w+", output))
        self.assertTrue(found)
        self.assertLessEqual(found, RELOCATIONS)

    def test_needed_libraries(self):
        """musl's loader takes a library named libc.so.6 for itself (ldso/dynlink.c, load_library, `reserved`)."""
        output = subprocess.run([LOADER, "--list", LIBRARY], capture_output=True, text=True).stdout
        self.assertEqual(len(output.splitlines()), 2, output)
        self.assertRegex(output.splitlines()[1], r"libc\.so\.6 => .*ld-musl")


class Behaviour(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        if PROGRAM is None:
            self.skipTest("musl-gcc is not installed")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.trace = os.path.join(folder.name, "trace.heapprof")

    def output(self, *preload, **variables):
        done = run([PROGRAM], preload, HEAPPROF_OUTPUT=self.trace, **variables)
        self.assertEqual((done.status, done.errors), (21, ""))
        self.assertGreater(len(done.output.splitlines()), 150)
        return done.output

    def test_hooks_alone(self):
        self.assertEqual(self.output(COUNTING), self.output())

    def test_recorder(self):
        self.assertEqual(self.output(LIBRARY), self.output())
        self.assertGreater(os.path.getsize(self.trace), 10000)

    def test_paused(self):
        self.assertEqual(self.output(LIBRARY, HEAPPROF_PAUSED="1"), self.output())

    def test_recorder_that_is_off(self):
        self.trace = "/proc/no/such/folder/trace.heapprof"
        self.assertEqual(self.output(LIBRARY, HEAPPROF_LOG="off"), self.output())


if __name__ == "__main__":
    case_runner.skip_unless(os.path.exists(LOADER), "musl is not installed")
    LIBRARY, COUNTING = sys.argv[1:3]
    PROGRAM = sys.argv[3] if len(sys.argv) > 3 else None
    case_runner.main(sys.argv[:1])
