"""Threads that hand few addresses round, with an allocator that reuses an address as soon as it was freed: every free
matches its allocation, and the peak of large blocks is exact (docs/concepts/ordering.md)."""

import os

import harness
import trace_reader

# Larger for campaigns (tools/campaign/order.py).
EVENTS = int(os.environ.get("HEAPPROF_TEST_EVENTS", "60000"))


@harness.not_with_musl("the allocator calls glibc's")
class Order(harness.Case):
    def test_addresses_that_are_handed_round(self):
        for threads in (3, 6):
            with self.subTest(threads=threads):
                run = self.record(harness.program("handed_round"), "blocks", threads, EVENTS // threads, threads,
                                  timeout=3600)
                allocations, frees = map(int, run.stdout.split())
                report = self.report(run.trace, "--min-size", 97, "--max-size", 128)
                self.assert_sound(report)
                self.assertEqual((report["heap"]["allocations"], report["heap"]["frees"]), (allocations, frees))
                if harness.EMULATOR or EVENTS > 1_000_000:
                    continue
                # Some events have the time of their run; otherwise this tests nothing.
                events = [event for thread in run.read().threads() for event in thread.events
                          if event.op in trace_reader.HEAP_OPS]
                self.assertLess(len({event.time for event in events}), len(events) * 99 // 100)

    def test_peak_of_large_blocks(self):
        """A thread allocates a block only after another one freed one, so that as many are live as the budget has."""
        for size, count in ((100_000, 400), (1024, 1000)):
            with self.subTest(size=size):
                run = self.record(harness.program("handed_round"), "budget", 3, EVENTS // 3, 1, size, count,
                                  timeout=3600)
                report = self.report(run.trace, "--min-size", size, "--max-size", size)
                self.assert_sound(report)
                self.assertEqual(report["heap"]["peak_bytes"], size * count)


if __name__ == "__main__":
    harness.main()
