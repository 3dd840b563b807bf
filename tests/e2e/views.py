"""Rows, trees and callers: their figures add up to those of `report --json` for the same selection, and to those of an
accountant of this test, which adds up the stacks of the report and the events of the trace file."""

import csv
import html
import io
import json
from collections import Counter, defaultdict

import harness
import trace_reader

KEYS = ("function", "line", "site", "stack", "module", "thread")
OF_HEAP = {"peak_bytes", "peak_blocks", "leaked_bytes", "leaked_blocks", "allocated_bytes", "allocations",
           "temporary_allocations"}
FIGURES = ("peak_bytes", "peak_blocks", "leaked_bytes", "leaked_blocks", "allocated_bytes", "allocations",
           "temporary_bytes", "temporary_allocations", "live_bytes", "live_blocks")


def name_of(frame):
    """The name of a frame's function as rows have it, and its module."""
    unresolved = f"{frame['module'].rsplit('/', 1)[-1]}+{frame.get('function_begin', frame['offset']):#x}" \
        if frame["module"] else f"{frame['offset']:#x}"
    return frame["function"] or unresolved, frame["module"] or None


class Views(harness.Case):
    def json(self, *arguments, status=0):
        return json.loads(self.heapprof(*arguments, "--json", status=status))

    def rows(self, trace, key, *options):
        return self.json("report", trace, "--by", key, *options)

    def selections(self, trace, random):
        report = self.report(trace)
        threads = [thread["tid"] for thread in report["threads"] if thread["allocations"]]
        first, second = sorted(random.sample(range(1, 99), 2))
        size = random.choice((16, 100, 1000))
        yield ()
        yield ("--from", f"{first}%", "--to", f"{second}%")
        yield ("--to", f"{second}%", "--min-size", size)
        yield ("--from", f"{first}%", "--max-size", size, "--thread", random.choice(threads))
        yield ("--thread", random.choice(threads), "--live-at", f"{second}%")
        yield ("--function", "site_", "--min-lifetime", "20us")
        yield ("--not-thread", random.choice(threads), "--to", f"{second}%")
        yield ("--not-function", "site_malloc", "--from", f"{first}%", "--live-at", f"{second}%")

    def check_selection(self, trace, selection):
        """Returns {key: view}."""
        heap = self.report(trace, *selection)["heap"]
        views = {key: self.rows(trace, key, *selection) for key in KEYS}
        for key, view in views.items():
            self.assertEqual(view["all_rows"], len(view["rows"]), key)
            sums = Counter()
            for row in view["rows"]:
                sums.update(row["self"])
                for figure in FIGURES:
                    self.assertLessEqual(row["self"][figure], row["total"][figure], (key, row["name"]))
            self.assertEqual({figure: sums[figure] for figure in FIGURES}, view["total"], key)
            self.assertEqual({figure: view["total"][figure] for figure in OF_HEAP},
                             {figure: heap[figure] for figure in OF_HEAP}, key)
        for options in ((), ("--inverted",), ("--by", "line"), ("--only-own",), ("--only-own", "--inverted")):
            tree = self.json("tree", trace, "--min-share", 0, *options, *selection)
            self.assertEqual({figure: tree["total"][figure] for figure in OF_HEAP},
                             {figure: heap[figure] for figure in OF_HEAP}, options)
            self.check_tree(tree)
        return views

    def check_tree(self, node):
        sums = Counter(node["self"])
        for child in node["children"]:
            sums.update(child["total"])
            self.check_tree(child)
        if "left_out" in node:
            sums.update(node["left_out"]["total"])
        self.assertEqual({figure: sums[figure] for figure in FIGURES}, node["total"], node["name"])

    def check_inclusive(self, trace, selection, views):
        """The totals of functions and modules are the sums over the stacks that contain them."""
        for cost, figure in (("peak", "peak_bytes"), ("leaked", "leaked_bytes"), ("allocated", "allocated_bytes"),
                             ("live", "live_bytes")):
            functions, modules = Counter(), Counter()
            for stack in self.all_stacks(trace, cost, *selection):
                names = {name_of(frame) for frame in stack["stack"]}
                for name in names:
                    functions[name] += stack["bytes"]
                for module in {module for _, module in names}:
                    modules[module] += stack["bytes"]
            of_rows = Counter()
            for row in views["function"]["rows"]:
                self.assertNotIn((row["name"], row["module"]), of_rows)
                of_rows[row["name"], row["module"]] = row["total"][figure]
            self.assertEqual(+functions, +of_rows, cost)
            of_rows = Counter({row["module"]: row["total"][figure] for row in views["module"]["rows"]})
            self.assertEqual(+modules, +of_rows, cost)

    def check_only_own(self, trace, selection, everything):
        """Without other code, the totals of own functions stay, and their own costs add up to everything."""
        totals = {(row["name"], row["module"]): row["total"] for row in everything["rows"] if row["origin"] == "own"}
        for key in ("function", "line", "site", "stack", "module"):
            view = self.rows(trace, key, "--only-own", *selection)
            sums = Counter()
            for row in view["rows"]:
                sums.update(row["self"])
                self.assertTrue(row["origin"] == "own" or row["name"] == "(no own code)", (key, row["name"]))
            self.assertEqual({figure: sums[figure] for figure in FIGURES}, everything["total"], key)
            if key == "function":
                own = {(row["name"], row["module"]): row["total"] for row in view["rows"] if row["origin"] == "own"}
                self.assertEqual(own, totals)

    def test_random_selections(self):
        random = harness.random_generator("views")
        for program, arguments in (("ledger_single", (3_000, random.randrange(1000), 1)),
                                   ("ledger_threads", (800, random.randrange(1000), 3, 1))):
            trace = self.record(harness.program(program), *arguments).trace
            for selection in self.selections(trace, random):
                with self.subTest(program=program, selection=selection):
                    views = self.check_selection(trace, selection)
                    self.check_inclusive(trace, selection, views)
                    self.check_only_own(trace, selection, views["function"])

    def test_threads(self):
        """The rows of threads are the sums of the events in each thread's streams."""
        trace = self.record(harness.program("ledger_threads"), 2_000, 3, 4, 1).trace
        reader = trace_reader.Trace(trace)
        tids = [thread.tid for thread in reader.threads()]
        allocated, live, owner = defaultdict(Counter), {}, {}
        for thread, event in trace_reader.merged(reader):
            if event.op in (trace_reader.ALLOC, trace_reader.REALLOC_END) and event.address:
                allocated[tids[thread]].update(allocations=1, allocated_bytes=event.size)
                live[event.address], owner[event.address] = event.size, tids[thread]
            elif event.op in (trace_reader.FREE, trace_reader.FREE_STACK, trace_reader.REALLOC_BEGIN):
                live.pop(event.address, None)
        for address, size in live.items():
            allocated[owner[address]].update(leaked_bytes=size, leaked_blocks=1)
        rows = {row["tid"]: row["self"] for row in self.rows(trace, "thread")["rows"]}
        for tid, sums in allocated.items():
            self.assertEqual({key: rows[tid][key] for key in sums}, dict(sums), tid)
        self.assertEqual(sorted(rows), sorted(allocated))

    def test_live_at_the_end_of_a_slice(self):
        """Live bytes are those at the end of a slice, whenever they were allocated."""
        trace = self.record(harness.program("ledger_single"), 3_000, 5, 1).trace
        # Of the allocations, not of the time: the scheduler may have stopped the program before any of them.
        query = "SELECT allocated_ns FROM allocations ORDER BY allocated_ns"
        times = [int(time) for time in self.heapprof("query", trace, query, "--csv").split()[1:]]
        begin, middle, end = (f"{times[len(times) * tenths // 10] / 1e9:.9f}" for tenths in (5, 6, 7))
        until = self.report(trace, "--to", end)["heap"]
        live = self.rows(trace, "site", "--from", begin, "--to", end)["total"]
        self.assertEqual((live["live_bytes"], live["live_blocks"]), (until["leaked_bytes"], until["leaked_blocks"]))
        self.assertGreater(live["live_bytes"], live["leaked_bytes"])
        moment = self.rows(trace, "site", "--live-at", middle)["total"]
        self.assertEqual(moment["live_bytes"], moment["peak_bytes"])

    def test_over_time(self):
        """The highest of a row's live bytes over time is at least what it has at the peak, and at most what all rows have
        there."""
        trace = self.record(harness.program("ledger_threads"), 1_000, 9, 3, 1).trace
        for key in KEYS:
            view = self.rows(trace, key, "--columns", "over-time")
            for row in view["rows"]:
                self.assertEqual(len(row["live_over_time"]), 9)
                self.assertGreaterEqual(row["live_over_time"][-1], row["self"]["live_bytes"], (key, row["name"]))
                self.assertLessEqual(max(row["live_over_time"]), view["total"]["peak_bytes"], (key, row["name"]))
                self.assertGreaterEqual(max(row["live_over_time"]), row["self"]["peak_bytes"], (key, row["name"]))
            self.assertGreaterEqual(sum(row["live_over_time"][-1] for row in view["rows"]),
                                    view["total"]["live_bytes"])

    def test_excluded_threads_and_modules(self):
        """What is selected and what is excluded add up to everything."""
        trace = self.record(harness.program("ledger_threads"), 500, 10, 3, 1).trace
        everything = self.report(trace)["heap"]
        for option, value in (("thread", self.rows(trace, "thread")["rows"][0]["tid"]), ("module", "libc.so.6")):
            with_it = self.report(trace, f"--{option}", value)["heap"]
            without = self.report(trace, f"--not-{option}", value)["heap"]
            self.assertGreater(with_it["allocations"], 0)
            for figure in ("allocations", "allocated_bytes", "leaked_bytes", "leaked_blocks"):
                self.assertEqual(with_it[figure] + without[figure], everything[figure], (option, figure))

    def test_full_names(self):
        trace = self.record(harness.program("ledger_names")).trace
        whole = [row["name"] for row in self.rows(trace, "function")["rows"]
                 if row["name"].endswith(")") and not row["name"].endswith("()")]
        self.assertGreater(len(whole), 0)
        for command in (("report", trace, "--by", "function", "--top", 0), ("tree", trace, "--min-share", 0)):
            text = self.printed(60, *command, "--full-names")
            short = self.printed(60, *command)
            for name in whole:
                if command[0] == "report":
                    self.assertIn(name, text)
                self.assertNotIn(name, short)
        # The path that most memory has in common, and the labels of a picture.
        paths = {name: self.path_of(self.printed(60, "report", trace, "--full-names", "--function", name))
                 for name in whole}
        self.assertTrue(any(name in path for name, path in paths.items()), paths)
        for format in ("svg", "folded"):
            labels = self.heapprof("flamegraph", trace, "--format", format, "--full-names")
            self.assertTrue(any(html.escape(name, quote=False) in labels for name in whole), format)
        refused = self.run_heapprof("report", trace, "--full-names", "--short-names")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--short-names and --full-names exclude each other", refused.stderr)

    @staticmethod
    def path_of(text):
        """The lines below "Look first at", without the table that follows."""
        return text.partition("Look first at")[2].split("\n\n", 1)[0]

    def test_callers(self):
        trace = self.record(harness.program("ledger_single"), 3_000, 6, 1).trace
        rows = self.rows(trace, "function")["rows"]
        of_name = defaultdict(list)
        for row in rows:
            of_name[row["name"]].append(row)
        self.assertGreater(len(of_name), 5)
        callers = {caller["name"] for caller in self.json("callers", trace, "site_malloc")["callers"]}
        for name, same_name in of_name.items():
            around = self.json("callers", trace, name)
            callers.update(caller["name"] for caller in around["callers"])
            self.assertEqual(around["function"], name)
            if len(same_name) == 1:
                (row,) = same_name
                self.assertEqual((around["self"], around["total"]), (row["self"], row["total"]))
            if not around["recursive"]:
                for figure in FIGURES:
                    total = around["total"][figure]
                    self.assertEqual(sum(caller["total"][figure] for caller in around["callers"]), total)
                    self.assertEqual(around["self"][figure] + around["as_helper"][figure] +
                                     sum(callee["total"][figure] for callee in around["callees"]), total)
        self.assertIn("main", callers)
        for cost in ("peak", "leaked", "allocations"):
            stacks = self.all_stacks(trace, cost)
            unit = "blocks" if cost == "allocations" else "bytes"
            for row in rows[:5]:
                known = [stack for stack in stacks if any(frame["function"] == row["name"] for frame in stack["stack"])]
                found = self.json("callers", trace, row["name"], "--cost", cost)["largest_stack"]
                if not known:
                    self.assertIsNone(found)
                else:
                    self.assertEqual(found[unit], max(stack[unit] for stack in known))
                    self.assertIn(found["stack"], [stack["stack"] for stack in known])
        missing = self.run_heapprof("callers", trace, "site_malocc")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("did you mean 'site_malloc'", missing.stderr)

    def test_csv_has_the_figures_of_json(self):
        trace = self.record(harness.program("ledger_single"), 500, 7, 1).trace
        text = self.heapprof("report", trace, "--by", "line", "--csv", "--sort", "total-allocated")
        table = list(csv.DictReader(io.StringIO(text)))
        rows = self.rows(trace, "line", "--sort", "total-allocated")["rows"]
        self.assertEqual([row["name"] for row in table], [row["name"] for row in rows])
        for one, other in zip(table, rows):
            for figure in FIGURES:
                self.assertEqual(int(one[f"self_{figure}"]), other["self"][figure])
                self.assertEqual(int(one[f"total_{figure}"]), other["total"][figure])
        totals = [int(row["total_allocated_bytes"]) for row in table]
        self.assertEqual(totals, sorted(totals, reverse=True))
        chosen = self.heapprof("report", trace, "--by", "line", "--csv", "--columns", "live-blocks,total")
        self.assertTrue(chosen.startswith("name,file,line,module,origin,self_live_blocks,total_peak_bytes\n"))

    def test_tables_fit_the_terminal(self):
        trace = self.record(harness.program("ledger_names")).trace
        for width in (40, 60, 80, 120, 160):
            for command in (*(("report", trace, "--by", key) for key in KEYS), ("tree", trace),
                            ("tree", trace, "--inverted", "--by", "line"), ("callers", trace, "main"),
                            ("report", trace, "--by", "function", "--columns", "self,total,live,allocations,leaked")):
                with self.subTest(width=width, command=command):
                    text = self.printed(width, *command)
                    self.assertLessEqual(max(map(len, text.splitlines())), width, text)

    def printed(self, width, *command):
        import subprocess
        environment = harness.analyzer_environment(COLUMNS=width, LC_ALL="C.UTF-8")
        return subprocess.run([str(harness.HEAPPROF), *map(str, command)], env=environment, capture_output=True,
                              text=True, check=True, stdin=subprocess.DEVNULL, timeout=120).stdout

    def test_what_is_cut_is_counted(self):
        trace = self.record(harness.program("ledger_single"), 3_000, 8, 1).trace
        rows = self.rows(trace, "function")
        text = self.heapprof("report", trace, "--by", "function", "--top", 2)
        self.assertIn(f"  +{rows['all_rows'] - 2} more, ", text)
        self.assertNotIn(" more, ", self.heapprof("report", trace, "--by", "function", "--top", 0))
        self.assertEqual(len(self.rows(trace, "function", "--top", 2)["rows"]), 2)

    def test_wrong_command_lines(self):
        trace = self.record(harness.program("ledger_single"), 100, 1, 1).trace
        for options in (("--by", "functoin"), ("--sort", "total"), ("--csv",), ("--by", "line", "--sort", "toal"),
                        ("--by", "line", "--columns", "peak,,live"), ("--by", "line", "--csv", "--json"),
                        ("--by", "thread", "--kind", "mmap"),
                        ("--columns", "over-time"), ("--by", "site", "--columns", "over-time", "--kind", "mmap")):
            with self.subTest(options=options):
                self.heapprof("report", trace, *options, status=2)
        self.heapprof("tree", trace, "--min-share", "x", status=2)
        self.heapprof("callers", trace, status=2)


if __name__ == "__main__":
    harness.main()
