"""The timeline of the page: its threads and modules, marks, and moments that are compared."""

import browser
import harness
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

    def test_timeline_before_the_recording_is_known(self):
        """Until the page knows the recording, its timeline has no moments: neither clicks nor keys do anything."""
        trace = self.folder / "plain.heapprof"
        script = self.browser.call(
            "Page.addScriptToEvaluateOnNewDocument", source="window.held = []; (() => { const fetched = window.fetch; "
            "window.fetch = (...asked) => new Promise(done => held.push(() => done(fetched(...asked)))); })()")["identifier"]
        try:
            self.browser.open(f"{self.address(trace)}#view=table")
        finally:
            self.browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
        self.trace = trace
        harness.wait_until(lambda: self.browser.evaluate("held.length"), "nothing is asked")

        def click():
            left, top, width, height = self.place_of_the_timeline()
            self.browser.click(left + width * 0.6, top + height / 2)
        click()
        self.browser.evaluate("document.querySelector('.time-chart').focus()")
        self.browser.press("Enter")
        self.browser.settle()
        self.assertEqual((self.browser.errors, self.browser.evaluate("location.hash")), ([], "#view=table"))
        self.release()
        self.settled()
        click()
        self.settled()
        self.assertIn("--live-at", self.text("#command"))

    def test_times_in_the_first_microsecond(self):
        """A time that is selected has no exponent, which the page would not read."""
        self.open(self.folder / "plain.heapprof", view="table")
        for ns, length_ns, text in ((500, 1000, "0.0000005"), (0, 1000, "0"), (1_234_567_890, 10**9, "1.235"),
                                    (10 * 10**9, 20 * 10**9, "10"), (600 * 10**9, 1000 * 10**9, "600")):
            self.assertEqual(self.browser.evaluate(f"selection.seconds({ns}, {length_ns})"), text)
        self.assertAlmostEqual(self.browser.evaluate("selection.nanoseconds(selection.seconds(500, 1000))"), 500)

    def test_peak_of_selected_blocks(self):
        """With a filter, the timeline has the peak of the selected blocks: a click on it selects its time, not the peak
        of the recording, which is drawn where it was."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            #include <unistd.h>
            #define SITE __attribute__((noinline))
            SITE void* take_large(void) { return malloc(90000); }
            SITE void* take_small(void) { return malloc(500); }
            int main(void) {
              usleep(20000);
              free(take_large());
              usleep(100000);
              void* volatile small = take_small();
              usleep(20000);
              free(small);
              usleep(20000);
            }
            """)).trace
        line = "Number(document.querySelector('.time-chart line.{}').getAttribute('x1'))"
        self.open(self.trace, view="table", **{"max-size": "1K"})
        left, top, _, height = self.place_of_the_timeline()
        self.browser.click(left + self.browser.evaluate(line.format("peak")), top + height / 2)
        self.settled()
        self.assertIn("--live-at", self.text("#command"))
        self.assertEqual(self.printed()["total"]["live_bytes"], 500)
        self.assertAlmostEqual(*(self.browser.evaluate(line.format(name)) for name in ("peak", "at")), delta=1)
        self.select(view="table", at="peak", metric="live", **{"max-size": "1K"})
        peak_ns = self.json("report")["heap"]["peak_time_ns"]
        self.assertAlmostEqual(self.browser.evaluate(line.format("at")), self.browser.evaluate(
            f"(chart => 68 + (chart.clientWidth - 68 - 24) * {peak_ns} / recording.info().duration_ns)"
            "(document.querySelector('.time-chart'))"), delta=1)

    def test_pins_are_removed(self):
        """Where the comparison is not shown, a chip says which moments are compared, and removes their pins."""
        self.open(self.folder / "plain.heapprof", view="table", before="20%", after="60%")
        self.assertEqual(self.texts(".time-chart .pin text"), ["A", "B"])
        self.click("#selection .chip button")
        self.assertEqual(self.texts(".time-chart .pin text, #selection .chip"), [])
        self.assertEqual(self.browser.evaluate("[selection.now().before, selection.now().after]"), ["", ""])

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

    def test_view_while_the_timeline_changes(self):
        """Other areas and a first pin are no part of a view: it stays as it is, with its scrolled rows and branches."""
        self.open(self.real(), view="tree", metric="allocated")
        is_same = "document.querySelector('#view table').mine === true"
        self.browser.evaluate("document.querySelector('#view table').mine = true")
        self.select(view="tree", metric="allocated", series="module")
        self.assertEqual(self.browser.evaluate(f"[{is_same}, document.querySelector('#timeline select').value]"),
                         [True, "module"])
        self.select(view="tree", metric="allocated", series="module", before="20%")
        self.assertEqual((self.browser.evaluate(is_same), self.texts(".time-chart .pin text")), (True, ["A"]))
        self.select(view="tree", metric="leaked", series="module", before="20%")
        self.assertFalse(self.browser.evaluate(is_same))
        # A comparison depends on its moments.
        self.select(view="compare", before="20%", after="50%")
        shown = self.text("#command")
        self.select(view="compare", before="20%", after="80%")
        self.assertNotEqual(self.text("#command"), shown)

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

    def mouse(self, kind, share):
        """An event of the mouse with its left button, at a share of the time."""
        left, top, width, height = self.place_of_the_timeline()
        # The chart begins right of its scale: LEFT and RIGHT of time_chart.js.
        self.browser.call("Input.dispatchMouseEvent", type=kind, x=left + 68 + (width - 68 - 24) * share,
                          y=top + height / 2, button="left", buttons=0 if kind == "mouseReleased" else 1, clickCount=1)

    def shift(self, *keys):
        """Presses these keys while Shift is down. None: the program has gone on."""
        shift = {"key": "Shift", "code": "ShiftLeft", "windowsVirtualKeyCode": 16}
        self.browser.call("Input.dispatchKeyEvent", type="rawKeyDown", modifiers=browser.SHIFT, **shift)
        for key in keys:
            if key is None:
                self.browser.evaluate("timeline.refresh(true)")
            else:
                self.browser.press(key, modifiers=browser.SHIFT)
        self.browser.call("Input.dispatchKeyEvent", type="keyUp", **shift)
        self.browser.settle()
        self.settled()

    def chosen_range(self):
        """The selected range as shares of the duration; None for an end that is not selected."""
        return self.browser.evaluate(
            "[selection.now().from, selection.now().to].map(end => end === '' ? null : "
            "selection.nanoseconds(end, recording.info().duration_ns) / recording.info().duration_ns)")

    def test_range_while_the_program_goes_on(self):
        """New figures leave a range that is dragged, or extended by keys, and is not selected yet."""
        self.open(self.folder / "plain.heapprof", view="table")
        self.mouse("mouseMoved", 0.3)
        self.mouse("mousePressed", 0.3)
        self.mouse("mouseMoved", 0.7)
        self.browser.evaluate("timeline.refresh(true)")
        self.browser.settle()
        self.assertEqual(len(self.texts(".time-chart .range")), 1)
        self.mouse("mouseReleased", 0.7)
        self.browser.settle()
        self.settled()
        begin, end = self.chosen_range()
        self.assertAlmostEqual(begin, 0.3, delta=0.02)
        self.assertAlmostEqual(end, 0.7, delta=0.02)
        self.open(self.folder / "names.heapprof", view="table")
        self.browser.evaluate("document.querySelector('.time-chart').focus()")
        self.browser.press("Home", "PageDown")
        self.shift("PageDown", "PageDown", None)
        begin, end = self.chosen_range()
        self.assertAlmostEqual(begin, 0.1, delta=0.02)
        self.assertAlmostEqual(end, 0.3, delta=0.02)

    def test_legend_while_the_program_goes_on(self):
        """An entry of the legend that has the focus, or is pressed, stays when new figures are drawn."""
        self.open(self.folder / "plain.heapprof", view="table")
        self.browser.evaluate("window.entry = document.querySelector('.legend button.entry'); entry.focus(); "
                              "timeline.refresh(true)")
        self.assertTrue(self.browser.evaluate("document.activeElement === entry && entry.isConnected"))

    def test_shift_without_a_range(self):
        """Shift extends a range only together with a key that moves; a range without an end has that of the recording.
        A range that is left with Tab is not selected."""
        self.open(self.folder / "plain.heapprof", view="table", **{"from": "40%"})
        self.browser.evaluate("document.querySelector('.time-chart').focus()")
        self.shift()
        self.assertEqual(self.chosen_range(), [0.4, None])
        self.browser.press("Home", *["PageDown"] * 4)
        self.shift("PageDown")  # from the beginning of the range
        begin, end = self.chosen_range()
        self.assertAlmostEqual(begin, 0.5, delta=0.02)
        self.assertEqual(end, 1)
        selected = self.browser.evaluate("location.hash")
        self.shift("PageDown", "Tab")
        self.assertEqual(self.browser.evaluate(
            "[location.hash, document.activeElement.classList.contains('time-chart')]"), [selected, False])

    def test_drag_that_the_browser_ends(self):
        """After `pointercancel`, as of a gesture, no range is dragged or selected any more."""
        self.open(self.folder / "plain.heapprof", view="table")
        selected = self.browser.evaluate("location.hash")
        self.mouse("mouseMoved", 0.3)
        self.mouse("mousePressed", 0.3)
        self.mouse("mouseMoved", 0.7)
        self.browser.settle()
        self.assertEqual(len(self.texts(".time-chart .range")), 1)
        self.browser.evaluate("document.querySelector('.time-chart').dispatchEvent("
                              "new PointerEvent('pointercancel', {pointerId: 1, bubbles: true}))")
        self.assertEqual(self.texts(".time-chart .range"), [])
        self.mouse("mouseMoved", 0.5)
        self.mouse("mouseReleased", 0.5)
        self.browser.settle()
        self.settled()
        self.assertEqual(self.texts(".time-chart .range"), [])
        self.assertEqual(self.browser.evaluate("location.hash"), selected)


if __name__ == "__main__":
    pages.main()
