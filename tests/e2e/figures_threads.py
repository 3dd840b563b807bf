"""Threads that pass blocks to each other and reuse addresses immediately: the live blocks and the sums per thread and
per site are exact, and every free matches the right allocation."""

import csv
import io
import json

import harness
import trace_reader


class Threads(harness.Case):
    def check(self, name, *arguments, **variables):
        run = self.record(harness.program(name), *arguments, **variables)
        ledger = run.ledger()
        self.assert_ledger_clean(ledger)
        truth = ledger.figures()
        report = self.report(run.trace)
        self.assert_sound(report)

        by_tid = {thread["tid"]: thread for thread in report["threads"]}
        self.assertEqual(len(by_tid), len(report["threads"]))
        for thread in ledger.threads:
            if not thread.entries:
                continue
            self.assertIn(thread.tid, by_tid)
            found, expected = by_tid[thread.tid], truth.threads[thread.index]
            self.assertEqual((found["allocations"], found["allocated_bytes"]),
                             (expected.allocations, expected.allocated_bytes), thread)
            if thread.name:
                self.assertEqual(found["name"], thread.name)

        leaked = harness.sums_by_site(self.all_stacks(run.trace, "leaked"))
        allocated = harness.sums_by_site(self.all_stacks(run.trace, "allocated"))
        for site, cost in truth.sites.items():
            self.assertEqual(leaked.get(site, (0, 0)), (cost.leaked_bytes, cost.leaked_blocks), site)
            self.assertEqual(allocated.get(site, (0, 0)), (cost.allocated_bytes, cost.allocations), site)
        # Allocations of the main thread: by pthread_create and libstdc++; with musl there are none.
        other = allocated.get(None, (0, 0))
        heap = report["heap"]
        self.assertEqual(heap["allocations"] - other[1], truth.allocations)
        self.assertEqual(heap["allocated_bytes"] - other[0], truth.allocated_bytes)
        return run, ledger, report

    def check_live_set(self, run, ledger, report):
        """Compares the live blocks with trace_reader's, by address."""
        trace = run.read()
        figures = trace_reader.replay(trace_reader.merged(trace))
        self.assertEqual((figures["unmatched_frees"], figures["implied_frees"]), (0, 0))
        self.assertEqual(figures["leaked_bytes"], report["heap"]["leaked_bytes"])
        self.assertEqual(figures["leaked_blocks"], report["heap"]["leaked_blocks"])
        for address, size in ledger.live_addresses().items():
            self.assertEqual(figures["live"].get(address), size, hex(address))

    def test_blocks_freed_by_other_threads(self):
        run, ledger, report = self.check("ledger_threads", 2_000, 1, 4, 3)
        self.check_live_set(run, ledger, report)

    def test_many_short_threads(self):
        """Ended threads' streams are reused by new threads."""
        run, ledger, report = self.check("ledger_threads", 150, 2, 4, 25)
        self.assertEqual(len(ledger.threads), 101)
        self.check_live_set(run, ledger, report)

    def test_small_blocks_of_events(self):
        self.check("ledger_threads", 3_000, 3, 6, 2, BLOCK_BYTES=4096)

    def test_many_events(self):
        for seed in (4, 5):
            with self.subTest(seed=seed):
                self.check("ledger_threads", 40_000, seed, 4, 1)

    def test_contended_realloc(self):
        run, ledger, report = self.check("ledger_realloc", 5_000, 1, 4)
        self.check_live_set(run, ledger, report)
        for seed in (2, 3):
            with self.subTest(seed=seed):
                self.check("ledger_realloc", 40_000, seed, 4)

    def test_without_shadow_stack(self):
        self.check("ledger_threads", 3_000, 6, 4, 2, SHADOW_STACK=0)


class SharedTimes(harness.Case):
    def test_alternating_threads(self):
        """Two threads take turns as the only one that allocates; the events of that thread then share times."""
        for seed in (1, 2):
            with self.subTest(seed=seed):
                run = self.record(harness.program("alternating"), 300, seed,
                                  _GLIBC_TUNABLES="glibc.malloc.tcache_count=0")
                first, second, freed = map(int, run.stdout.split())
                report = self.report(run.trace)
                self.assert_sound(report)
                self.assertEqual(report["heap"]["frees"], freed)
                worked = sorted(thread["allocations"] for thread in report["threads"])[-2:]
                self.assertEqual(worked, sorted((first, second)))
                if harness.EMULATOR:  # no tick (recorder/clock/tick.h): every event reads the clock
                    continue
                # Otherwise no thread ever owned a page for long, and this tests nothing.
                events = [event for thread in run.read().threads() for event in thread.events
                          if event.op in trace_reader.HEAP_OPS]
                self.assertLess(len({event.time for event in events}), len(events) // 4)

    def test_pauses(self):
        """Events share times, but an event after a pause has a time after it."""
        for arguments in ((), ("idle",)):
            with self.subTest(arguments):
                run = self.record(harness.program("pauses"), *arguments)
                lives = json.loads(self.heapprof("histogram", run.trace, "--min-size", 7777, "--max-size", 7777,
                                                 "--json"))["lifetimes"]
                # On a busy machine, a pause may be longer than requested, and count in another row.
                self.assertEqual(sum(life["blocks"] for life in lives if life["from_ns"] >= 10_000_000), 6 * 45,
                                 lives)
                self.assertEqual(sum(life["blocks"] for life in lives), 6 * 45, lives)

    def test_marks(self):
        """An allocation between two marks has a time between theirs; also in another thread that waits for the first
        mark."""
        for arguments in ((), ("other",)):
            with self.subTest(arguments):
                run = self.record(harness.program("marks"), *arguments)
                timeline = json.loads(self.heapprof("timeline", run.trace, "--format", "json"))
                marks = {int(mark["text"]): mark["time_ns"] for mark in timeline["marks"]}
                self.assertEqual(sorted(marks), list(range(1, 201)))
                sizes = ("--min-size", 1001, "--max-size", 1200)
                rows = csv.DictReader(io.StringIO(self.heapprof("export", "csv", run.trace, *sizes, "-o", "-")))
                blocks = {int(row["size"]) - 1000: int(row["time_ns"]) for row in rows if row["event"] == "alloc"}
                self.assertEqual(sorted(blocks), sorted(marks))
                for number, time in blocks.items():
                    self.assertLess(marks[number], time, number)
                    self.assertLessEqual(time, marks.get(number + 1, time), number)


if __name__ == "__main__":
    harness.main()
