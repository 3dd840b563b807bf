"""Python frames in recorded stacks equal those that the interpreter shows (sys._getframe): file, name and line, in all
kinds of code, on every supported interpreter of the machine."""

import json
import subprocess
import unittest
from pathlib import Path

import harness
import pythons
import trace_reader

PROGRAMS = Path(__file__).parent.parent / "programs" / "python"
MIN_INSTANTS = 200


class Lines:
    """The lines of instructions, asked of the interpreter in one go."""

    def __init__(self, python, frames):
        keys = sorted({(code.first_line, code.table.hex(), instruction) for code, instruction in frames})
        answer = subprocess.run([python.path, PROGRAMS / "lines.py"], input=json.dumps(keys), capture_output=True,
                                text=True, check=True)
        self.lines = dict(zip(keys, json.loads(answer.stdout)))

    def of(self, code, instruction):
        return self.lines[code.first_line, code.table.hex(), instruction]


def python_stack(trace, node):
    """(PythonCode, instruction) of the Python frames of a stack, innermost first."""
    return [trace.python_frame(offset) for module, offset in trace.stack(node)
            if module == trace_reader.MODULE_PYTHON]


class Frames(harness.Case):
    def record_instants(self, python, **variables):
        """The recording, and [(expected stack, event)] of all instants."""
        result = self.dir / "instants.json"
        run = self.record(python.path, PROGRAMS / "instants.py", result, PYTHON=1, PAUSED=1, _PYTHONMALLOC="malloc",
                          **variables)
        with open(result) as file:
            expected = json.load(file)
        trace = run.read()
        self.assertEqual(trace.interpreters[0][1], "")
        events = {}
        for thread in trace.threads():
            for event in thread.events:
                number = event.size - expected["first_size"]
                if event.op == trace_reader.ALLOC and 0 <= number < len(expected["instants"]):
                    events[number] = event
        self.assertEqual(sorted(events), list(range(len(expected["instants"]))))
        return trace, [(stack, events[number]) for number, stack in enumerate(expected["instants"])]

    def check(self, python):
        trace, instants = self.record_instants(python)
        self.assertGreaterEqual(len(instants), MIN_INSTANTS)
        stacks = [python_stack(trace, event.node) for _, event in instants]
        lines = Lines(python, [frame for stack in stacks for frame in stack])
        for number, ((expected, _), stack) in enumerate(zip(instants, stacks)):
            found = [[code.file, code.name, lines.of(code, instruction)] for code, instruction in stack]
            self.assertEqual(found, expected, f"instant {number}")
        print(f"{python}: {len(instants)} instants, {sum(map(len, stacks))} frames", flush=True)

    def test_frames(self):
        for python in pythons.supported_pythons():
            with self.subTest(str(python)):
                self.check(python)

    def check_reused_code(self, python):
        result = self.dir / "reused.json"
        run = self.record(python.path, PROGRAMS / "reused_code.py", result, PYTHON=1)
        with open(result) as file:
            expected = json.load(file)
        trace = run.read()
        found = {}
        for thread in trace.threads():
            for event in thread.events:
                number = event.size - expected["first_size"]
                if event.op == trace_reader.ALLOC and 0 <= number < len(expected["expected"]):
                    code, _ = python_stack(trace, event.node)[1]
                    found[number] = [code.name, code.first_line]
        self.assertEqual([found[number] for number in range(len(found))], expected["expected"])
        print(f"{python}: {len(found)} allocations by code objects whose memory is reused", flush=True)

    def test_reused_code(self):
        for python in pythons.supported_pythons():
            with self.subTest(str(python)):
                self.check_reused_code(python)


if __name__ == "__main__":
    harness.skip_unless(pythons.supported_pythons(), "no supported Python")
    harness.main()
