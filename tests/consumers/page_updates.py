"""Newer figures of programs that run: they leave what a user does in the page as it is."""

import json
import re

import harness
import pages


class Updates(pages.PageCase):
    def start_many(self, trace):
        """Records a program that allocates 220 blocks in 121 functions for each character of command(), and frees 100."""
        numbers = [f"{number:02}" for number in range(60)]
        self.start_commanded(trace, self.compiled(
            "#include <stdlib.h>\n#include <unistd.h>\nstatic void* volatile kept;\n" +
            "".join(f"__attribute__((noinline)) void take_{number}(void) {{ kept = malloc(1{number}0); }}\n"
                    f"__attribute__((noinline)) void work_{number}(void) {{\n"
                    f"  take_{number}();\n  kept = malloc(1{number});\n}}\n"
                    for number in numbers) +
            "__attribute__((noinline)) void round_of_work(void) {\n" +
            "".join(f"  work_{number}();\n" for number in numbers) +
            "  for (int i = 0; i < 100; ++i) free(malloc(77));\n}\nint main(void) {\n  char command;\n  while (read(0, &command, 1) == 1) {\n    round_of_work();\n"
            "    if (write(1, \".\", 1) != 1) return 1;\n  }\n}\n"))

    def go_on(self):
        """The program allocates, until the view has newer figures."""
        before = self.text("#view")
        self.command("a")
        harness.wait_until(lambda: self.text("#view") != before, "the view has no newer figures")
        self.settled()

    def check_same(self, what):
        """After newer figures, this expression has the same value."""
        before = self.browser.evaluate(what)
        self.go_on()
        self.assertEqual(self.browser.evaluate(what), before)
        return before

    def test_position_in_a_view(self):
        """New figures of a running program leave the scrolled rows, the current one, the order of a table, open and
        closed branches, a flipped graph and the focus as they are."""
        self.start_many(self.dir / "run.heapprof")
        rows = ("(() => { const scroller = document.querySelector('.scroller'); return ["
                "scroller.scrollTop, document.querySelector('#view table').getAttribute('aria-rowcount'), "
                "document.querySelector('tr.current .called').textContent, document.activeElement === scroller, "
                "document.querySelector('th[aria-sort]')?.textContent]; })()")
        scroll = ("document.querySelector('.scroller').focus(); document.querySelector('.scroller').scrollTop = {}; "
                  "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.open(self.dir / "run.heapprof", view="summary")
        self.press_enter("#view th button", "Function")
        self.browser.evaluate(scroll.format(400))
        self.browser.press("ArrowDown", "ArrowDown")
        self.browser.evaluate(scroll.format(300))
        with self.subTest("table"):
            self.assertEqual(self.check_same(rows)[::3], [300, True])
            self.browser.evaluate("document.querySelector('.tile').focus()")
            self.check_same("[document.activeElement.className, document.activeElement.children[0].textContent]")
        self.select(view="tree", metric="allocated")
        with self.subTest("tree"):
            self.browser.evaluate(scroll.format(0))
            closed = self.browser.evaluate("document.querySelector('#view table').getAttribute('aria-rowcount')")
            for _ in range(10):  # the functions of the C library are first
                if self.text("tr.current .called").startswith("work_"):
                    break
                self.browser.press("ArrowDown")
            self.browser.press("ArrowRight")
            self.browser.evaluate(scroll.format(300))
            shown = self.check_same(rows)
            self.assertEqual((int(shown[1]), shown[0], shown[3]), (int(closed) + 1, 300, True))
            self.browser.press("Home", "ArrowLeft")
            self.assertEqual(self.check_same(rows)[1], "2")
        self.select(view="flame", metric="allocated")
        with self.subTest("flame graph"):
            self.browser.evaluate("document.querySelector('.hp .chart svg').focus()")
            self.browser.press("f")
            for _ in range(10):  # from what the C library calls
                if self.text(".tip strong").startswith("work_"):
                    break
                self.browser.press("ArrowUp")
            self.browser.press("ArrowRight")
            shown = self.check_same(
                "[document.activeElement.getAttribute('role'), document.querySelector('.tip strong').textContent, "
                "document.querySelector('.hp .bar [aria-pressed=true]').textContent, "
                "document.querySelector('.tip').className]")
            self.assertEqual((shown[0], shown[1][:5], *shown[2:]), ("application", "work_", "Flip", "tip on"))
            self.assertEqual(self.text("#view .unseen[aria-live]"), "")
            self.browser.evaluate("document.activeElement.blur()")
            self.browser.move(*self.browser.evaluate(
                "(() => { const at = [...document.querySelectorAll('.hp .chart text')].find(text => "
                "text.textContent === 'round_of_work').previousSibling.getBoundingClientRect();"
                "return [at.left + 20, at.top + at.height / 2]; })()"))
            self.assertEqual(self.check_same("[document.querySelector('.tip strong').textContent, "
                                             "document.querySelector('.tip').className]"), ["round_of_work", "tip on"])
        self.select(view="lifetimes", metric="allocated")
        with self.subTest("lifetimes"):
            self.browser.call("Emulation.setDeviceMetricsOverride", width=1400, height=500, deviceScaleFactor=1,
                              mobile=False)
            try:
                self.browser.evaluate("document.querySelector('.heat [tabindex=\"0\"]').focus()")
                self.browser.press("ArrowDown")
                self.browser.evaluate("document.querySelector('.scrolled').scrollTop = 150; 0")
                shown = self.check_same("[document.querySelector('.scrolled').scrollTop, "
                                        "document.activeElement.dataset.name]")
                self.assertEqual(shown[0], 150)
            finally:
                self.browser.call("Emulation.setDeviceMetricsOverride", **self.browser.size)

    def test_sentences_that_are_asked_for_again(self):
        """The sentences of the summary about growth and short lives stay until newer ones are known."""
        self.start_many(self.dir / "run.heapprof")
        self.open(self.dir / "run.heapprof", view="summary")
        self.go_on()
        self.assertIn(" were freed within ", self.text(".findings"))
        self.hold("leaks|churn")
        before = self.text("#view .tiles")
        while not self.browser.evaluate("held.length"):  # they are asked for again after ten times their time
            self.command("a")
            harness.wait_until(lambda: self.text("#view .tiles") != before, "the view has no newer figures")
            before = self.text("#view .tiles")
        self.assertIn(" were freed within ", self.text(".findings:not(.waiting)"))
        self.assertNotIn("Reading", self.text(".findings"))
        self.release()
        self.settled()
        self.assertIn(" were freed within ", self.text(".findings"))

    def test_rows_of_a_later_page(self):
        """Blocks that were scrolled to, beyond those of the first answer, have their figures all the time."""
        self.start_commanded(self.dir / "run.heapprof")
        self.command("a" * 60)
        self.open(self.dir / "run.heapprof", view="blocks", metric="leaked", sort="age")
        shown = "document.querySelector('#view tr[data-index=\"400\"]:not(.pending)') !== null"
        self.browser.evaluate("document.querySelector('.scroller').scrollTop = 400 * 29")
        harness.wait_until(lambda: self.browser.evaluate(shown), "the rows are not shown")
        # After the frame in which the view is drawn again.
        self.browser.evaluate(
            "window.missing = 0; new MutationObserver(() => requestAnimationFrame(() => setTimeout(() => { "
            f"if (!({shown})) ++missing; }}, 0))).observe(document.querySelector('#view'), {{childList: true}})")
        self.check_same("document.querySelector('.scroller').scrollTop")
        self.assertTrue(self.browser.evaluate(shown))
        self.assertEqual(self.browser.evaluate("missing"), 0)

    def test_fields_of_a_view(self):
        """New figures leave a list as it is that may be open, and what is typed into a field."""
        self.start_many(self.dir / "run.heapprof")
        self.open(self.dir / "run.heapprof", view="blocks", metric="leaked")
        self.browser.evaluate("document.querySelector('#view-head select').focus(); document.activeElement.mine = true")
        self.assertTrue(self.check_same("document.activeElement.mine === true"))
        self.select(view="compare")
        self.click("#view-head input")
        self.browser.press("End", *"1")
        typed = self.check_same("document.activeElement.value")
        self.assertEqual(typed[-1], "1")
        after = self.browser.evaluate("document.querySelectorAll('#view-head input')[1].value")
        self.browser.press("Enter")
        self.browser.settle()
        self.settled()
        self.assertEqual(self.browser.evaluate("[selection.now().before, selection.now().after]"), [typed, after])

    def test_figures_that_wait(self):
        """While the mouse is pressed on a row, or text of the view is selected, new figures wait: neither the click nor
        the text is lost. Then they are shown."""
        self.start_many(self.dir / "run.heapprof")
        self.open(self.dir / "run.heapprof", view="table", metric="allocated")
        row = "document.querySelector('#view tbody tr[data-index=\"3\"] .called')"
        left, top, name = self.browser.evaluate(
            f"(() => {{ const row = {row}, at = row.getBoundingClientRect(); row.mine = true; "
            "return [at.left + 5, at.top + 5, row.textContent]; })()")

        def mouse(kind):
            self.browser.call("Input.dispatchMouseEvent", type=kind, x=left, y=top, button="left", clickCount=1)

        def check_wait():
            self.command("a")
            harness.wait_until(lambda: self.texts("#view-head .held") == ["new figures wait"], "nothing waits")
            self.assertTrue(self.browser.evaluate(f"{row}.mine"))
        before = self.shown_bytes(name)
        self.browser.move(left, top)
        mouse("mousePressed")
        check_wait()
        mouse("mouseReleased")
        harness.wait_until(lambda: self.text("#details h2") == name, "the click is lost")
        harness.wait_until(lambda: self.shown_bytes(name) == 2 * before, "the figures of the table still wait")
        self.settled()
        self.assertEqual(self.texts(".held"), [])
        self.browser.evaluate(f"{row}.mine = true; getSelection().selectAllChildren({row}); 0")
        check_wait()
        self.assertEqual(self.browser.evaluate("String(getSelection())"), name)
        self.browser.evaluate("getSelection().removeAllRanges()")
        harness.wait_until(lambda: self.shown_bytes(name) == 3 * before, "the figures of the table still wait")
        self.assertEqual(self.texts(".held"), [])
        # So does the command line, which changes less often.
        self.browser.evaluate("getSelection().selectAllChildren(document.querySelector('#command')); 0")
        self.go_on()
        self.assertEqual(self.browser.evaluate("String(getSelection())"), self.text("#command"))
        # The end waits, too.
        self.browser.evaluate(f"{row}.mine = true; getSelection().selectAllChildren({row}); 0")
        check_wait()
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)
        harness.wait_until(lambda: "exited" in self.text("#about"), "the end is not shown")
        self.assertTrue(self.browser.evaluate(f"{row}.mine"))
        self.browser.evaluate("getSelection().removeAllRanges()")
        harness.wait_until(lambda: self.shown_bytes(name) == 5 * before, "the last figures are not shown")

    def test_details_follow(self):
        """The details have the figures of the table, while the program runs and after its end; and stay as they are
        while text of them is selected. Frames that were unfolded stay so."""
        self.start_many(self.dir / "run.heapprof")
        self.open(self.dir / "run.heapprof", view="table", metric="allocated", name="round_of_work")
        figure = lambda: dict(zip(self.texts("#details dt"), self.texts("#details dd"))).get("allocated")
        of_rounds = lambda rounds: self.shown_as("sentence", "allocated", {"allocated_bytes": rounds * size,
                                                                           "allocations": rounds * 220})
        size = 100 * 77 + sum(1000 + 10 * number + 100 + number for number in range(60))
        self.assertEqual(figure(), of_rounds(1))
        self.go_on()
        harness.wait_until(lambda: figure() == of_rounds(2), "the details have old figures")
        self.settled()
        title = "document.querySelector('#details h2')"
        self.browser.evaluate(f"{title}.mine = true; getSelection().selectAllChildren({title}); detailsPanel.update()")
        self.assertTrue(self.browser.evaluate(f"{title}.mine"))
        self.browser.evaluate("getSelection().removeAllRanges()")
        harness.wait_until(lambda: not self.browser.evaluate(f"{title}.mine"), "the details still wait")
        self.settled()
        folded = self.texts("#details .stack li")
        self.browser.evaluate("document.querySelector('#details .folded button').click()")
        frames = self.texts("#details .stack li")
        self.assertGreater(len(frames), len(folded))
        # Nor are they without the median size in between, which is known later.
        self.browser.evaluate(
            "window.blank = 0; new MutationObserver(() => { if (document.querySelector('#details .waiting')) ++blank; })"
            ".observe(document.querySelector('#details'), {childList: true}); 0")
        self.hold("histogram")
        self.browser.evaluate("ask.forget(true, 0); detailsPanel.update(); 0")
        harness.wait_until(lambda: self.browser.evaluate("[held.length, document.documentElement.dataset.pending]") ==
                           [1, "1"], "something else is awaited")
        self.browser.settle()
        self.release()
        self.settled()
        self.assertEqual(self.texts("#details .stack li"), frames)
        self.assertIn("median size", self.texts("#details dt"))
        self.assertEqual(self.browser.evaluate("blank"), 0)
        self.command("a")
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)
        harness.wait_until(lambda: "exited" in self.text("#about") and figure() == of_rounds(3), "the details are old")
        self.settled()

    def test_header_of_a_running_program(self):
        """Newer figures change only their own texts in the header: text that is selected in others stays selected, and
        tooltips stay open. A text that is selected itself is changed afterwards."""
        self.start_many(self.dir / "run.heapprof")
        self.open(self.dir / "run.heapprof", view="table", metric="allocated")
        harness.wait_until(lambda: " live in " in self.text("#about"), "the header does not follow")
        self.settled()
        selected = "String(getSelection())"

        def choose(text):
            """Selects this text of the header, as a double click or a drag does."""
            self.assertTrue(self.browser.evaluate(
                "(() => { const walker = document.createTreeWalker(document.querySelector('#about'), "
                "NodeFilter.SHOW_TEXT); while (walker.nextNode()) { const node = walker.currentNode; "
                f"const at = node.data.indexOf({json.dumps(text)}); if (at < 0) continue; "
                f"getSelection().setBaseAndExtent(node, at, node, at + {len(text)}); return true; }} "
                "return false; })()"), text)
            self.assertEqual(self.browser.evaluate(selected), text)

        def events():
            return re.search(r"[\d,.]+ M?\s*events", self.text("#about"))[0]

        def go_on():
            before = events()
            self.command("a")
            harness.wait_until(lambda: events() != before, "the header does not follow")
        choose(f"pid {self.process.pid}")
        self.browser.evaluate(
            "window.replaced = []; new MutationObserver(records => replaced.push(...records.map(({type, target}) => "
            "`${type} of ${target.id || target.localName}`))).observe(document.querySelector('#header'), "
            "{childList: true, subtree: true, attributes: true, attributeFilter: ['title']}); 0")
        go_on()
        self.assertEqual(self.browser.evaluate(selected), f"pid {self.process.pid}")
        self.assertEqual(self.browser.evaluate("replaced"), [])
        live = re.search(r"\S+ \w+ live in .*", self.text("#about"))[0]
        choose(live)
        go_on()
        self.assertEqual(self.browser.evaluate(selected), live)
        self.browser.evaluate("getSelection().removeAllRanges()")
        harness.wait_until(lambda: live not in self.text("#about"), "the text still waits")
        # So does the last line of the page. It is selected after it was drawn: otherwise it would stay grey, as it is
        # while the page waits for its figures.
        self.settled()
        self.browser.evaluate("getSelection().selectAllChildren(document.querySelector('#sentence')); 0")
        sentence = self.browser.evaluate(selected)
        self.assertTrue(sentence)
        self.go_on()
        self.assertEqual(self.browser.evaluate(selected), sentence)
        self.browser.evaluate("getSelection().removeAllRanges()")
        harness.wait_until(lambda: sentence not in self.text("#sentence"), "the last line still waits")

    def test_row_of_a_running_program(self):
        """The details of a row have its figures, and say of which moment; those of a program that has ended do not."""
        self.start_many(self.dir / "run.heapprof")
        self.open(self.dir / "run.heapprof", view="leaks", metric="leaked")
        self.click("#view tbody tr[data-index] th")
        self.assertEqual(self.texts("#details dt")[-1], "as of")
        moment = self.texts("#details dd")[-1]
        self.assertEqual(moment, self.shown_as("time", self.browser.evaluate("recording.info().duration_ns")))
        self.go_on()
        self.assertEqual(self.texts("#details dd")[-1], moment)
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)
        harness.wait_until(lambda: "exited" in self.text("#about"), "the end is not shown")
        self.settled()
        self.click("#view tbody tr[data-index] th")
        self.assertTrue(self.texts("#details dt"))
        self.assertNotIn("as of", self.texts("#details dt"))

    def test_updates_are_not_announced(self):
        """A screen reader reads what the user has asked for, not each update. An error is shown once."""
        self.start_many(self.dir / "run.heapprof")
        self.open(self.dir / "run.heapprof", view="table", metric="allocated")
        self.browser.press("/", *"work_1")
        announced = self.text("#announce")
        self.assertEqual(announced, "10 rows found")
        self.browser.evaluate("(() => { const place = document.querySelector('#announce'); window.announced = []; "
                              "new MutationObserver(() => announced.push(place.textContent)).observe(place, "
                              "{childList: true, characterData: true, subtree: true}); })()")
        self.go_on()
        self.assertEqual(self.browser.evaluate("announced"), [])
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)
        harness.wait_until(lambda: "Table. Whole recording: " in "".join(self.browser.evaluate("announced")),
                           "the end is not announced")
        self.select(view="table", function="(")
        self.browser.evaluate("document.querySelector('#view .error').mine = true; viewPanel.update()")
        self.assertTrue(self.browser.evaluate("document.querySelector('#view .error').mine"))
        self.browser.errors.clear()  # the browser reports answers that are errors


if __name__ == "__main__":
    pages.main()
