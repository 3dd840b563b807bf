"""The Firefox Profiler's importer is not on npm, so this reads the file as its documentation has the format: every
table's columns are of one length, every index is in range, parents stand before children; and retained memory,
matched by address as the viewer does it, is the report's."""

import consumers
import harness

# Column: the table it points into.
POINTERS = {("stackTable", "frame"): "frameTable", ("stackTable", "prefix"): "stackTable",
            ("frameTable", "func"): "funcTable", ("funcTable", "resource"): "resourceTable",
            ("nativeAllocations", "stack"): "stackTable"}
STRINGS = (("funcTable", "name"), ("funcTable", "fileName"), ("resourceTable", "name"))
COLUMNS = {
    "samples": {"stack", "time"}, "markers": {"data", "name", "startTime", "endTime", "phase", "category"},
    "nativeAllocations": {"time", "weight", "stack", "memoryAddress", "threadId"},
    "stackTable": {"frame", "category", "subcategory", "prefix"},
    "frameTable": {"address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol", "innerWindowID",
                   "implementation", "line", "column"},
    "funcTable": {"isJS", "relevantForJS", "name", "resource", "fileName", "lineNumber", "columnNumber"},
    "resourceTable": {"lib", "name", "host", "type"},
    "nativeSymbols": {"libIndex", "address", "name", "functionSize"}}


class Firefox(consumers.Case):
    def test_totals(self):
        self.each_sample(self.check)

    def test_selections(self):
        """What report takes, the export takes."""
        self.each_selection(self.check, of_mappings=False)
        self.refuses_mappings("firefox")

    def check(self, name, trace):
        profile = consumers.load(self.export("firefox", trace))
        self.assertEqual(profile["meta"]["preprocessedProfileVersion"], 48)
        (thread,) = profile["threads"]
        for table, columns in COLUMNS.items():
            self.assertEqual({key for key, value in thread[table].items() if isinstance(value, list)}, columns, table)
            self.assertEqual({len(thread[table][column]) for column in columns}, {thread[table]["length"]}, table)
        for (table, column), target in POINTERS.items():
            for value in thread[table][column]:
                self.assertTrue(value in (None, -1) or 0 <= value < thread[target]["length"], (table, column, value))
        for table, column in STRINGS:
            for value in thread[table][column]:
                self.assertTrue(value is None or 0 <= value < len(thread["stringArray"]), (table, column, value))
        for i, prefix in enumerate(thread["stackTable"]["prefix"]):
            self.assertTrue(prefix is None or prefix < i)
        for lib in thread["resourceTable"]["lib"]:
            self.assertLess(lib, len(profile["libs"]))

        totals = self.totals(trace)
        events = thread["nativeAllocations"]
        live, live_bytes, peak, allocated = {}, 0, 0, 0
        for weight, address, stack in zip(events["weight"], events["memoryAddress"], events["stack"]):
            self.assertIsNotNone(stack)
            size = abs(weight)
            if address in live:
                self.assertEqual(live.pop(address), size)
                live_bytes -= size
            else:
                self.assertGreaterEqual(weight, 0)
                live[address] = size
                live_bytes += size
                allocated += size
            peak = max(peak, live_bytes)
        self.assertEqual((allocated, live_bytes, len(live)),
                         tuple(totals[cost] for cost in ("allocated_bytes", "leaked_bytes", "leaked_blocks")))
        self.check_peak(peak, totals)
        self.assertEqual(events["time"], sorted(events["time"]))
        counts = profile["counters"][0]["samples"]["count"]
        # The track shows all that lives, in a slice what came before too.
        (self.assertGreaterEqual if "--from" in self.options else self.assertEqual)(sum(counts), totals["leaked_bytes"])
        if name == "real":
            self.assertTrue(any(text.endswith("ledger_names.cpp") for text in thread["stringArray"]))


if __name__ == "__main__":
    harness.main()
