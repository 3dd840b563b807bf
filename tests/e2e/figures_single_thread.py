"""One thread, every allocation function: all figures, the peak and the sums per stack equal the ledger's, as counted
by heapprof, trace_reader and heaptrack_print."""

import harness
import heaptrack_file
import trace_reader
from ledger import expected_events, matches


class SingleThread(harness.Case):
    def recorded(self, seed, work=12_000, **variables):
        return self.record(harness.program("ledger_single"), work, seed, **variables)

    def check_figures(self, run, idle):
        """`idle`: a recording without work, for the allocations of the process itself."""
        ledger = run.ledger()
        self.assert_ledger_clean(ledger)
        truth = ledger.figures()
        report, besides = self.report(run.trace), self.report(idle.trace)
        self.assert_sound(report)
        self.assert_sound(besides)
        heap, other = report["heap"], besides["heap"]
        # The process's other allocations exist before the work, and until its end.
        self.assertEqual(other["peak_bytes"], other["leaked_bytes"])
        for ours, theirs in (("allocations", truth.allocations), ("allocated_bytes", truth.allocated_bytes),
                             ("frees", truth.frees), ("failed", truth.failed),
                             ("leaked_bytes", truth.leaked_bytes), ("leaked_blocks", truth.leaked_blocks),
                             ("temporary_allocations", truth.temporary)):
            self.assertEqual(heap[ours] - other[ours], theirs, ours)
        self.assertEqual(heap["peak_bytes"] - other["leaked_bytes"], truth.peak_bytes)
        self.assertEqual(heap["peak_blocks"] - other["leaked_blocks"], truth.peak_blocks)
        self.assertLessEqual(heap["peak_time_ns"], report["duration_ns"])
        self.assertEqual([thread["tid"] for thread in report["threads"]], [ledger.threads[0].tid])
        self.assertEqual(report["threads"][0]["allocations"], heap["allocations"])
        self.assertEqual(report["threads"][0]["allocated_bytes"], heap["allocated_bytes"])
        return truth, report

    def check_sites(self, run, truth):
        for cost, bytes_of, blocks_of in (
                ("allocated", lambda c: c.allocated_bytes, lambda c: c.allocations),
                ("leaked", lambda c: c.leaked_bytes, lambda c: c.leaked_blocks),
                ("peak", lambda c: c.peak_bytes, lambda c: c.peak_blocks)):
            rows = self.all_stacks(run.trace, cost)
            sums = harness.sums_by_site(rows)
            for site, expected in truth.sites.items():
                found = sums.get(site, (0, 0))
                self.assertEqual(found, (bytes_of(expected), blocks_of(expected)), f"{cost} of {site}")
        rows = self.all_stacks(run.trace, "temporary")
        sums = harness.sums_by_site(rows)
        for site, expected in truth.sites.items():
            self.assertEqual(sums.get(site, (0, 0))[1], expected.temporary, f"temporary of {site}")

    def test_figures(self):
        for seed in (1, 2, 3):
            with self.subTest(seed=seed):
                run = self.recorded(seed)
                truth, _ = self.check_figures(run, self.recorded(seed, work=0))
                self.check_sites(run, truth)

    def test_without_shadow_stack(self):
        run = self.recorded(4, SHADOW_STACK=0)
        truth, _ = self.check_figures(run, self.recorded(4, work=0, SHADOW_STACK=0))
        self.check_sites(run, truth)

    def test_complete_stacks(self):
        run = self.recorded(5)
        for row in self.all_stacks(run.trace, "allocations"):
            functions = [harness.plain_name(frame["function"]) for frame in row["stack"]]
            self.assertIsNone(row["truncated"], functions)
            self.assertFalse([frame for frame in row["stack"] if "libheapprof" in frame["module"]], functions)
            # If the loader has no symbols (as the emulator's), its own stacks still end in it: ld-linux-x86-64.so.2,
            # or before glibc 2.34 ld-2.31.so.
            outermost = {"_start", "_dl_start_user", "_dl_start"} & set(functions)
            without_names = "/ld-" if harness.EMULATOR else "/libc.so" if harness.MUSL else None
            self.assertTrue(outermost or (without_names and without_names in row["stack"][-1]["module"]), functions)
            site = harness.site_of(row["stack"])
            if site is None:
                continue
            # Callers of the site: step, alternately descend_odd and descend_even, main; each once.
            while not functions[0].startswith("site_"):
                functions.pop(0)
            descents = [f for f in functions[1:functions.index("main")] if f not in ("allocate", "step", "release")]
            self.assertTrue(set(descents) <= {"descend_odd", "descend_even"}, functions)
            for inner, outer in zip(descents, descents[1:]):
                self.assertNotEqual(inner, outer, descents)

    def test_events_one_by_one(self):
        """trace_reader finds exactly the ledger's calls, in order, with their addresses and sizes."""
        for variables in ({}, {"BLOCK_BYTES": 4096}):
            with self.subTest(variables):
                run = self.recorded(6, **variables)
                ledger = run.ledger()
                expected = [event for entry in ledger.threads[0].entries for event in expected_events(entry)]
                trace = run.read()
                (thread,) = trace.threads()
                actual = [event.tuple() for event in thread.events if event.op in trace_reader.HEAP_OPS]
                # Others: allocations and frees of libraries before and after main.
                first = next(i for i, event in enumerate(actual) if matches(expected[0], event))
                actual = actual[first:first + len(expected)]
                for position, (wanted, event) in enumerate(zip(expected, actual)):
                    if not matches(wanted, event):  # a text for each event would take longer than its comparison
                        self.fail(f"event {position}: {event}, not {wanted}")
                self.assertEqual(len(actual), len(expected))
                figures = trace_reader.replay(trace_reader.merged(trace))
                heap = self.report(run.trace)["heap"]
                for name in ("allocations", "allocated_bytes", "frees", "failed", "peak_bytes", "peak_blocks",
                             "leaked_bytes", "leaked_blocks", "unmatched_frees", "implied_frees"):
                    self.assertEqual(heap[name], figures[name], name)

    def test_heaptrack_agrees(self):
        run = self.recorded(7)
        truth = run.ledger().figures()
        heap = self.report(run.trace)["heap"]
        plain = self.dir / "out.heaptrack"
        self.heapprof("export", "heaptrack", run.trace, "-o", plain)
        file = heaptrack_file.HeaptrackFile(plain)
        totals = file.totals()
        # One more call: the dummy class 0, of 0 bytes, which the format reserves.
        dummies = totals.calls - heap["allocations"]
        self.assertIn(dummies, (0, 1))
        self.assertEqual(totals.leaked, heap["leaked_bytes"])
        self.assertEqual(totals.peak, heap["peak_bytes"])
        for sums, wanted in ((totals.calls_by_trace, lambda c: c.allocations),
                             (totals.allocated_by_trace, lambda c: c.allocated_bytes),
                             (totals.leaked_by_trace, lambda c: c.leaked_bytes),
                             (totals.peak_by_trace, lambda c: c.peak_bytes)):
            by_site = {}
            for function, value in file.by_function(sums, "site_").items():
                by_site[harness.base_site(function)] = by_site.get(harness.base_site(function), 0) + value
            for site, cost in truth.sites.items():
                self.assertEqual(by_site.get(site, 0), wanted(cost), site)

        for suffix in ("", ".gz", ".zst"):
            with self.subTest(suffix=suffix):
                path = self.dir / f"export.heaptrack{suffix}"
                self.heapprof("export", "heaptrack", run.trace, "-o", path)
                printed = heaptrack_file.printed_totals(path)
                self.assertEqual(printed["calls"], heap["allocations"] + dummies)
                self.assertEqual(printed["leaked"], heaptrack_file.rounded(heap["leaked_bytes"]))
                self.assertEqual(printed["peak"], heaptrack_file.rounded(heap["peak_bytes"]))
                self.assertEqual(printed["temporary"], totals.temporary)
        histogram = heaptrack_file.printed_histogram(plain, self.dir / "histogram")
        self.assertEqual(histogram, dict(totals.sizes))
        for cost, sums in (("allocations", totals.calls_by_trace), ("leaked", totals.leaked_by_trace),
                           ("peak", totals.peak_by_trace)):
            lines = heaptrack_file.printed_flamegraph(plain, self.dir / "flame", cost)
            self.assertEqual(sum(lines.values()), sum(sums.values()), cost)


if __name__ == "__main__":
    harness.main()
