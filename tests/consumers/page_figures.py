"""Figures of the views of the page: those that the command line prints of the same recording, range or moment."""

import itertools
import json
import re
import shlex

import harness
import pages


class Figures(pages.PageCase):
    def test_summary(self):
        self.open(self.real(), view="summary")
        heap = self.json("report")["heap"]
        exact = self.browser.evaluate("[...document.querySelectorAll('.tile')].map(tile => tile.title)")
        self.assertEqual([int(re.sub(r"\D", "", text)) for text in exact[:4]],
                         [heap[key] for key in ("peak_bytes", "leaked_bytes", "allocated_bytes",
                                                "temporary_allocations")])
        rows = self.json("report", "--by", "function", "--top", "0")["rows"]
        own = [row for row in rows if row["origin"] == "own"]
        self.check_table(own or rows, "peak")
        # Reads every event, so the view does not wait for it.
        asked = self.browser.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
        self.assertEqual([address for address in asked if "/api/info" in address], [])
        timeline = self.json("timeline", "--sites", "6")
        self.assertEqual(any(text.startswith("mapped") for text in self.texts(".legend .entry")),
                         any(timeline["samples"]["mapped_bytes"]))
        self.check_saved_timeline(timeline)
        self.check_link_to_a_function()

    def check_link_to_a_function(self):
        """A sentence about a function leads to the flame graph, zoomed and scrolled to its widest frame; Back
        returns."""
        self.click(".findings a[href*='view=flame'][href*='zoom=']")
        name, label = self.browser.evaluate("[selection.now().name, names.label(selection.now().name)]")
        self.assertTrue(name)
        self.assertEqual(self.texts(".flame .crumbs [aria-current]"), [label])
        places = self.browser.evaluate(
            "[document.querySelector('.flame .chart'), ...document.querySelectorAll('.flame rect.chosen')].map("
            "part => { const at = part.getBoundingClientRect(); return [at.top, at.bottom, at.width]; })")
        (top, bottom, width), *frames = places
        zoomed = max(frames, key=lambda frame: frame[2])
        self.assertGreaterEqual(zoomed[0], top)
        self.assertLessEqual(zoomed[1], bottom)
        self.assertGreater(zoomed[2], 0.9 * width)
        # The widest of its frames that are not within another one.
        widest, pending = 0, list(self.printed()["children"])
        while pending:
            node = pending.pop()
            if node["name"] == name:
                widest = max(widest, node["total"]["peak_bytes"])
            else:
                pending += node["children"]
        self.assertIn(self.shown_as("bytes", widest), self.tip_of(zoomed))
        self.browser.evaluate("history.back()")
        harness.wait_until(lambda: self.browser.evaluate("document.querySelector('#view').dataset.view") == "summary",
                           "Back does not return to the summary")
        self.settled()

    def test_temporary_allocations(self):
        """Their total in the summary leads to the functions that make them, with the same total."""
        self.open(self.folder / "plain.heapprof", view="summary")
        count = self.json("report")["heap"]["temporary_allocations"]
        self.assertGreater(count, 0)
        self.click(".tile", "Temporary")
        self.assertEqual(self.text("#sentence b"), self.shown_as("count", count))
        self.assertIn("--sort temporary", self.text("#command"))
        self.check_table(self.printed()["rows"], "temporary")

    def test_saved_marks(self):
        self.open(self.record(harness.program("freed_end"), "1000").trace, view="table")
        timeline = self.json("timeline", "--sites", "6")
        self.assertEqual([mark["text"] for mark in timeline["marks"]], ["trim"])
        self.check_saved_timeline(timeline)

    def check_saved_timeline(self, timeline):
        """The CSV has samples, resident memory and marks at their times."""
        head, *lines = self.saved_rows(".chart-saves button")
        self.assertEqual(head[:5], ["time_ns", "live_bytes", "mapped_bytes", "rss_bytes", "mark"])
        times = [int(line[0]) for line in lines]
        self.assertEqual(times, sorted(times))
        samples = timeline["samples"]
        self.assertEqual([line[:3] for line in lines if line[3:5] == ["", ""]],
                         [[*map(str, sample)] for sample in zip(samples["time_ns"], samples["live_bytes"],
                                                               samples["mapped_bytes"])])
        resident = [(line[0], line[3]) for line in lines if line[3]]
        self.assertTrue(resident)
        self.assertEqual(resident, [*zip(map(str, timeline["rss"]["time_ns"]), map(str, timeline["rss"]["bytes"]))])
        self.assertEqual([(line[0], line[4]) for line in lines if line[4]],
                         [(str(mark["time_ns"]), mark["text"]) for mark in timeline["marks"]])
        # What lies between two samples has the figures of the first one.
        for before, line in itertools.pairwise(lines):
            if line[3] or line[4]:
                self.assertEqual(line[1:3] + line[5:], before[1:3] + before[5:])

    def test_table(self):
        self.open(self.real(), view="table")
        for by in ("function", "line", "site", "stack", "module", "thread"):
            with self.subTest(by=by):
                self.select(view="table", by=by, metric="allocated")
                self.check_table(self.printed()["rows"], "allocated")
        # A slice that has events, wherever the scheduler stopped the program while it was recorded.
        events = map(json.loads, self.heapprof("export", "ndjson", self.trace, "-o", "-").splitlines())
        times = sorted(event["time_ns"] for event in events if "time_ns" in event)
        begin, end = times[len(times) // 4], times[len(times) * 3 // 4]
        for metric in ("leaked", "temporary", "live"):
            with self.subTest(metric=metric):
                moment = f"{self.json('report')['heap']['peak_time_ns']}ns"
                selection = {"at": moment} if metric == "live" else {"from": f"{begin}ns", "to": f"{end}ns"}
                self.select(view="table", metric=metric, **selection)
                self.check_table(self.printed()["rows"], metric)

        with self.subTest("before it has a place in the page, a table has all columns"):
            self.assertEqual(self.browser.evaluate(
                "[...rowTable.create({label: '', rows: [], columns: ['A', 'B', 'C', 'D'].map(label => ({key: label, label, "
                "wide: label === 'A'}))}).host.querySelectorAll('th')].map(cell => cell.textContent)"), [*"ABCD"])

    def test_leaks_threads_lifetimes(self):
        self.open(self.real(), view="leaks", metric="leaked")
        self.check_leaks()
        self.select(view="leaks", shown="all")
        leaks = self.check_leaks()
        if leaks["all_sites"] == len(leaks["sites"]):
            self.assertEqual(sum(site["bytes"] for site in leaks["sites"]), leaks["heap"]["leaked_bytes"])
        self.select(view="threads")
        self.check_threads()
        for shown in ("", "churn", "reallocs"):
            self.select(view="lifetimes", shown=shown)
            self.check_lifetimes(shown)
        # Own code is no part of what `histogram` selects.
        rows = self.json("report", "--by", "function", "--only-own")["rows"]
        name = next(row["name"] for row in rows if row["origin"] == "own")
        for shown in ("", "churn"):
            self.select(view="lifetimes", shown=shown, name=name, **{"only-own": "1"})
            self.check_lifetimes(shown)
            self.assertEqual(self.texts("#details .error"), [])

    def test_age_of_leaks(self):
        """The oldest blocks of a call site have the age that `blocks` counts, also in a range and at a moment; the
        first click on the heading sorts the oldest first."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            #include <unistd.h>
            __attribute__((noinline)) void* early(void) { return malloc(100); }
            __attribute__((noinline)) void* late(void) { return malloc(100000); }
            void* volatile kept;
            int main(void) {
              kept = early();
              usleep(50000);
              kept = late();
              usleep(100000);
              kept = early();
            }
            """)).trace
        # A moment when the block of late() is live: not a share of the time, because the process may wait for the
        # processor before it is allocated.
        late = next(block for block in self.json("blocks")["blocks"] if block["name"] == "late")
        middle = f"{late['allocated_ns'] + late['age_ns'] // 2}ns"
        self.open(self.trace, view="leaks", metric="leaked")
        self.click("#view .more button", "show all columns")
        for selection in ({}, {"from": "0%", "to": middle}, {"at": middle}):
            with self.subTest(selection=selection):
                self.select(view="leaks", metric="leaked", **selection)
                ages = {}
                options = ("--live-at" if option == "at" else f"--{option}" for option in selection)
                for block in self.json("blocks", *(word for pair in zip(options, selection.values())
                                                   for word in pair))["blocks"]:
                    ages[block["name"]] = max(ages.get(block["name"], 0), block["age_ns"])
                self.assertGreater(ages["early"], ages["late"])
                self.click("#view thead th button", "Oldest")
                head, *lines = self.saved_rows()
                column = head.index("oldest_age_ns")
                known = {line[head.index("name")]: int(line[column]) for line in lines}
                self.assertEqual([known[name] for name in ("early", "late")], [ages[name] for name in ("early", "late")])
                self.assertEqual([int(line[column]) for line in lines],
                                 sorted((int(line[column]) for line in lines), reverse=True))
                shown = self.browser.evaluate(
                    "(() => { const [...heads] = document.querySelectorAll('#view thead th'); const column = "
                    "heads.findIndex(head => head.textContent.startsWith('Oldest')); return Object.fromEntries("
                    "[...document.querySelectorAll('#view tr[data-index]')].map(line => [line.querySelector('.called')"
                    ".textContent, line.cells[column].textContent])); })()")
                self.assertEqual(shown["late"], self.shown_as("time", ages["late"]))

    def test_stack_of_a_leak(self):
        """A row has its largest stack, also where that of another call site, which is larger, goes through it."""
        self.trace = self.record(self.compiled("""
            #include <search.h>
            #include <stdlib.h>
            static void* root;
            void* volatile kept;
            static int compare(const void* a, const void* b) {
              kept = malloc(1000);
              return (a > b) - (a < b);
            }
            __attribute__((noinline)) static void insert(void* key) { tsearch(key, &root, compare); }
            int main(void) {
              static char keys[100];
              for (int i = 0; i < 100; ++i) insert(keys + i);
            }
            """)).trace
        self.open(self.trace, view="leaks", metric="leaked")
        answer = self.printed()
        names = [(site["site"] or {}).get("function") for site in answer["sites"]]
        self.assertLess(names.index("compare"), names.index("insert"))
        for name in ("compare", "insert"):
            with self.subTest(name):
                stack = [frame["function"] for frame in answer["top"][names.index(name)]["stack"]]
                self.assertIn("insert", stack)
                self.assertEqual("compare" in stack, name == "compare")
                self.click("#view tbody tr[data-index] th", name)
                shown = self.texts("#details .stack li button")
                self.assertTrue(shown)
                self.assertEqual([function for function in shown if not function.startswith("\u2026")],
                                 [function for function in stack if function in shown])
                self.assertIn("insert", shown)
                self.assertEqual("compare" in shown, name == "compare")

    def test_classes_of_blocks(self):
        """A click on a cell, a size or a lifetime selects the blocks that it counts: of a recording whose times are
        rounded, in a range, of a moment, and among sizes and lifetimes that are selected already."""
        recorded = self.record(self.compiled("""
            #include <pthread.h>
            #include <stdlib.h>
            #include <unistd.h>
            static void* work(void* unused) {
              for (int i = 0; i < 5000; ++i) {
                void* volatile block = malloc(100);
                for (volatile int wait = 0; wait < i % 500; ++wait) {}
                free(block);
              }
              return unused;
            }
            int main(void) {
              static void* volatile kept[60];
              pthread_t thread;
              for (int i = 0; i < 60; ++i) kept[i] = malloc(i % 2 ? 100 : 5000);
              if (pthread_create(&thread, NULL, work, NULL) != 0) return 1;
              work(NULL);
              pthread_join(thread, NULL);
              for (int i = 0; i < 20; ++i) free(kept[i]);
              usleep(50000);
              for (int i = 20; i < 40; ++i) free(kept[i]);
            }
            """)).trace
        self.trace = self.dir / "compacted.heapprof"
        self.heapprof("compact", recorded, "-o", self.trace)
        up_to_limit, below = (self.json("histogram", "--max-lifetime", limit)["allocations"]
                              for limit in ("1us", "999ns"))
        self.assertGreater(up_to_limit, below, "no block has lived exactly as long as the limit of a class")
        self.open(self.trace, view="lifetimes")
        for selection in ({}, {"from": "0%", "to": "40%"}, {"at": "40%"},
                          {"max-size": "2K", "min-lifetime": "3us"}):
            self.select(view="lifetimes", **selection)
            answer = self.printed()
            self.assertIn(None, [cell["from_ns"] for cell in answer["cells"]])
            for i, cell in enumerate(answer["cells"]):
                with self.subTest(selection=selection, cell=cell):
                    self.choose_class(selection, f"document.querySelectorAll('.heat rect')[{i}]")
                    self.assertEqual(self.printed()["cells"], [cell])
                    self.assertEqual(self.text(".shown"), f"{self.shown_as('plural', cell['blocks'], 'allocation')}, "
                                                          f"{self.shown_as('bytes', cell['bytes'])}")
            parts = [[(part["allocations"], part["bytes"]) for part in answer["sizes"]],
                     [(part["blocks"], part["bytes"]) for part in [*answer["lifetimes"], answer["not_freed"]]]]
            for table, rows in enumerate(parts):
                for i, (blocks, size) in enumerate(rows):
                    button = f"document.querySelectorAll('.distribution')[{table}].tBodies[0].rows[{i}]" \
                        ".querySelector('button')"
                    with self.subTest(selection=selection, table=table, row=i):
                        if blocks == 0:
                            self.select(view="lifetimes", **selection)
                            self.assertIsNone(self.browser.evaluate(button))
                            continue
                        self.choose_class(selection, button)
                        found = self.printed()
                        self.assertEqual((found["allocations"], found["allocated_bytes"]), (blocks, size))

    def choose_class(self, selection, element):
        """Clicks an element of the view Lifetimes of a selection."""
        self.select(view="lifetimes", **selection)
        self.browser.evaluate(f"{element}.dispatchEvent(new MouseEvent('click', {{bubbles: true}})); "
                              "new Promise(done => setTimeout(done, 0))")
        self.settled()

    def test_threads_that_free_nothing(self):
        """Of blocks that are not freed, the page does not say who frees them."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            void* volatile kept;
            int main(void) { kept = malloc(1000); }
            """)).trace
        self.open(self.trace, view="threads", metric="allocated")
        self.assertEqual(self.printed()["pairs"], [])
        self.assertIn("No block is freed by another thread.", self.texts("#view .more"))

    def test_pairs_of_threads(self):
        """The CSV of the threads also has who frees whose blocks."""
        self.trace = self.record(self.compiled("""
            #include <pthread.h>
            #include <stdlib.h>
            static void* blocks[10];
            static void* work(void* unused) {
              for (int i = 0; i < 10; ++i)
                if (!(blocks[i] = malloc(1000))) exit(1);
              return unused;
            }
            int main(void) {
              pthread_t thread;
              if (pthread_create(&thread, NULL, work, NULL) != 0) return 1;
              pthread_join(thread, NULL);
              for (int i = 0; i < 10; ++i) free(blocks[i]);
            }
            """)).trace
        self.open(self.trace, view="threads", metric="allocated")
        self.check_threads("allocated")
        answer = self.printed()
        tids = {thread["index"]: str(thread["tid"]) for thread in answer["threads"]}
        head, *lines = self.saved_rows()
        columns = [head.index(name) for name in ("tid", "freed_by_tid", "blocks", "bytes")]
        pairs = [[line[column] for column in columns] for line in lines if line[0] == "pair"]
        self.assertEqual(pairs, [[tids[pair["allocated_by"]], tids[pair["freed_by"]], str(pair["blocks"]),
                                  str(pair["bytes"])] for pair in answer["pairs"]])
        self.assertIn(["10", "10000"], [pair[2:] for pair in pairs])

    def test_ranges_and_moments(self):
        """Each view of a range and of a moment has the figures that its copied command prints, and words that are true
        of it."""
        self.open(self.real(), view="summary")
        events = map(json.loads, self.heapprof("export", "ndjson", self.trace, "-o", "-").splitlines())
        times = sorted(event["time_ns"] for event in events if "time_ns" in event)
        begin, middle, end = (f"{times[len(times) * part // 4]}ns" for part in (1, 2, 3))
        for selection in ({"from": begin, "to": end}, {"at": middle, "metric": "live"}):
            is_moment = "at" in selection
            metric = "live" if is_moment else "peak"
            with self.subTest(selection=selection):
                self.select(view="summary", **selection)
                self.check_summary(is_moment)
                self.select(view="table", **selection)
                self.check_table(self.printed()["rows"], metric)
                rows = self.printed()["rows"]
                for view in ("flame", "tree"):
                    self.select(view=view, **selection)
                    self.check_tree(metric)
                self.select(view="leaks", **selection)
                self.check_leaks()
                self.select(view="blocks", **selection)
                self.check_blocks()
                self.select(view="threads", **selection)
                self.check_threads(metric)
                for shown in ("", "churn", "reallocs"):
                    self.select(view="lifetimes", shown=shown, **selection)
                    self.check_lifetimes(shown)
                self.select(view="source", **selection)
                self.check_files(metric)
                largest = max(rows, key=lambda row: row["total"][pages.METRICS[metric]])
                self.select(view="summary", name=largest["name"], **selection)
                self.check_details(largest, metric)

    def check_summary(self, is_moment):
        heap = self.printed()["heap"]
        exact = self.browser.evaluate("[...document.querySelectorAll('.tile')].map(tile => "
                                      "[tile.children[0].textContent, tile.title.replace(/\\D/g, '')])")
        keys = ("peak_bytes", "leaked_bytes") if is_moment else ("peak_bytes", "leaked_bytes", "allocated_bytes",
                                                                 "temporary_allocations")
        self.assertEqual([number for _, number in exact[:len(keys)]], [str(heap[key]) for key in keys])
        labels = {label for label, _ in exact}
        sentences = " ".join(self.texts(".findings li"))
        self.assertIn("allocated", sentences)
        if is_moment:
            self.assertEqual(labels, {"Live", "Never freed", "Resident"})
            self.assertNotRegex(sentences + self.text("#details"), "peak|the end|keeps|within")
            self.assertNotIn("Allocated", self.texts("#selection .segments button"))
        else:
            self.assertNotIn("Left at end", labels)
            self.assertNotRegex(sentences, "of the peak:|never freed|until the end|keeps")

    def check_tree(self, metric):
        root = self.printed()
        head, *lines = self.saved_rows()
        column = head.index(pages.METRICS[metric]) if pages.METRICS[metric] in head else head.index("Total")
        name = head.index("name")
        known = {}
        for node in [*root["children"], root]:
            known.setdefault(node["name"], set()).add(str(node["total"][pages.METRICS[metric]]))
        depth = "0" if "Total" in head else "1"
        shallow = [line for line in lines
                   if line[0] == depth and not line[name].removeprefix("'").startswith("+")]
        self.assertEqual(len(shallow), len(root["children"]))
        for line in shallow:
            self.assertIn(line[column], known[line[name].removeprefix("'")])

    def test_words_of_a_selection(self):
        """Headings and tooltips are true of a moment and of a range: what is left is not that at the end."""
        heading = "(({textContent, title}) => [textContent.replace(/ .$/, ''), title])" \
            "(document.querySelector('#view thead th:nth-child(2)'))"
        metrics = "Object.fromEntries([...document.querySelectorAll('#selection .segments button')].map(button => " \
            "[button.textContent, button.title]))"
        # The peak, since nothing may be live at half of the time on a machine with other work.
        self.open(self.real(), view="threads", metric="leaked", at="peak")
        words, title = self.browser.evaluate(heading)
        self.assertEqual(words, "Never freed")
        self.assertIn("never freed", title)
        shown = self.browser.evaluate(metrics)
        self.assertEqual(shown["Never freed"], title)
        self.assertEqual([text for text in shown.values() if text == ""], [])
        peak = self.json("report")["heap"]["peak_time_ns"]
        self.select(view="threads", metric="leaked", to=f"{peak}ns")
        self.assertEqual(self.browser.evaluate(heading)[0], f"Left at {self.shown_as('time', peak)}")
        self.assertIn("Left at end", self.saved_rows()[0])  # a column has one name in all files
        self.select(view="leaks", metric="leaked")
        titles = dict(self.browser.evaluate(
            "[...document.querySelectorAll('#view thead th')].map(head => [head.textContent.replace(/ .$/, ''), "
            "head.title])"))
        for trend in self.browser.evaluate("[...document.querySelectorAll('.tile span')].map(label => "
                                           "label.textContent)")[:4]:
            self.assertIn(f"{trend}: ", titles["Trend"])
        # The command line calls it survival: the share of bytes that was not freed.
        self.assertIn("bytes", titles["Freed"])

    def check_threads(self, metric="peak"):
        head, *lines = self.saved_rows()
        lines = [line for line in lines if line[0] == "thread"]
        tid = head.index("tid")
        self.assertEqual(sorted((line[tid], line[head.index("Allocates")],
                                 line[head.index("Not freed")]) for line in lines),
                         sorted((str(thread["tid"]), str(thread["allocated_bytes"]),
                                 str(thread["not_freed"]["bytes"]))
                                for thread in self.printed()["threads"]))
        words = shlex.split(self.text("#command"))
        rows = self.json("report", "--by", "thread", "--top", "0", *words[words.index(str(self.trace)) + 1:])
        self.assertTrue(rows["rows"])
        key = pages.METRICS[metric]
        own = {str(row["tid"]): row["self"][key] for row in rows["rows"]}
        self.check_shares(head, lines, [own.get(line[tid], 0) for line in lines], rows["total"][key])

    def check_lifetimes(self, shown):
        answer = self.printed()
        sites = answer.get("sites")
        if sites == []:  # no buffer grew, or no block was freed
            return self.assertTrue(self.texts("#view .empty"))
        head, *lines = self.saved_rows()
        if shown == "churn":
            self.check_shares(head, lines, [site["short_lived"] for site in sites], answer["total"]["short_lived"])
            return self.assertEqual([line[head.index("Allocations")] for line in lines],
                                    [str(site["allocations"]) for site in sites])
        if shown == "reallocs":
            return self.assertEqual([line[head.index("Copied")] for line in lines],
                                    [str(site["copied_bytes"]) for site in sites])
        self.assertEqual(sum(int(line[2]) for line in lines if line[0] == "size"), answer["allocations"])
        limits = ("from_bytes", "to_bytes", "from_ns", "below_ns")
        self.assertEqual(head[2:], ["blocks", "bytes", *limits])
        self.assertTrue(answer["cells"])
        self.assertEqual(self.lines_of(lines, "cell"), [
            ["" if cell[key] is None else str(cell[key]) for key in ("blocks", "bytes", *limits)]
            for cell in answer["cells"]])
        self.assertEqual([line[2:4] for line in self.lines_of(lines, "size")],
                         [[str(part["from_bytes"]), str(part["to_bytes"])] for part in answer["sizes"]])
        self.assertEqual([line[4] for line in self.lines_of(lines, "lifetime")],
                         [*(str(part["from_ns"]) for part in answer["lifetimes"]), ""])
        return self.assertEqual([[line[2], line[3]] for line in lines if line[0] == "lifetime"],
                                [[str(part["blocks"]), str(part["bytes"])]
                                 for part in [*answer["lifetimes"], answer["not_freed"]]])

    @staticmethod
    def lines_of(lines, kind):
        """The figures of the lines of this kind: what follows their range."""
        return [line[2:] for line in lines if line[0] == kind]

    def check_files(self, metric):
        head, *lines = self.saved_rows()
        self.assertEqual({(line[0], line[head.index("Self")]) for line in lines},
                         {(file["file"] or "(no file is known)", str(file["self"][pages.METRICS[metric]]))
                          for file in self.printed()["files"]})

    def check_details(self, row, metric):
        """The figures beside the view are those of the row, and of a stack of it."""
        figures = dict(zip(self.texts("#details dt"), self.texts("#details dd")))
        value = row["total"][pages.METRICS[metric]]
        self.assertIn(f"{self.shown_as('bytes', value)} in ", next(iter(figures.values())))
        part, share = re.search("Largest stack([^,]+), ([^%]+%) of it", self.text("#details")).groups()
        words = shlex.split(self.text("#command"))
        selected = words[words.index(str(self.trace)) + 1:]
        stack = json.loads(self.heapprof("callers", self.trace, row["name"], "--cost", metric, "--json",
                                         *selected))["largest_stack"]
        self.assertLessEqual(stack["bytes"], value)
        self.assertEqual((part, share), (self.shown_as("bytes", stack["bytes"]),
                                         self.shown_as("percent", stack["bytes"], value)))

    def test_source_and_compare(self):
        self.open(self.real(), view="source", metric="allocated")
        files = self.printed()["files"]
        self.check_files("allocated")
        named = [file for file in files if file["file"]]
        if named:  # a program without debug information has none
            largest = max(named, key=lambda file: file["self"]["allocated_bytes"])
            self.click("#view tr", largest["file"].rpartition("/")[2])
            head, *lines = self.saved_rows()
            answer = self.printed()
            self.assertEqual([(line[head.index("Line")], line[head.index("Self")]) for line in lines],
                             [(str(line["line"] or ""),
                               str(line["self"]["allocated_bytes"])) for line in answer["lines"]])
            self.check_shares(head, lines, [line["self"]["allocated_bytes"] for line in answer["lines"]],
                              answer["all_total"]["allocated_bytes"])
        peak = self.json("report")["heap"]["peak_time_ns"]
        self.select(view="compare")
        self.check_moments(self.json("report"))
        self.assertEqual(self.text("#view .empty") is None, bool(self.printed()["sites"]))
        self.select(view="compare", before="start", after=f"{peak}ns")
        self.check_changes()
        # Frames that all stacks begin with are left out of the picture, and are said to be.
        said = re.search(r"without the ([\d,]+) frames? from", self.text("#view-head .shown"))
        deepest = max(len(change["stack"]) for change in self.printed()["top"])
        if said:
            self.assertLess(int(said[1].replace(",", "")), deepest)

    def test_order_of_moments(self):
        """The earlier one of two moments is the first, also of the peak, marks, and times with units."""
        self.open(self.record_marks(), view="compare")
        fields = "[...document.querySelectorAll('#view-head input[size]')].map(input => input.value)"
        for before, after, sizes in (("saved", "loaded", (30_000, 50_000)), ("saved", "peak", (80_000, 50_000)),
                                     ("peak", "mark:loaded", (30_000, 80_000)), ("end", "0.01ms", None)):
            with self.subTest(before=before, after=after):
                self.select(view="compare", before=before, after=after)
                self.assertEqual(self.texts("#view .error"), [])
                self.assertEqual(self.browser.evaluate(fields), [after, before])
                answer = self.printed()
                self.assertLess(answer["before"]["at_ns"], answer["after"]["at_ns"])
                if sizes:
                    total = answer["total"]
                    self.assertEqual((total["bytes_before"], total["bytes_after"]), sizes)
                # The timeline has the letters of the moments in their order.
                places = self.browser.evaluate("[...document.querySelectorAll('.time-chart .pin')].map(pin => "
                                               "[pin.textContent, Number(pin.firstChild.getAttribute('x1'))])")
                self.assertEqual([letter for letter, _ in places], ["A", "B"])
                self.assertLess(places[0][1], places[1][1])

    def check_moments(self, report):
        """Without a choice, what changed lately is compared: up to the end, or to the peak if little is left at the
        end; since the last mark, or between the last two."""
        heap, duration = report["heap"], report["duration_ns"]
        before, after = self.browser.evaluate("[...document.querySelectorAll('#view-head input[size]')].map("
                                              "input => input.value)")
        is_until_peak = heap["leaked_bytes"] * 2 < heap["peak_bytes"]
        last, end = ("peak", heap["peak_time_ns"]) if is_until_peak else ("end", duration)
        self.assertEqual(after, last)
        marks = [mark["text"] for mark in self.json("timeline")["marks"]]
        if len(marks) == 1:
            self.assertEqual(before, marks[0])
            self.assertRegex(self.text(".compared"), f'^Compared: the mark "{marks[0]}" and ')
        else:
            self.assertAlmostEqual(float(before) * 1e9, end * 2 / 3, delta=duration / 500)
            self.assertRegex(self.text(".compared"), "^Compared: the last third of ")
        for left, names, expected in ((9, [], ["0.6", "end"]), (4, [], ["0.4", "peak"]), (9, ["a"], ["a", "end"]),
                                      (4, ["a"], ["a", "peak"]), (9, ["x", "a", "b"], ["a", "b"]),
                                      (9, ["b", "a", "a"], ["200000000ns", "300000000ns"])):
            heap = {"peak_time_ns": 6e8, "peak_bytes": 10, "leaked_bytes": left}
            info = {"duration_ns": 9e8, "heap": heap, "integrity": {"ended_by": "exit"}}
            marks = [{"text": text, "time_ns": (i + 1) * 10**8} for i, text in enumerate(names)]
            found = self.browser.evaluate(
                "(() => { const {before, after, reason} = viewCompare.momentsOf({state: {}, info: "
                f"{json.dumps(info)}}}, {json.dumps(marks)});"
                "return [before, after, reason]; })()")
            self.assertEqual(found[:2], expected)
            self.assertTrue(found[2])


if __name__ == "__main__":
    pages.main()
