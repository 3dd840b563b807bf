"""Shared by page_*.py, the tests of the page of `heapprof serve`: they use it in Chromium as a user does, and compare
its figures with those of the command line. Each test file is for one part of the page."""

import csv
import io
import json
import re
import shlex
import shutil
import subprocess
import urllib.parse
from pathlib import Path

import browser
import consumers
import harness

METRICS = {"peak": "peak_bytes", "leaked": "leaked_bytes", "allocated": "allocated_bytes",
           "allocations": "allocations", "temporary": "temporary_allocations", "live": "live_bytes"}
# Of one recording, those with keys first; a directory has "processes", too.
VIEWS = ("summary", "flame", "table", "tree", "leaks", "blocks", "lifetimes", "threads", "source", "compare",
         "resident")

# Fulfilled when nothing is awaited any more. The first task is after that of a changed address, in which the page asks.
# Between two answers, nothing may be awaited for an instant; and tables choose their columns in the next frame. So it
# must still be true after a frame, whose last step is before the timer.
SETTLED = """(async () => {
  const isDrawn = () => ['#view', '#details'].every(part => {
    const {asked, drawn} = (document.querySelector(part) || {dataset: {}}).dataset;
    return asked !== undefined && asked === drawn;
  }) && document.querySelector('.waiting') === null &&
    ['0', undefined].includes(document.documentElement.dataset.pending);
  const task = () => new Promise(done => setTimeout(done, 0));
  const change = () => new Promise(done => {
    const observer = new MutationObserver(() => { observer.disconnect(); done(); });
    observer.observe(document, {subtree: true, childList: true, attributes: true});
  });
  const frame = () => new Promise(done => requestAnimationFrame(() => done(task())));
  await task();
  do {
    while (!isDrawn()) await change();
    await frame();
  } while (!isDrawn());
})()"""


