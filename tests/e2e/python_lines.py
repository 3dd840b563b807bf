"""The lines of Python code objects, decoded from their tables, equal those that the interpreter itself has for each
instruction. Judged by every interpreter of the machine from 3.8 on; the names of those that ran are printed."""

import functools
import glob
import json
import os
import pathlib
import struct
import subprocess
import sys

import harness

MODULES = ("json/decoder.py", "heapq.py", "textwrap.py", "contextlib.py")
OF_LINES = pathlib.Path(harness.__file__).with_name("python_lines_of.py")


@functools.cache
def interpreters():
    """{version: path}, one of each minor version."""
    found = {}
    patterns = ["~/.pyenv/versions/3.*/bin/python3", "/usr/bin/python3", "/usr/local/bin/python3", sys.executable]
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.expanduser(pattern))):
            shown = subprocess.run([path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                                   capture_output=True, text=True)
            if shown.returncode == 0 and tuple(map(int, shown.stdout.split("."))) >= (3, 8):
                found.setdefault(shown.stdout.strip(), path)
    return found


def decoded(tables):
    """What heapprof decodes; `tables`: encoding, first line, instructions, table."""
    stdin = b"".join(struct.pack("<IIII", encoding, first, count, len(table)) + table
                     for encoding, first, count, table in tables)
    program = harness.BUILD / "tests" / "unit" / "symbols" / "decode_python_lines"
    run = subprocess.run([program], input=stdin, capture_output=True, check=True)
    return [[int(word) for word in line.split()] for line in run.stdout.decode().splitlines()]


def code_objects(path):
    library = subprocess.run([path, "-c", "import os; print(os.path.dirname(os.__file__))"], capture_output=True,
                             text=True, check=True).stdout.strip()
    run = subprocess.run([path, OF_LINES, *(os.path.join(library, module) for module in MODULES)],
                         capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


class PythonLines(harness.Case):
    def test_each_instruction_has_the_line_that_the_interpreter_has(self):
        found = interpreters()
        self.assertTrue(found, "no interpreter to compare with")
        for version, path in sorted(found.items()):
            with self.subTest(version=version, path=path):
                objects = code_objects(path)
                lines = decoded([(encoding, first, count, bytes.fromhex(table))
                                 for encoding, first, count, table, _ in objects])
                self.assertEqual(len(lines), len(objects))
                instructions = 0
                for (_, first, count, table, right), got in zip(objects, lines):
                    # An instruction without a line is at the first line of its function.
                    self.assertEqual(got, [line or first for line in right], table)
                    instructions += count
                print(f"Python {version}: {len(objects)} code objects, {instructions} instructions ({path})")
                self.assertGreater(instructions, 3000)

    def test_damaged_tables_give_lines_and_no_crash(self):
        chance = harness.random_generator("damaged tables")
        tables = []
        for encoding in (0, 1, 2, 3, 9):
            for _ in range(200):
                tables.append((encoding, chance.choice([0, 1, 7, 0x7fffffff, 0xffffffff]), 40,
                               chance.randbytes(chance.randrange(60))))
            tables.append((encoding, 1, 40, b"\xff" * 5000))
            tables.append((encoding, 1, 40, b"\xe8" + b"\x7f" * 5000))
        lines = decoded(tables)
        self.assertEqual(len(lines), len(tables))
        for got in lines:
            self.assertEqual(len(got), 40)
            self.assertTrue(all(0 <= line <= 0x7fffffff for line in got), got)


if __name__ == "__main__":
    harness.main()
