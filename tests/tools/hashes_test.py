#!/usr/bin/env python3
"""Containers by numbers or texts that a recording or a request chooses: with std::hash, which leaves a number as it
is and has a known seed for texts, all of them could be in one bucket."""
import re
import unittest
from pathlib import Path

import case_runner

ROOT = Path(__file__).resolve().parents[2]
CONTAINER = re.compile(r"std::unordered_(?:multi)?(?:map|set)<\s*std::(?:uint64_t|string|string_view)\b[^;]*;")
KEY_IS_TEXT = re.compile(r"\A[\w:]+<\s*std::string")
# Those whose keys nobody can choose freely.
EXCEPTIONS = {
    "analyzer/pins/holder_sets.h",  # hashes of sets
}


class Hashes(unittest.TestCase):
    def test_containers(self):
        """ChosenKeyHash and ChosenTextHash (analyzer/base/chosen_key_hash.h) are the hashes of all others."""
        found = {"ChosenKeyHash": 0, "ChosenTextHash": 0}
        for file in sorted((ROOT / "analyzer").rglob("*")):
            name = str(file.relative_to(ROOT))
            if file.suffix not in (".h", ".cpp"):
                continue
            for declaration in CONTAINER.findall(file.read_text()):
                expected = "ChosenTextHash" if KEY_IS_TEXT.search(declaration) else "ChosenKeyHash"
                found[expected] += 1
                with self.subTest(file=name, declaration=declaration):
                    self.assertEqual(expected in declaration, name not in EXCEPTIONS)
        self.assertGreater(found["ChosenKeyHash"], 10)
        self.assertGreater(found["ChosenTextHash"], 10)


if __name__ == "__main__":
    case_runner.main()
