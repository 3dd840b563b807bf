"""Prints the lines of instructions, as the interpreter that executes this computes them. Each line of standard input is
a JSON list of [first line, line table in hexadecimal, instruction], and gets a line of standard output, the list of
lines. The interpreter is that of the program from which the tables are. Instructions are counted in units of 2 bytes."""

import json
import sys


NO_INSTRUCTION = (1 << 22) - 1  # kPythonNoInstruction in common/trace_format.h


def line_of(first_line, table, instruction):
    if instruction == NO_INSTRUCTION:
        return first_line
    instructions = max(instruction + 1, 8)
    if sys.version_info < (3, 10):
        # dis stops at the end of the bytecode.
        code = line_of.__code__.replace(co_firstlineno=first_line, co_lnotab=table,
                                        co_code=line_of.__code__.co_code[:2] * (instructions + 256))
        import dis
        lines = [line for offset, line in dis.findlinestarts(code) if offset <= 2 * instruction]
        return lines[-1] if lines else first_line
    code = line_of.__code__.replace(co_firstlineno=first_line, co_linetable=table,
                                    co_code=line_of.__code__.co_code[:2] * instructions)
    for begin, end, line in code.co_lines():
        if begin <= 2 * instruction < end:
            return line
    return None


for request in sys.stdin:
    print(json.dumps([line_of(first, bytes.fromhex(table), instruction)
                      for first, table, instruction in json.loads(request)]), flush=True)
