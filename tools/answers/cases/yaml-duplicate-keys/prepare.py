"""Documents of nested maps; one key in four occurs twice."""
import os
import pathlib
import random

choose = random.Random(4)


def block(depth: int, indent: int) -> list[str]:
    lines = []
    for key in range(5):
        for _ in range(2 if choose.random() < 0.25 else 1):
            name = " " * indent + f"key{key}:"
            if depth == 0:
                lines.append(f"{name} value of {choose.randrange(10**6)}")
            elif choose.random() < 0.2:
                lines.append(f"{name} {{a: 1, b: [2, 3, {{c: 4, c: 5}}], a: 6}}")
            else:
                lines.append(name)
                lines += block(depth - 1, indent + 2)
    return lines


with pathlib.Path(os.environ["INPUT"], "documents.yaml").open("w") as file:
    for document in range(60):
        file.write("---\n" + "\n".join(block(3, 0)) + "\n")
