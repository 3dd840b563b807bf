#!/usr/bin/env python3
"""Messages to the user: what the standard library says of an exception, such as "std::bad_alloc", is in none."""
import re
import unittest
from pathlib import Path

import case_runner

ROOT = Path(__file__).resolve().parents[2]
# A handler of all exceptions, and what follows it up to the brace that ends it.
HANDLER = re.compile(r"catch \(const std::exception& (\w+)\) \{(.*?)\n *\}", re.S)


class Messages(unittest.TestCase):
    def test_what_of_any_exception(self):
        """reason_of() of analyzer/base/reason_of.h has plain words."""
        handlers = 0
        for file in sorted((ROOT / "analyzer").rglob("*")):
            if file.suffix not in (".h", ".cpp") or file.name == "reason_of.h":
                continue
            for name, body in HANDLER.findall(file.read_text()):
                handlers += 1
                with self.subTest(file=str(file.relative_to(ROOT))):
                    self.assertNotIn(f"{name}.what()", body)
        self.assertGreater(handlers, 2)


if __name__ == "__main__":
    case_runner.main()
