"""The timeline of the page: its threads and modules, marks, and moments that are compared."""

import browser
import pages


class Timeline(pages.PageCase):
    def test_thread_of_the_timeline(self):
        """A click on a thread in the legend selects that thread, also if its name ends in a number."""
        self.trace = self.record(self.compiled("""
            #define _GNU_SOURCE
            #include <pthread.h>
            #include <stdlib.h>
            static void* work(void* unused) {
              pthread_setname_np(pthread_self(), "worker-1");
              for (int i = 0; i < 10; ++i)
                if (!malloc(100000)) exit(1);
              return unused;
            }
            int main(void) {
              pthread_t thread;
              if (pthread_create(&thread, NULL, work, NULL) != 0) return 1;
              pthread_join(thread, NULL);
            }
            """)).trace
        (tid,) = [thread["tid"] for thread in self.json("report")["threads"] if thread["name"] == "worker-1"]
        self.open(self.trace, view="table", by="thread", metric="leaked", series="thread")
        self.click(".legend .entry", "worker-1")
        self.assertIn(f" --thread {tid}", self.text("#command"))
        self.assertEqual(self.printed()["total"]["leaked_bytes"], 1_000_000)

    def test_pins_of_the_timeline(self):
        """Alt and two clicks, or the key p twice, compare these moments, whichever is set first."""
        self.open(self.folder / "plain.heapprof", view="table")
        left, top, width, height = self.place_of_the_timeline()
        # The chart begins right of its scale: LEFT and RIGHT of time_chart.js.
        begin, length = left + 68, width - 68 - 24

        def pin(shares, set_pin):
            for number, share in enumerate(shares):
                set_pin(share)
                self.browser.settle()
                self.settled()
                self.assertEqual(self.texts(".time-chart .pin text"), ["A", "B"][:number + 1])
            self.assertEqual(self.browser.evaluate("document.querySelector('#view').dataset.view"), "compare")
            before, after = self.browser.evaluate(
                "['before', 'after'].map(pin => selection.nanoseconds(selection.now()[pin]) / "
                "recording.info().duration_ns)")
            self.assertAlmostEqual(before, 0.2, delta=0.02)
            self.assertAlmostEqual(after, 0.8, delta=0.02)
            self.assertRegex(self.text("#command"), r"^heapprof diff \S+@[0-9.]+ \S+@[0-9.]+ ")
            duration = self.json("report")["duration_ns"]
            answer = self.printed()
            self.assertLess(answer["before"]["at_ns"], answer["after"]["at_ns"])
            self.assertAlmostEqual(answer["after"]["at_ns"] / duration, after, delta=0.02)
            self.assertTrue(answer["sites"])
            self.check_changes()

        def click(share):
            self.browser.click(begin + length * share, top + height / 2, modifiers=browser.ALT)

        def press(share):
            self.browser.evaluate("document.querySelector('.time-chart').focus()")
            self.browser.press("Home", *["PageDown"] * round(10 * share), "p")
        for name, set_pin in (("Alt and click", click), ("the key p", press)):
            for shares in ((0.2, 0.8), (0.8, 0.2)):
                with self.subTest(name, shares=shares):
                    self.select(view="table")
                    pin(shares, set_pin)

    def test_modules_of_the_timeline(self):
        """The areas by module are those of `timeline --by module`; a click on one selects the module."""
        self.open(self.folder / "plain.heapprof", view="table", metric="allocated")
        self.browser.evaluate(
            "(() => { const list = document.querySelector('#timeline select'); list.value = 'module';"
            "list.dispatchEvent(new Event('change')); return new Promise(done => setTimeout(done, 0)); })()")
        self.settled()
        self.assertIn("series=module", self.browser.evaluate("location.hash"))
        answer = self.json("timeline", "--by", "module", "--sites", "6")
        self.assertGreater(len(answer["sites"]), 1)
        self.assertEqual(self.browser.evaluate(
            "[...document.querySelectorAll('.legend button.entry')].map(entry => entry.title)"),
            [f"{site['label']}  {site['detail']}  {site['module']}" for site in answer["sites"]])
        head, *lines = self.saved_rows(".chart-saves button")
        first = head.index("mark") + 1
        self.assertEqual([name.removeprefix("'") for name in head[first:]],
                         [site.get("name", site["label"]) for site in answer["sites"]])
        resident = head.index("rss_bytes")
        values = [line[first:] for line in lines if line[resident:first] == ["", ""]]  # no resident samples, no marks
        self.assertTrue(values)
        self.assertEqual(values,
                         [list(map(str, each)) for each in zip(*(site["bytes"] for site in answer["sites"]))])
        self.assertEqual(len(self.texts("#timeline .area:not(.rest)")), len(answer["sites"]))
        label = answer["sites"][0]["label"]
        self.click(".legend button.entry", label)
        self.assertIn("--module ", self.text("#command"))
        self.assertEqual(self.browser.evaluate("selection.now().filters.map(({option, value}) => [option, value])"),
                         [["module", label]])
        self.assertGreater(self.printed()["total"]["allocated_bytes"], 0)

    def test_marks(self):
        self.open(self.record_marks(), view="table")
        self.check_marks()
        # Also those outside of a range.
        self.select(view="table", **{"from": "99%", "to": "100%"})
        self.check_marks()

    def test_timeline_that_fails(self):
        """The chart shows the reason, not figures of another selection, and figures again when there are some."""
        self.open(self.folder / "plain.heapprof", view="table", function="(")
        for _ in range(2):
            self.assertIn("(", self.text("#timeline .error"))
            self.assertEqual(self.texts("#timeline .area"), [])
            self.select(view="table")
            self.assertTrue(self.texts("#timeline .area"))
            self.assertIsNone(self.text("#timeline .error"))
            self.select(view="table", function="(")
        self.browser.errors.clear()  # the browser reports answers that are errors


if __name__ == "__main__":
    pages.main()
