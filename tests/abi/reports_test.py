#!/usr/bin/env python3
"""Compares what the hooks report to the recorder with the calls of reports.c.

usage: reports_test.py COUNTING_RECORDER SECOND_ALLOCATOR PROGRAM FIXED_PROGRAM

FIXED_PROGRAM is PROGRAM linked without PIE, where linkers resolve weak references differently.
"""
import sys
import unittest
from pathlib import Path

from run_recorded import run

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import case_runner  # noqa: E402

COUNTING, SECOND, PROGRAM, FIXED_PROGRAM = [None] * 4

HUGE = 2**64 - 1 - 64
MAX = 2**64 - 1

# The program's calls, and the reports of each. Reports with a stack have the program's registers.
EXPECTED = {
    "malloc": ["allocated 100"],
    "realloc": ["realloc-begin", "realloc-end 200"],
    "realloc fails": ["realloc-begin", f"realloc-failed {HUGE}"],
    "reallocarray": ["realloc-begin", "realloc-end 300"],
    "reallocarray overflows": [f"failed {MAX}"],
    "free": ["freed"],
    "free null": [],
    "realloc null": ["allocated 70"],
    "realloc to 0": ["realloc-begin", "realloc-end 0"],
    "malloc fails": [f"failed {HUGE}"],
    "calloc": ["allocated 77"],
    "calloc overflows": [f"failed {MAX}"],
    "cfree": ["freed"],
    "malloc 0": ["allocated 0"],
    "free_sized": ["freed"],
    "posix_memalign": ["allocated 90"],
    "free_aligned_sized": ["freed"],
    "posix_memalign fails": ["failed 72057594037927936"],
    "posix_memalign with an invalid alignment": [],
    "aligned_alloc": ["allocated 256", "freed"],
    "memalign": ["allocated 40", "freed"],
    "valloc": ["allocated 50", "freed"],
    "pvalloc": ["allocated 60", "freed"],
    "mmap": ["mapped 8192"],
    "mremap": ["remap-begin 8192", "remap-end 12288"],
    "munmap": ["unmap-begin 12288", "unmap-end 1*"],
    "munmap fails": ["unmap-begin 4096", "unmap-end 0*"],
    "mmap fails": [],
    "mmap64": ["mapped 4096"],
    "mremap of size 0": ["mapped 4096", "unmap-begin 4096", "unmap-end 1*"],
    "mremap fails": ["remap-begin 4096", "remap-end 0"],
    "mremap to an address": ["mapped 8192", "forget-range 4096*", "remap-begin 4096", "forget-range 4096*",
                             "remap-end 4096"],
    "mmap to an address": ["forget-range 4096*"] * 2 + ["mapped 4096"],
    "mmap to an address fails": ["forget-range 4096*"] * 2,
    "mremap to an address fails": ["forget-range 4096*", "remap-begin 4096", "forget-range 4096*", "remap-end 0"],
    "mmap by number": ["mapped 4096"],
    "munmap by number": ["unmap-begin 4096", "unmap-end 1*"],
    "sbrk": ["break-moved 300"],
    "brk": [f"break-moved {2**64 - 200}"],
    "brk that moves nothing": [],
    "brk by number": ["break-moved 4096", f"break-moved {2**64 - 4096}"],
    "other calls by number": [],
    "prctl": [],
    "a probe for seccomp support": [],
    "filters": ["restricted 0*", "refused 0*"] * 3,
    "cycle clock": ["restricted 1*"],
    "frames": ["frame-registered*", "frame-deregistered*", "frame-registered*", "frame-registered*"],
    "heapprof.h": ["paused*", "resumed*", "mark halfway*", "allocated 24", "freed"],
    "is recording": [],
    "yes": [],
    "executions that fail": [],
    "executions of something that can be searched, but not executed": ["about-to-end*"] * 10,
    "end": ["exit*"],
}


def expected_lines(lines):
    """In EXPECTED, a star marks a report without registers."""
    return [line[:-1] if line.endswith("*") else line + " from-program" for line in lines]


def sections(reports, everything=False):
    """The reports of each announced call. Reports of libc's own calls (for messages of dlsym, for example) do not
    come from the program, and are left out unless `everything` is true."""
    result, current = {}, None
    for line in reports:
        if line.startswith("# "):
            current = result.setdefault(line[2:], [])
        elif current is not None and (everything or line.endswith(" from-program") or not has_registers(line)):
            current.append(line)
    return result


def has_registers(line):
    return line.split()[0] in ("allocated", "failed", "freed", "realloc-begin", "realloc-end", "realloc-failed",
                               "mapped", "unmap-begin", "remap-begin", "remap-end", "break-moved")


class Reports(unittest.TestCase):
    maxDiff = None

    def test_every_call(self):
        self.check_every_call(PROGRAM)

    def test_every_call_of_a_fixed_program(self):
        self.check_every_call(FIXED_PROGRAM)

    def check_every_call(self, program):
        done = run([program], [COUNTING])
        self.assertEqual(done.status, 0)
        self.assertEqual(done.reports[0], "loaded")
        self.assertEqual(sections(done.reports), {name: expected_lines(lines) for name, lines in EXPECTED.items()})

    def test_ends_without_exit_handlers(self):
        for how in ("_exit", "_Exit", "quick_exit"):
            done = run([PROGRAM, how], [COUNTING])
            self.assertEqual(done.status, 0)
            self.assertEqual(sections(done.reports)["end"], ["about-to-end"], how)

    def test_calls_between_hooks_count_once(self):
        done = run([PROGRAM], [COUNTING, SECOND])
        self.assertEqual(done.status, 0)
        everything = sections(done.reports, everything=True)

        def kinds(name):
            return [line.split()[0] for line in everything[name]]

        for name in ("malloc", "calloc", "realloc null"):
            self.assertEqual(kinds(name), ["allocated"], name)
        for name in ("memalign", "aligned_alloc"):
            self.assertEqual(kinds(name), ["allocated", "freed"], name)
        for name in ("realloc", "reallocarray"):
            self.assertEqual(kinds(name), ["realloc-begin", "allocated", "freed", "realloc-end-inner"], name)

    def test_the_header_does_nothing_without_the_recorder(self):
        for program in (PROGRAM, FIXED_PROGRAM):
            done = run([program, "header only"], [])
            self.assertEqual(done.status, 0)
            self.assertEqual(done.reports, ["# heapprof.h", "# is recording"])


if __name__ == "__main__":
    COUNTING, SECOND, PROGRAM, FIXED_PROGRAM = sys.argv[1:]
    case_runner.main(sys.argv[:1])
