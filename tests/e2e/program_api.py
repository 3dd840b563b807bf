"""The functions of heapprof.h: pause, mark, report blocks of a pool."""

import json
import platform
import unittest

import harness


class ProgramApi(harness.Case):
    def test_without_recorder(self):
        run = self.record(harness.program("program_api"), how="plain")
        self.assertEqual(run.stdout, "0 0 0 0\n")

    def test_pause_mark_and_pool(self):
        for how in harness.WAYS:
            with self.subTest(how=how):
                run = self.record(harness.program("program_api"), how=how)
                self.assertEqual(run.stdout, "1 0 0 1\n")
                report = self.report(run.trace)
                self.assertTrue(report["integrity"]["complete"])
                # Blocks that were allocated during the pause are unknown; their frees are not errors of the program.
                by_size = {}
                for row in self.all_stacks(run.trace, "leaked"):
                    if row["blocks"]:
                        by_size[row["bytes"] // row["blocks"]] = row["blocks"]
                self.assertEqual(by_size.get(1111), 2)
                self.assertNotIn(2222, by_size)
                self.assertEqual(by_size.get(3333), 1)
                self.assertEqual(run.read().marks, ["before the pause", "the end, with \"quotes\" and \u00e4"])
                timeline = json.loads(self.heapprof("timeline", run.trace, "--format", "json"))
                self.assertIn("before the pause", json.dumps(timeline, ensure_ascii=False))

    def test_children_that_are_recorded(self):
        run = self.record(harness.program("program_api"), CHILDREN=1, OUTPUT=self.dir / "all.%p")
        self.assertEqual(run.stdout, "1 1 0 1\n")

    def test_children_begin_paused_as_their_parent(self):
        for paused in (0, 1):
            with self.subTest(paused=paused):
                folder = self.dir / f"paused{paused}"
                run = self.record(harness.program("program_api"), "children", CHILDREN=1, PAUSED=paused,
                                  OUTPUT=folder / "%p")
                allocated = []
                for child in run.stdout.split():
                    rows = self.all_stacks(folder / child, "allocated")
                    sizes = {row["bytes"] // row["blocks"]: row["blocks"] for row in rows if row["blocks"]}
                    allocated.append({size: sizes.get(size, 0) for size in (1111, 2222, 3333)})
                self.assertEqual(allocated, [{1111: 0, 2222: 5, 3333: 0}, {1111: 0, 2222: 0, 3333: 5}])

    @unittest.skipUnless(platform.machine() == "x86_64" and not harness.EMULATOR, "steps by x86-64's trap flag")
    def test_a_child_is_paused_from_the_first_instruction_on(self):
        """Another thread of the child, or a signal handler, could otherwise record while its trace is being begun."""
        run = self.record(harness.program("program_api"), "paused-steps", CHILDREN=1, OUTPUT=self.dir / "steps.%p")
        self.assertEqual(run.stdout, "0\n")
        self.assertEqual(len(list(self.dir.glob("steps.*"))), 2)

    def test_started_paused(self):
        run = self.record(harness.program("program_api"), PAUSED=1)
        self.assertEqual(run.stdout, "0 0 0 1\n")
        sizes = [row["bytes"] // row["blocks"] for row in self.all_stacks(run.trace, "allocated")]
        self.assertEqual(sizes.count(3333), 2)  # two call sites, two stacks
        self.assertFalse({1111, 2222} & set(sizes))


if __name__ == "__main__":
    harness.main()