class PageCase(consumers.Case):
    """A browser, and servers of traces."""

    many_stacks = 100_000  # a list that is long also without the blocks that are freed

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.servers = {}
        # Chromium ignores further changes of the address after 200 in ten seconds, unless it is told not to.
        cls.browser = browser.Browser(harness.shared_folder(),
                                      options=(*browser.ONE_PROCESS, "--disable-ipc-flooding-protection"))
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
        """Waits until the page has acted on what was pressed or chosen, and shows the answers to what it asks then."""
        for _ in range(10):
            try:
                return self.browser.evaluate(SETTLED)
            except RuntimeError as error:
                if "navigated" not in str(error):  # the page before was still there
                    raise
        self.fail("the page does not stay")

    def select(self, **selection):
        """Adds to the address, as a link does."""
        fragment = "&".join(f"{key}={urllib.parse.quote(value, safe='')}" for key, value in selection.items())
        self.browser.evaluate(f"location.hash = {json.dumps(fragment)}")
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
        self.settled()

    def saved(self, label, button=".saves button", read="text"):
        """The text of the file that the button with this label saves, or its hash."""
        read = {"text": "blob => blob.text()",
                "sha256": "async blob => [...new Uint8Array(await crypto.subtle.digest('SHA-256', "
                          "await blob.arrayBuffer()))].map(byte => byte.toString(16).padStart(2, '0')).join('')"}[read]
        return self.browser.evaluate(
            "new Promise(done => { const create = URL.createObjectURL; URL.createObjectURL = blob => { "
            f"URL.createObjectURL = create; ({read})(blob).then(done); return create.call(URL, blob); }};"
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

    def refuse(self, pattern, sentence):
        """Requests whose addresses match are answered with this error."""
        self.browser.evaluate(
            "(() => { const fetched = window.fetch; window.fetch = (...asked) => "
            f"!/{pattern}/.test(asked[0]) ? fetched(...asked) : Promise.resolve(new Response("
            f"JSON.stringify({{error: {json.dumps(sentence)}}}), {{status: 422}})); }})()")

    def compiled(self, source, folder=None):
        """The path of a program of C, with debug information, in the test's directory or in `folder`."""
        program = (folder or self.dir) / "program"
        subprocess.run(["cc", "-O0", "-g", "-pthread", "-x", "c", "-", "-o", program], input=source, text=True,
                       check=True, timeout=60)
        return program

    def answer(self, *words):
        """What heapprof prints: once for all tests of the file, if it is about a recording that nobody changes."""
        is_shared = not self.trace.is_relative_to(self.dir)
        return json.loads(self.call_once(self.heapprof, *words) if is_shared else self.heapprof(*words))

    def json(self, command, *options):
        return self.answer(command, self.trace, *options, "--json")

    def printed(self):
        """What the command of the status line prints with --json."""
        words = shlex.split(self.text("#command"))
        self.assertEqual(words[0], "heapprof")
        # A file has the name of its recording only; moments of it follow @.
        name = self.trace.name
        words = [f"{self.trace}{word[len(name):]}" if word == name or word.startswith(f"{name}@") else word
                 for word in words]
        return self.answer(*words[1:], "--json")

    # ---- What several test files compare and record

    def check_table(self, rows, metric):
        key = METRICS[metric]
        head, *lines = self.saved_rows()
        own, total = head.index("Self"), head.index("Total")
        self.assertEqual(sorted((line[0].removeprefix("'"), line[own], line[total]) for line in lines),
                         sorted((row["name"], str(row["self"][key]), str(row["total"][key]))
                                for row in rows))
        self.assertEqual([int(line[own]) for line in lines], sorted((int(line[own]) for line in lines), reverse=True))

    def check_blocks(self):
        """Compares the sums of the blocks, and returns them."""
        total = self.printed()["total"]
        self.assertIn(f"{self.shown_as('plural', total['blocks'], 'block')}, "
                      f"{self.shown_as('bytes', total['bytes'])} live at", self.text(".shown"))
        # The first sentence of the page is about the same blocks.
        self.assertIn(f"{self.shown_as('bytes', total['bytes'])} in "
                      f"{self.shown_as('plural', total['blocks'], 'block')}", self.text("#sentence"))
        return total

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

    def check_shares(self, head, lines, values, total):
        """The column of shares has those of these values in the total."""
        self.assertTrue(values)
        for line, value in zip(lines, values, strict=True):
            self.assertAlmostEqual(float(line[head.index("share")]), value / total if total else 0)

    def check_changes(self):
        head, *lines = self.saved_rows()
        self.assertEqual({(line[0].removeprefix("'"), line[head.index("Net")],
                           line[head.index("New")]) for line in lines},
                         {(site["name"], str(site["bytes"]), str(site["new_bytes"]))
                          for site in self.printed()["sites"]})

    def check_sentence(self, metric):
        total = self.printed()["total"][METRICS[metric]]
        shown = self.text("#sentence b")
        self.assertEqual(shown, self.browser.evaluate(f"figures.bytes({total})"))

    def check_header(self, path):
        """Name and duration in the header, and what the views know, are those of this recording."""
        self.assertIn(path.name, self.text("#about"))
        duration = json.loads(self.heapprof("report", path, "--json"))["duration_ns"]
        self.assertIn(self.shown_as("time", duration), self.text("#about"))
        self.assertEqual(self.browser.evaluate("recording.info().duration_ns"), duration)

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

    def check_marks(self):
        """A click on the flag of a mark selects its moment."""
        marks = self.json("timeline")["marks"]
        self.assertEqual([mark["text"] for mark in marks], ["loaded", "saved"])
        for i, (mark, size) in enumerate(zip(marks, (30_000, 50_000))):
            self.browser.click(*self.browser.evaluate(
                f"(() => {{ const at = document.querySelectorAll('.mark path')[{i}].getBoundingClientRect();"
                "return [at.left + at.width / 2, at.top + at.height / 2]; })()"))
            self.settled()
            self.assertIn(f"--live-at {mark['time_ns']}ns", self.text("#command"))
            self.check_sentence("live")
            self.assertEqual(self.printed()["total"]["live_bytes"], size)

    def shown_as(self, form, *values):
        """A figure as the page's function figures.FORM() writes it."""
        return self.browser.evaluate(f"figures.{form}({', '.join(map(json.dumps, values))})")

    def place_of_the_timeline(self):
        """Left, top, width and height of the chart, in pixels."""
        return self.browser.evaluate(
            "(() => { const at = document.querySelector('.time-chart').getBoundingClientRect();"
            "return [at.left, at.top, at.width, at.height]; })()")

    def tip_of(self, place):
        """The tooltip of the frame with this upper and lower edge."""
        left = self.browser.evaluate("document.querySelector('.flame .chart').getBoundingClientRect().left")
        self.browser.move(left + 20, (place[0] + place[1]) / 2)
        self.browser.settle()
        return self.text(".flame .tip.on")

    def press_each(self, *keys):
        for key in keys:
            self.browser.press(key)
            self.settled()

    def press_enter(self, selector, text):
        """Presses Enter on the first control that matches and contains the text, as a user does who works without a
        mouse."""
        self.assertTrue(self.browser.evaluate(
            f"(() => {{ const control = [...document.querySelectorAll({json.dumps(selector)})].find(control => "
            f"control.textContent.includes({json.dumps(text)})); if (control) control.focus(); "
            "return control !== undefined && document.activeElement === control; })()"),
            f"{selector} {text} cannot be focused")
        self.browser.press("Enter")
        self.settled()

    def start_commanded(self, trace, program=None):
        """Records tests/programs/commanded.cpp, or another program, which command() drives."""
        self.process = self.popen([program or harness.program("commanded")], text=True, stdin=subprocess.PIPE,
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

    def recordings(self, *names):
        """A directory with copies of these traces, named a, b, ...; and their paths."""
        folder = self.dir / "recordings"
        folder.mkdir()
        paths = [folder / f"{letter}.heapprof" for letter in "abcdefgh"[:len(names)]]
        for name, path in zip(names, paths):
            shutil.copy(self.folder / f"{name}.heapprof", path)
        return folder, paths

    def record_freed(self):
        """Two call sites: 30 of 40 blocks of the first are freed by two functions, and 1 of 2 of the second one by the
        first function."""
        return self.recorded_once("freed", """
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
            """, FREE_STACKS="yes")

    def record_marks(self):
        """30,000 bytes are live at the first mark, 80,000 at the peak, and 50,000 at the second mark."""
        header = Path(__file__).parents[2] / "preload" / "heapprof.h"
        return self.recorded_once("marks", """
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
            """.replace("HEADER", str(header)))

    def recorded_once(self, name, source, **variables):
        """The trace of a program of C, for all test files."""
        def make(folder):
            program = self.compiled(source, folder)
            shutil.copy(self.record(program, **variables).trace, folder / f"{name}.heapprof")
        return harness.made_once(make, name, source, *sorted(variables.items())) / f"{name}.heapprof"


def main():
    harness.skip_unless(browser.PROGRAM, "chromium is not installed")
    harness.skip_unless(subprocess.run([harness.HEAPPROF, "help", "serve"], capture_output=True).returncode == 0,
                        "this heapprof has no command serve")
    harness.main()
