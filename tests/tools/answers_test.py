#!/usr/bin/env python3
"""The corpus of tools/answers: every case can be read, and judge.py counts lines and ranks as it says."""
import re
import sys
import unittest
from pathlib import Path

import case_runner

ANSWERS = Path(__file__).resolve().parents[2] / "tools" / "answers"
sys.path.insert(0, str(ANSWERS))
sys.dont_write_bytecode = True

import corpus  # noqa: E402
import judge  # noqa: E402

HEAPPROF = """./server
pid 9, 4.90 s, killed by SIGKILL

  leaked       10.8 MiB  in 35,334 blocks, live at the end (reachable or not)

Leaked (live at the end), by stack

  1    7.63 MiB   70.6%  in 2,000 blocks of 3.91 KiB
       growing, allocated from 992 us to 4.89 s
      xmalloc                       util.c:5
      fill_cache                    cache.c:6

  2    3.18 MiB   29.4%  in 33,334 blocks of 100 B
      xmalloc                       util.c:5
      parse_request                 request.c:6
"""

HEAPTRACK = """reading file "trace.zst" - please wait, this might take some time...

MEMORY LEAKS
8.00M leaked over 2000 calls from
xmalloc
  at util.c:5
8.00M leaked over 2000 calls from:
    fill_cache
      at cache.c:6

3.33M leaked over 100000 calls from
xmalloc
  at util.c:5
3.33M leaked over 100000 calls from:
    parse_request
      at request.c:6
"""


def case(*answer):
    return corpus.Case(name="test", project="", repository="", fix="", kind="leak", language="C", what="",
                       answer=list(answer), answer_why="", program=["./server"])


class FindAnswer(unittest.TestCase):
    def find(self, text, item, *answer):
        found = judge.find_answer(case(*answer), text, item)
        return found["rank"], found["line"]

    def test_first_row(self):
        self.assertEqual(self.find(HEAPPROF, judge.ITEM, r"\bfill_cache\b"), (1, 8))

    def test_second_row(self):
        self.assertEqual(self.find(HEAPPROF, judge.ITEM, r"\bparse_request\b"), (2, 11))

    def test_first_of_several_answers(self):
        self.assertEqual(self.find(HEAPPROF, judge.ITEM, r"\bparse_request\b", r"cache\.c"), (1, 8))

    def test_not_named(self):
        self.assertEqual(self.find(HEAPPROF, judge.ITEM, r"\bserve\b"), (None, None))

    def test_name_cut_short(self):
        self.assertTrue(case(r"\bparse_request\b").answers("  1.0 MiB  parse_reques…  request.c:6"))
        self.assertFalse(case(r"\bparse_request\b").answers("  1.0 MiB  parse_reply_…  request.c:6"))
        self.assertFalse(case(r"\bparse_request\b").answers("  1.0 MiB  parse_re…  request.c:6"))

    def test_paths_do_not_count(self):
        text = f"{corpus.cache_directory()}/builds/server-fill/fill --port 0\n" + HEAPPROF
        self.assertEqual(self.find(text, judge.ITEM, r"\bfill\b"), (None, None))

    def test_heaptrack(self):
        self.assertEqual(self.find(HEAPTRACK, judge.HEAPTRACK_ITEM, r"\bfill_cache\b"), (1, 7))
        self.assertEqual(self.find(HEAPTRACK, judge.HEAPTRACK_ITEM, r"\bparse_request\b"), (2, 13))


class Cases(unittest.TestCase):
    def test_cases(self):
        cases = corpus.read_cases([])
        self.assertGreaterEqual(len(cases), 12)
        for each in cases:
            with self.subTest(case=each.name):
                self.assertTrue((each.directory / "build.sh").is_file(), "build.sh is missing")
                self.assertEqual((each.directory / "load.py").is_file(), each.load, "load.py and `load` differ")
                self.assertTrue(each.what and each.answer and each.answer_why)
                for pattern in each.answer:
                    # A pattern that matches `main` or an allocator would find an answer in every stack.
                    for line in ("main   main.c:3", "__libc_start_main_impl   libc-start.c:360", "malloc", "start",
                                 "operator new(unsigned long)", "alloc::alloc::alloc"):
                        self.assertIsNone(re.search(pattern, line), f"{pattern} matches {line}")

    def test_unknown_case(self):
        with self.assertRaisesRegex(corpus.CorpusError, "unknown case 'nothing'; expected one of"):
            corpus.read_cases(["nothing"])


if __name__ == "__main__":
    case_runner.main()
