"""The Python frames of recorded stacks, and their lines as the interpreter itself computes them."""

import atexit
import functools
import json
import subprocess
from pathlib import Path

import harness
import trace_reader

PROGRAMS = Path(__file__).parent.parent / "programs" / "python"


@functools.cache
def process_for_lines(python):
    """lines.py in one process for all questions: the start of an interpreter takes longer than its answers."""
    process = subprocess.Popen([*harness.EMULATOR, python.path, PROGRAMS / "lines.py"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    atexit.register(process.communicate)  # closes its standard input, which ends it
    return process


class Lines:
    """The lines of instructions, asked of the interpreter in one go."""

    def __init__(self, python, frames):
        keys = sorted({(code.first_line, code.table.hex(), instruction) for code, instruction in frames})
        process = process_for_lines(python)
        process.stdin.write(json.dumps(keys) + "\n")
        process.stdin.flush()
        self.lines = dict(zip(keys, json.loads(process.stdout.readline())))

    def of(self, code, instruction):
        return self.lines[code.first_line, code.table.hex(), instruction]


def python_stack(trace, node):
    """(PythonCode, instruction) of the Python frames of a stack, innermost first."""
    return [trace.python_frame(offset) for module, offset in trace.stack(node)
            if module == trace_reader.MODULE_PYTHON]


def recorded_instants(trace, expected):
    """{number: event} of the allocations of tests/programs/python/instant.py; `expected`: what it wrote."""
    found = {}
    for thread in trace.threads():
        for event in thread.events:
            number = event.size - expected["first_size"]
            if event.op == trace_reader.ALLOC and 0 <= number < len(expected["instants"]):
                found[number] = event
    return found


def difference(found, expected):
    """The first frames that differ, as text; None if the stacks are equal. Stacks can have thousands of frames."""
    if found == expected:
        return None
    same = 0
    while same < min(len(found), len(expected)) and found[same] == expected[same]:
        same += 1
    return f"frame {same} of {len(found)}: {found[same:same + 3]}; expected, of {len(expected)}: " \
           f"{expected[same:same + 3]}"


def compare_instants(case, python, trace, expected):
    """Checks that each recorded stack equals that of its instant. Instants that are null were not completed. Returns
    the numbers of instants and frames."""
    events = recorded_instants(trace, expected)
    numbers = [number for number, stack in enumerate(expected["instants"]) if stack is not None]
    case.assertLessEqual(set(numbers), set(events))
    stacks = {number: python_stack(trace, events[number].node) for number in numbers}
    lines = Lines(python, [frame for stack in stacks.values() for frame in stack])
    for number in numbers:
        found = [[code.file, code.name, lines.of(code, instruction)] for code, instruction in stacks[number]]
        case.assertIsNone(difference(found, expected["instants"][number]), f"instant {number}")
    return len(numbers), sum(map(len, stacks.values()))
