"""The stacks of live objects equal those of tracemalloc, which is a part of Python: file and line of each frame, on every
supported interpreter of the machine.

HEAPPROF_TEST_PYTHON_OBJECTS=large: also the objects of many modules of the standard library, as in
tools/campaign/python.py."""

import bisect
import json
import os
from collections import Counter

import harness
import pythons
from python_stacks import PROGRAMS

LARGE = ("large",) if os.environ.get("HEAPPROF_TEST_PYTHON_OBJECTS") == "large" else ()
MIN_OBJECTS = 2000
MIN_STACKS = 300

# The interpreter keeps freed objects of these types in lists of its own. When it uses one again, tracemalloc gives it
# the new place, but no function of malloc is called.
FREE_LISTS = {"float", "tuple", "list", "dict", "frame", "async_generator_asend", "async_generator_athrow", "Context",
              "slice"}
FREE_LISTS_38 = FREE_LISTS | {"method", "builtin_function_or_method"}
FREE_LISTS_314 = FREE_LISTS | {"int", "range", "range_iterator", "list_iterator", "tuple_iterator", "method",
                               "builtin_function_or_method", "builtin_method", "complex"}


def with_free_list(version):
    return FREE_LISTS_38 if version < (3, 9) else FREE_LISTS if version < (3, 14) else FREE_LISTS_314


class LiveObjects(harness.Case):
    def check(self, python):
        result = self.dir / "objects.json"
        run = self.record(python.path, PROGRAMS / "live_objects.py", result, *LARGE, PYTHON=1, PAUSED=1,
                          _PYTHONMALLOC="malloc", _PYTHONHASHSEED=1, timeout=900 if LARGE else 120)
        expected = json.loads(result.read_text())
        blocks = json.loads(self.heapprof("blocks", run.trace, "--json", "--sort", "address", "--top", 0, "--stacks", 0,
                                          "--interpreter-frames", "--no-helpers", "--no-symbols"))
        self.assertTrue(blocks["integrity"]["complete"], blocks["integrity"])
        begins = [block["address"] for block in blocks["blocks"]]
        frames = [[frame["file"], frame["line"]] if frame["module"].startswith("Python ") else None
                  for frame in blocks["frames"]]
        stacks = [[frames[number] for number in row["frames"] if frames[number]] for row in blocks["stacks"]]
        found = []
        for address, kind, _ in expected["objects"]:
            # The memory of an object can begin with data of the garbage collector, so its address is within a block.
            at = bisect.bisect(begins, address) - 1
            block = blocks["blocks"][at]
            self.assertTrue(0 <= address - block["address"] < block["size_bytes"],
                            f"{kind} at {address:#x} is in no live block")
            found.append(stacks[block["stack"]])

        listed = with_free_list(python.version)
        equal, renamed = Counter(), Counter()
        for got, (address, kind, stack) in zip(found, expected["objects"]):
            if got == expected["stacks"][stack]:
                equal[kind] += 1
            elif kind in listed:
                renamed[kind] += 1
            else:
                self.assertEqual(got, expected["stacks"][stack], f"{kind} at {address:#x}")
        judged = sum(count for kind, count in equal.items() if kind not in listed)
        self.assertGreater(judged, MIN_OBJECTS)
        self.assertGreater(len(expected["stacks"]), MIN_STACKS)
        print(f"{python}: {judged} objects of {len(set(equal) - listed)} types, {len(expected['stacks'])} stacks; of "
              f"types with free lists {sum(equal.values()) - judged} equal, {sum(renamed.values())} used again",
              flush=True)

    def test_live_objects(self):
        for python in pythons.supported_pythons():
            with self.subTest(str(python)):
                self.check(python)


if __name__ == "__main__":
    harness.skip_unless(pythons.supported_pythons(), "no supported Python")
    harness.main()
