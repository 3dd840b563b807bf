"""Hosts that are hard to record (tests/programs/stress.cpp): they end as without the recorder, and every event is
recorded."""

import harness

COUNTED_SIZE = 777  # bytes of the blocks that the program counts


class Stress(harness.Case):
    def check(self, what, **variables):
        run = self.record(harness.program("stress"), what, **variables)
        self.assertEqual(run.stderr, "")
        self.assert_sound(self.report(run.trace))
        counted = self.report(run.trace, "--min-size", COUNTED_SIZE, "--max-size", COUNTED_SIZE)
        self.assertEqual(counted["heap"]["allocations"], int(run.stdout))
        self.assertEqual(counted["heap"]["leaked_blocks"], 0)
        return run

    def test_cancelled_threads(self):
        self.check("cancel")

    def test_many_short_threads(self):
        self.check("storm")

    def test_a_thousand_threads_at_once(self):
        self.check("many")

    def test_fork_from_a_threaded_program(self):
        self.check("fork")

    def test_descriptors_closed_and_reused(self):
        self.check("descriptors")

    def test_recorded_children_of_a_threaded_program(self):
        pattern = self.dir / "child.%p.heapprof"
        self.record(harness.program("stress"), "fork", OUTPUT=pattern, CHILDREN=1)
        traces = list(self.dir.glob("child.*.heapprof"))
        self.assertEqual(len(traces), 301)
        for trace in traces[:20]:
            self.assertTrue(self.report(trace)["integrity"]["complete"])


if __name__ == "__main__":
    harness.main()
