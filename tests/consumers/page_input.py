"""The page by mouse, by keyboard and by touch: every step, its undoing, and the focus."""

import json
import re

import harness
import pages


class Input(pages.PageCase):
    def test_mouse(self):
        """A range is dragged, a moment clicked, a chip removed; the status line's command has the page's figures."""
        self.open(self.folder / "plain.heapprof", view="table")
        left, top, width, height = self.place_of_the_timeline()
        middle = top + height / 2
        self.browser.drag((left + width * 0.3, middle), (left + width * 0.7, middle))
        self.settled()
        self.assertIn("--from", self.text("#command"))
        self.check_sentence("peak")
        # An edge of the range can be dragged.
        command = self.text("#command")
        edge = self.browser.evaluate("(() => { const at = document.querySelectorAll('.edge')[1]"
                                     ".getBoundingClientRect(); return at.left + at.width / 2; })()")
        self.browser.drag((edge, middle), (left + width * 0.5, middle))
        self.settled()
        changed = self.text("#command")
        self.assertEqual(re.search("--from [^ ]*", changed)[0], re.search("--from [^ ]*", command)[0])
        self.assertNotEqual(re.search("--to [^ ]*", changed)[0], re.search("--to [^ ]*", command)[0])
        self.check_sentence("peak")
        self.browser.click(left + width * 0.9, middle)  # the background: the whole recording again
        self.settled()
        self.assertNotIn("--from", self.text("#command"))
        self.browser.click(left + width * 0.6, middle)
        self.settled()
        self.assertIn("--live-at", self.text("#command"))
        self.check_sentence("live")
        self.click(".chip button")
        self.assertNotIn("--live-at", self.text("#command"))
        # A click near the line of the peak selects the peak, not a rounded time before it.
        peak = self.browser.evaluate("(() => { const at = document.querySelector('.time-chart line.peak')"
                                     ".getBoundingClientRect(); return at.left + at.width / 2; })()")
        self.browser.click(peak - 4, middle)
        self.settled()
        self.assertIn("--live-at peak", self.text("#command"))
        self.check_sentence("live")
        self.assertEqual(self.printed()["total"]["live_bytes"],
                         json.loads(self.heapprof("report", self.trace, "--json"))["heap"]["peak_bytes"])
        self.click(".chip button")
        # A row selects its function; a filter is made of it, and Back undoes it.
        self.click("#view tbody tr[data-index] th")
        name = self.text("#details h2")
        self.assertTrue(name)
        self.click("#details button", "Only this")
        self.assertIn("--function", self.text("#command"))
        self.check_sentence("peak")
        self.browser.evaluate("history.back()")
        harness.wait_until(lambda: "--function" not in self.text("#command"), "Back does not undo the filter")
        self.settled()
        self.click("#details button", "Without this")
        self.assertIn("No block of this selection was allocated in this function", self.text("#details"))
        self.browser.errors.clear()  # the browser reports answers that are errors

    def test_keyboard(self):
        self.open(self.folder / "plain.heapprof", view="summary")
        for key, view in zip("123456789", pages.VIEWS):
            self.browser.press(key)
            self.settled()
            self.assertEqual(self.browser.evaluate("document.querySelector('#view').dataset.view"), view)
        self.browser.press("Escape")
        harness.wait_until(lambda: self.browser.evaluate("document.querySelector('#view').dataset.view") == "threads",
                           "Escape does not undo the last step")
        self.settled()
        self.browser.press("3")
        self.settled()
        self.browser.press("/", *"libleaf")
        self.browser.settle()
        titles = self.browser.evaluate("[...document.querySelectorAll('#view tbody .name')].map(name => name.title)")
        self.assertTrue(titles)
        for title in titles:
            self.assertIn("libleaf", title)
        self.browser.press("Escape", "/", *"nothing matches this")
        self.assertIn("No row contains", self.text("#view .more"))
        self.browser.press("Escape", "Escape", "4")  # the search is left, and does not apply to another view
        harness.wait_until(lambda: self.browser.evaluate("document.querySelector('#view').dataset.view") == "tree",
                           "the key 4 does not choose the tree")
        self.settled()
        self.browser.press("3")
        self.browser.settle()  # the search of the tree is cleared
        self.settled()
        self.browser.press("/", *"libleaf")
        self.browser.settle()
        self.browser.press("Enter")
        harness.wait_until(lambda: "--function libleaf" in self.text("#command"), "Enter makes no filter")
        self.settled()
        self.browser.press("2")  # Enter has left the search
        harness.wait_until(lambda: self.browser.evaluate("document.querySelector('#view').dataset.view") == "flame",
                           "the key 2 does not choose the flame graph")
        self.browser.press("3")
        self.settled()
        self.browser.evaluate("document.activeElement.blur()")
        # Tab reaches the table from anywhere; arrow keys move, Enter selects.
        for _ in range(60):
            if self.browser.evaluate("document.activeElement.className") == "scroller":
                break
            self.browser.press("Tab")
        self.browser.press("ArrowDown", "Enter")
        harness.wait_until(lambda: self.text("#details h2"), "Enter does not select a row")
        self.settled()
        self.browser.press("?")
        self.assertTrue(self.browser.evaluate("document.querySelector('dialog').open"))
        self.browser.press("Escape")
        self.assertFalse(self.browser.evaluate("document.querySelector('dialog').open"))

    def test_key_of_the_details(self):
        """The key d shows what to select where there are no details, also in a window that has no room for that."""
        self.addCleanup(self.browser.call, "Emulation.setDeviceMetricsOverride", **self.browser.size)
        state = "[document.activeElement.id, document.querySelector('#details').checkVisibility()]"
        for width, has_room in ((1400, True), (1000, False), (600, True)):
            with self.subTest(width=width):
                self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                                  mobile=False)
                self.open(self.folder / "plain.heapprof", view="table")
                self.assertEqual(self.browser.evaluate(state)[1], has_room)
                self.press_each("d")
                self.assertEqual(self.browser.evaluate(state), ["details", True])
                self.assertIn("Select a row", self.text("#announce"))
                self.click("#view tbody tr[data-index] th")
                self.press_each("d")
                self.assertEqual(self.browser.evaluate(state), ["details", True])
                self.assertTrue(self.text("#details h2"))
                self.press_each("Escape")  # no function is selected any more
                harness.wait_until(lambda: self.text("#details h2") is None, "Escape does not undo the selection")
                self.assertEqual(self.browser.evaluate(state)[1], has_room)

    def test_heat_map_by_keyboard(self):
        """Tab reaches one cell, arrow keys the others, and Enter selects its sizes and lifetimes."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            #include <unistd.h>
            int main(void) {
              static void* volatile blocks[60];
              static const unsigned long sizes[] = {100, 5000, 50000};
              for (int i = 0; i < 60; ++i) blocks[i] = malloc(sizes[i % 3]);
              for (int i = 0; i < 20; ++i) free(blocks[i]);
              usleep(50000);
              for (int i = 20; i < 40; ++i) free(blocks[i]);
            }
            """)).trace
        self.open(self.trace, view="lifetimes")
        cells = self.printed()["cells"]
        # Of each size some blocks are freed, after a time that depends on the machine, and some are not.
        self.assertGreater(len(cells), 5)
        ranges = [line[1] for line in self.saved_rows() if line[0] == "cell"]
        self.assertEqual(
            self.browser.evaluate("[...document.querySelectorAll('.heat rect')].map(cell => "
                                  "cell.getAttribute('aria-label'))"),
            [f"{self.shown_as('bytes', cell['bytes'])} in {self.shown_as('plural', cell['blocks'], 'block')} of "
             f"{text}" for cell, text in zip(cells, ranges, strict=True)])
        position = "[...document.querySelectorAll('.heat rect')].indexOf(document.activeElement)"
        for _ in range(80):
            if self.browser.evaluate(position) >= 0:
                break
            self.browser.press("Tab")
        first = self.browser.evaluate(position)
        self.assertGreaterEqual(first, 0)
        self.browser.press("Tab")  # there is one stop
        self.assertEqual(self.browser.evaluate(position), -1)
        self.browser.evaluate(f"document.querySelectorAll('.heat rect')[{first}].focus()")
        reached = self.browser.evaluate("""(() => {
          const reached = [document.activeElement];
          for (const cell of reached) {
            for (const key of ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown']) {
              cell.focus();
              cell.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
              if (!reached.includes(document.activeElement)) reached.push(document.activeElement);
            }
          }
          reached[0].focus();
          return reached.length;
        })()""")
        self.assertEqual(reached, len(cells))
        # To the right: the same sizes, longer lives.
        row = [i for i, cell in enumerate(cells) if cell["from_bytes"] == cells[first]["from_bytes"]]
        for key, expected in (("ArrowRight", row[min(1, len(row) - 1)]), ("ArrowLeft", row[0])):
            self.browser.press(key)
            self.assertEqual(self.browser.evaluate(position), expected)
        freed = next(i for i, cell in enumerate(cells) if cell["below_ns"] is not None)
        self.browser.evaluate(f"document.querySelectorAll('.heat rect')[{freed}].focus()")
        self.browser.press("Enter")
        harness.wait_until(lambda: f"--min-size {cells[freed]['from_bytes']}" in self.text("#command"),
                           "Enter selects no sizes")
        self.settled()
        answer = self.printed()
        self.assertEqual((answer["allocations"], answer["allocated_bytes"]),
                         (cells[freed]["blocks"], cells[freed]["bytes"]))

    def test_undo(self):
        """Escape undoes one step after the other, also one that returns to the selection before."""
        self.open(self.folder / "plain.heapprof", view="summary")
        self.press_each("2", "1")
        self.undo_all(["flame", "summary"])
        with self.subTest("after Forward and Back"):
            for step, depth in (("forward", 1), ("forward", 2), ("back", 1)):
                self.browser.evaluate(f"history.{step}()")
                harness.wait_until(lambda: self.browser.evaluate("history.state.depth") == depth,
                                   f"{step} shows no other entry")
                self.settled()
            self.undo_all(["summary"])
        with self.subTest("the order of a table is no step"):
            self.press_each("2", "3")
            self.click("#view th button")
            self.assertIn("sort=", self.browser.evaluate("location.hash"))
            self.undo_all(["flame", "summary"])
        with self.subTest("a link is a step, and the same link again is none"):
            for _ in range(2):
                self.click("#views a", "Tree")
            self.undo_all(["summary"])
        with self.subTest("after a reload"):
            self.press_each("2", "1")
            self.browser.reload()
            self.settled()
            self.press_each("3")
            self.undo_all(["summary", "flame", "summary"])

    def undo_all(self, views):
        """Presses Escape until these views have been shown again; the page is not left then."""
        shown = "document.querySelector('#view').dataset.view"
        for view in views:
            self.browser.press("Escape")
            harness.wait_until(lambda: self.browser.evaluate(shown) == view, f"Escape does not return to {view}")
            self.settled()
        self.assertFalse(self.browser.evaluate("selection.undo()"), "the page would be left")

    def test_focus_stays(self):
        """A control that is pressed keeps the focus, although its part of the page is drawn again."""
        self.open(self.folder / "plain.heapprof", view="table", metric="peak")
        for order in ("ascending", "descending"):
            self.press_enter("#view th button", "Self")
            self.assertEqual(self.browser.evaluate(
                "(({textContent, ariaSort}) => [textContent.slice(0, 4), ariaSort])"
                "(document.activeElement.closest('th') || {textContent: 'no heading'})"), ["Self", order])
        self.assertIn("sort=-self-peak", self.browser.evaluate("location.hash"))
        self.press_enter("#selection .segments button", "Allocated")
        self.assertEqual(self.browser.evaluate(
            "[document.activeElement.textContent, document.activeElement.getAttribute('aria-pressed')]"),
            ["Allocated", "true"])
        self.press_enter("#views a", "Tree")
        self.assertEqual(self.browser.evaluate(
            "[document.activeElement.getAttribute('href'), document.activeElement.getAttribute('aria-current')]"),
            [self.browser.evaluate("selection.link({view: 'tree'})"), "page"])
        # Keys of the page act beside a check box.
        self.click("#own")
        self.assertEqual(self.browser.evaluate("[document.activeElement.id, selection.now().own]"), ["own", True])
        self.browser.press("3")
        harness.wait_until(lambda: self.browser.evaluate("document.querySelector('#view').dataset.view") == "table",
                           "the key 3 does not choose the table")
        self.settled()

    def test_a_form_that_is_open(self):
        """What is typed for a filter stays while the selection changes, and the form takes the focus only when it is
        opened."""
        self.open(self.folder / "plain.heapprof", view="table")
        field = "document.querySelector('.filter-form input')"
        state = f"[{field}.value, document.activeElement === {field}]"
        self.click("#add-filter")
        self.browser.press(*"abc")
        self.select(view="table", metric="allocated")
        self.assertEqual(self.browser.evaluate(state), ["abc", True])
        self.browser.press("d")
        self.browser.evaluate("document.activeElement.blur()")
        self.select(view="table", metric="leaked")
        self.assertEqual(self.browser.evaluate(state), ["abcd", False])
        self.click(".filter-form input")
        self.browser.press("Escape")
        self.assertEqual(self.browser.evaluate(f"[{field}, document.activeElement.id]"), [None, "add-filter"])
        self.browser.press("Enter", *"libleaf", "Enter")
        harness.wait_until(lambda: "--function libleaf" in self.text("#command"), "the filter is not made")
        self.settled()
        self.assertEqual(self.browser.evaluate(f"[{field}, document.activeElement.id]"), [None, "add-filter"])

    def test_moment_that_is_typed(self):
        """What is typed into a field of the comparison stays while the answer to the other field comes."""
        self.open(self.folder / "plain.heapprof", view="compare", before="10%", after="90%")
        moments = "[selection.now().before, selection.now().after]"
        self.hold("diff")
        self.browser.evaluate("(field => { field.focus(); field.select(); })"
                              "(document.querySelector('#view-head input[aria-label=Before]'))")
        self.browser.press(*"20%", "Tab")
        harness.wait_until(lambda: self.browser.evaluate(moments) == ["20%", "90%"], "the moment is not selected")
        harness.wait_until(lambda: self.browser.evaluate("held.length") > 0, "nothing is asked")
        self.browser.evaluate("document.activeElement.select()")
        self.browser.press(*"70")
        self.release()
        self.settled()
        self.assertEqual(self.browser.evaluate("[document.activeElement.getAttribute('aria-label'), "
                                               "document.activeElement.value]"), ["After", "70"])
        self.browser.press("%", "Tab")
        harness.wait_until(lambda: self.browser.evaluate(moments) == ["20%", "70%"], "the moments are not selected")
        self.settled()
        self.assertIn("@70%", self.text("#command"))

    def test_names_of_controls(self):
        """A screen reader has a name for each button, link and input of each view."""
        self.open(self.real(), view="summary")
        self.click("#add-filter")
        name = self.json("report", "--by", "function")["rows"][0]["name"]
        seen = set()
        for view in pages.VIEWS:
            with self.subTest(view=view):
                self.select(view=view, name=name)
                controls = self.browser.controls()
                self.assertGreater(len(controls), 20)
                self.assertEqual([(role, text) for role, text in controls if not text.strip()], [])
                seen.update(role for role, _ in controls)
        self.assertLessEqual({"button", "link", "textbox", "searchbox", "checkbox", "combobox"}, seen)

    def test_row_that_is_announced(self):
        """The origin of a function, which others see as a colour, is a word of its own before the name."""
        self.open(self.real(), view="table", metric="allocated")
        self.browser.evaluate("document.querySelector('#view .scroller').focus()")
        self.press_each("ArrowDown")
        origin, name = self.browser.evaluate(
            "['.unseen', '.called'].map(part => document.querySelector(`#view tr.current ${part}`).textContent)")
        origin = origin.removesuffix(", ")
        self.assertIn(origin, self.browser.evaluate("Object.values(names.originText)"))
        self.assertTrue(self.text("#announce").startswith(f"{origin}, {name} "), self.text("#announce"))

    def test_row_that_is_selected(self):
        """A screen reader is told which row is selected: others are told by its colour."""
        self.open(self.folder / "plain.heapprof", view="table", metric="peak")
        rows = ("['.selected', '[aria-current=true]'].map(kind => [...document.querySelectorAll(`#view tr${kind} .called`)]"
                ".map(name => name.textContent))")
        self.assertEqual(self.browser.evaluate(rows), [[], []])
        self.click("#view tbody tr[data-index] th")
        selected, current = self.browser.evaluate(rows)
        self.assertTrue(selected)
        self.assertEqual(current, selected)

    def test_links_of_a_view(self):
        """A link of a view that is shown keeps the function that was selected in it."""
        self.open(self.folder / "plain.heapprof", view="summary")
        self.click("#view tbody tr[data-index] th")
        name = self.text("#details h2")
        self.assertTrue(name)
        self.click(".tile", "Allocated")
        self.assertEqual(self.browser.evaluate("['view', 'metric', 'name'].map(key => selection.now()[key])"),
                         ["table", "allocated", name])
        self.browser.press("Escape")
        harness.wait_until(lambda: self.browser.evaluate("selection.now().view") == "summary", "it is no step")
        self.settled()
        self.press_enter(".tile", "Allocated")
        self.assertEqual(self.browser.evaluate("selection.now().name"), name)

    def test_chip_of_a_long_name(self):
        """The button that removes a filter is beside its text, which is cut."""
        self.open(self.folder / "plain.heapprof", view="table", **{"not-function": f"^{'x' * 200}$"})
        self.assertEqual(self.browser.evaluate("selection.now().filters.length"), 1)
        # Where the user sees it: click() would scroll the chip.
        self.browser.click(*self.browser.evaluate(
            "(() => { const at = document.querySelector('.chip button').getBoundingClientRect(); "
            "return [at.left + at.width / 2, at.top + at.height / 2]; })()"))
        self.browser.settle()
        self.settled()
        self.assertEqual(self.browser.evaluate("selection.now().filters"), [])

    def test_copying_of_no_command(self):
        """While a view has no command yet, the key y copies nothing."""
        self.open(self.folder / "plain.heapprof", view="table")
        self.browser.evaluate("window.copied = []; navigator.clipboard.writeText = async text => copied.push(text); "
                              "viewPanel.wait()")  # as while another recording is read
        self.assertEqual(self.text("#command"), "")
        self.browser.press("y")
        self.browser.settle()
        self.assertEqual((self.browser.evaluate("copied"), self.text("#copy")), ([], "Copy as command"))
        self.assertIn("not known yet", self.text("#announce"))

    def press_long(self, selector):
        """Holds a finger on the middle of the first element that matches. The page takes it for held when the test
        says so, not after 400 ms, of long_press.js."""
        self.browser.evaluate(
            "(() => { if (window.timers) return; const start = window.setTimeout; window.timers = []; "
            "window.setTimeout = (call, ms, ...more) => ms !== 400 ? start(call, ms, ...more) : "
            "(timers.push(call), 0); })()")
        self.touch(selector)
        harness.wait_until(lambda: self.browser.evaluate("timers.length > 0"), f"no touch of {selector} is noticed")
        self.browser.evaluate("timers.splice(0).forEach(call => call())")
        self.browser.lift()
        self.browser.settle()
        self.settled()

    def touch(self, selector):
        element = f"document.querySelector({json.dumps(selector)})"
        self.browser.evaluate(f"{element}.scrollIntoView({{block: 'nearest'}})")
        self.browser.settle()  # scrolling hides tooltips
        self.browser.touch(*self.browser.evaluate(
            f"(({{left, top, width, height}}) => [left + width / 2, top + height / 2])({element}"
            ".getBoundingClientRect())"))

    def test_tooltips_by_touch(self):
        """A finger that is held shows the tooltip of what it is on, and chooses nothing; the next touch hides it."""
        self.browser.call("Emulation.setTouchEmulationEnabled", enabled=True)
        self.addCleanup(self.browser.call, "Emulation.setTouchEmulationEnabled", enabled=False)
        trace = self.record_marks()
        shown = "(tooltip => tooltip.checkVisibility() ? tooltip.textContent : null)(document.querySelector('#tooltip'))"
        state = "[location.hash, document.querySelector('#details h2') === null]"
        for view, selector, text in (
                ("table", "#view thead th:nth-child(2)", "element.title"),
                ("table", "#view tr[data-index] td", "element.title"),
                ("table", "#view tr[data-index] .called", "element.parentNode.title"),
                ("table", "#selection .segments button[aria-pressed=true]", "element.title"),
                ("summary", ".tile", "element.title"),
                ("lifetimes", ".heat rect", "element.getAttribute('aria-label')"),
                ("table", ".mark path", "element.parentNode.querySelector('title').textContent")):
            with self.subTest(view=view, selector=selector):
                self.open(trace, view=view, metric="peak")
                before = self.browser.evaluate(state)
                self.press_long(selector)
                expected = self.browser.evaluate(f"(element => {text})(document.querySelector({json.dumps(selector)}))")
                self.assertTrue(expected)
                self.assertEqual(self.browser.evaluate(shown), expected)
                self.assertEqual(self.text("#announce"), expected)
                self.assertEqual(self.browser.evaluate(state), before)
                edges = self.browser.evaluate(
                    "(({left, right, top, bottom}) => [left, top, innerWidth - right, innerHeight - bottom])"
                    "(document.querySelector('#tooltip').getBoundingClientRect())")
                self.assertGreaterEqual(min(edges), 0)
        with self.subTest("a frame"):
            self.open(trace, view="flame", metric="peak")
            before = self.browser.evaluate(state)
            self.press_long(".flame rect.o-own")
            self.assertIn("of total", self.text(".flame .tip.on") or "")
            self.assertEqual(self.browser.evaluate(state), before)
        with self.subTest("a frame of a graph that is drawn again"):
            self.open(trace, view="flame", metric="peak")
            self.press_long(".flame rect.o-own")
            self.browser.evaluate("viewPanel.refresh(true)")
            self.settled()
            self.assertIn("of total", self.text(".flame .tip.on") or "")
            self.touch("#view-head h1")
            self.browser.settle()
            self.assertIsNone(self.text(".flame .tip.on"))
            self.browser.lift()
            self.browser.evaluate("timers.length = 0")  # that of the heading
        with self.subTest("a tap"):
            self.open(trace, view="table", metric="peak")
            self.press_long("#view tr[data-index] td")
            self.assertTrue(self.browser.evaluate(shown))
            self.touch("#view tr[data-index] th")
            self.browser.lift()
            harness.wait_until(lambda: self.text("#details h2"), "a tap selects no row")
            self.settled()
            self.assertIsNone(self.browser.evaluate(shown))

    def test_skip_to_the_view(self):
        """The link that Tab reaches first leads to the view, and leaves the selection as it is."""
        self.open(self.folder / "plain.heapprof", view="table", metric="allocated", function="libleaf")
        before = self.browser.evaluate("location.hash")
        self.press_enter(".skip", "Skip to the view")
        self.assertEqual(self.browser.evaluate("[location.hash, document.activeElement.id]"), [before, "view-panel"])

    def test_copying(self):
        """The button says for a while whether the browser has copied the command, and keeps the focus in both cases."""
        self.open(self.folder / "plain.heapprof", view="table")
        command = self.text("#command")
        # That is 1.5 seconds, of feedback.js. They end when the test calls go().
        self.browser.evaluate(
            "(() => { const start = window.setTimeout; window.setTimeout = (call, ms, ...more) => { "
            "if (ms !== 1500) return start(call, ms, ...more); window.go = call; return 0; }; })()")
        for works in (True, False):
            self.browser.evaluate(
                "window.copied = ''; navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed'));"
                "document.execCommand = () => { copied = String(document.getSelection()); "
                f"return {json.dumps(works)}; }}; document.querySelector('#copy').focus(); window.go = null; 0")
            self.press_each("Enter")
            self.assertEqual(self.browser.evaluate("copied"), command)
            self.assertEqual(self.text("#copy"), "Copied" if works else "Not copied")
            said = self.text("#announce")
            self.assertEqual((said.startswith("Copied: "), said.startswith("Not copied")), (works, not works))
            self.assertTrue(said.endswith(command))
            self.assertEqual(self.browser.evaluate("document.activeElement.id"), "copy")
            self.browser.evaluate("go()")
            self.assertEqual(self.text("#copy"), "Copy as command")


if __name__ == "__main__":
    pages.main()
