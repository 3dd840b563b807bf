"""The figures beside the view: of the function, call site, stack, module, thread or moment that is chosen."""

import json
import urllib.parse

import harness
import pages


class Details(pages.PageCase):
    def test_who_frees(self):
        """Of a call site in Leaks: also while other functions are selected, to which its own would be added. If this
        has no answer, what else is known of it is shown."""
        trace = self.record_freed()
        self.open(trace, view="leaks", metric="leaked")
        self.check_freed()
        self.select(view="leaks", metric="leaked", function="^main$")
        self.check_freed()
        self.open(trace, view="leaks", metric="leaked")
        self.browser.evaluate(
            "(() => { const fetched = window.fetch; window.fetch = (address, ...more) => /frees/.test(address) ? "
            "Promise.resolve(new Response(JSON.stringify({error: 'The frees are lost.'}), {status: 422})) : "
            "fetched(address, ...more); })()")
        self.click("#view tbody tr[data-index] th", "request_small")
        self.check_left()
        self.assertEqual(self.texts("#details .error"), ["The frees are lost."])

    def test_only_this(self):
        """A function takes the place of others that are selected: blocks of any of several would be."""
        trace = self.record_freed()
        for button, view in (("Only this", "table"), ("Blocks", "blocks")):
            with self.subTest(button):
                self.open(trace, view="table", metric="allocated", name="request_large", function="^main$",
                          **{"min-size": "8"})
                self.click("#details button", button)
                self.assertEqual(self.browser.evaluate(
                    "[selection.now().view, ...selection.now().filters.map(({option, value}) => option + ' ' + value)]"),
                    [view, "min-size 8", "function ^request_large$"])

    def test_sizes_beside_a_filter(self):
        """Sizes and lifetimes of a function are not those of other functions that are selected, too."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            __attribute__((noinline)) void* few(void) { return malloc(100000); }
            __attribute__((noinline)) void* many(void) { return malloc(10); }
            void* volatile kept;
            int main(void) {
              kept = few();
              for (int i = 0; i < 100; ++i) kept = many();
            }
            """)).trace
        few = self.json("histogram", "--function", "^few$")
        self.open(self.trace, view="table", metric="leaked", name="few")
        self.assertEqual(self.details()["median size"], self.median(few["sizes"], "allocations", "bytes"))
        self.assertEqual(self.details()["itself"], self.shown_as("bytes", 100_000))
        self.select(view="table", metric="leaked", name="few", function="^few$")
        self.assertEqual(self.details()["median size"], self.median(few["sizes"], "allocations", "bytes"))
        self.select(view="table", metric="leaked", name="few", function="main")
        self.assertEqual(self.details()["itself"], self.shown_as("bytes", 100_000))
        self.assertNotIn("median size", self.details())

    def test_details_of_stacks_modules_threads_and_moments(self):
        """The figures beside the view are those that the command line prints of the same selection."""
        program = self.compiled("""
            #include <pthread.h>
            #include <stdlib.h>
            __attribute__((noinline)) void* take(unsigned long size) { return malloc(size); }
            void* volatile kept;
            static void* work(void* unused) {
              for (int i = 0; i < 30; ++i) kept = take(3000);
              return unused;
            }
            int main(void) {
              pthread_t thread;
              for (int i = 0; i < 50; ++i) free(take(200));
              if (pthread_create(&thread, NULL, work, NULL) != 0) return 1;
              pthread_join(thread, NULL);
              free(take(50000));
            }
            """)
        self.trace = self.record(program).trace
        self.open(self.trace, view="table", by="stack", metric="allocated")
        row = max(self.printed()["rows"], key=lambda row: row["self"]["allocated_bytes"])
        self.assertEqual(row["self"]["allocated_bytes"], 90_000)
        self.click("#view tbody tr[data-index] th")
        shown = self.details()
        self.assertEqual(self.text("#details h2"), self.browser.evaluate(f"names.label({json.dumps(row['name'])})"))
        self.check_figures(row["self"], "allocated")
        self.assertEqual(shown["mean size"], self.shown_as("bytes", 3000))
        self.assertIn("All blocks of take", self.texts("#details h3"))
        self.check_medians("--function", "^take$")
        self.assertIn("work", " ".join(self.texts("#details .stack li")))

        for by, title, option in (("module", "Module program", str(program)), ("thread", "Thread ", None)):
            with self.subTest(by=by):
                self.select(view="table", by=by, metric="allocated")
                if option is None:
                    row = next(row for row in self.printed()["rows"] if row["self"]["allocated_bytes"] == 90_000)
                    option = str(row["tid"])
                    title += option
                self.click("#view tbody tr[data-index] th", option)
                self.assertIn(f"--{by} {option}", self.text("#command"))
                self.assertEqual(self.text("#details h2"), title)
                self.check_figures(self.printed()["total"], "allocated")
                self.check_medians(f"--{by}", option)
                self.check_largest_stack("allocated", f"--{by}", option)

        self.select(view="summary", at="peak", metric="live")
        self.assertEqual(self.text("#details h2"), "Live at the peak")
        self.check_figures(self.json("report", "--by", "module", "--live-at", "peak")["total"], "live")
        self.check_medians("--live-at", "peak")
        self.check_largest_stack("live", "--live-at", "peak")
        self.select(view="summary")
        self.assertEqual((self.text("#details h2"), self.texts("#details dl")), (None, []))

    def test_stack_without_figures(self):
        """If the figures of a stack cannot be asked for, the reason is below the name of its row."""
        self.open(self.real(), view="table", by="stack", metric="allocated", **{"min-size": "1"})
        self.browser.evaluate(
            "(() => { const fetched = window.fetch; window.fetch = (address, ...more) => "
            "/report.*by=function/.test(address) ? Promise.resolve(new Response(JSON.stringify({error: "
            "'The functions are lost.'}), {status: 422})) : fetched(address, ...more); })()")
        row = max(self.printed()["rows"], key=lambda row: row["self"]["allocated_bytes"])
        self.click("#view tbody tr[data-index] th")
        self.assertEqual(self.texts("#details .error"), ["The functions are lost."])
        self.assertEqual(self.text("#details h2"), self.browser.evaluate(f"names.label({json.dumps(row['name'])})"))

    def test_details_before_sizes_and_lifetimes(self):
        """Figures and stacks do not wait for the medians of sizes and lifetimes, and stay if those are unknown."""
        program = self.compiled("""
            #include <stdlib.h>
            __attribute__((noinline)) void* take(unsigned long size) { return malloc(size); }
            int main(void) {
              for (int i = 0; i < 50; ++i) free(take(3000));
              void* volatile kept = take(50000);
              return kept == NULL;
            }
            """)
        self.trace = self.record(program).trace
        stack = {"view": "table", "by": "stack", "metric": "allocated"}
        medians = ("median size", "median lifetime")
        of_function = ("--function", "^take$")
        for what, selection, options in (("stack", stack, of_function),
                                         ("function", {**stack, "by": "site", "name": "take"}, of_function),
                                         ("module", {**stack, "module": str(program)}, ("--module", str(program)))):
            for is_lost in (False, True):
                with self.subTest(what=what, is_lost=is_lost):
                    self.open(self.trace, view="processes")  # nothing is selected
                    if is_lost:
                        self.refuse("histogram", "The sizes are lost.")
                    else:
                        self.hold("histogram")
                    fragment = "&".join(f"{key}={urllib.parse.quote(value, safe='')}"
                                        for key, value in selection.items())
                    self.browser.evaluate(f"location.hash = {json.dumps(fragment)}; 0")
                    harness.wait_until(lambda: self.texts("#view tr[data-index]"), "no rows are shown")
                    if what == "stack":
                        self.browser.evaluate("document.querySelector('#view tr[data-index] th').click()")
                    harness.wait_until(lambda: self.texts("#details .stack li"), "no stack is shown")
                    shown = self.details()
                    self.assertIn("allocated", shown)
                    if is_lost:
                        self.settled()
                        self.assertEqual(self.texts("#details .error"),
                                         ["Sizes and lifetimes are unknown: The sizes are lost."])
                        self.assertEqual([label for label in medians if label in self.details()], [])
                    else:
                        self.assertEqual([shown[label] for label in medians], ["\u2026"] * 2)
                        height = "document.querySelector('#details').scrollHeight"
                        before = self.browser.evaluate(height)
                        self.release()
                        self.settled()
                        self.check_medians(*options)
                        self.assertEqual(self.browser.evaluate(height), before)
                        self.assertEqual(self.texts("#details .error"), [])

    def check_figures(self, figures, metric):
        """The details have the selected metric, and those beside it."""
        shown = self.details()
        words = {"allocated": "allocated", "live": "live", "leaked": "never freed" if metric == "live" else
                 "left at the end", "peak": "live at the peak"}
        self.assertEqual(shown[words[metric]], self.shown_as("sentence", metric, figures))
        self.assertGreater(figures[pages.METRICS[metric]], 0)
        for other in ("leaked",) if metric == "live" else ("leaked", "peak"):
            self.assertEqual(shown[words[other]], self.shown_as("bytes", figures[pages.METRICS[other]]))

    def check_medians(self, *selection):
        histogram = self.json("histogram", *selection)
        shown = self.details()
        known = (self.median(histogram["sizes"], "allocations", "bytes"),
                 self.median(histogram["lifetimes"], "blocks", "ns"))
        self.assertIsNotNone(known[0])
        self.assertEqual((shown["median size"], shown.get("median lifetime")), known)

    def check_largest_stack(self, metric, *selection):
        stack = self.json("report", "--cost", metric, "--top", "1", *selection)["top"][0]
        self.assertIn(f"Largest stack{self.shown_as('bytes', stack['bytes'])}, ", self.text("#details"))
        names = self.texts("#details .stack li")
        self.assertTrue(any(frame["function"] == "take" for frame in stack["stack"]))
        self.assertTrue(any(name.startswith("take") for name in names), names)

    def details(self):
        """The figures beside the view."""
        return dict(zip(self.texts("#details dt"), self.texts("#details dd"), strict=True))

    def median(self, parts, weight, unit):
        """The part of a distribution in which its median is, as text; `unit`: "bytes" or "ns"."""
        half, below = sum(part[weight] for part in parts) / 2, 0
        low, high, form = ("from_bytes", "to_bytes", "bytes") if unit == "bytes" else ("from_ns", "below_ns", "time")
        for part in parts:
            below += part[weight]
            if below and below >= half:
                if part[low] == part[high]:
                    return self.shown_as(form, part[low])
                return f"{self.shown_as(form, part[low])} to {self.shown_as(form, part[high])}"
        return None

    def test_medians_that_are_no_range(self):
        """Of blocks of one byte, the median size is this size; the longest lifetimes have no upper limit."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            __attribute__((noinline)) void* take(void) { return malloc(1); }
            int main(void) { for (int i = 0; i < 50; ++i) free(take()); }
            """)).trace
        self.open(self.trace, view="table", metric="allocated")
        # No test runs for 1000 seconds.
        self.browser.evaluate(
            "(() => { const fetched = window.fetch; window.fetch = async (address, ...more) => { "
            "const answer = await fetched(address, ...more); if (!/histogram/.test(address)) return answer; "
            "const content = await answer.json(); const {lifetimes} = content; lifetimes.at(-1).blocks = 1000; "
            "return Response.json(content); }; })()")
        self.select(view="table", metric="allocated", name="take")
        last = self.json("histogram", "--function", "^take$")["lifetimes"][-1]
        self.assertIsNone(last["below_ns"])
        shown = self.details()
        self.assertEqual((shown["median size"], shown["median lifetime"]),
                         (self.shown_as("bytes", 1), f"from {self.shown_as('time', last['from_ns'])}"))

    def test_focus_in_the_details(self):
        """Frames that are unfolded, and another function that is chosen, leave the focus in the details, also while its
        figures are awaited: a user without a mouse goes on from there."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            __attribute__((noinline)) void* take(void) { return malloc(1000); }
            int main(void) { for (int i = 0; i < 50; ++i) free(take()); }
            """)).trace
        self.open(self.trace, view="table", metric="allocated", name="take")
        is_inside = "document.querySelector('#details').contains(document.activeElement)"
        folded = len(self.texts("#details .stack li"))
        # The frames of the C library, outside of main.
        self.press_enter("#details .folded button", " frames of ")
        self.assertGreater(len(self.texts("#details .stack li")), folded)
        self.assertEqual((self.texts("#details .folded"), self.browser.evaluate(is_inside)), ([], True))
        self.hold("callers")
        self.assertTrue(self.browser.evaluate(
            "(() => { const caller = [...document.querySelectorAll('#details .calls button')].find(caller => "
            "caller.textContent === 'main'); caller.focus(); return document.activeElement === caller; })()"))
        self.browser.press("Enter")
        harness.wait_until(lambda: self.text("#details h2") == "main" and
                           "Reading" in (self.text("#details p") or ""), "the details do not wait")
        self.assertTrue(self.browser.evaluate(is_inside))
        self.release()
        self.settled()
        self.assertEqual((self.text("#details h2"), self.browser.evaluate(is_inside)), ("main", True))

    def test_mean_size(self):
        """It has three digits where the sum is no multiple of the number of blocks."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            void* kept[3];
            int main(void) { for (int i = 0; i < 3; ++i) kept[i] = malloc(i < 2 ? 30 : 40); }
            """)).trace
        self.open(self.trace, view="table", by="stack", metric="allocated")
        self.click("#view tbody tr[data-index] th", "main")
        figures = dict(zip(self.texts("#details dt"), self.texts("#details dd")))
        self.assertEqual(figures["allocated"], "100 B in 3 allocations")
        self.assertEqual(figures["mean size"], "33.3 B")
        self.assertEqual([self.shown_as("bytes", size) for size in (0.5, 1.25, 100.5, 1023, 1023.7, -33.25)],
                         ["0.50 B", "1.25 B", "101 B", "1023 B", "1.00 KiB", "\u221233.3 B"])


if __name__ == "__main__":
    pages.main()
