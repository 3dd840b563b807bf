"""The Python frames of recorded stacks, and their lines as the interpreter itself computes them."""

import json
import subprocess
from pathlib import Path

import trace_reader

PROGRAMS = Path(__file__).parent.parent / "programs" / "python"


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
