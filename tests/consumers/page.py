"""The page of `heapprof serve` in Chromium, used as a user does: each view's figures equal those of the command line,
also for names that are difficult; mouse, keyboard, search, filters, narrow and wide windows, errors."""

import base64
import contextlib
import csv
import io
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import unittest.mock
import urllib.parse
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import browser
import consumers
import harness
import large_recording
import marionette
import nasty

METRICS = {"peak": "peak_bytes", "leaked": "leaked_bytes", "allocated": "allocated_bytes",
           "allocations": "allocations", "temporary": "temporary_allocations", "live": "live_bytes"}
# Of one recording, those with keys first; a directory has "processes", too.
VIEWS = ("summary", "flame", "table", "tree", "leaks", "blocks", "lifetimes", "threads", "source", "compare",
         "resident")


# The contrast of the labels of the heat map with their cells, for each grade of bytes.
HEAT_CONTRAST = """(() => {
const parts = colour => colour.match(/[\\d.]+/g).map(Number).slice(0, 3);
const luminance = colour => colour.map(part => part / 255).map(part => part <= .03928 ? part / 12.92 :
  ((part + .055) / 1.055) ** 2.4).reduce((sum, part, i) => sum + part * [.2126, .7152, .0722][i], 0);
const page = parts(getComputedStyle(document.body).backgroundColor);
const cell = document.querySelector('.heat rect'), text = cell.nextElementSibling;
return [0, 1, 2, 3, 4, 5, 6, 7, 8].map(grade => {
  cell.setAttribute('class', `heat${grade}`);
  text.setAttribute('class', `heat-label heat${grade}`);
  const {fill, fillOpacity} = getComputedStyle(cell), label = getComputedStyle(text).fill;
  const shown = parts(fill).map((part, i) => part * fillOpacity + page[i] * (1 - fillOpacity));
  const [one, other] = [luminance(shown), luminance(parts(label))];
  return (Math.max(one, other) + .05) / (Math.min(one, other) + .05); }); })()"""


class PageCase(consumers.Case):
    """A browser, and servers of traces."""

    many_stacks = 100_000  # a list that is long also without the blocks that are freed

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.servers = {}
        cls.browser = browser.Browser(harness.shared_folder(), options=browser.ONE_PROCESS)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        super().setUp()
        self.trace = self.dir
        self.browser.errors.clear()

    def tearDown(self):
        errors = self.browser.errors.copy()
        if self.trace.is_relative_to(self.dir):
            self.browser.open("about:blank")  # asks nothing more about traces that are removed
        self.assertEqual(errors, [])

    @classmethod
    def address(cls, trace, *options):
        """The address that the server of the trace prints; it is started once."""
        if trace not in cls.servers:
            server = subprocess.Popen([harness.HEAPPROF, "serve", trace, "--no-open", *options], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                      cwd=harness.shared_folder(), env=harness.analyzer_environment())
            cls.addClassCleanup(cls.end, server)
            cls.servers[trace] = server.stdout.readline().strip()
        return cls.servers[trace]

    @staticmethod
    def end(server):
        server.kill()
        server.wait()
        server.stdout.close()

    def open(self, trace, /, *options, dark=False, **selection):
        self.trace = trace
        fragment = "&".join(f"{key}={urllib.parse.quote(value, safe='')}" for key, value in selection.items())
        self.browser.open(f"{self.address(trace, *options)}#{fragment}", dark=dark)
        self.settled()

    def settled(self):
        """Waits until everything that was asked is on the page, and tables have their columns: those are chosen with
        the next frame."""
        drawn = ("new Promise(done => { const check = () => ['#view', '#details'].every(part => { "
                 "const shown = (document.querySelector(part) || {}).dataset; "
                 "return shown && shown.asked !== undefined && shown.asked === shown.drawn; }) && "
                 "document.querySelector('.waiting') === null && "
                 "['0', undefined].includes(document.documentElement.dataset.pending) ? "
                 "requestAnimationFrame(() => requestAnimationFrame(done)) : setTimeout(check, 20); check(); })")
        for _ in range(10):
            try:
                return self.browser.evaluate(drawn)
            except RuntimeError as error:
                if "navigated" not in str(error):  # the page before was still there
                    raise
        self.fail("the page does not stay")

    def select(self, **selection):
        """Adds to the address, as a link does."""
        fragment = "&".join(f"{key}={urllib.parse.quote(value, safe='')}" for key, value in selection.items())
        self.browser.evaluate(f"location.hash = {json.dumps(fragment)}; new Promise(done => setTimeout(done, 0))")
        self.settled()

    def text(self, selector):
        return self.browser.evaluate(f"(document.querySelector({json.dumps(selector)}) || {{}}).textContent")

    def texts(self, selector):
        return self.browser.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(element => element.textContent)")

    def click(self, selector, text=None):
        """Clicks the first element that matches, and has this text; in its first line, if it is a link with several."""
        where = self.browser.evaluate(
            f"(() => {{ const element = [...document.querySelectorAll({json.dumps(selector)})].find(element => "
            f"{json.dumps(text)} === null || element.textContent.includes({json.dumps(text)}));"
            "if (!element) return null; element.scrollIntoView({block: 'nearest'});"
            "const at = element.getClientRects()[0]; return [at.left + at.width / 2, at.top + at.height / 2]; "
            "})()")
        self.assertIsNotNone(where, f"nothing matches {selector} {text}")
        self.browser.click(*where)
        self.browser.settle()
        self.settled()

    def saved(self, label, button=".saves button"):
        """The text of the file that the button with this label saves."""
        return self.browser.evaluate(
            "new Promise(done => { const create = URL.createObjectURL; URL.createObjectURL = blob => { "
            "URL.createObjectURL = create; blob.text().then(done); return create.call(URL, blob); };"
            f"[...document.querySelectorAll('{button}')].find(button => button.textContent === '{label}').click(); }})")

    def saved_rows(self, button=".saves button"):
        """The rows of the file that the button CSV saves, as lists of texts."""
        return list(csv.reader(io.StringIO(self.saved("CSV", button))))

    def hold(self, pattern):
        """Requests whose addresses match wait for release()."""
        self.browser.evaluate(
            "(() => { const fetched = window.fetch; window.held = []; window.fetch = (...asked) => "
            f"!/{pattern}/.test(asked[0]) ? fetched(...asked) : new Promise(done => "
            "held.push(() => done(fetched(...asked)))); })()")

    def release(self):
        self.browser.evaluate("(() => { for (const release of held) release(); "
                              "held.push = release => release(); })()")

    def compiled(self, source):
        """The path of a program of C, with debug information, in a directory of its own."""
        program = self.dir / "program"
        subprocess.run(["cc", "-O0", "-g", "-pthread", "-x", "c", "-", "-o", program], input=source, text=True,
                       check=True, timeout=60)
        return program

    def json(self, command, *options):
        return json.loads(self.heapprof(command, self.trace, *options, "--json"))

    def printed(self):
        """What the command of the status line prints with --json."""
        words = shlex.split(self.text("#command"))
        self.assertEqual(words[0], "heapprof")
        # A file has the name of its recording only; moments of it follow @.
        name = self.trace.name
        words = [f"{self.trace}{word[len(name):]}" if word == name or word.startswith(f"{name}@") else word
                 for word in words]
        return json.loads(self.heapprof(*words[1:], "--json"))


