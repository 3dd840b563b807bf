"""Call one function by three operators in turns, each time at another line of it: the C frames that call it have the
same places on the stack, but are others for each operator. Line `n` allocates FIRST_SIZE + n bytes, and only operator
n % 3 reaches it."""

import random

FIRST_SIZE = 5000
LINES = 900
CALLS = 6000

source = "def called(self, n):\n" + "".join(f"    if n == {n}: return bytes({FIRST_SIZE + n})\n" for n in range(LINES))
exec(compile(source, "operators", "exec"))


class Operand:
    __add__ = __sub__ = __mul__ = called  # noqa: F821


operand = Operand()
numbers = random.Random(1)
for _ in range(CALLS):
    n = numbers.randrange(LINES)
    if n % 3 == 0:
        operand + n
    elif n % 3 == 1:
        operand - n
    else:
        operand * n
