"""Lists of the page: of 100,000 blocks and a million rows, their search, order and columns."""

import hashlib

import harness
import pages


class Lists(pages.PageCase):
    def test_blocks(self):
        """100,000 blocks: those at the end of the list are asked when they are scrolled to, and no step stutters."""
        trace = self.folder / "many.heapprof"
        # A block is freed at the recorded time of the peak.
        self.open(trace, view="blocks", metric="peak")
        heap = self.json("report")["heap"]
        self.assertEqual(self.check_blocks(), {"bytes": heap["peak_bytes"], "blocks": heap["peak_blocks"]})
        self.select(view="blocks", metric="leaked")
        begin = self.json("blocks", "--top", "100")
        count = begin["total"]["blocks"]
        self.assertGreater(count, 50_000)
        end = self.json("blocks", "--skip", str(count - 100), "--top", "100")
        known = {skip + i: hex(block["address"]) for skip, rows in ((0, begin), (count - 100, end))
                 for i, block in enumerate(rows["blocks"])}

        def shown():
            return self.browser.evaluate(
                "[...document.querySelectorAll('#view tbody tr[data-index]:not(.pending)')].map(line => "
                "[Number(line.dataset.index), line.cells[line.cells.length - 1].textContent])")

        def check():
            for index, address in shown():
                self.assertEqual(address, known.get(index))
        check()
        self.browser.evaluate("document.querySelector('#view .scroller').focus()")
        self.browser.press("End")
        harness.wait_until(lambda: any(index == count - 1 for index, _ in shown()),
                           "the last block is not shown")
        check()
        steps = [self.browser.cost_ms(f"document.querySelector('#view .scroller').scrollTop = {top}; 0")
                 for top in range(1_000_000, 1_003_000, 300)]
        print("scrolling: " + ", ".join(f"{ms:.1f}" for ms in steps) + " ms a step")

    def test_blocks_that_fail_once(self):
        """Rows that could not be read are asked for again, as long as they are in view."""
        trace = self.folder / "many.heapprof"
        self.open(trace, view="blocks", metric="leaked")
        count = self.json("blocks", "--top", "100")["total"]["blocks"]
        last = hex(self.json("blocks", "--skip", str(count - 100), "--top", "100")["blocks"][-1]["address"])
        self.browser.evaluate(
            "window.isLost = true; (() => { const fetched = window.fetch; window.fetch = (address, ...more) => "
            "isLost && /blocks.*skip=/.test(address) ? Promise.resolve(new Response(JSON.stringify({error: "
            "'The rows are lost.'}), {status: 422})) : fetched(address, ...more); })()")
        self.browser.evaluate("document.querySelector('#view .scroller').focus()")
        self.browser.press("End")
        harness.wait_until(lambda: self.text("#progress") == "The rows are lost.", "no message")
        self.assertTrue(self.texts("#view tr.pending"))
        self.browser.evaluate("window.isLost = false; 0")
        harness.wait_until(lambda: last in self.texts("#view tr[data-index] td:last-child"), "the rows are not shown")
        self.settled()
        self.assertEqual((self.texts("#view tr.pending"), self.text("#progress")), ([], ""))

    def test_blocks_that_fail_late(self):
        """Rows that cannot be read are no error of a view that was chosen since."""
        self.open(self.folder / "many.heapprof", view="blocks", metric="leaked")
        self.browser.evaluate(
            "(() => { const fetched = window.fetch; window.fetch = (address, ...more) => !/blocks.*skip=/.test(address) ? "
            "fetched(address, ...more) : new Promise(done => { window.failLate = () => done(new Response("
            "JSON.stringify({error: 'The rows are lost.'}), {status: 422})); }); })()")
        self.browser.evaluate("document.querySelector('#view .scroller').focus()")
        self.browser.press("End")
        harness.wait_until(lambda: self.browser.evaluate("typeof window.failLate") == "function",
                           "the rows are not asked for")
        self.browser.evaluate("location.hash = 'view=table&metric=leaked'; 0")
        harness.wait_until(lambda: self.text("#announce").startswith("Table. "), "the table is not shown")
        self.browser.evaluate("failLate(); 0")
        self.settled()
        self.assertEqual(self.text("#progress"), "")

    def test_csv_of_blocks(self):
        """The list of all blocks, not only those that were scrolled to, also where one answer would be too long."""
        trace = self.folder / "many.heapprof"
        for metric, options, limit in (("leaked", (), None), ("leaked", (), 20_000), ("peak", ("--cost", "peak"), None)):
            with self.subTest(metric=metric, limit=limit):
                self.open(trace, view="blocks", metric=metric)
                if limit:
                    self.browser.evaluate(
                        "(() => { const fetched = window.fetch; window.fetch = (address, ...more) => "
                        f"/csv=1/.test(address) && Number(/top=(\\d+)/.exec(address)[1]) > {limit} ? "
                        "Promise.resolve(new Response(JSON.stringify({error: 'the answer has more than 32 MB'}), "
                        "{status: 422})) : fetched(address, ...more); })()")
                expected = self.call_once(self.heapprof, "blocks", trace, *options, "--csv")
                self.assertGreater(expected.count("\n"), 50_000)
                # By their hashes: the browser takes longer to return five megabytes than to make them.
                self.assertEqual(self.saved("CSV", read="sha256"), hashlib.sha256(expected.encode()).hexdigest())

    def test_search_of_blocks(self):
        """A search selects blocks as the filter does that Enter makes of it."""
        trace = self.folder / "plain.heapprof"
        self.open(trace, view="blocks", metric="leaked")

        def addresses():
            return self.browser.evaluate("[...document.querySelectorAll('#view tbody tr[data-index]')].map(line => "
                                         "line.cells[line.cells.length - 1].textContent)")
        everything = addresses()
        answer = self.json("blocks", "--function", "libleaf")
        wanted = [hex(block["address"]) for block in answer["blocks"]]
        self.assertTrue(0 < answer["total"]["blocks"] < self.json("blocks")["total"]["blocks"])
        self.browser.press("/", *"libleaf")
        self.settled()
        self.assertEqual(addresses(), wanted[:len(addresses())])
        self.assertGreaterEqual(len(addresses()), min(len(wanted), 10))
        self.assertIn(f"{self.shown_as('plural', answer['total']['blocks'], 'block')}, "
                      f"{self.shown_as('bytes', answer['total']['bytes'])} live at", self.text("#view .more"))
        self.assertEqual(self.saved("CSV").splitlines(),
                         self.heapprof("blocks", trace, "--function", "libleaf", "--csv").splitlines())
        self.browser.press("Escape", "Escape")  # empties the field, and leaves it
        self.settled()
        self.assertEqual(addresses(), everything)
        self.browser.press("/", *"libleaf", "Enter")
        harness.wait_until(lambda: "--function libleaf" in self.text("#command"), "Enter makes no filter")
        self.settled()
        self.assertEqual(addresses(), wanted[:len(addresses())])
        # Another function would add blocks.
        self.assertEqual(self.browser.evaluate("document.querySelector('#search').disabled"), True)
        self.assertIn("Remove it first", self.browser.evaluate("document.querySelector('#search').title"))
        self.select(view="table")
        self.assertEqual(self.browser.evaluate("document.querySelector('#search').disabled"), False)

    def test_search_of_blocks_that_is_left(self):
        """What a search has found is not announced when another view was chosen meanwhile."""
        self.open(self.folder / "plain.heapprof", view="blocks", metric="leaked")
        self.hold("blocks")
        self.browser.press("/", *"libleaf")
        harness.wait_until(lambda: self.browser.evaluate("held.length"), "nothing is searched")
        self.browser.evaluate("location.hash = 'view=table&metric=leaked'; 0")
        harness.wait_until(lambda: self.text("#announce").startswith("Table. "), "the table is not shown")
        announced = self.text("#announce")
        self.release()
        self.settled()
        self.assertEqual(self.text("#announce"), announced)

    def test_search_and_its_filter(self):
        """A search finds its text, which is no pattern, in upper and lower case if it has no capital letter. So does
        the filter that Enter makes of it. What is typed into a filter itself can be a pattern."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            #define SITE __attribute__((noinline))
            SITE void* keep_small(void) { return malloc(100); }
            SITE void* Keep_large(void) { return malloc(5000); }
            SITE void* other(void) { return malloc(300); }
            SITE void* über_small(void) { return malloc(100); }
            SITE void* Über_large(void) { return malloc(5000); }
            void* kept[5];
            int main(void) {
              kept[0] = keep_small();
              kept[1] = Keep_large();
              kept[2] = other();
              kept[3] = über_small();
              kept[4] = Über_large();
            }
            """)).trace
        rows = "[...document.querySelectorAll('#view tr[data-index] .called')].map(name => name.textContent).sort()"

        def find(text):
            self.browser.press("/", *text)
            self.settled()
            return self.browser.evaluate(rows)

        def search(text, **selection):
            self.open(self.trace, metric="leaked", **selection)
            return find(text)

        def search_here(text, view):
            """In the page that is shown, where another view was: a search ends with its view."""
            self.browser.evaluate("document.activeElement.blur()")
            self.select(view=view, metric="leaked")
            self.assertEqual(self.browser.evaluate("document.querySelector('#search').value"), "")
            return find(text)

        def select_found(option):
            self.browser.press("Enter")
            harness.wait_until(lambda: option in self.text("#command"), f"Enter does not select {option}")
            self.settled()
            return self.browser.evaluate(rows)
        self.open(self.trace, view="summary")
        for text, expected, option in (("keep", ["Keep_large", "keep_small"], "[kK][eE][eE][pP]"),
                                       ("Keep", ["Keep_large"], "Keep"), ("keep_s", ["keep_small"], "keep_s"),
                                       ("small", ["keep_small", "über_small"], "small"),
                                       ("über", ["Über_large", "über_small"], "(ü|Ü)[bB][eE][rR]"),
                                       ("Über", ["Über_large"], "Über"), ("über_s", ["über_small"], "über_s")):
            with self.subTest(text):
                self.assertEqual(search_here(text, "table"), expected)
                self.assertEqual(search_here(text, "blocks"), expected)
                self.assertEqual(select_found(f"--function {self.browser.evaluate(f'selection.quoted({option!r})')}"),
                                 expected)
        with self.subTest("flame graph"):
            found = {}
            for text in ("über", "Über"):
                self.open(self.trace, view="flame", metric="leaked")
                self.browser.press("/", *text)
                self.browser.settle()
                found[text] = self.browser.evaluate("document.querySelectorAll('.flame svg .lit').length")
            self.assertGreater(found["über"], found["Über"])
            self.assertGreater(found["Über"], 0)
        with self.subTest("the filter shows the searched text, also with letters of several bytes"):
            self.open(self.trace, view="table", metric="leaked", function="(ü|Ü)[bB][eE][rR]")
            self.assertEqual(self.text(".chip span"), 'function "über"')
        with self.subTest("a text that would match as a pattern"):
            self.assertEqual(search("keep.small", view="table"), [])
            self.assertEqual(select_found("keep\\.small"), [])
            self.assertEqual(self.text(".chip span"), 'function "keep.small"')
            self.browser.errors.clear()  # the browser reports answers that are errors
        with self.subTest("a pattern"):
            self.open(self.trace, view="blocks", metric="leaked")
            self.click("#add-filter")
            self.browser.press(*"keep.small", "Enter")
            harness.wait_until(lambda: "--function keep.small" in self.text("#command"), "the filter is not made")
            self.settled()
            self.assertEqual(self.browser.evaluate(rows), ["keep_small"])
        with self.subTest("what is selected already"):
            self.open(self.trace, view="table", metric="leaked", function="small")
            everything = self.browser.evaluate(rows)
            self.assertIn("main", everything)
            self.assertEqual(search("small", view="table", function="small"), ["keep_small", "über_small"])
            self.browser.press("Enter")
            harness.wait_until(lambda: self.browser.evaluate(rows) == everything, "the rows stay away")
            self.assertEqual(self.browser.evaluate("selection.now().filters.length"), 1)

    def test_why_blocks_are_not_searched(self):
        """The reason is a text of the page, not only the tooltip of a disabled field; the key of the search says it."""
        self.open(self.folder / "plain.heapprof", view="blocks", metric="leaked", function="libleaf")
        reason = self.browser.evaluate("document.querySelector('#search').title")
        self.assertTrue(reason)
        self.assertEqual(self.text("#no-search"), reason)
        self.assertTrue(self.browser.evaluate("document.querySelector('#no-search').checkVisibility()"))
        nodes = self.browser.call("Accessibility.getFullAXTree")["nodes"]
        read = [node["name"]["value"] for node in nodes if node.get("role", {}).get("value") == "StaticText"]
        self.assertIn(reason, read)
        self.browser.press("/")
        self.assertEqual(self.text("#announce"), reason)
        self.select(view="table", function="libleaf")
        self.assertEqual(self.text("#no-search"), "")

    def test_list_that_is_higher_than_an_element(self):
        """A million rows: a wheel moves them pixel by pixel, a drag of the scroll bar by its share of the list; both
        ends are reached, and the scroll bar shows the share again when the list rests."""
        self.open(self.folder / "plain.heapprof", view="table")
        count, row, view, step, steps = 1_000_000, 29, 580, 3_000, 100
        self.browser.evaluate(f"""(() => {{
          const {{host}} = rowTable.create({{label: 'Test', columns: [{{key: 'row', label: 'Row', text: row => row}}],
                                            source: {{count: {count}, at: i => String(i)}}}});
          host.style.height = '{view}px';
          document.querySelector('#view').replaceChildren(host);
          window.list = host.querySelector('.scroller');
          list.style.height = '{view}px';
        }})()""")

        def position():
            """Pixels of the list above the view: by the rows that are drawn, where they are."""
            return self.browser.evaluate("""(() => {
              const edge = list.querySelector('th').getBoundingClientRect().bottom;  // it is sticky
              const lines = [...list.querySelectorAll('tr[data-index]')];
              const tops = new Set(lines.map(line => Math.round(29 * Number(line.dataset.index) -
                                                                line.getBoundingClientRect().top + edge)));
              const [first, last] = [lines[0], lines[lines.length - 1]].map(line => line.getBoundingClientRect());
              const isCovered = first.top <= edge + 1 &&
                                last.bottom >= list.getBoundingClientRect().top + list.clientHeight - 1;
              return tops.size === 1 && isCovered ? [...tops][0] : [...tops, isCovered];
            })()""")

        def drag(share):
            self.browser.evaluate(f"list.scrollTop = {share} * (list.scrollHeight - list.clientHeight); 0")
            self.browser.settle()

        end = count * row - self.browser.evaluate("list.clientHeight - list.querySelector('thead').offsetHeight")
        self.assertEqual(position(), 0)
        drag(1)
        self.assertAlmostEqual(position(), end, delta=1)
        self.browser.evaluate("list.focus()")
        self.browser.press("Home")
        self.assertEqual(position(), 0)
        self.browser.press("End")
        self.assertAlmostEqual(position(), end, delta=1)
        drag(0)
        self.assertEqual(position(), 0)
        drag(0.5)
        middle = position()
        self.assertLess(abs(middle / (count * row) - 0.5), 0.001)
        wheel = "list.scrollTop += {}; 0"
        self.browser.evaluate(wheel.format(step))
        self.browser.settle()
        self.assertAlmostEqual(position(), middle + step, delta=1)
        # Far by small steps, then rest.
        self.browser.evaluate(f"""new Promise(done => {{
          let left = {steps};
          const next = () => left-- ? (list.scrollTop += {step}, requestAnimationFrame(next)) : done(0);
          next();
        }})""", timeout=120)
        self.browser.settle()
        far = middle + step + steps * step
        self.assertAlmostEqual(position(), far, delta=1)

        def ahead():
            share = self.browser.evaluate("list.scrollTop / (list.scrollHeight - list.clientHeight)")
            return abs(share - far / (count * row))
        self.assertGreater(ahead(), 0.02)
        harness.wait_until(lambda: ahead() < 0.01, "the scroll bar is not corrected")
        self.assertAlmostEqual(position(), far, delta=1)

    def test_a_filter_in_a_list_that_was_scrolled(self):
        self.open(self.folder / "plain.heapprof", view="table")
        self.browser.evaluate("""(() => {
          window.table = rowTable.create({label: 'Test', rows: Array.from({length: 20000}, (_, i) => `row ${i}`),
                                          columns: [{key: 'row', label: 'Row', text: row => row, search: row => row}]});
          table.host.style.height = '580px';
          document.querySelector('#view').replaceChildren(table.host);
          table.host.querySelector('.scroller').scrollTop = 1e6;
        })()""")
        self.browser.settle()
        rows = "[...table.host.querySelectorAll('tr[data-index]')].map(line => line.textContent)"
        self.assertIn("row 19999", self.browser.evaluate(rows))
        self.browser.evaluate("table.filter('row 777')")
        self.assertEqual(self.browser.evaluate(rows), ["row 777", *(f"row {n}" for n in range(7770, 7780))])

    def test_line_that_is_selected(self):
        """A click on a line of a source file, which shows its function in the details, leaves the list where it is."""
        self.open(self.real(), view="source", metric="allocated")
        self.click("#view tbody tr[data-index] th", "ledger_names")
        place = self.browser.evaluate(
            "(() => { window.list = document.querySelector('.scroller'); const line = "
            "[...list.querySelectorAll('code.costly')].at(-1); line.scrollIntoView({block: 'center'}); "
            "const {scrollTop} = list; line.click(); return new Promise(done => setTimeout(() => done(scrollTop), 0)); "
            "})()")
        self.assertGreater(place, 0)
        self.settled()
        self.assertTrue(self.text("#details h2"))
        self.assertEqual(self.browser.evaluate("[list.isConnected, list.scrollTop]"), [True, place])

    def test_rows_without_a_value(self):
        """Whatever the order, rows whose value is not known are the last."""
        self.open(self.folder / "plain.heapprof", view="table")
        for ascending, expected in (("true", ["-1", "0", "7", "", ""]), ("false", ["7", "0", "-1", "", ""])):
            self.browser.evaluate(f"""(() => {{
              const {{host}} = rowTable.create({{label: 'Test', sort: {{key: 'value', ascending: {ascending}}},
                rows: [null, 0, 7, null, -1].map(value => ({{value}})),
                columns: [{{key: 'value', label: 'Value', value: row => row.value,
                            text: row => row.value === null ? '' : String(row.value)}}]}});
              host.style.height = '580px';
              document.querySelector('#view').replaceChildren(host);
            }})()""")
            self.browser.settle()
            self.assertEqual(self.texts("#view tr[data-index]"), expected)

    def test_order_of_the_table(self):
        """The command line of a table that is sorted by another column prints its order."""
        self.open(self.real(), view="table", metric="peak", sort="-self-allocated")
        shown = [row[0] for row in self.saved_rows()[1:]]
        printed = self.printed()["rows"]
        self.assertEqual(shown[:5], [row["name"] for row in printed][:5])
        self.assertIn("--sort allocated", self.text("#command"))

    def test_order_after_another_metric(self):
        """Where the column that the rows were sorted by is gone, they and the command have the order of the metric."""
        for selection, control, text, metric in (
                ({"metric": "allocations", "sort": "-self-allocations"}, "#selection .segments button", "Left at end",
                 "leaked"),
                ({"metric": "live", "at": "peak", "sort": "-self-live"}, "#selection .chip button", "\u00d7", "peak")):
            with self.subTest(selection=selection):
                self.open(self.real(), view="table", **selection)
                self.assertEqual(self.texts("#view thead th[aria-sort]"), ["Self \u25be"])
                self.click(control, text)
                self.assertEqual(self.browser.evaluate("selection.now().metric"), metric)
                self.assertEqual(self.texts("#view thead th[aria-sort]"), ["Self \u25be"])
                self.assertIn(f"--sort {metric} ", self.text("#command"))
                self.check_table(self.printed()["rows"], metric)

    def test_rows_that_are_left_out(self):
        """Lists of which a question has the first hundred rows say how many more there are, and show them on
        request."""
        functions, threads = 130, 12
        takes = "".join(f"__attribute__((noinline)) void take_{i}(void) {{\n  void* volatile block = malloc({i + 1});\n"
                        "  free(realloc(block, 5000));\n}\n" for i in range(functions))
        calls = "".join(f"  take_{i}();\n" for i in range(functions))
        # Each thread frees a block of each one.
        self.trace = self.record(self.compiled(f"""
            #include <pthread.h>
            #include <stdlib.h>
            {takes}
            enum {{ kThreads = {threads} }};
            static pthread_barrier_t barrier;
            static void* blocks[kThreads][kThreads];
            static void* work(void* number) {{
              void** const own = number;
              const int mine = (int)((own - blocks[0]) / kThreads);
              for (int i = 0; i < kThreads; ++i) own[i] = malloc(100);
              pthread_barrier_wait(&barrier);
              for (int i = 0; i < kThreads; ++i) free(blocks[i][mine]);
              return NULL;
            }}
            int main(void) {{
              pthread_t all[kThreads];
            {calls}
              pthread_barrier_init(&barrier, NULL, kThreads);
              for (int i = 0; i < kThreads; ++i)
                if (pthread_create(&all[i], NULL, work, blocks[i]) != 0) return 1;
              for (int i = 0; i < kThreads; ++i) pthread_join(all[i], NULL);
            }}
            """)).trace
        for command, selection, key, noun in (("churn", {"view": "lifetimes", "shown": "churn"}, "sites", "call site"),
                                              ("reallocs", {"view": "lifetimes", "shown": "reallocs"}, "sites",
                                               "call site"),
                                              ("threads", {"view": "threads"}, "pairs", "pair")):
            with self.subTest(command):
                everything = self.json(command, "--top", "0")[key]
                self.assertGreater(len(everything), 120)
                self.open(self.trace, **selection)
                self.assertEqual(self.count_rows(command), 100)
                more = f"+{self.shown_as('plural', len(everything) - 100, f'more {noun}')}: show all {noun}s"
                self.assertIn(more, self.texts("#view .more"))
                self.press_enter("#view .more button", f"show all {noun}s")
                self.assertEqual(self.count_rows(command), len(everything))
                self.assertNotIn(more, self.texts("#view .more"))
                self.assertIn("--top 0", self.text("#command"))
                self.assertEqual(len(self.printed()[key]), len(everything))
                self.assertEqual(self.browser.evaluate("document.activeElement.className"), "scroller")

    def count_rows(self, command):
        """The number of call sites, or of pairs of threads, in the CSV."""
        return len([line for line in self.saved_rows()[1:] if command != "threads" or line[0] == "pair"])

    def test_order_by_growth(self):
        """Growth is known of the hundred largest functions only, and later than the other figures."""
        functions = 130
        # Of the largest functions, odd ones free their blocks, and even ones grow, the later ones more.
        each = range(functions)
        takes = "".join(f"__attribute__((noinline)) void* take_{i}(unsigned long size) {{ return malloc(size); }}\n"
                        for i in each)
        first = "".join(f"  blocks[{i}] = take_{i}({40_000 - 100 * i});\n" for i in each)
        last = "".join(f"  free(blocks[{i}]);\n" if i % 2 else f"  grown[{i}] = take_{i}({200 * i + 8});\n"
                       for i in each if i < 80)
        program = self.compiled(f"""
            #include <stdlib.h>
            #include <unistd.h>
            void *blocks[{functions}], *grown[{functions}];
            {takes}
            int main(void) {{
            {first}
              usleep(100000);
            {last}
              usleep(100000);
            }}
            """)
        for _ in range(20):
            self.trace = self.record(program).trace
            rows = self.json("report", "--by", "function", "--columns", "over-time", "--top", "0")["rows"]
            parts = {row["name"]: row["live_over_time"] for row in rows}
            # The first part of the time has only the first blocks, unless the process waits for the processor.
            if parts["take_1"][0] == 39_900 and parts["take_78"][0] == 32_200:
                break
        self.open(self.trace, view="table", by="function", metric="peak", sort="-growth")
        head, *lines = self.saved_rows()
        self.assertGreaterEqual(len(lines), functions)
        growths = [line[head.index("Growth")] for line in lines]
        known = [int(growth) for growth in growths if growth != ""]
        self.assertLess(len(known), len(lines))
        self.assertEqual(lines[0][head.index("name")], "take_78")
        self.assertGreater(known[0], 0)
        self.assertEqual(growths, [*map(str, sorted(known, reverse=True)), *[""] * (len(lines) - len(known))])
        self.click("#view thead th button", "Growth")
        head, *lines = self.saved_rows()
        self.assertEqual([line[head.index("Growth")] for line in lines],
                         [*map(str, sorted(known)), *[""] * (len(lines) - len(known))])

    def test_growth_of_stacks(self):
        """Stacks that differ only in the line of a caller have their own growth."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            #include <unistd.h>
            __attribute__((noinline)) void* take(unsigned long size) { return malloc(size); }
            int main(void) {
              void* freed = take(30000);
              void* volatile kept = take(20000);
              usleep(100000);
              free(freed);
              usleep(100000);
              return kept == NULL;
            }
            """)).trace
        self.open(self.trace, view="table", by="stack", metric="allocated")
        head, *lines = self.saved_rows()
        growths = {line[head.index("Self")]: line[head.index("Growth")] for line in lines if line[0] == "take < main"}
        self.assertEqual(set(growths), {"30000", "20000"})
        # One ends without a byte, the other with all; the first part of the time can be before both.
        self.assertIn((growths["30000"], growths["20000"]), (("-30000", "0"), ("-30000", "20000"), ("0", "20000")))

    def test_columns_of_a_table(self):
        """In usual windows, rows have their growth and their line over time. What is left out is named, and can be
        shown: then the table scrolls beside the names."""
        self.addCleanup(self.browser.call, "Emulation.setDeviceMetricsOverride", **self.browser.size)
        headings = "[...document.querySelectorAll('#view thead th')].map(head => head.textContent.replace(/ .$/, ''))"
        note = "[...document.querySelectorAll('#view .more')].map(note => note.textContent).join(' ')"
        button = "#view .more button"
        everything = ["Function", "Self", "Share", "Total", "Blocks", "Allocated", "Left", "Temporary", "Growth",
                      "Over time"]
        for width in (1080, 1280, 1440, 390):
            self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                              mobile=False)
            self.open(self.real(), view="table", metric="peak")
            with self.subTest(width=width):
                shown = self.browser.evaluate(headings)
                if width > 390:
                    self.assertLessEqual({"Function", "Self", "Share", "Total", "Growth", "Over time"}, set(shown))
                hidden = [name for name in everything if name not in shown]
                self.assertTrue(hidden)
                self.assertIn(f"Not shown: {', '.join(hidden)}. Widen the window", self.browser.evaluate(note))
                self.press_enter(button, "show all columns")
                self.assertEqual(self.browser.evaluate(headings), everything)
                self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)
                edges = self.browser.evaluate(
                    "(() => { const list = document.querySelector('#view .scroller'); list.scrollLeft = 1e6;"
                    "const at = element => element.getBoundingClientRect(); const row = list.querySelector("
                    "'tr[data-index]'); return [at(list).left, at(row.cells[0]).left, at(list).right, "
                    "at(row.cells[row.cells.length - 1]).right]; })()")
                self.assertAlmostEqual(edges[0], edges[1], delta=1)
                self.assertLessEqual(edges[3], edges[2] + 1)
                self.select(view="blocks")  # the choice stays
                self.select(view="table", metric="peak")
                self.assertEqual(self.browser.evaluate(headings), everything)
                self.press_enter(button, "show those that fit")
                self.assertEqual(self.browser.evaluate(headings), shown)
        self.browser.call("Emulation.setDeviceMetricsOverride", width=2400, height=900, deviceScaleFactor=1,
                          mobile=False)
        self.browser.settle()
        self.assertEqual(self.browser.evaluate(headings), everything)
        self.assertNotIn("Not shown", self.browser.evaluate(note))


if __name__ == "__main__":
    pages.main()