class Page(PageCase):
    # ---- Figures of the views

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

    def test_saved_marks(self):
        self.open(self.record(harness.program("freed_end"), "1000").trace, view="table")
        timeline = self.json("timeline", "--sites", "6")
        self.assertEqual([mark["text"] for mark in timeline["marks"]], ["trim"])
        self.check_saved_timeline(timeline)

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

    def tip_of(self, place):
        """The tooltip of the frame with this upper and lower edge."""
        left = self.browser.evaluate("document.querySelector('.flame .chart').getBoundingClientRect().left")
        self.browser.move(left + 20, (place[0] + place[1]) / 2)
        self.browser.settle()
        return self.text(".flame .tip.on")

    def check_table(self, rows, metric):
        key = METRICS[metric]
        head, *lines = self.saved_rows()
        own, total = head.index("Self"), head.index("Total")
        self.assertEqual(sorted((line[0].removeprefix("'"), line[own], line[total]) for line in lines),
                         sorted((row["name"], str(row["self"][key]), str(row["total"][key]))
                                for row in rows))
        self.assertEqual([int(line[own]) for line in lines], sorted((int(line[own]) for line in lines), reverse=True))

    def test_table(self):
        self.open(self.real(), view="table")
        for by in ("function", "site", "stack", "thread"):
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

    def test_rows_that_are_no_functions(self):
        """They are explained, and what is left out of a branch of the tree can be shown."""
        self.open(self.real(), view="table", name="(no own code)", **{"only-own": "1"})
        self.assertIn("have no function of the program's own code", self.text("#details"))
        self.assertIsNone(self.text("#details .error"))
        # A program with many functions.
        python = self.record("/usr/bin/python3", "-S", "-c", "import json", _PYTHONMALLOC="malloc").trace
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
        paths = "if (depth == 2) spread(); if (depth == 0) fine(); else { left(depth - 1); right(depth - 1); }"
        trace = self.record(self.compiled("""
            #include <stdlib.h>
            #define SITE __attribute__((noinline))
            void* volatile kept;
            SITE void spread(void) { kept = malloc(10); }
            SITE void fine(void) { kept = malloc(20); }
            void left(int depth);
            void right(int depth);
            SITE void left(int depth) { PATHS }
            SITE void right(int depth) { PATHS }
            int main(void) { left(14); }
            """.replace("PATHS", paths))).trace
        sandwich = {"view": "flame", "metric": "allocated", "shown": "sandwich"}
        self.open(trace, name="spread", **sandwich)
        lines, size = self.check_sandwich("spread", 4096 * 10)
        self.assertEqual(sorted(line for line in lines if line[:2] == ["caller", "1"]),
                         [["caller", "1", name, str(size // 2)] for name in ("left", "right")])
        self.assertEqual(sorted((caller["name"], caller["total"]["allocated_bytes"])
                                for caller in self.printed()["callers"]), [("left", size // 2), ("right", size // 2)])
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

    def test_sandwich_of_the_peak(self):
        """It has what the function has at the peak of the recording, which is not its own."""
        self.trace = self.record(self.compiled("""
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
        self.open(self.trace, view="flame", metric="peak", shown="sandwich", name="early")
        self.assertEqual(self.printed()["total"]["peak_bytes"], 10_000)
        head, *lines = self.saved_rows()
        self.assertEqual({int(line[head.index("peak_bytes")]) for line in lines}, {10_000})

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

    def check_levels(self, levels):
        """A graph that is higher than its window says how many levels are outside, and a click shows them."""
        self.browser.evaluate("document.querySelector('.flame').style.maxHeight = '150px';"
                              "window.dispatchEvent(new Event('resize'))")
        self.browser.settle()
        height = self.browser.evaluate("document.querySelector('.flame .chart').clientHeight")
        outside = levels - round(height / 19)  # ROW of flamegraph.js
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
        self.browser.settle()
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

    def record_freed(self):
        """Two call sites: 30 of 40 blocks of the first are freed by two functions, and 1 of 2 of the second one by the
        first function."""
        return self.record(self.compiled("""
            #include <stdlib.h>
            #define SITE __attribute__((noinline))
            SITE void* request_small(void) { return malloc(100); }
            SITE void* request_large(void) { return malloc(5000); }
            SITE void drop_first(void* block) { free(block); }
            SITE void drop_second(void* block) { free(block); }
            int main(void) {
              void* small[40];
              void* large[2];
              for (int i = 0; i < 40; ++i) small[i] = request_small();
              for (int i = 0; i < 2; ++i) large[i] = request_large();
              for (int i = 0; i < 20; ++i) drop_first(small[i]);
              for (int i = 20; i < 30; ++i) drop_second(small[i]);
              drop_first(large[0]);
              return small[39] == NULL || large[1] == NULL;
            }
            """), FREE_STACKS="yes").trace

    def check_freed(self):
        """The call site request_small in the details: who frees its other blocks, as the command line prints it."""
        self.click("#view tbody tr[data-index] th", "request_small")
        self.check_left()
        sums = {}
        for pair in self.json("frees", "--function", "^request_small$", "--top", "0")["pairs"]:
            by = next(frame["function"] for frame in pair["freed_by"] if frame["function"].startswith("drop"))
            sums[by] = sums.get(by, 0) + pair["bytes"]
        self.assertEqual(sums, {"drop_first": 2000, "drop_second": 1000})
        self.assertEqual(self.texts("#details .calls li"),
                         [name + f"{self.shown_as('bytes', size)} {self.shown_as('percent', size, 3000)}"
                          for name, size in sums.items()])

    def check_left(self):
        """The figures and the stack of request_small."""
        figures = dict(zip(self.texts("#details dt"), self.texts("#details dd")))
        self.assertEqual(figures["left"], f"{self.shown_as('bytes', 1000)} in {self.shown_as('plural', 10, 'block')}")
        self.assertIn("request_small", self.text("#details .stack"))

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
                largest = max(rows, key=lambda row: row["total"][METRICS[metric]])
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
        column = head.index(METRICS[metric]) if METRICS[metric] in head else head.index("Total")
        name = head.index("name")
        known = {}
        for node in [*root["children"], root]:
            known.setdefault(node["name"], set()).add(str(node["total"][METRICS[metric]]))
        depth = "0" if "Total" in head else "1"
        shallow = [line for line in lines
                   if line[0] == depth and not line[name].removeprefix("'").startswith("+")]
        self.assertEqual(len(shallow), len(root["children"]))
        for line in shallow:
            self.assertIn(line[column], known[line[name].removeprefix("'")])

    def check_shares(self, head, lines, values, total):
        """The column of shares has those of these values in the total."""
        self.assertTrue(values)
        for line, value in zip(lines, values, strict=True):
            self.assertAlmostEqual(float(line[head.index("share")]), value / total if total else 0)

    def check_blocks(self):
        total = self.printed()["total"]
        self.assertIn(f"{self.shown_as('plural', total['blocks'], 'block')}, "
                      f"{self.shown_as('bytes', total['bytes'])} live at", self.text(".shown"))
        # The first sentence of the page is about the same blocks.
        self.assertIn(f"{self.shown_as('bytes', total['bytes'])} in "
                      f"{self.shown_as('plural', total['blocks'], 'block')}", self.text("#sentence"))

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
        own = {str(row["tid"]): row["self"][METRICS[metric]] for row in rows["rows"]}
        self.check_shares(head, lines, [own.get(line[tid], 0) for line in lines], rows["total"][METRICS[metric]])

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
                         {(file["file"] or "(no file is known)", str(file["self"][METRICS[metric]]))
                          for file in self.printed()["files"]})

    def check_details(self, row, metric):
        """The figures beside the view are those of the row, and of a stack of it."""
        figures = dict(zip(self.texts("#details dt"), self.texts("#details dd")))
        value = row["total"][METRICS[metric]]
        self.assertIn(f"{self.shown_as('bytes', value)} in ", next(iter(figures.values())))
        part, share = re.search("Largest stack([^,]+), ([^%]+%) of it", self.text("#details")).groups()
        words = shlex.split(self.text("#command"))
        selected = words[words.index(str(self.trace)) + 1:]
        stack = json.loads(self.heapprof("callers", self.trace, row["name"], "--cost", metric, "--json",
                                         *selected))["largest_stack"]
        self.assertLessEqual(stack["bytes"], value)
        self.assertEqual((part, share), (self.shown_as("bytes", stack["bytes"]),
                                         self.shown_as("percent", stack["bytes"], value)))

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

    def check_figures(self, figures, metric):
        """The details have the selected metric, and those beside it."""
        shown = self.details()
        words = {"allocated": "allocated", "live": "live", "leaked": "never freed" if metric == "live" else
                 "left at the end", "peak": "live at the peak"}
        self.assertEqual(shown[words[metric]], self.shown_as("sentence", metric, figures))
        self.assertGreater(figures[METRICS[metric]], 0)
        for other in ("leaked",) if metric == "live" else ("leaked", "peak"):
            self.assertEqual(shown[words[other]], self.shown_as("bytes", figures[METRICS[other]]))

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
                return f"{self.shown_as(form, part[low])} to {self.shown_as(form, part[high])}"
        return None

    def check_leaks(self):
        """Tiles and rows are those that the copied command prints: of call sites, also where their stacks have other
        trends."""
        leaks = self.printed()
        if not leaks["sites"]:
            self.assertTrue(self.texts("#view .empty"))
            return leaks
        figures = {label: tuple(texts) for label, *texts in self.browser.evaluate(
            "[...document.querySelectorAll('.tile')].map(tile => [...tile.children].map(part => part.textContent))")}
        self.assertEqual({label: figures[label] for label in list(figures)[:4]}, {
            key.replace("_", " "): (self.shown_as("bytes", of["bytes"]),
                                    f"{self.shown_as('plural', of['blocks'], 'block')}, "
                                    f"{self.shown_as('plural', of['sites'], 'call site')}")
            for key, of in leaks["site_trends"].items()})
        head, *lines = self.saved_rows()
        self.assertIn("# \u25b4", self.texts("#view thead th"))
        self.assertEqual([line[head.index("#")] for line in lines], [str(i + 1) for i in range(len(lines))])
        columns = [head.index(name) for name in ("Left", "Blocks", "Trend")]
        self.assertEqual([[line[column] for column in columns] for line in lines], [
            [str(site["bytes"]), str(site["blocks"]),
             "with_load" if site["trend"] == "stable" and site["grew_with_load"] else site["trend"]]
            for site in leaks["sites"]])
        columns = [head.index(name) for name in ("name", "file", "line", "module")]
        placed = [(line, site["site"]) for line, site in zip(lines, leaks["sites"], strict=True) if site["site"]]
        self.assertTrue(placed)
        for line, site in placed:
            name, *place = (line[column].removeprefix("'") for column in columns)
            self.assertEqual(place, [str(site[key] or "") for key in ("file", "line", "module")])
            if site["function"]:
                self.assertEqual(name, site["function"])
        for line, site in zip(lines, leaks["sites"]):
            self.assertAlmostEqual(float(line[head.index("Freed")]), 1 - site["survival"])
        self.check_shares(head, lines, [site["bytes"] for site in leaks["sites"]], leaks["heap"]["leaked_bytes"])
        return leaks

    def shown_as(self, form, *values):
        """A figure as the page's function figures.FORM() writes it."""
        return self.browser.evaluate(f"figures.{form}({', '.join(map(json.dumps, values))})")

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

    def check_changes(self):
        head, *lines = self.saved_rows()
        self.assertEqual({(line[0].removeprefix("'"), line[head.index("Net")],
                           line[head.index("New")]) for line in lines},
                         {(site["name"], str(site["bytes"]), str(site["new_bytes"]))
                          for site in self.printed()["sites"]})

    def test_progress(self):
        """A recording of more than 16 MB without an index: the page shows that it is read, sums so far, then its
        figures."""
        self.trace = Path(shutil.copy(large_recording.recording(), self.dir))
        for round_number in range(20):
            cache = self.dir / f"cache{round_number}"
            server = self.popen([harness.HEAPPROF, "serve", self.trace, "--no-open"], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                env=harness.clean_environment(XDG_CACHE_HOME=cache))
            children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
            self.browser.open(server.stdout.readline().strip())
            indexes = lambda: list(cache.glob("heapprof/index/*.idx"))
            started = harness.wait_until(lambda: indexes() or children.read_text().split(), "nothing is read")
            if indexes():
                continue  # it was read before the page was loaded: again
            child = int(started[0])
            harness.wait_until(lambda: indexes() or self.browser.evaluate(
                "ask.progress().then(all => all.some(one => one.so_far))"), "no sums, and no index")
            with contextlib.suppress(ProcessLookupError):  # it has ended: again
                os.kill(child, signal.SIGSTOP)
                if not indexes():
                    break
                os.kill(child, signal.SIGCONT)
        else:
            self.fail("every index was written before its process could be stopped")
        harness.wait_until(lambda: "writing its index" in self.text("#progress"), "no progress is shown")
        self.assertEqual(self.texts(".tile"), [])
        harness.wait_until(lambda: re.fullmatch(
            r"So far, up to [\d.]+ \S*s of the recording: [\d.]+ ([KMG]i)?B live in [\d.,]+( [kMG])? blocks?; peak "
            r"[\d.]+ ([KMG]i)?B; [\d.,]+( [kMG])? allocations? of [\d.]+ ([KMG]i)?B\.", self.text("#progress .so-far") or ""), "no sums are shown")
        os.kill(child, signal.SIGCONT)
        self.settled()
        self.assertEqual(self.text("#progress"), "")
        self.assertEqual(int(re.sub(r"\D", "", self.browser.evaluate("document.querySelector('.tile').title"))),
                         self.json("report")["heap"]["peak_bytes"])

    def test_leaks_before_their_trends(self):
        """Trends need every event: until they are known, what is left is shown without them."""
        self.open(self.real(), view="summary")
        self.browser.evaluate(
            "(() => { const fetched = window.fetch; window.fetch = (address, ...more) => "
            "/leaks/.test(address) && !/no-history/.test(address) ? new Promise(done => { "
            "window.release = () => done(fetched(address, ...more)); }) : fetched(address, ...more); })()")
        self.browser.evaluate("location.hash = 'view=leaks&metric=leaked'")
        harness.wait_until(lambda: "for the trends" in (self.text("#view-head .shown") or ""), "no figures")
        self.assertEqual(self.texts(".tile b")[:4], ["..."] * 4)
        head, *lines = self.saved_rows()
        self.assertEqual([line[head.index("Left")] for line in lines],
                         [str(site["bytes"]) for site in self.json("leaks", "--no-history", "--top", "200")["sites"]])
        self.browser.evaluate("release()")
        self.settled()
        self.check_leaks()
        self.check_awaited()

    def check_awaited(self):
        """While answers are awaited, nothing that is shown as current is of the view and the function before."""
        self.select(view="table", metric="peak")
        self.hold("^(?!.*progress)")
        self.browser.evaluate("location.hash = 'view=tree&metric=allocated&name=main'; "
                              "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.assertEqual((self.text("#view-head h1"), self.text("#command")),
                         ("Tree", f"heapprof tree {self.trace} --cost allocated --min-share 0.1"))
        kind = "document.querySelector('#view').className"
        harness.wait_until(lambda: self.browser.evaluate(kind) == "waiting stale", "the view before is not dimmed")
        for part in ("#progress", "#sentence", "#details p"):
            harness.wait_until(lambda part=part: "Reading" in (self.text(part) or ""),
                               f"{part} is not of what is awaited")
        self.assertEqual((self.text("#details h2"), self.texts("#details dl")), ("main", []))
        self.release()
        self.settled()
        self.assertEqual(self.text("#progress"), "")
        self.assertEqual(self.browser.evaluate(kind), "")
        self.assertTrue(self.texts("#details dl"))

    def recordings(self, *names):
        """A directory with copies of these traces, named a, b, ...; and their paths."""
        folder = self.dir / "recordings"
        folder.mkdir()
        paths = [folder / f"{letter}.heapprof" for letter in "abcdefgh"[:len(names)]]
        for name, path in zip(names, paths):
            shutil.copy(self.folder / f"{name}.heapprof", path)
        return folder, paths

    def test_recordings(self):
        """Of a directory: the list of its recordings, and the comparison of two."""
        folder, paths = self.recordings("plain", "huge")
        self.open(folder)
        harness.wait_until(lambda: self.browser.evaluate("document.querySelector('#view').dataset.view") == "processes",
                           "the list of recordings is not the first view")
        self.settled()
        self.assertIn("a.heapprof", self.text("#about"))
        reports = [json.loads(self.heapprof("report", path, "--json"))["heap"] for path in paths]
        head, *lines = self.saved_rows()
        self.assertEqual(sorted((line[0], line[head.index("Peak")]) for line in lines),
                         [(path.name, str(report["peak_bytes"])) for path, report in zip(paths, reports)])
        self.select(view="compare", other="1", metric="allocated")
        changes = json.loads(self.heapprof("diff", *paths, "--cost", "allocated", "--top", "0", "--json"))["top"]
        head, *lines = self.saved_rows()
        self.assertEqual(sorted(int(line[head.index("Change")]) for line in lines),
                         sorted(change["bytes"] for change in changes))
        self.select(view="summary", trace="1")
        exact = self.browser.evaluate("document.querySelector('.tile').title")
        self.assertEqual(int(re.sub(r"\D", "", exact)), reports[1]["peak_bytes"])
        # A recording that is chosen in the list is shown as a whole: no moment is selected, nor what is live at it.
        self.select(view="processes", trace="1", at="50%", metric="live")
        self.click("#view tbody tr[data-index]", paths[0].name)
        self.assertEqual(self.browser.evaluate("document.querySelector('#view').dataset.view"), "summary")
        self.assertEqual(self.texts("#selection [aria-pressed=true]"), ["Live at peak"])

    def test_recording_compared_with_itself(self):
        """If the other recording becomes the shown one, two moments of it are compared."""
        folder, paths = self.recordings("huge", "plain")
        self.open(folder, view="compare", other="1")
        self.assertEqual(self.texts("#view-head input[size]"), [])
        self.assertIn(paths[1].name, self.text("#command"))
        self.select(view="compare", trace="1", other="1")
        self.check_one_recording(paths)
        self.browser.open("about:blank")
        self.open(folder, view="compare", trace="1", other="1")
        self.check_one_recording(paths)

    def check_one_recording(self, paths):
        """Two moments of the second recording are compared."""
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('#view-head input[size]').length"), 2)
        words = shlex.split(self.text("#command"))
        self.assertEqual([Path(word.partition("@")[0]).name for word in words if "@" in word], [paths[1].name] * 2)
        self.assertIn("Net", self.texts(".tile span"))
        self.assertEqual(self.texts("#selection .segments button:not(:disabled)"), [])

    def check_header(self, path):
        """Name and duration in the header, and what the views know, are those of this recording."""
        self.assertIn(path.name, self.text("#about"))
        duration = json.loads(self.heapprof("report", path, "--json"))["duration_ns"]
        self.assertIn(self.shown_as("time", duration), self.text("#about"))
        self.assertEqual(self.browser.evaluate("recording.info().duration_ns"), duration)

    def test_recording_that_answers_late(self):
        """Its answers replace nothing of the recording that was chosen since."""
        folder, paths = self.recordings("plain", "names", "huge")
        self.open(folder, view="summary")
        self.hold("trace=1")
        self.browser.evaluate("location.hash = 'view=summary&trace=1'")
        harness.wait_until(lambda: "reading" in self.text("#about"), "the page does not wait for the recording")
        # To the one that was shown before, and to a third one.
        for trace in (0, 2):
            self.browser.evaluate(f"location.hash = 'view=summary&trace={trace}'")
            harness.wait_until(lambda: paths[trace].name in self.text("#about") and self.texts(".tile") and
                               not self.texts("#view.waiting"), f"recording {trace} is not shown")
            self.check_header(paths[trace])
            if trace == 0:
                self.browser.evaluate("location.hash = 'view=summary&trace=1'")
        self.release()
        self.settled()
        self.check_header(paths[2])
        self.select(view="table", metric="allocated", trace="2")
        self.check_header(paths[2])

    def test_recording_that_cannot_be_read(self):
        """The page says so in place of figures, and another recording can be chosen; also with a bookmark of one that
        there is not."""
        folder, paths = self.recordings("plain", "huge", "names")
        self.address(folder)
        paths[0].unlink()
        for trace, reason in (("0", paths[0].name), ("9", "no such trace")):
            with self.subTest(trace=trace):
                self.open(folder, view="table", trace=trace)
                self.check_unreadable(reason)
                self.click("#view button", "Show all recordings")
                self.assertIn(paths[1].name, " ".join(self.texts("#view tbody tr[data-index]")))
                self.click("#view tbody tr[data-index]", paths[1].name)
                self.check_header(paths[1])
                self.assertTrue(self.texts(".tile"))
                self.browser.open("about:blank")
        # From one that can be read, and back.
        self.open(folder, view="table", trace="1", name="/usr/lib/libleaf.so.1+0x300")
        self.select(view="table", trace="0", name="/usr/lib/libleaf.so.1+0x300")
        self.check_unreadable(paths[0].name)
        self.select(view="summary", trace="2")
        self.check_header(paths[2])
        self.assertTrue(self.texts("#timeline .area"))
        self.browser.errors.clear()  # the browser reports answers that are errors

    def check_unreadable(self, reason):
        self.assertIn(reason, self.text("#view .error"))
        self.assertIn("cannot be read", self.text("#about"))
        self.assertEqual(self.texts(".waiting, .stale, #timeline .area, #details dl, #view tr, #progress > *"), [])

    def test_list_of_recordings_while_they_are_read(self):
        """Rows are shown as their answers arrive, in the order of their names; the server is asked for a few at a
        time. When all are known, the highest peak is the first."""
        folder, paths = self.recordings("plain", "huge", "names", "empty", "plain", "huge", "truncated")
        peaks = [json.loads(self.heapprof("report", path, "--json"))["heap"]["peak_bytes"] for path in paths]
        self.open(folder, view="summary")
        self.hold("trace=[1-9]")
        self.browser.evaluate("location.hash = 'view=processes'")

        def shown():
            return [(*row[:1], *row[-3:-2]) for row in self.browser.evaluate(
                "[...document.querySelectorAll('#view tbody tr[data-index]')].map(row => "
                "[...row.cells].map(cell => cell.textContent))")]
        names, texts = [path.name for path in paths], [self.shown_as("bytes", peak) for peak in peaks]
        pending = "\u2026"
        harness.wait_until(lambda: shown() == [*zip(names, [texts[0]] + [pending] * 6)], "the first row is not shown")
        self.assertLessEqual(self.browser.evaluate("held.length"), 4)
        self.browser.evaluate("held.shift()()")
        harness.wait_until(lambda: shown() == [*zip(names, texts[:2] + [pending] * 5)], "the second row is not shown")
        self.release()
        self.settled()
        head, *lines = self.saved_rows()
        self.assertEqual([int(line[head.index("Peak")]) for line in lines], sorted(peaks, reverse=True))

    def test_blocks(self):
        """100,000 blocks: those at the end of the list are asked when they are scrolled to, and no step stutters."""
        trace = self.folder / "many.heapprof"
        # A block is freed at the recorded time of the peak.
        self.open(trace, view="blocks", metric="peak")
        self.check_blocks()
        heap = self.json("report")["heap"]
        self.assertEqual(self.printed()["total"], {"bytes": heap["peak_bytes"], "blocks": heap["peak_blocks"]})
        self.select(view="blocks", metric="leaked")
        count = self.json("blocks", "--top", "1")["total"]["blocks"]
        self.assertGreater(count, 50_000)
        known = {skip + i: hex(block["address"]) for skip in (0, count - 100)
                 for i, block in enumerate(self.json("blocks", "--skip", str(skip), "--top", "100")["blocks"])}

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
                expected = self.heapprof("blocks", trace, *options, "--csv")
                self.assertGreater(expected.count("\n"), 50_000)
                # Lines, since a difference of these texts takes minutes to print.
                self.assertTrue(self.saved("CSV").splitlines() == expected.splitlines(), "other rows")

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

    def test_blocks_of_a_file(self):
        """A file says how many of the blocks it has, and its CSV has these."""
        file = self.written(self.record(self.compiled("""
            #include <stdlib.h>
            int main(void) {
              for (int i = 0; i < 1000; ++i)
                if (!malloc(100 + i)) return 1;
            }
            """)).trace)
        total = self.json("blocks", "--top", "1")["total"]["blocks"]
        self.assertGreaterEqual(total, 1000)
        self.browser.open(f"{file.as_uri()}#view=blocks&metric=leaked")
        self.settled()
        self.assertIn(f"This file has 200 of {total:,} blocks", self.text("#view .more"))
        head, *lines = self.saved_rows()
        self.assertEqual([line[head.index("Size")] for line in lines],
                         [str(block["size_bytes"]) for block in self.json("blocks", "--top", "200")["blocks"]])
        self.browser.evaluate("document.querySelector('#view .scroller').focus()")
        self.browser.press("End")
        self.browser.settle()
        self.assertEqual(self.texts("#view tr.pending, #progress .error"), [])
        self.browser.press("/", *"no such name")
        self.assertIn("No row contains", self.text("#view .more"))

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
        self.trace = self.record(self.compiled(f"""
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
            """)).trace
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

    # ---- Mouse, keyboard, windows, names, errors

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

    def place_of_the_timeline(self):
        """Left, top, width and height of the chart, in pixels."""
        return self.browser.evaluate(
            "(() => { const at = document.querySelector('.time-chart').getBoundingClientRect();"
            "return [at.left, at.top, at.width, at.height]; })()")

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

    def test_names_of_controls(self):
        """A screen reader has a name for each button, link and input of each view."""
        self.open(self.real(), view="summary")
        self.click("#add-filter")
        name = self.json("report", "--by", "function")["rows"][0]["name"]
        seen = set()
        for view in VIEWS:
            with self.subTest(view=view):
                self.select(view=view, name=name)
                controls = self.browser.controls()
                self.assertGreater(len(controls), 20)
                self.assertEqual([(role, text) for role, text in controls if not text.strip()], [])
                seen.update(role for role, _ in controls)
        self.assertLessEqual({"button", "link", "textbox", "searchbox", "checkbox", "combobox"}, seen)

    def test_mouse(self):
        """A range is dragged, a moment clicked, a chip removed; the status line's command has the page's figures."""
        self.open(self.folder / "plain.heapprof", view="table")
        left, top, width, height = self.place_of_the_timeline()
        middle = top + height / 2
        self.browser.drag((left + width * 0.3, middle), (left + width * 0.7, middle))
        self.browser.settle()
        self.settled()
        self.assertIn("--from", self.text("#command"))
        self.check_sentence("peak")
        # An edge of the range can be dragged.
        command = self.text("#command")
        edge = self.browser.evaluate("(() => { const at = document.querySelectorAll('.edge')[1]"
                                     ".getBoundingClientRect(); return at.left + at.width / 2; })()")
        self.browser.drag((edge, middle), (left + width * 0.5, middle))
        self.browser.settle()
        self.settled()
        changed = self.text("#command")
        self.assertEqual(re.search("--from [^ ]*", changed)[0], re.search("--from [^ ]*", command)[0])
        self.assertNotEqual(re.search("--to [^ ]*", changed)[0], re.search("--to [^ ]*", command)[0])
        self.check_sentence("peak")
        self.browser.click(left + width * 0.9, middle)  # the background: the whole recording again
        self.browser.settle()
        self.settled()
        self.assertNotIn("--from", self.text("#command"))
        self.browser.click(left + width * 0.6, middle)
        self.browser.settle()
        self.settled()
        self.assertIn("--live-at", self.text("#command"))
        self.check_sentence("live")
        self.click(".chip button")
        self.assertNotIn("--live-at", self.text("#command"))
        # A click near the line of the peak selects the peak, not a rounded time before it.
        peak = self.browser.evaluate("(() => { const at = document.querySelector('.time-chart line.peak')"
                                     ".getBoundingClientRect(); return at.left + at.width / 2; })()")
        self.browser.click(peak - 4, middle)
        self.browser.settle()
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

    def record_marks(self):
        """30,000 bytes are live at the first mark, 80,000 at the peak, and 50,000 at the second mark."""
        header = Path(__file__).parents[2] / "preload" / "heapprof.h"
        return self.record(self.compiled("""
            #include <stdlib.h>
            #include <unistd.h>
            #include "HEADER"
            __attribute__((noinline)) void* take(unsigned long size) { return malloc(size); }
            int main(void) {
              void* first = take(30000);
              usleep(100000);
              heapprof_mark("loaded");
              usleep(100000);
              void* volatile second = take(50000);
              usleep(100000);
              free(first);
              usleep(50000);
              heapprof_mark("saved");
              usleep(50000);
              return second == NULL;
            }
            """.replace("HEADER", str(header)))).trace

    def check_marks(self):
        """A click on the flag of a mark selects its moment."""
        marks = self.json("timeline")["marks"]
        self.assertEqual([mark["text"] for mark in marks], ["loaded", "saved"])
        for i, (mark, size) in enumerate(zip(marks, (30_000, 50_000))):
            self.browser.click(*self.browser.evaluate(
                f"(() => {{ const at = document.querySelectorAll('.mark path')[{i}].getBoundingClientRect();"
                "return [at.left + at.width / 2, at.top + at.height / 2]; })()"))
            self.browser.settle()
            self.settled()
            self.assertIn(f"--live-at {mark['time_ns']}ns", self.text("#command"))
            self.check_sentence("live")
            self.assertEqual(self.printed()["total"]["live_bytes"], size)

    def test_marks(self):
        self.open(self.record_marks(), view="table")
        self.check_marks()
        # Also those outside of a range.
        self.select(view="table", **{"from": "99%", "to": "100%"})
        self.check_marks()

    def test_commands_run_where_the_server_was_started(self):
        """Names of files as they were given, quoted as a shell needs them."""
        folder = self.dir / "it's $HOME"
        folder.mkdir()
        for path in (folder / "a b.heapprof", folder / "-c;d.heapprof", self.dir / "-c;d.heapprof"):
            shutil.copy(self.folder / "plain.heapprof", path)
        server = self.popen([harness.HEAPPROF, "serve", "--no-open", "--", folder.name, "-c;d.heapprof"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            cwd=self.dir, env=harness.analyzer_environment())
        self.browser.open(server.stdout.readline().strip())
        self.settled()
        tools = self.dir / "bin"
        tools.mkdir()
        (tools / "heapprof").symlink_to(harness.HEAPPROF)
        for trace in "012":
            for view in ("summary", "table", "blocks", "compare"):
                with self.subTest(trace=trace, view=view):
                    self.select(view=view, trace=trace, by="pinned", function="^(main|a b)|.", **{"from": "10%"})
                    command = self.text("#command")
                    done = subprocess.run(["bash", "-c", command], cwd=self.dir, capture_output=True, text=True,
                                          env=harness.analyzer_environment(PATH=f"{tools}:{os.environ['PATH']}"))
                    self.assertEqual((done.returncode, done.stderr), (0, ""), command)

    def check_sentence(self, metric):
        total = self.printed()["total"][METRICS[metric]]
        shown = self.text("#sentence b")
        self.assertEqual(shown, self.browser.evaluate(f"figures.bytes({total})"))

    def test_keyboard(self):
        self.open(self.folder / "plain.heapprof", view="summary")
        for key, view in zip("123456789", VIEWS):
            self.browser.press(key)
            self.browser.settle()
            self.settled()
            self.assertEqual(self.browser.evaluate("document.querySelector('#view').dataset.view"), view)
        self.browser.press("Escape")
        harness.wait_until(lambda: self.browser.evaluate("document.querySelector('#view').dataset.view") == "threads",
                           "Escape does not undo the last step")
        self.settled()
        self.browser.press("3")
        self.browser.settle()
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
        self.browser.settle()
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

    def test_heat_map_by_keyboard(self):
        """Tab reaches one cell, arrow keys the others, and Enter selects its sizes and lifetimes."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            #include <unistd.h>
            int main(void) {
              static void* volatile blocks[60];
              for (int i = 0; i < 60; ++i) blocks[i] = malloc(i % 2 ? 100 : 5000);
              for (int i = 0; i < 20; ++i) free(blocks[i]);
              usleep(50000);
              for (int i = 20; i < 40; ++i) free(blocks[i]);
            }
            """)).trace
        self.open(self.trace, view="lifetimes")
        cells = self.printed()["cells"]
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

    def undo_all(self, views):
        """Presses Escape until these views have been shown again; the page is not left then."""
        shown = "document.querySelector('#view').dataset.view"
        for view in views:
            self.browser.press("Escape")
            harness.wait_until(lambda: self.browser.evaluate(shown) == view, f"Escape does not return to {view}")
            self.settled()
        self.assertFalse(self.browser.evaluate("selection.undo()"), "the page would be left")

    def press_each(self, *keys):
        for key in keys:
            self.browser.press(key)
            self.browser.settle()
            self.settled()

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

    def press_enter(self, selector, text):
        """Presses Enter on the first control that matches and contains the text, as a user does who works without a
        mouse."""
        self.assertTrue(self.browser.evaluate(
            f"(() => {{ const control = [...document.querySelectorAll({json.dumps(selector)})].find(control => "
            f"control.textContent.includes({json.dumps(text)})); if (control) control.focus(); "
            "return control !== undefined && document.activeElement === control; })()"),
            f"{selector} {text} cannot be focused")
        self.browser.press("Enter")
        self.browser.settle()
        self.settled()

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

    def test_every_sample_opens(self):
        """Views of traces that are not ordinary show figures or say why they are empty, in light and dark colours."""
        # These traces have neither snapshots nor samples of resident memory.
        of_heap = [view for view in VIEWS if view != "resident"]
        for name, dark, views in (("empty", False, of_heap), ("truncated", True, of_heap), ("names", False, VIEWS[:3]),
                                  ("huge", True, VIEWS[:3])):
            self.open(self.folder / f"{name}.heapprof", dark=dark)
            for view in views:
                with self.subTest(trace=name, view=view):
                    self.select(view=view)
                    self.assertNotIn("error", self.browser.evaluate("document.querySelector('#view').innerHTML"))
                    self.assertTrue(self.texts("#view tbody tr[data-index], #view .empty, #view .distribution"))

    def test_widths(self):
        """No view is wider than the window, and names keep their place beside the figures."""
        self.addCleanup(self.browser.call, "Emulation.setDeviceMetricsOverride", **self.browser.size)
        for width in (390, 900, 600):
            self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                              mobile=False)
            if width == 390:
                self.open(self.folder / "plain.heapprof")
            for view in ("summary", "flame", "table", "blocks", "lifetimes"):
                with self.subTest(width=width, view=view):
                    self.select(view=view)
                    self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)
                    names = self.browser.evaluate(
                        "[...document.querySelectorAll('#view tr[data-index] th')].map(name => name.clientWidth)")
                    self.assertGreaterEqual(min(names, default=150), 150)
                    cut = self.browser.evaluate(
                        "[...document.querySelectorAll('#view thead th')].filter(head => "
                        "head.scrollWidth > head.clientWidth).map(head => head.textContent)")
                    self.assertEqual(cut, [])
        for width in (360, 1000, 1400, 2560):
            self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                              mobile=False)
            self.browser.settle()
            # A label that is outside the picture, or a picture wider than its place, is cut.
            cut = self.browser.evaluate(
                "(() => { const place = document.querySelector('.chart-host').getBoundingClientRect();"
                "const area = document.querySelector('.heat').getBoundingClientRect();"
                "const isIn = (inner, outer) => inner.left >= outer.left - 1 && inner.right <= outer.right + 1 && "
                "inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;"
                "return [area, ...[...document.querySelectorAll('.heat text')].map(text => "
                "text.getBoundingClientRect())].filter((part, i) => !isIn(part, i ? area : place)).length; })()")
            self.assertEqual(cut, 0, f"heat map at {width}")

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

    def test_print(self):
        """A printed summary has one page."""
        self.open(self.real(), view="summary")
        for size in ({"paperWidth": 8.27, "paperHeight": 11.69}, {"paperWidth": 8.5, "paperHeight": 11}):
            document = base64.b64decode(self.browser.call("Page.printToPDF", **size)["data"])
            self.assertEqual(len(re.findall(rb"/Type\s*/Page\b(?!s)", document)), 1)

    def test_empty_selections(self):
        """Each view without a figure says why, and offers to select everything."""
        self.open(self.real(), view="summary", **{"min-size": "99999999999"})
        # The comparison has another text, and resident memory no filters.
        for view in VIEWS[:VIEWS.index("compare")]:
            with self.subTest(view=view):
                self.select(view=view, **{"min-size": "99999999999"})
                self.assertRegex(self.text("#view .empty"), r"(?i)remove a filter")
                self.assertEqual(self.texts("#view tbody tr[data-index]"), [])

    def test_contrast(self):
        """The labels of the heat map, whose colours depend on the figures, can be read in each cell."""
        self.open(self.real(), view="lifetimes")
        for dark in (False, True):
            self.browser.set_dark(dark)
            ratios = self.browser.evaluate(HEAT_CONTRAST)
            self.assertEqual(len(ratios), 9)
            self.assertGreaterEqual(min(ratios), 4.5, ratios)

    def test_what_scrolls_is_opaque(self):
        """Else the browser draws all rows again for each frame, and 60 frames a second are too many."""
        self.open(self.real(), view="summary")
        seen = set()
        for dark in (False, True):
            self.browser.set_dark(dark)
            for view in VIEWS:
                self.select(view=view)
                for name, colour in self.browser.evaluate(
                        "[...document.querySelectorAll('body *')].filter(element => element.clientHeight && /auto|scroll/"
                        ".test(getComputedStyle(element).overflowY)).map(element => [element.id || element.className, "
                        "getComputedStyle(element).backgroundColor])"):
                    seen.add(name)
                    self.assertRegex(colour, r"^rgb\(", (name, view))
        self.assertLessEqual({"scroller", "scrolled", "view-panel"}, seen)

    def test_nasty_names(self):
        """Names are shown unchanged, and none becomes markup."""
        folder = self.dir / "recordings"
        folder.mkdir()
        files = sorted(f"{letter} <b>&amp;%41;#\"'.heapprof" for letter in "ab")
        for file in files:
            shutil.copy(self.nasty(), folder / file)
        self.open(folder, view="table", metric="leaked")
        scripts = self.browser.evaluate("document.querySelectorAll('script').length")
        rows = {line[0].removeprefix("'") for line in self.saved_rows()}
        for name in nasty.clean_functions():
            self.assertIn(name, {row for row in rows} | {"'" + row for row in rows})
        for view in (*VIEWS, "processes"):
            for by in ("function", "line", "site", "stack", "module", "thread") if view == "table" else ("function",):
                with self.subTest(view=view, by=by):
                    self.select(view=view, by=by, metric="leaked", name=nasty.clean_functions()[5])
                    self.assertEqual(self.browser.evaluate("document.querySelector('#view').dataset.view"), view)
                    self.assertEqual(self.texts("#view .error"), [])
                    self.assertEqual(self.browser.evaluate("document.querySelectorAll('script').length"), scripts)
                    self.assertEqual(self.browser.evaluate("document.querySelectorAll('img, iframe, b > b').length"),
                                     0)
                    self.assertEqual(self.text("#details h2"), nasty.clean_functions()[5])
        head, *lines = self.saved_rows()
        self.assertEqual(sorted(line[head.index("Recording")] for line in lines), files)
        program = json.loads(self.heapprof("report", self.nasty(), "--json"))["program"]
        self.assertIn("<script>", program)
        self.assertEqual({line[head.index("Program")] for line in lines}, {program.rpartition("/")[2]})
        for name in nasty.clean_functions()[::6] + [max(nasty.clean_functions(), key=len)]:
            self.select(view="table", metric="leaked", name=name)
            self.assertNotIn("error", self.text("#details"), name)

    def test_pictures_of_nasty_names(self):
        """Pictures of tables are well-formed XML, also with characters that XML does not have."""
        self.open(self.nasty(), view="table", by="thread", metric="leaked")
        self.assertIn("\x1b", self.browser.evaluate("[...document.querySelectorAll('#view .name')].map(name => "
                                                    "name.title).join()"))
        picture = ElementTree.fromstring(self.saved("SVG"))
        self.assertIn(self.text("#view thead th"), "".join(picture.itertext()))

    def test_pinned(self):
        """The metric Pinned has the figures of `pins`, and the stacks of `flamegraph --cost pinned`."""
        self.open(self.real(), view="table", metric="pinned")
        answer = self.printed()
        self.assertTrue(answer["groups"])
        head, *lines = self.saved_rows()
        columns = [head.index(name) for name in ("Function", "Overhead", "Alone", "Shared", "Self", "Blocks")]
        self.assertEqual(sorted([line[column].removeprefix("'") for column in columns] for line in lines),
                         sorted([group["name"], *(str(group[f"{key}_bytes"]) for key in
                                                  ("overhead", "alone", "shared", "usable")), str(group["blocks"])]
                                 for group in answer["groups"]))
        self.assertIn(self.browser.evaluate(f"figures.bytes({answer['pinned_bytes']})"), self.text("#sentence b"))
        folded = self.heapprof("flamegraph", self.trace, "--cost", "pinned", "--format", "folded")
        stacks = [line.rpartition(" ") for line in folded.splitlines()]
        for view in ("flame", "tree"):
            with self.subTest(view=view):
                self.select(view=view, metric="pinned")
                self.assertIn("heapprof flamegraph", self.text("#command"))
                head, *lines = self.saved_rows()
                if view == "tree":
                    continue
                self.assertEqual([int(line[-1]) for line in lines if line[0] == "0"],
                                 [sum(int(count) for _, _, count in stacks)])
                self.assertEqual({line[1].removeprefix("'") for line in lines} - {""},
                                 {name for stack, _, _ in stacks for name in stack.split(";")})
        self.select(view="threads", metric="pinned")
        self.assertIn("without pinned bytes", self.text(".shown"))
        self.select(view="table", by="pinned")  # the address before this was a metric
        self.assertIn("heapprof pins", self.text("#command"))

    def test_who_pins_memory(self):
        """The summary names the function whose blocks keep a tenth of resident memory, and leads to its row."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            __attribute__((noinline)) void* keep(void) { return malloc(64); }
            __attribute__((noinline)) void* fill(void) { return calloc(1, 1000); }
            void *kept[2500], *filled[20000];
            int main(void) {
              for (int i = 0; i < 20000; ++i) {
                filled[i] = fill();
                if (i % 8 == 0) kept[i / 8] = keep();
              }
              for (int i = 0; i < 20000; ++i) free(filled[i]);
            }
            """)).trace
        self.open(self.trace, view="summary")
        most = self.json("pins", "--by", "function")["groups"][0]
        self.assertEqual((most["name"], most["blocks"]), ("keep", 2500))
        sentence = f"keep pins {self.shown_as('bytes', most['overhead_bytes'])} that could be returned to the system"
        self.assertTrue([text for text in self.texts(".findings a") if text.startswith(sentence)],
                        self.texts(".findings li"))
        self.click(".findings a", sentence)
        self.assertIn("heapprof pins", self.text("#command"))
        self.assertEqual(self.text("#details h2"), "keep")
        self.assertRegex(self.text("#view tr.selected") or "", "^keep")
        # `pins` is about the whole recording.
        self.select(view="summary", **{"min-size": "1"})
        self.assertNotIn(" pins ", self.text(".findings"))
        self.open(self.folder / "plain.heapprof", view="summary")
        self.assertNotIn(" pins ", self.text(".findings"))

    def test_incomplete_recording(self):
        """The sentence about it leads to what is missing, and each sentence leads somewhere."""
        whole = (self.folder / "many.heapprof").read_bytes()
        trace = self.dir / "half.heapprof"
        trace.write_bytes(whole[:len(whole) // 2])
        self.open(trace, view="summary")
        self.click(".findings button", "incomplete")
        self.assertEqual(self.text("#details h2"), "The recording is incomplete")
        notes = json.loads(self.heapprof("report", trace, "--json", status=1))["integrity"]["notes"]
        self.assertTrue(notes)
        for note in notes:
            self.assertIn(note, self.texts("#details dd"))
        self.assertEqual(self.texts(".findings li"), self.texts(".findings li a, .findings li button"))

    def test_resident(self):
        """The view has the lines of `rss` and their parts, which sum to resident memory; the summary leads to it."""
        self.open(self.real(), view="summary")
        self.click(".tile", "Highest resident")
        answer = self.printed()
        self.assertIn("heapprof rss", self.text("#command"))
        # A line of the table begins those that follow as its parts.
        lines = [line for line in answer["lines"] if line["bytes"]]
        classes = self.browser.evaluate("[...document.querySelectorAll('#view tbody .name')].map(name => "
                                        "name.className)")
        head, *rows = self.saved_rows()
        sums = []
        for kind, (_, size) in zip(classes, rows, strict=True):
            if "line" in kind:
                sums.append([int(size), 0])
            else:
                sums[-1][1] += int(size)
        self.assertEqual(sums, [[line["bytes"], line["bytes"] if line["name"] == "mmap" and line.get("children") else
                                 sum(part["bytes"] for part in line.get("children", ()))] for line in lines])
        self.assertEqual(sum(size for size, _ in sums), answer["rss_bytes"])
        self.assertIn(f"{self.shown_as('bytes', answer['rss_bytes'])} at", self.text("#sentence"))
        self.assertTrue(answer["verdict"] and answer["verdict"].split("TRACE")[0] in self.text("#view .verdict"))
        # Free pages are kept by others' blocks, which the table of pinned memory has.
        self.click("#view tr .line", "returnable" if any(row[0] == "returnable" for row in rows) else "holes")
        self.assertIn("heapprof pins", self.text("#command"))

    def test_options_of_the_server(self):
        """The command line that is copied has the options of the server, so it prints the same figures."""
        trace = self.folder / "plain.heapprof"
        rules = self.dir / "leaks.supp"
        rules.write_text("leak:libleaf\n")
        with unittest.mock.patch.dict(self.servers):
            self.servers.pop(trace, None)
            self.open(trace, "--suppressions", rules, "--own", "libleaf", view="leaks")
        self.assertIn(f"--own=libleaf --suppressions={rules}", self.text("#command"))
        head, *lines = self.saved_rows()
        shown = [line[head.index("Left")] for line in lines]
        self.assertEqual(shown, [str(site["bytes"]) for site in self.printed()["sites"]])
        self.select(view="leaks", shown="all")
        self.assertNotIn("--suppressions=", self.text("#command"))
        head, *lines = self.saved_rows()
        self.assertEqual([line[head.index("Left")] for line in lines],
                         [str(site["bytes"]) for site in self.printed()["sites"]])
        self.assertNotEqual([line[head.index("Left")] for line in lines], shown)
        self.select(view="table")
        self.assertIn("--own=libleaf", self.text("#command"))
        self.assertNotIn("leaks.supp", self.text("#command"))

    def test_errors(self):
        """A wrong selection is said in the page, and the page works afterwards."""
        self.open(self.folder / "plain.heapprof", view="table", function="(")
        self.assertIn("(", self.text("#view .error"))
        self.select(view="table", **{"from": "70%", "to": "20%"})
        self.assertTrue(self.text("#view .error"))
        self.browser.errors.clear()  # the browser reports answers that are errors, too
        self.select(view="table")
        self.assertTrue(self.texts("#view tbody tr[data-index]"))
        # A filter whose value is wrong is not made.
        self.click("#add-filter")
        form = "document.querySelector('.filter-form')"
        for option, wrong, right in (("min-size", "abc", "4K"), ("max-lifetime", "4K", "20us"), ("kind", "x", "mmap")):
            valid = [self.browser.evaluate(
                f"(() => {{ const [option, value] = {form}.elements; option.value = '{option}'; value.value = '{text}';"
                f"value.dispatchEvent(new Event('input')); return {form}.checkValidity(); }})()")
                for text in (wrong, right)]
            self.assertEqual(valid, [False, True], option)

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

    def test_what_is_wrong_with_a_recording(self):
        """The page says that the program's file is gone, that a part of the recording is missing, that it is another
        one, and that it is gone."""
        def record(program):
            copy = self.dir / program
            shutil.copy(harness.program(program), copy)
            trace = self.dir / f"{program}.heapprof"
            subprocess.run([copy], check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=60,
                           env=harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace))
            copy.unlink()
            return trace
        trace, other = record("known_leaks"), record("hello")
        whole = trace.read_bytes()
        self.open(trace)
        self.click(".findings a", "functions without names")
        self.assertIn("--by module", self.text("#command"))
        self.check_table(self.printed()["rows"], "peak")
        trace.write_bytes(whole[:len(whole) // 2])
        self.browser.open("about:blank")
        self.open(trace)
        self.assertIn("incomplete", self.text(".findings") + self.text("#about"))
        os.replace(other, trace)
        self.select(view="table", metric="allocated", by="line")
        self.assertIn("another recording", self.text("#view .error"))
        self.browser.open("about:blank")
        self.open(trace)
        self.assertIn("hello", self.text("#program"))
        trace.unlink()
        self.select(view="threads")
        self.assertIn(str(trace), self.text("#view .error"))
        self.browser.errors.clear()  # the browser reports answers that are errors, too

    def test_large_source_file(self):
        """Of a file that is too large for an answer, the lines that have costs are shown, and the page says so."""
        source = self.dir / "large.c"
        filler = f"// {'x' * 40}\n" * 120_000
        source.write_text(f"#include <stdlib.h>\nvoid* volatile kept;\n{filler}"
                          "int main(void) { kept = malloc(1000); return 0; }\n")
        subprocess.run(["gcc", "-g", "-o", self.dir / "large", source], check=True)
        self.open(self.record(self.dir / "large").trace, view="source", metric="allocated", file=str(source))
        self.assertIn("only its lines with costs", self.text("#view .more"))
        self.assertNotIn("--all", self.text("#command"))
        head, *lines = self.saved_rows()
        shown = [(int(line[head.index("Line")]), int(line[head.index("Self")])) for line in lines]
        self.assertEqual(shown, [(line["line"], line["self"]["allocated_bytes"]) for line in self.printed()["lines"]])
        self.assertIn((120_003, 1000), shown)
        self.browser.errors.clear()  # the browser reports answers that are errors

    def test_code_without_lines(self):
        """The view of the sources says what is missing, and how to give it."""
        copy = self.dir / "stripped"
        subprocess.run(["strip", "-o", copy, harness.program("known_leaks")], check=True)
        self.open(self.record(copy).trace, view="source", metric="leaked")
        advice = next(text for text in self.printed()["symbol_warnings"] if "-dbgsym" in text)
        self.assertIn(f"without line numbers. {advice}", self.text("#view .warning"))
        name = self.json("report", "--by", "function", "--cost", "leaked")["rows"][0]["name"]
        self.select(view="source", metric="leaked", file=name)
        self.assertIn(advice, self.text("#view .empty"))
        self.browser.errors.clear()  # the browser reports answers that are errors

    def test_metrics_of_views(self):
        """Metrics that change nothing in a view cannot be chosen there, and the last line is about the view."""
        self.open(self.folder / "plain.heapprof", view="leaks", metric="allocated")
        self.assertEqual(self.json("timeline")["samples"]["mapped_bytes"][-1], 320 << 10)
        chosen = "[...document.querySelectorAll('#selection .segments button')].filter(button => !button.disabled)" \
            ".map(button => button.textContent)"
        self.assertEqual(self.browser.evaluate(chosen), ["Left at end"])
        left = self.json("report", "--cost", "leaked")["total"]["bytes"]
        self.assertIn(self.browser.evaluate(f"figures.bytes({left})"), self.text("#sentence"))
        self.select(view="lifetimes", metric="allocated")
        allocated = self.json("report")["heap"]
        self.assertEqual((self.browser.evaluate(chosen), self.text("#sentence")), ([], (
            f"Whole recording: {self.shown_as('bytes', allocated['allocated_bytes'])} in "
            f"{self.shown_as('plural', allocated['allocations'], 'allocation')}")))
        self.select(view="table", metric="allocated")
        self.assertIn("Allocated", self.browser.evaluate(chosen))

    def test_filter_of_mappings(self):
        """Views of single heap blocks say so when mappings are selected; the others show their figures."""
        self.open(self.real(), view="summary", kind="all")
        for view in VIEWS:
            self.select(view=view, kind="all")
            with self.subTest(view=view):
                self.assertEqual(self.texts("#view .error"), [])
                self.assertEqual("heap blocks only" in (self.text("#view .empty") or ""),
                                 view in ("lifetimes", "threads", "compare"))

    def test_share_of_mappings(self):
        """The share of the selection is that of what is selected in the whole recording: heap, mappings or both."""
        self.open(self.folder / "plain.heapprof", view="table")
        for kind, words in (("heap", ""), ("mmap", " of the mappings"), ("all", " of heap and mappings")):
            for metric in ("allocated", "leaked", "peak", "live"):
                end = f" of the peak{words}" if metric == "live" else f"{words} of the whole recording"
                with self.subTest(kind=kind, metric=metric):
                    self.select(view="table", kind=kind, metric=metric, module="libleaf.so.1")
                    part = self.printed()["total"][METRICS[metric]]
                    whole = self.json("report", "--kind", kind, "--cost", "peak" if metric == "live" else metric)
                    self.assertGreater(part, 0)
                    self.assertLessEqual(part, whole["total"]["bytes"])
                    share = self.shown_as("percent", part, whole["total"]["bytes"])
                    self.assertTrue(self.text("#sentence").endswith(f" \u00b7 {share}{end}"), self.text("#sentence"))

    def test_order_of_the_table(self):
        """The command line of a table that is sorted by another column prints its order."""
        self.open(self.real(), view="table", metric="peak", sort="-self-allocated")
        shown = [row[0] for row in self.saved_rows()[1:]]
        printed = self.printed()["rows"]
        self.assertEqual(shown[:5], [row["name"] for row in printed][:5])
        self.assertIn("--sort allocated", self.text("#command"))

    # ---- A program that still runs

    def start_commanded(self, trace):
        """Records tests/programs/commanded.cpp, which command() drives."""
        self.process = self.popen([harness.program("commanded")], text=True, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, env=harness.clean_environment(
                                      LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace))
        self.command("a")
        return self.process

    def command(self, commands, process=None):
        process = process or self.process
        process.stdin.write(commands)
        process.stdin.flush()
        self.assertEqual(process.stdout.read(len(commands)), "." * len(commands))

    def shown_bytes(self, name):
        """The exact self cost of a function in the table, or None."""
        title = self.browser.evaluate(
            "(() => { const name = [...document.querySelectorAll('#view tbody .name')].find(name => "
            f"name.title.startsWith({json.dumps(name)})); return name && name.closest('tr').cells[1].title; }})()")
        return int(re.sub(r"\D", "", title)) if title else None

    def test_follows(self):
        """What a running program allocates appears without a reload; a mark is set; its end is shown."""
        trace = self.dir / "run.heapprof"
        self.start_commanded(trace)
        self.open(trace, view="table", metric="allocated")
        harness.wait_until(lambda: self.shown_bytes("grow_first") == 10_000, "the first blocks are not shown")
        self.assertIn("running", self.text("#about"))
        self.settled()
        # Updates neither dim the timeline nor remove live bytes from the header.
        self.browser.evaluate(
            "window.flickers = []; new MutationObserver(() => { "
            "if (document.querySelector('#timeline.waiting')) flickers.push('dimmed'); "
            "if (/ live in /.test(window.about) && !/ live in |exited/.test(window.about = "
            "document.querySelector('#about').textContent)) flickers.push(window.about); "
            "window.about = document.querySelector('#about').textContent; })"
            ".observe(document.body, {childList: true, subtree: true, attributes: true, characterData: true}); 0")
        self.command("aab")
        live = self.browser.evaluate(f"figures.bytes({self.json('report')['heap']['leaked_bytes']})")
        harness.wait_until(lambda: f"{live} live" in self.text("#about"), "the header does not follow")
        harness.wait_until(lambda: self.shown_bytes("grow_first") == 30_000, "further blocks are not shown")
        harness.wait_until(lambda: self.shown_bytes("grow_second") == 1000, "a new function is not shown")
        # Figures go on while the text of a mark is typed.
        self.browser.evaluate("[...document.querySelectorAll('#selection button')].find(button => button.textContent "
                              "=== 'Mark').click(); 0")
        self.browser.press(*"here", "Enter")
        # The recorder answers when the program allocates.
        commands = 0
        while "here" not in (self.text(".mark") or ""):
            commands += 1
            self.assertLess(commands, 500, f"the mark is not shown: {self.text('#progress')}")
            self.command("a")
            self.browser.evaluate("new Promise(done => setTimeout(done, 100))")
        self.assertEqual(self.browser.evaluate("flickers"), [])
        self.assertIn("Live now", self.texts("#selection .segments button"))
        for button, state in (("Pause", True), ("Resume", False)):
            self.browser.evaluate("[...document.querySelectorAll('#selection button')].find(button => "
                                  f"button.textContent === '{button}').click(); 0")
            for _ in range(500):
                if ("recording paused" in self.text("#about")) == state:
                    break
                self.command("b")
                self.browser.evaluate("new Promise(done => setTimeout(done, 20))")
            else:
                self.fail(f"{button} has no effect")
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)
        harness.wait_until(lambda: "exited" in self.text("#about") and
                           "Pause" not in self.texts("#selection button"), "the end is not shown")
        self.settled()
        self.assertEqual(self.shown_bytes("grow_first"), 30_000 + 10_000 * commands)

    def test_control_of_the_chosen_recording(self):
        """Pause acts on the program of the chosen recording. There is no such button if that has ended."""
        folder, _ = self.recordings("plain")
        traces = [folder / "b.heapprof", folder / "c.heapprof"]
        programs = [self.start_commanded(trace) for trace in traces]
        self.open(folder, view="table", trace="0")
        self.assertNotIn("Pause", self.texts("#selection button"))
        self.select(view="table", trace="2")
        self.browser.evaluate("[...document.querySelectorAll('#selection button')].find(button => "
                              "button.textContent === 'Pause').click()")
        for _ in range(500):
            if "recording paused" in self.text("#about"):
                break
            for program in programs:
                self.command("a", program)
            self.browser.evaluate("new Promise(done => setTimeout(done, 20))")
        else:
            self.fail("Pause has no effect")
        self.assertEqual([len(json.loads(self.heapprof("timeline", trace, "--json"))["pauses"]) for trace in traces],
                         [0, 1])
        self.select(view="table", trace="1")
        self.assertNotIn("paused", self.text("#about"))
        self.assertIn("Pause", self.texts("#selection button"))
        self.select(view="table", trace="0")
        self.assertNotIn("Pause", self.texts("#selection button"))

    def test_follows_the_chosen_recording(self):
        """Figures of the chosen recording follow its program, also if another one is served first; after another
        choice, those of that one."""
        folder, paths = self.recordings("plain")
        programs = [self.start_commanded(folder / name) for name in ("b.heapprof", "c.heapprof")]
        self.open(folder, view="table", metric="allocated", trace="1")
        self.command("ab", programs[0])
        harness.wait_until(lambda: self.shown_bytes("grow_first") == 20_000, "further blocks are not shown")
        harness.wait_until(lambda: " live in " in self.text("#about"), "the header does not follow")
        self.select(view="table", metric="allocated", trace="2")
        self.command("aa", programs[1])
        harness.wait_until(lambda: self.shown_bytes("grow_first") == 30_000, "the other program is not followed")
        self.command("a", programs[0])
        self.select(view="table", metric="allocated", trace="1")
        harness.wait_until(lambda: self.shown_bytes("grow_first") == 30_000, "it is not followed again")
        # It ends while another recording is shown.
        self.select(view="table", metric="allocated", trace="0")
        self.check_header(paths[0])
        programs[0].stdin.close()
        self.assertEqual(programs[0].wait(60), 0)
        self.select(view="table", metric="allocated", trace="1")
        harness.wait_until(lambda: "exited" in self.text("#about") and
                           "Pause" not in self.texts("#selection button"), "the end is not shown")

    def test_server_that_ends(self):
        """The page of a running program says that the server does not answer, and goes on when it does."""
        trace = self.dir / "run.heapprof"
        self.start_commanded(trace)
        self.trace = trace

        def serve(*options):
            server = self.popen([harness.HEAPPROF, "serve", trace, "--no-open", *options], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                env=harness.analyzer_environment())
            return server, server.stdout.readline().strip()
        server, address = serve()
        self.browser.open(f"{address}#view=table&metric=allocated")
        harness.wait_until(lambda: " live in " in (self.text("#about") or ""), "the program is not followed")
        self.settled()
        server.terminate()
        server.wait(60)
        harness.wait_until(lambda: "The server does not answer" in self.text("#progress"), "no message")
        self.assertEqual(self.shown_bytes("grow_first"), 10_000)
        _, address = serve("--port", str(urllib.parse.urlsplit(address).port))
        # Its address is opened in another tab, which gives the browser its token.
        self.browser.evaluate(f"fetch({json.dumps('/?' + urllib.parse.urlsplit(address).query)}).then(() => 0)")
        self.command("a")
        harness.wait_until(lambda: self.shown_bytes("grow_first") == 20_000, "the page does not go on")
        self.settled()
        self.assertEqual(self.text("#progress"), "")
        self.browser.errors.clear()  # the browser reports requests that fail

    # ---- The file of heapprof html, opened from disk

    def written(self, trace, *options):
        self.trace = trace
        file = self.dir / "report <&> #1.html"
        self.heapprof("html", trace, "-o", file, *options)
        return file

    def test_file_in_chromium(self):
        file = self.written(self.real(), "--sources", "--max-size", "20M")
        self.browser.open(file.as_uri())
        self.settled()
        heap = self.json("report")["heap"]
        exact = self.browser.evaluate("[...document.querySelectorAll('.tile')].map(tile => tile.title)")
        self.assertEqual(int(re.sub(r"\D", "", exact[0])), heap["peak_bytes"])
        for view in VIEWS:
            with self.subTest(view=view):
                self.select(view=view)
                shown = self.texts("#view tbody tr[data-index], #view .empty, #view .distribution")
                self.assertTrue(shown)
                self.check_has_answer()
        self.check_choices_of_a_file()
        # Two moments that a user chooses are not in the file.
        self.select(view="compare", before="10%", after="peak")
        self.assertRegex(self.text("#view .empty"), "heapprof diff .*@10% .*@peak .*heapprof serve")
        self.select(view="table", metric="allocated")
        rows = self.json("report", "--by", "function", "--top", "0")["rows"]
        self.check_rows(rows)
        own = max((row for row in rows if row["origin"] == "own"), key=lambda row: row["total"]["allocated_bytes"])
        self.select(view="flame", metric="allocated", shown="sandwich", name=own["name"])
        self.assertIn("without branches with less than 0.1% of everything", self.text("#view-head"))
        self.select(view="summary")
        self.press_each("2", "1")
        self.browser.press("Escape")
        harness.wait_until(lambda: self.browser.evaluate("document.querySelector('#view').dataset.view") == "flame",
                           "Escape does not undo the last step")
        self.settled()
        # A range that is dragged becomes the nearest one that the file has.
        left, top, width, height = self.place_of_the_timeline()
        self.select(view="summary")
        self.browser.drag((left + width * 0.4, top + height / 2), (left + width * 0.5, top + height / 2))
        self.browser.settle()
        self.settled()
        self.assertRegex(self.text("#command"), r"--from \d0% --to \d0%")
        self.assertTrue(self.texts(".tile"))
        shown = int(re.sub(r"\D", "", self.browser.evaluate("document.querySelector('.tile').title")))
        self.assertEqual(shown, self.printed()["heap"]["peak_bytes"])
        self.select(view="tree", metric="leaked", **{"from": "10%", "to": "20%"})
        self.assertRegex(self.text("#view .empty"), "Live at peak.*heapprof tree .*--from 10% --to 20%")

    def test_moments_of_a_file(self):
        """A click on the flag of a mark, or near the peak, selects the moment for which the file has answers."""
        file = self.written(self.record_marks())
        self.browser.open(f"{file.as_uri()}#view=table")
        self.settled()
        self.check_marks()
        views = ("summary", "flame", "table", "tree", "blocks")
        at = self.browser.evaluate("selection.now().at")
        for view in views:
            with self.subTest(view=view):
                self.select(view=view, metric="live", at=at)
                self.assertNotIn("does not contain", self.text("#view"))
                self.assertIn(self.shown_as("bytes", 50_000), self.text("#columns"))
        self.select(view="table")
        peak, middle, left, width = self.browser.evaluate(
            "(() => { const line = document.querySelector('.time-chart line.peak').getBoundingClientRect();"
            "const at = document.querySelector('.time-chart').getBoundingClientRect();"
            "return [line.left + line.width / 2, at.top + at.height / 2, at.left, at.width]; })()")
        self.browser.click(peak - 4, middle)
        self.browser.settle()
        self.settled()
        self.assertIn(f"--live-at {self.json('report')['heap']['peak_time_ns']}ns", self.text("#command"))
        self.check_sentence("live")
        self.assertEqual(self.printed()["total"]["live_bytes"], 80_000)
        # Of other moments it has none.
        self.browser.click(left + width * 0.42, middle)
        self.browser.settle()
        self.settled()
        self.assertRegex(self.text("#command"), r"--from \d0% --to \d0%")

    def test_who_frees_in_a_file(self):
        """A file does not have it. The figures are shown, and the command that prints it."""
        file = self.written(self.record_freed())
        self.browser.open(f"{file.as_uri()}#view=leaks&metric=leaked")
        self.settled()
        self.click("#view tbody tr[data-index] th", "request_small")
        self.check_left()
        self.assertEqual(self.texts("#details .error"), [])
        command = shlex.split(self.text("#details .empty code"))
        self.assertEqual(command, ["heapprof", "frees", self.trace.name, "--function", "^request_small$"])

    def check_has_answer(self):
        self.assertNotIn("does not contain the answer", self.text("#view"))

    def check_choices_of_a_file(self):
        """What views show after a choice has the figures of the command line, too."""
        for by in ("function", "line", "site", "stack", "module", "thread"):
            with self.subTest(table=by):
                self.select(view="table", by=by, metric="allocated")
                self.check_has_answer()
                rows = self.printed()["rows"]
                self.assertTrue(rows)
                self.check_rows(rows)
        for metric in ("allocated", "leaked", "temporary"):
            with self.subTest(source=metric):
                self.select(view="source", metric=metric)
                file, = [file["file"] for file in self.printed()["files"]
                         if (file["file"] or "").endswith("ledger_names.cpp")]
                self.select(view="source", metric=metric, file=file)
                self.check_has_answer()
                head, *lines = self.saved_rows()
                listed = self.printed()["lines"]
                self.assertTrue(listed)
                self.assertEqual([(line[head.index("Line")], int(line[head.index("Self")])) for line in lines],
                                 [(str(line["line"] or ""), line["self"][METRICS[metric]]) for line in listed])
        self.select(view="leaks", shown="all")
        self.check_has_answer()
        self.assertIn("--no-suppressions", self.text("#command"))
        sites = self.printed()["sites"]
        self.assertTrue(sites)
        self.assertEqual(len(self.saved_rows()) - 1, len(sites))
        self.select(view="compare")
        sites = self.printed()["sites"]
        self.assertEqual(self.text("#view .empty") is None, bool(sites))
        if sites:
            self.check_changes()
        for series in ("module", "thread"):
            with self.subTest(timeline=series):
                self.select(view="summary", series=series)
                sites = self.json("timeline", "--by", series, "--sites", "6")["sites"]
                self.assertTrue(sites)
                shown = self.texts(".legend .entry")
                for site in sites:
                    self.assertTrue([text for text in shown if text.startswith(self.browser.evaluate(
                        f"names.label({json.dumps(site['label'])})"))], (site["label"], shown))

    def check_rows(self, rows):
        head, *lines = self.saved_rows()
        self.assertEqual(sorted(line[head.index("Self")] for line in lines),
                         sorted(str(row["self"]["allocated_bytes"]) for row in rows))

    def test_messages_of_the_console(self):
        """Each kind of message would fail the tests of this file: of the browser, of scripts, and exceptions."""
        file = self.dir / "messages.html"
        file.write_text('<!doctype html><meta name="viewport" content="width=device-width; initial-scale=1">'
                        "<script>console.log('said', 1); console.warn('warned'); console.debug({}); "
                        "throw new Error('thrown');</script>")
        self.browser.open(file.as_uri())
        self.browser.settle()
        messages = "\n".join(self.browser.errors)
        for expected in ("separator", "console.log: said 1", "console.warning: warned", "console.debug: Object",
                         "Error: thrown"):
            self.assertIn(expected, messages)
        self.browser.errors.clear()

    def test_file_in_firefox(self):
        if not marionette.PROGRAM:
            self.skipTest("Firefox is not installed")
        file = self.written(self.nasty())
        with marionette.Firefox(self.dir) as firefox:
            firefox.open(file.as_uri())
            for view in VIEWS:
                with self.subTest(view=view):
                    firefox.evaluate(f"location.hash = 'view={view}'")
                    harness.wait_until(lambda: firefox.evaluate(
                        "const view = document.querySelector('#view').dataset;"
                        "return view.asked !== undefined && view.asked === view.drawn && "
                        f"view.view === {json.dumps(view)}"), "the view is not drawn")
                    self.assertGreater(firefox.evaluate("return document.querySelector('#view').textContent.length"),
                                       20)
            self.assertEqual(firefox.console(file.as_uri()), [])


if __name__ == "__main__":
    harness.skip_unless(browser.PROGRAM, "chromium is not installed")
    harness.skip_unless(subprocess.run([harness.HEAPPROF, "help", "serve"], capture_output=True).returncode == 0,
                        "this heapprof has no command serve")
    harness.main()
