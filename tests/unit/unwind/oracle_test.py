#!/usr/bin/env python3
"""Runs real programs with oracle_preload, which compares every stack with a full walk and with libunwind.

usage: oracle_test.py ORACLE_PRELOAD
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

import case_runner  # noqa: E402

ORACLE = ""

PYTHON = """
import json, re, threading
def work():
    for i in range(60):
        re.compile("a%db*" % i)
        json.dumps({"k": list(range(20))})
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
for t in threads: t.join()
"""

PERL = 'my %h; $h{$_ % 50} .= "x$_" for 1..2000; eval { die "x" }; print length join "", sort values %h'

PROGRAMS = {
    "python3": ["-c", PYTHON],
    "perl": ["-e", PERL],
    "bash": ["-c", "for i in {1..50}; do a[$i]=$((i * i)); done; echo ${a[@]}"],
    "git": ["--no-pager", "help", "--all"],
    "sort": [__file__],
    "g++": ["-x", "c++", "-std=c++17", "-fsyntax-only", "-"],
    "sqlite3": [":memory:", "create table t(a,b); insert into t values(1,2),(3,4); select sum(a) from t group by b;"],
}


class RealPrograms(unittest.TestCase):
    def compare(self, name):
        program = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
        if program is None:
            self.skipTest(f"no {name} here")
        with tempfile.TemporaryDirectory() as directory:
            report = os.path.join(directory, "report")
            environment = dict(os.environ, LD_PRELOAD=ORACLE, ORACLE_REPORT=report, ORACLE_EVERY="10")
            subprocess.run([program, *PROGRAMS[name]], env=environment, check=True, stdout=subprocess.DEVNULL,
                           input=b"int main() {}", timeout=200)
            with open(report) as file:
                text = file.read()
        totals = re.findall(r"(\S+): (\d+) captures, (\d+) compared, \d+ frames, (\d+) different, (\d+) truncated",
                            text)
        self.assertTrue(totals, text)
        for who, captures, compared, different, truncated in totals:
            with self.subTest(who):
                self.assertEqual((different, truncated), ("0", "0"), text)
                if int(captures) > 0:
                    self.assertGreater(int(compared), 0)


for each in PROGRAMS:
    setattr(RealPrograms, f"test_{each}", lambda self, name=each: self.compare(name))

if __name__ == "__main__":
    ORACLE = os.path.abspath(sys.argv.pop(1))
    case_runner.main()
