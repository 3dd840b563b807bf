"""Allocations at a program's start and end, calls that fail, blocks allocated by libc, mappings."""

import harness
import ledger as ledger_module
import trace_reader


class EdgeCases(harness.Case):
    def site_replay(self, run, name):
        """Events of blocks that the call sites allocated, from trace_reader: counts, and live blocks by address."""
        trace = run.read()
        site_of = trace.functions(trace_reader.Symbols(harness.program(name)))
        events = trace_reader.merged(trace)
        figures = trace_reader.replay(events)
        live = {}
        found = dict(allocations=0, allocated_bytes=0, frees=0, failed=0)
        for _, event in events:
            if event.op in (trace_reader.FREE, trace_reader.FREE_STACK, trace_reader.REALLOC_BEGIN):
                if live.pop(event.address, None) is not None:
                    found["frees"] += 1
            elif event.op in (trace_reader.ALLOC, trace_reader.REALLOC_END) and event.address:
                if site_of(event.node):
                    live[event.address] = event.size
                    found["allocations"] += 1
                    found["allocated_bytes"] += event.size
            elif event.op in (trace_reader.ALLOC_FAILED, trace_reader.REALLOC_FAILED):
                found["failed"] += bool(site_of(event.node))
        return found, live, figures

    def check_sites(self, run, truth):
        leaked = harness.sums_by_site(self.all_stacks(run.trace, "leaked"))
        allocated = harness.sums_by_site(self.all_stacks(run.trace, "allocated"))
        for site, cost in truth.sites.items():
            self.assertEqual(allocated.get(site, (0, 0)), (cost.allocated_bytes, cost.allocations), site)
            self.assertEqual(leaked.get(site, (0, 0)), (cost.leaked_bytes, cost.leaked_blocks), site)

    def test_early_and_late(self):
        """Everything is recorded from the first constructor to the last destructor. In .preinit_array, before libc is
        initialised, malloc must work, but need not be recorded: the block allocated there may be unknown, and then
        its free is unmatched."""
        for how in harness.WAYS:
            with self.subTest(how=how):
                run = self.record(harness.program("ledger_start_and_end"), 1, how=how)
                ledger = run.ledger()
                self.assert_ledger_clean(ledger)
                truth = ledger.figures()
                report = self.report(run.trace)
                self.assertTrue(report["integrity"]["complete"])
                self.assertEqual(report["heap"]["implied_frees"], 0)
                unknown = report["heap"]["unmatched_frees"]
                self.assertIn(unknown, (0, 1))
                if unknown:
                    truth.sites.pop("site_preinit")
                self.check_sites(run, truth)
                found, live, figures = self.site_replay(run, "ledger_start_and_end")
                self.assertEqual((figures["unmatched_frees"], figures["implied_frees"]), (unknown, 0))
                self.assertEqual(found, dict(allocations=truth.allocations - unknown, frees=truth.frees - unknown,
                                             allocated_bytes=truth.allocated_bytes - 101 * unknown, failed=0))
                self.assertEqual(live, ledger.live_addresses())

    def test_failures(self):
        run = self.record(harness.program("ledger_failures"), 1)
        idle = self.record(harness.program("ledger_failures"), 0)
        ledger = run.ledger()
        self.assert_ledger_clean(ledger)
        truth = ledger.figures()
        self.assertGreater(truth.failed, 300)
        report, other = self.report(run.trace), self.report(idle.trace)["heap"]
        self.assert_sound(report)
        heap = report["heap"]
        for name in ("allocations", "allocated_bytes", "frees", "failed", "leaked_blocks", "leaked_bytes"):
            self.assertEqual(heap[name] - other[name], getattr(truth, name), name)
        self.assertEqual(heap["peak_bytes"] - other["peak_bytes"], truth.peak_bytes)
        self.check_sites(run, truth)
        (thread,) = run.read().threads()
        actual = [event.tuple() for event in thread.events if event.op in trace_reader.HEAP_OPS]
        expected = [event for entry in ledger.threads[0].entries for event in ledger_module.expected_events(entry)]
        first = next(i for i, event in enumerate(actual) if ledger_module.matches(expected[0], event))
        for position, wanted in enumerate(expected):
            self.assertTrue(ledger_module.matches(wanted, actual[first + position]),
                            f"event {position}: {actual[first + position]}, not {wanted}")

    def test_blocks_allocated_by_libc(self):
        run = self.record(harness.program("ledger_libc"))
        ledger = run.ledger()
        self.assert_ledger_clean(ledger)
        self.assert_sound(self.report(run.trace))
        _, live, figures = self.site_replay(run, "ledger_libc")
        self.assertEqual((figures["unmatched_frees"], figures["implied_frees"]), (0, 0))
        expected = ledger.live_addresses()
        self.assertEqual(set(live), set(expected))
        for address, size in expected.items():
            if size is not None:
                self.assertEqual(live[address], size)

    def test_mappings(self):
        for seed in (1, 2, 3):
            with self.subTest(seed=seed):
                run = self.record(harness.program("ledger_mmap"), 2_000, seed)
                idle = self.record(harness.program("ledger_mmap"), 0, seed)
                self.assert_ledger_clean(run.ledger())
                truth = ledger_module.mappings(run.ledger())
                report = self.report(run.trace)
                found, other = report["mmap"], self.report(idle.trace)["mmap"]
                self.assert_sound(report)
                self.assertEqual(found["live_bytes"] - other["live_bytes"], truth.live_bytes)
                self.assertEqual(found["peak_bytes"] - other["peak_bytes"], truth.peak_bytes)
                self.assertEqual(found["mapped_bytes"] - other["mapped_bytes"], truth.mapped_bytes)
                self.check_mappings_one_by_one(run)

    def check_mappings_one_by_one(self, run):
        """trace_reader finds each call of the ledger, in order, with its range."""
        reader, page = trace_reader, 4096

        def whole_pages(size):
            return (size + page - 1) // page * page

        expected = []
        for entry in run.ledger().threads[0].entries:
            kind, ok = entry.kind, entry.result != ledger_module.MAP_FAILED
            if kind == ledger_module.MAP:
                if ok:
                    expected.append((reader.MAP, entry.result, whole_pages(entry.size)))
            elif kind == ledger_module.UNMAP:
                failed = entry.flags & ledger_module.FLAG_FAILED
                expected.append((reader.UNMAP_BEGIN, entry.old, whole_pages(entry.size)))
                expected.append((reader.UNMAP_FAILED if failed else reader.UNMAP_END,))
            elif kind == ledger_module.REMAP:
                expected.append((reader.REMAP_BEGIN, entry.old, whole_pages(entry.block)))
                expected.append((reader.REMAP_END, entry.result, whole_pages(entry.size)) if ok else
                                (reader.REMAP_FAILED,))
            elif kind == ledger_module.BREAK and entry.old != entry.result:
                expected.append((reader.BRK, entry.result, entry.old))
        actual = []
        for thread in run.read().threads():
            for event in thread.events:
                if event.op in (reader.UNMAP_END, reader.UNMAP_FAILED, reader.REMAP_FAILED):
                    actual.append((event.op,))
                elif reader.MAP <= event.op <= reader.BRK:
                    actual.append((event.op, event.address, event.size))
        first = actual.index(expected[0])
        self.assertEqual(actual[first:first + len(expected)], expected)


if __name__ == "__main__":
    harness.main()
