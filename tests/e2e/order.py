"""Threads that hand few addresses round, with an allocator that reuses an address as soon as it was freed: every free
matches its allocation, and the peak of large blocks is exact (docs/concepts/ordering.md)."""

import os
import unittest

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

    def report_of_budget(self, size, count, events, **options):
        """Of a program in which a thread allocates a block only after another one freed one, so that `count` blocks of
        `size` bytes are live at most, and are so most of the time."""
        run = self.record(harness.program("handed_round"), "budget", 3, events // 3, 1, size, count, timeout=3600,
                          **options)
        return self.report(run.trace, "--min-size", size, "--max-size", size)

    def test_peak_of_large_blocks(self):
        for size, count in ((100_000, 400), (1024, 1000)):
            with self.subTest(size=size):
                report = self.report_of_budget(size, count, EVENTS)
                self.assert_sound(report)
                self.assertEqual(report["heap"]["peak_bytes"], size * count)

    @unittest.skipIf(harness.EMULATOR, "the library is preloaded without the emulator")
    def test_peak_without_the_rule_for_large_blocks(self):
        """A recorder without that rule has wrong peaks. Otherwise the test above tests nothing."""
        library = harness.TARGET / "tests" / "programs" / "libheapprof_without_large_blocks.so"
        size, count = 100_000, 400
        for _ in range(20):
            report = self.report_of_budget(size, count, 60_000, how="plain", _LD_PRELOAD=library)
            self.assertGreater(report["heap"]["allocations"], count)  # it records
            if report["heap"]["peak_bytes"] != size * count:
                return
        self.fail("20 peaks are exact")


if __name__ == "__main__":
    harness.main()
