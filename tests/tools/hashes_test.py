#!/usr/bin/env python3
"""Containers by numbers that a recording chooses: with std::hash, which leaves a number as it is, the recording could
choose numbers that are all in one bucket."""
import re
import unittest
from pathlib import Path

import case_runner

ROOT = Path(__file__).resolve().parents[2]
CONTAINER = re.compile(r"std::unordered_(?:multi)?(?:map|set)<std::uint64_t\b[^;]*;")
# Those whose keys no recording can choose freely.
EXCEPTIONS = {
    "analyzer/pins/holder_sets.h",  # hashes of sets
}


class Hashes(unittest.TestCase):
    def test_containers_by_numbers(self):
        """ChosenKeyHash (analyzer/base/chosen_key_hash.h) is the hash of all others."""
        found = 0
        for file in sorted((ROOT / "analyzer").rglob("*")):
            name = str(file.relative_to(ROOT))
            if file.suffix not in (".h", ".cpp"):
                continue
            for declaration in CONTAINER.findall(file.read_text()):
                found += 1
                with self.subTest(file=name, declaration=declaration):
                    self.assertEqual("ChosenKeyHash" in declaration, name not in EXCEPTIONS)
        self.assertGreater(found, 10)


if __name__ == "__main__":
    case_runner.main()
