"""Stacks carry the right names: inlined functions with their lines, C++ and Rust names, and code that was loaded
where other code had been."""

import json
import os
import re

import harness
import heaptrack_file


def pattern(function):
    return "^" + re.escape(function.removesuffix("*")) + ("" if function.endswith("*") else "$")


class Names(harness.Case):
    def test_known_functions(self):
        run = self.record(harness.program("ledger_names"))
        rows = {row["bytes"]: row for row in self.all_stacks(run.trace, "leaked")}
        exported = self.dir / "names.heaptrack"
        self.heapprof("export", "heaptrack", run.trace, "-o", exported)
        file = heaptrack_file.HeaptrackFile(exported)
        traces = {size: trace for size, trace in file.classes}
        for line in run.stdout.splitlines():
            truth = json.loads(line)
            with self.subTest(size=truth["size"]):
                stack = rows[truth["size"]]["stack"]
                while stack[0]["function"].split("(")[0] in ("malloc", "__libc_malloc", "calloc"):
                    stack = stack[1:]
                for (function, number, inlined), frame in zip(truth["frames"], stack):
                    # What the optimiser split off keeps its name, with the clone's after it.
                    self.assertRegex(re.sub(r" \[clone [^]]*\]", "", frame["function"]), pattern(function))
                    self.assertEqual(frame["inlined"], inlined, function)
                    if number:
                        self.assertEqual(frame["line"], number, function)
                        self.assertEqual(os.path.basename(frame["file"]), "ledger_names.cpp")
                # The export keeps inlined frames and lines; readers drop operator new.
                frames = [f for f in file.frames(traces[truth["size"]]) if f[0] not in heaptrack_file.OPERATOR_NEW]
                wanted = [f for f in truth["frames"] if f[0] not in heaptrack_file.OPERATOR_NEW]
                while frames[0][0] in ("malloc", "__libc_malloc"):
                    frames = frames[1:]
                for (function, number, _), frame in zip(wanted, frames):
                    self.assertRegex(frame[0], pattern(function))
                    if number:
                        self.assertEqual(frame[2], number, function)

    def test_without_inlines_and_without_symbols(self):
        run = self.record(harness.program("ledger_names"))
        report = self.report(run.trace, "--no-inlines", "--cost", "leaked", "--top", "1000")
        for row in report["top"]:
            self.assertFalse(any(frame["inlined"] for frame in row["stack"]))
        report = self.report(run.trace, "--no-symbols", "--cost", "leaked", "--top", "1000")
        self.assertTrue(report["top"])
        for row in report["top"]:
            for frame in row["stack"]:
                self.assertNotIn("outer_function", frame["function"])

    def test_plugins(self):
        """Found through the caller's RUNPATH, loaded and unloaded at the same addresses, and iconv's hidden loads."""
        run = self.record(harness.program("ledger_plugins"), 60)
        ledger = run.ledger()
        self.assert_ledger_clean(ledger)
        truth = ledger.figures()
        self.assert_sound(self.report(run.trace))
        for cost in ("allocated", "leaked"):
            rows = self.all_stacks(run.trace, cost)
            sums = harness.sums_by_site(rows)
            for site, expected in truth.sites.items():
                wanted = (expected.allocated_bytes, expected.allocations) if cost == "allocated" else \
                    (expected.leaked_bytes, expected.leaked_blocks)
                self.assertEqual(sums.get(site, (0, 0)), wanted, site)
            for row in rows:
                site = harness.site_of(row["stack"])
                if site not in ("site_plugin_a", "site_plugin_b"):
                    continue
                letter = site[-1]
                functions = [frame["function"] for frame in row["stack"]]
                self.assertIn(f"plugin_{letter}_inner", functions)
                modules = {os.path.basename(frame["module"]) for frame in row["stack"]
                           if frame["function"] in ("plugin_allocate", f"plugin_{letter}_inner")}
                self.assertEqual(modules, {f"libplugin_{letter}.so"})


if __name__ == "__main__":
    harness.main()
