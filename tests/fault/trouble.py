"""Hosts that recorders die of (tests/programs/trouble.cpp): they end as they would alone, and every event is
there."""

import harness

MARK = 777  # bytes of the blocks that the program counts


class Trouble(harness.Case):
    def unhurt(self, what, **variables):
        run = self.record(harness.program("trouble"), what, **variables)
        self.assertEqual(run.stderr, "")
        self.assert_sound(self.report(run.trace))
        marked = self.report(run.trace, "--min-size", MARK, "--max-size", MARK)
        self.assertEqual(marked["heap"]["allocations"], int(run.stdout))
        self.assertEqual(marked["heap"]["leaked_blocks"], 0)
        return run

    def test_cancelled_threads(self):
        self.unhurt("cancel")

    def test_a_storm_of_short_threads(self):
        self.unhurt("storm")

    def test_a_thousand_threads_at_once(self):
        self.unhurt("many")

    def test_fork_from_a_threaded_program(self):
        self.unhurt("fork")

    def test_descriptors_closed_and_taken(self):
        self.unhurt("descriptors")

    def test_recorded_children_of_a_threaded_program(self):
        pattern = self.dir / "child.%p.hprof"
        self.record(harness.program("trouble"), "fork", OUTPUT=pattern, CHILDREN=1)
        traces = list(self.dir.glob("child.*.hprof"))
        self.assertEqual(len(traces), 301)
        for trace in traces[:20]:
            self.assertTrue(self.report(trace)["integrity"]["complete"])


if __name__ == "__main__":
    harness.main()
