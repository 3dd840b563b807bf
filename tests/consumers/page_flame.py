"""Flame graph, tree and sandwich of the page: their figures, levels that are outside, zoom, and what is left out."""

import json
import xml.etree.ElementTree as ElementTree

import harness
import pages


class FlameGraphAndTree(pages.PageCase):
    def test_flame_graph_and_tree(self):
        self.open(self.real(), view="flame", metric="allocated")

        def nodes(node, depth=0):
            yield [str(depth), node["name"], str(node["total"]["allocated_bytes"]),
                   str(node["total"]["peak_blocks"])]
            for child in node["children"]:
                yield from nodes(child, depth + 1)

        def levels_of(node):
            """Frames with small shares are drawn, too, as one."""
            return 1 + max([levels_of(child) for child in node["children"]] + ([1] if node.get("left_out") else [0]))
        for shown in ("", "inverted"):
            self.select(view="flame", metric="allocated", shown=shown)
            head, *lines = self.saved_rows()
            columns = [head.index(name) for name in ("depth", "name", "allocated_bytes", "peak_blocks")]
            tree = self.printed()
            self.assertEqual(sorted([line[column] for column in columns] for line in lines), sorted(nodes(tree)))
            drawn = self.texts(".flame svg text.label")
            self.assertRegex(drawn[0], "^all: ")
            if not shown:
                self.check_levels(levels_of(tree))
            self.assertGreater(len(drawn), 3)
            self.check_zoom()
            self.select(view="tree", metric="allocated", shown=shown)
            head, *lines = self.saved_rows()
            known = {(int(depth) - 1, name, total) for depth, name, total, _ in nodes(tree)}
            lines = [line for line in lines if not line[1].removeprefix("'").startswith("+")]
            self.assertGreater(len(lines), 3)
            for line in lines:
                self.assertIn((int(line[0]), line[1].removeprefix("'"), line[head.index("Total")]), known)

    def check_levels(self, levels):
        """A graph that is higher than its window says how many levels are outside, and a click shows them."""
        self.browser.evaluate("document.querySelector('.flame').style.maxHeight = '150px';"
                              "window.dispatchEvent(new Event('resize'))")
        self.browser.settle()
        height = self.browser.evaluate("document.querySelector('.flame .chart').clientHeight")
        outside = levels - round(height / 19)  # ROW of flame_layout.js
        self.assertGreater(outside, 1)
        self.assertIn(f" {outside} more levels", self.text(".flame .outside.down.on"))
        self.assertIsNone(self.text(".flame .outside.up.on"))
        for _ in range(levels):
            if self.text(".flame .outside.down.on") is None:
                break
            self.browser.evaluate("document.querySelector('.flame .outside.down').click()")
            self.browser.settle()
        self.assertIsNone(self.text(".flame .outside.down.on"))
        self.assertRegex(self.text(".flame .outside.up.on"), r" \d+ more level")
        self.browser.evaluate("document.querySelector('.flame').style.maxHeight = '';"
                              "document.querySelector('.flame .chart').scrollTop = 0;"
                              "window.dispatchEvent(new Event('resize'))")
        self.browser.settle()

    def check_zoom(self):
        """The zoomed frame is in the address, and Back zooms out."""
        everything = self.texts(".flame svg text.label")
        at = self.browser.evaluate(
            "(() => { const end = document.querySelector('.flame .chart').getBoundingClientRect().bottom;"
            "const places = [...document.querySelectorAll('.flame svg text.label')].map(text => "
            "text.previousSibling.getBoundingClientRect());"
            "const at = places.findLast(place => place.bottom < end);"
            "return [at.left + at.width / 2, at.top + at.height / 2]; })()")
        self.browser.click(*at)
        self.settled()
        zoomed = self.texts(".flame .crumbs [aria-current]")
        self.assertEqual(len(zoomed), 1)
        fragment = self.browser.evaluate("location.hash")
        self.assertIn("zoom=", fragment)
        self.browser.open(self.address(self.trace) + fragment)
        self.settled()
        self.assertEqual(self.texts(".flame .crumbs [aria-current]"), zoomed)
        self.browser.evaluate("document.querySelector('.flame .bar > button').click()")  # Reset zoom
        harness.wait_until(lambda: self.texts(".flame svg text.label") == everything, "not everything is shown")
        self.assertNotIn("zoom=", self.browser.evaluate("location.hash"))
        self.browser.evaluate("history.back()")
        harness.wait_until(lambda: self.texts(".flame .crumbs [aria-current]") == zoomed, "Back does not zoom again")

    def test_rows_that_are_no_functions(self):
        """They are explained, and what is left out of a branch of the tree can be shown."""
        self.open(self.real(), view="table", name="(no own code)", **{"only-own": "1"})
        self.assertIn("have no function of the program's own code", self.text("#details"))
        self.assertIsNone(self.text("#details .error"))
        # A program with many functions.
        python = self.record("/usr/bin/python3", "-S", "-c", "pass", _PYTHONMALLOC="malloc").trace
        self.open(python, view="tree", metric="allocated")
        row = "[...document.querySelectorAll('#view tr')].find(row => row.querySelector('button.plain'))"
        left_out = self.browser.evaluate(f"(() => {{ const row = {row}; return row ? row.textContent : null; }})()")
        self.assertIsNotNone(left_out)
        self.assertIn("more with small shares", left_out)
        rows = self.texts("#view tbody tr[data-index]")
        before = self.browser.evaluate("selection.now().filters.length")
        self.click("#view tr button.plain")
        self.assertEqual(self.browser.evaluate("selection.now().filters.length"), before + 1)
        # What is small beside the function itself stays left out.
        self.assertNotEqual(self.texts("#view tbody tr[data-index]"), rows)
        self.check_deep_tree()

    def check_deep_tree(self):
        """Each level is indented more than the one above it, and leaves room for names; a number says which it is."""
        shown = self.browser.evaluate(
            "[...document.querySelectorAll('#view tr[data-index]')].map(row => { "
            "const name = row.cells[0].firstChild; const {paddingLeft} = getComputedStyle(name); "
            "return [name.querySelector('.level').innerText, "
            "row.dataset.index, parseFloat(paddingLeft) / row.cells[0].clientWidth]; })")
        by_level = {}
        for level, _, share in shown:
            by_level.setdefault(int(level), set()).add(share)
        self.assertGreater(max(by_level), 12)
        self.assertEqual([len(shares) for shares in by_level.values()], [1] * len(by_level))
        indents = [max(by_level[level]) for level in sorted(by_level)]
        self.assertEqual(indents, sorted(set(indents)))
        self.assertLess(indents[-1], 0.5)
        # Its callers do not fit; the function itself, at the bottom, is in view.
        functions = [line for line in self.saved_rows()[1:] if not line[1].startswith("'+")]
        name = max(functions, key=lambda line: int(line[0]))[1]
        self.select(view="flame", metric="allocated", shown="sandwich", name=name.removeprefix("'"))
        callers = ".flame.half:first-of-type"
        self.assertRegex(self.text(f"{callers} .outside.up.on"), "more level")
        self.assertIsNone(self.text(f"{callers} .outside.down.on"))

    def test_sandwich(self):
        """Of a function that is called on thousands of paths, the total is what `callers` prints, not that of the
        paths with large shares."""
        ways = ("east", "north", "south", "west")
        calls = " ".join(f"{way}(depth - 1);" for way in ways)
        functions = "\n".join(f"SITE void {way}(int depth) {{ if (depth == 1) spread(); if (depth == 0) fine(); "
                              f"else {{ {calls} }} }}" for way in ways)
        trace = self.record(self.compiled(f"""
            #include <stdlib.h>
            #define SITE __attribute__((noinline))
            void* volatile kept;
            SITE void spread(void) {{ kept = malloc(10); }}
            SITE void fine(void) {{ kept = malloc(20); }}
            void {", ".join(f"{way}(int depth)" for way in ways)};
            {functions}
            int main(void) {{ east(7); }}
            """)).trace
        sandwich = {"view": "flame", "metric": "allocated", "shown": "sandwich"}
        self.open(trace, name="spread", **sandwich)
        lines, size = self.check_sandwich("spread", 4096 * 10)
        self.assertEqual(sorted(line for line in lines if line[:2] == ["caller", "1"]),
                         [["caller", "1", way, str(size // 4)] for way in ways])
        self.assertEqual(sorted((caller["name"], caller["total"]["allocated_bytes"])
                                for caller in self.printed()["callers"]), [(way, size // 4) for way in ways])
        self.assertNotIn("branches", self.text("#view-head"))
        # Paths that are too small for any answer.
        self.select(name="fine", **sandwich)
        lines, size = self.check_sandwich("fine", 16384 * 20)
        self.assertIn(f"{self.shown_as('bytes', size)} in branches with less than 0.01% of it", self.text("#view-head"))
        # Beside filters by function, to which its own would be added.
        self.select(name="spread", function="^main$", **sandwich)
        self.check_sandwich("spread", 4096 * 10)
        self.select(name="spread", function="^fine$", **sandwich)
        self.assertEqual(self.text("#view .empty"), "No block of this selection was allocated in this function.")
        self.browser.errors.clear()  # the browser reports answers that are errors

    def record_early(self):
        """The function early() has 10,000 bytes at the peak of the recording, and 310,000 at its own."""
        return self.record(self.compiled("""
            #include <stdlib.h>
            #define SITE __attribute__((noinline))
            SITE void* early(unsigned long size) { return malloc(size); }
            SITE void* late(unsigned long size) { return malloc(size); }
            int main(void) {
              void* volatile kept = early(10000);
              void* volatile freed = early(300000);
              free(freed);
              kept = late(900000);
              return kept == NULL;
            }
            """)).trace

    def test_sandwich_of_the_peak(self):
        """It has what the function has at the peak of the recording, which is not its own."""
        self.trace = self.record_early()
        self.open(self.trace, view="flame", metric="peak", shown="sandwich", name="early")
        self.assertEqual(self.printed()["total"]["peak_bytes"], 10_000)
        head, *lines = self.saved_rows()
        self.assertEqual({int(line[head.index("peak_bytes")]) for line in lines}, {10_000})

    def test_other_metrics_of_a_sandwich(self):
        """With another metric than the peak, the tree is of the function's blocks only, whose peak is their own:
        tooltips and CSV call it so. `callers` has what is live at the peak of the recording."""
        self.trace = self.record_early()
        self.open(self.trace, view="flame", metric="allocated", shown="sandwich", name="early")
        self.assertEqual(self.printed()["total"]["peak_bytes"], 10_000)
        own = self.json("tree", "--function", "^early$", "--cost", "allocated")["total"]
        self.assertEqual((own["peak_bytes"], own["peak_blocks"]), (310_000, 2))
        head, *lines = self.saved_rows()
        self.assertNotIn("peak_bytes", head)
        self.assertNotIn("peak_blocks", head)
        self.assertIn(["caller", "1", "main"], [line[:3] for line in lines])
        for key in ("peak_bytes", "peak_blocks"):
            self.assertEqual({line[head.index(f"function_{key}")] for line in lines}, {str(own[key])})
        self.assertEqual({line[head.index("leaked_bytes")] for line in lines}, {"10000"})
        frame = self.browser.evaluate(
            "(() => { const {top, bottom} = document.querySelector('.flame.half rect').getBoundingClientRect(); "
            "return [top, bottom]; })()")
        self.assertIn(f"live at the peak of the selected function{self.shown_as('bytes', 310_000)}", self.tip_of(frame))
        labels = self.texts(".flame .tip.on td:first-child")
        self.assertEqual(sorted(set(labels)), sorted(labels))
        # A filter selects the same blocks, so that their peak is that of the selection.
        self.select(view="flame", metric="allocated", shown="sandwich", name="early", function="^early$")
        self.assertEqual(self.printed()["total"]["peak_bytes"], 310_000)
        head, *lines = self.saved_rows()
        self.assertEqual({line[head.index("peak_bytes")] for line in lines}, {"310000"})
        # How much of what it allocates as a helper is live at its own peak is not known: there is no figure of it.
        self.browser.open("about:blank")
        self.open(self.trace, view="table")
        self.browser.evaluate(
            "(() => { const fetched = window.fetch; window.fetch = async (address, ...more) => { "
            "const answer = await fetched(address, ...more); if (!/callers/.test(address)) return answer; "
            "const content = await answer.json(); content.as_helper.allocated_bytes = 10; "
            "return Response.json(content); }; })()")
        self.select(view="flame", metric="allocated", shown="sandwich", name="early")
        head, *lines = self.saved_rows()
        self.assertEqual([column for column in head if "peak" in column], [])
        self.assertNotIn("peak", self.tip_of(frame))

    def test_sandwich_of_what_is_no_function(self):
        """Rows of blocks without a function have no callers and callees: the page says so, and asks for none."""
        self.open(self.real(), view="flame", metric="allocated", shown="sandwich", name="(no own code)",
                  **{"only-own": "1"})
        for name in ("(no own code)", "(no stack recorded)"):
            with self.subTest(name=name):
                self.select(view="flame", metric="allocated", shown="sandwich", name=name, **{"only-own": "1"})
                self.assertIn(f"{name} is no function, so it has no callers and callees", self.text("#view .empty"))
        asked = self.browser.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
        self.assertEqual([address for address in asked if "/api/callers" in address], [])
        # The outermost function has no caller that could be selected.
        self.select(view="table", name="main")
        rows = self.json("callers", "main")["callers"]
        self.assertTrue(rows)
        buttons = self.texts("#details .calls li button")
        for row in rows:
            self.assertEqual(row["name"] in buttons, row["name"] != "(no caller)")

    def check_sandwich(self, name, size):
        """Both trees of the function have its total. Returns what is saved of them, and the total."""
        self.assertEqual(self.printed()["total"]["allocated_bytes"], size)
        head, *lines = self.saved_rows()
        lines = [line[:3] + [line[head.index("allocated_bytes")]] for line in lines]
        self.assertEqual([line for line in lines if line[1] == "0"],
                         [[kind, "0", name, str(size)] for kind in ("caller", "callee")])
        drawn = [label for label in self.texts(".flame.half svg text.label") if label.startswith("all: ")]
        self.assertEqual(drawn, [f"all: {self.shown_as('bytes', size)}"] * 2)
        return lines, size

    def test_files_of_a_sandwich(self):
        """CSV and SVG have what is shown: the callers of the function and its callees."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            static void* volatile kept;
            static void take_few(void) { kept = malloc(1000); }
            static void take_many(void) { kept = malloc(3000); }
            static void middle(int many) { if (many) take_many(); else take_few(); }
            static void first(void) { middle(1); }
            static void second(void) { middle(0); }
            int main(void) { first(); second(); }
            """)).trace
        self.open(self.trace, view="flame", metric="allocated", shown="sandwich", name="middle")
        head, *lines = self.saved_rows()
        columns = [head.index(name) for name in ("kind", "depth", "name", "allocated_bytes")]
        rows = {tuple(line[column] for column in columns) for line in lines}
        self.assertLessEqual({("caller", "0", "middle", "4000"), ("caller", "1", "first", "3000"),
                              ("caller", "1", "second", "1000"), ("callee", "0", "middle", "4000"),
                              ("callee", "1", "take_many", "3000"), ("callee", "1", "take_few", "1000")}, rows)
        self.assertEqual({name for kind, _, name, _ in rows if kind == "callee"}, {"middle", "take_many", "take_few"})
        texts = [*ElementTree.fromstring(self.saved("SVG")).itertext()]
        for text in ("Callers of middle", "Callees of middle", "first", "take_many"):
            self.assertTrue(any(text in shown for shown in texts), text)

    def test_graphs_that_are_drawn_again(self):
        """None of them stays in memory: the view of a running program draws one twice a second."""
        self.open(self.real(), view="flame", metric="allocated")

        def nodes():
            self.browser.settle()
            self.browser.call("HeapProfiler.collectGarbage")
            return self.browser.call("Memory.getDOMCounters")["nodes"]
        draw = "(async () => { for (let i = 0; i < 10; ++i) await viewPanel.refresh(true); })()"
        self.browser.evaluate(draw)
        before = nodes()
        self.browser.evaluate(draw)
        drawn = self.browser.evaluate("document.querySelectorAll('.flame *').length")
        self.assertGreater(drawn, 50)
        self.assertLess(nodes() - before, 3 * drawn)

    def test_graph_that_gets_less_room(self):
        """Frames have the width of the graph also after the details have appeared beside it."""
        self.addCleanup(self.browser.call, "Emulation.setDeviceMetricsOverride", **self.browser.size)
        self.browser.call("Emulation.setDeviceMetricsOverride", width=1080, height=900, deviceScaleFactor=1,
                          mobile=False)
        self.open(self.real(), view="flame", metric="allocated")
        widths = ("[document.querySelector('.flame svg').clientWidth, Math.max(...[...document.querySelectorAll("
                  "'.flame svg g rect')].map(frame => frame.getBoundingClientRect().width))]")
        wide, widest = self.browser.evaluate(widths)
        self.assertAlmostEqual(widest, wide, delta=1)
        self.select(view="flame", metric="allocated", name="main")
        self.browser.settle()
        narrow, widest = self.browser.evaluate(widths)
        self.assertLess(narrow, wide - 100)
        self.assertAlmostEqual(widest, narrow, delta=1)

    def click_frame(self, begin):
        """Clicks the frame whose label begins with this text."""
        self.browser.click(*self.browser.evaluate(
            "(() => { const label = [...document.querySelectorAll('.flame svg text.label')].find(label => "
            f"label.textContent.startsWith({json.dumps(begin)})); const at = label.getBoundingClientRect();"
            "return [at.left + at.width / 2, at.top + at.height / 2]; })()"))
        self.browser.settle()
        self.settled()

    def test_zoom_to_a_long_path(self):
        """A frame whose callers have very long names is zoomed to as others are: the address and Back keep it."""
        names = [f"level_{i}_{'x' * 1900}" for i in range(6)]
        calls = "".join(f"SITE void {name}(void) {{ {below}(); kept = malloc(100); }}\n"
                        for name, below in zip(names[::-1], ["take", *names[:0:-1]]))
        self.trace = self.record(self.compiled(f"""
            #include <stdlib.h>
            #define SITE __attribute__((noinline))
            void* volatile kept;
            SITE void take(void) {{ kept = malloc(1000); }}
            {calls}
            int main(void) {{ {names[0]}(); kept = malloc(100); }}
            """)).trace
        self.open(self.trace, view="flame", metric="allocated")

        def wait_for_zoom(begin):
            harness.wait_until(lambda: (self.text(".flame .crumbs [aria-current]") or "").startswith(begin),
                               f"{begin} is not zoomed to")
            self.settled()
        self.click_frame("level_1_")
        wait_for_zoom("level_1_")
        for name in ("level_5_", "take"):
            with self.subTest(name=name):
                self.click_frame(name)
                wait_for_zoom(name)
                self.assertRegex(self.text("#details h2"), f"^{name}")
                bookmark = self.browser.evaluate("location.hash")
                for step, begin in (("back", "level_1_"), ("forward", name), ("back", "level_1_")):
                    self.browser.evaluate(f"history.{step}()")
                    wait_for_zoom(begin)
        self.browser.open(self.address(self.trace) + bookmark)
        self.settled()
        self.assertEqual(self.text(".flame .crumbs [aria-current]"), "take")

    def test_flame_graph_by_keyboard(self):
        """Enter selects the function of a frame and zooms to it, as a click does, and the graph keeps the focus."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            static void* volatile kept;
            static void inner(void) { kept = malloc(3000); }
            static void outer(void) { inner(); kept = malloc(1000); }
            int main(void) { outer(); kept = malloc(10); }
            """)).trace
        self.open(self.trace, view="flame", metric="allocated")
        zoomed = ".flame .crumbs [aria-current]"
        is_focused = "document.activeElement === document.querySelector('.flame svg')"
        self.browser.evaluate("document.querySelector('.flame svg').focus()")
        frames = self.texts(".flame svg text.label")
        self.press_each(*["ArrowDown"] * frames.index("outer"), "Enter")
        self.assertEqual([self.text(zoomed), self.text("#details h2")], ["outer", "outer"])
        self.press_each("ArrowDown", "Enter")
        self.assertEqual([self.text(zoomed), self.text("#details h2")], ["inner", "inner"])
        self.press_each("Enter")  # as a second click: out again
        self.assertEqual([self.text(zoomed), self.text("#details h2")], ["outer", "inner"])
        self.press_each("Home")
        self.assertEqual(self.text(zoomed), "all")
        self.assertEqual(self.text("#details h2"), "inner")
        self.assertTrue(self.browser.evaluate(is_focused))
        # The search is that of the page.
        self.press_each("/", *"oute")
        self.assertEqual(self.browser.evaluate("[document.activeElement.id, document.activeElement.value]"),
                         ["search", "oute"])
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.flame svg rect.lit').length"), 1)
        # A sandwich of another function is drawn in the place of this one.
        self.select(view="flame", metric="allocated", shown="sandwich", name="outer")
        self.browser.evaluate("document.querySelectorAll('.flame svg')[1].focus()")
        self.press_each("ArrowDown", "ArrowDown", "Enter")
        self.assertEqual(self.texts("#view h3"), ["Callers of inner", "Callees of inner"])
        self.assertTrue(self.browser.evaluate("document.activeElement === document.querySelectorAll('.flame svg')[1]"))

    def test_match_outside_of_the_zoomed_frame(self):
        """The next match of a search is shown, also outside of the zoomed frame: the address has what is shown then, and
        Back zooms in again."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            static void* volatile kept;
            static void to_the_left(void) { kept = malloc(4000); }
            static void to_the_right(void) { kept = malloc(3000); }
            int main(void) { to_the_left(); to_the_right(); }
            """)).trace
        self.open(self.trace, view="flame", metric="allocated")
        zoomed = ".flame .crumbs [aria-current]"
        self.click_frame("to_the_left")
        self.assertEqual((self.text(zoomed), self.browser.evaluate("selection.now().zoom !== ''")),
                         ("to_the_left", True))
        self.press_each("/", *"the_right")
        self.browser.evaluate("document.querySelector('.flame svg').focus()")
        self.press_each("n")
        self.assertRegex(self.text(".flame .tip.on"), "^to_the_right")
        self.assertEqual((self.text(zoomed), self.browser.evaluate("selection.now().zoom")), ("all", ""))
        self.browser.evaluate("history.back()")
        harness.wait_until(lambda: self.text(zoomed) == "to_the_left", "Back does not zoom in")

    def test_escape_beside_a_search(self):
        """Escape in a graph zooms out, and leaves what the search of the page has found."""
        self.open(self.folder / "plain.heapprof", view="flame", metric="allocated")
        shown = "[document.querySelector('.flame .crumbs [aria-current]').textContent, " \
            "document.querySelectorAll('.flame svg .lit').length, document.querySelector('#search').value]"
        self.browser.press("/", *"demo")
        self.browser.settle()
        before = self.browser.evaluate(shown)
        self.assertEqual(before[::2], ["all", "demo"])
        self.assertGreater(before[1], 0)
        self.browser.evaluate("document.querySelector('.flame svg').focus()")
        self.press_each("ArrowDown", "Enter")
        self.assertNotEqual(self.browser.evaluate(shown)[0], "all")
        self.press_each("Escape")
        self.assertEqual(self.browser.evaluate(shown), before)

    def test_search_is_for_a_text(self):
        """In a picture, `module:` is followed by the name of a module. In the page it is a part of the text that is
        searched, as in tables."""
        self.open(self.folder / "plain.heapprof", view="flame", metric="allocated")
        found = "document.querySelectorAll('.flame svg .lit').length"
        self.browser.press("/", *"demo")
        self.browser.settle()
        self.assertGreater(self.browser.evaluate(found), 0)
        self.browser.press("Escape", *"module:demo")
        self.browser.settle()
        self.assertEqual((self.browser.evaluate(found), self.text(".flame .found")), (0, "no match"))

    def test_focus_of_graphs_that_are_drawn_again(self):
        """A graph keeps the focus when another selection draws it again, and a button beside it when newer figures
        do."""
        folder, (plain, _) = self.recordings("plain", "huge")
        comparison = {"view": "compare", "after": "80%"}
        recordings = {"view": "compare", "other": "1"}
        peak = json.loads(self.heapprof("report", self.real(), "--json"))["heap"]["peak_time_ns"]
        pinned = {"view": "flame", "metric": "pinned", "at": f"{peak}ns"}
        for trace, before, after in ((plain, {**comparison, "before": "20%"}, {**comparison, "before": "10%"}),
                                     (folder, {**recordings, "metric": "allocated"}, {**recordings, "metric": "peak"}),
                                     (self.real(), {**pinned, "by": "function"}, {**pinned, "by": "site"})):
            with self.subTest(**after):
                self.open(trace, **before)
                self.browser.evaluate("window.former = document.querySelector('.flame svg'); former.focus()")
                self.select(**after)
                self.assertEqual(self.browser.evaluate(
                    "[document.activeElement === document.querySelector('.flame svg'), former.isConnected]"),
                    [True, False])
        self.open(plain, view="flame", metric="allocated")
        self.browser.evaluate("[...document.querySelectorAll('.flame .bar button')].find(button => "
                              "button.textContent === 'Flip').focus(); viewPanel.refresh(true)")
        self.assertEqual(self.browser.evaluate("document.activeElement.textContent"), "Flip")


if __name__ == "__main__":
    pages.main()
