"""The file of `heapprof html`, opened from disk in Chromium and in Firefox."""

import json
import re
import shlex
import tempfile
from pathlib import Path

import harness
import marionette
import pages


class File(pages.PageCase):
    def written(self, trace, *options):
        self.trace = trace
        file = self.dir / "report <&> #1.html"
        self.heapprof("html", trace, "-o", file, *options)
        return file

    def written_once(self, trace, *options):
        """The same for tests that do not change the file: it has a hundred answers."""
        self.trace = trace
        return self.call_once(self.written_for_all, trace, *options)

    def written_for_all(self, trace, *options):
        folder = Path(tempfile.mkdtemp(dir=harness.shared_folder()))
        return self.written(trace, *options).rename(folder / "report <&> #1.html")

    def test_file_in_chromium(self):
        file = self.written(self.real(), "--sources", "--max-size", "20M")
        self.browser.open(file.as_uri())
        self.settled()
        heap = self.json("report")["heap"]
        exact = self.browser.evaluate("[...document.querySelectorAll('.tile')].map(tile => tile.title)")
        self.assertEqual(int(re.sub(r"\D", "", exact[0])), heap["peak_bytes"])
        for view in pages.VIEWS:
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
        self.settled()
        self.assertRegex(self.text("#command"), r"--from \d0% --to \d0%")
        self.assertTrue(self.texts(".tile"))
        shown = int(re.sub(r"\D", "", self.browser.evaluate("document.querySelector('.tile').title")))
        self.assertEqual(shown, self.printed()["heap"]["peak_bytes"])
        self.select(view="tree", metric="leaked", **{"from": "10%", "to": "20%"})
        self.assertRegex(self.text("#view .empty"), "Live at peak.*heapprof tree .*--from 10% --to 20%")

    def test_part_of_a_selected_range(self):
        """A range that is dragged in one that the file has selects that again: the figures are not those of the part, so
        it is not drawn."""
        self.browser.open(f"{self.written_once(self.real()).as_uri()}#view=summary&from=40%25&to=50%25")
        self.settled()
        drawn = "(() => { const range = document.querySelector('.time-chart rect.range'); " \
                "return ['x', 'width'].map(name => Number(range.getAttribute(name))); })()"
        before = self.browser.evaluate(drawn)
        left, top, width, height = self.place_of_the_timeline()
        x, size = self.browser.evaluate(
            "(() => { const at = document.querySelector('.time-chart rect.range').getBoundingClientRect(); "
            "return [at.left, at.width]; })()")
        self.assertGreater(size, 40)
        self.browser.drag((x + size * 0.3, top + height / 2), (x + size * 0.6, top + height / 2))
        self.settled()
        self.assertIn("--from 40% --to 50%", self.text("#command"))
        self.assertEqual(self.browser.evaluate(drawn), before)

    def test_rows_without_their_lines(self):
        """A file has lines over time of functions, if it has room for them. Other rows do not ask for them."""
        self.browser.open(self.written_once(self.record_marks()).as_uri())
        self.settled()
        self.browser.evaluate("for (const key of Object.keys(ask.file.answers)) "
                              "if (key.includes('columns=over-time')) delete ask.file.answers[key]; 0")
        for by in ("function", "line", "site"):
            with self.subTest(by=by):
                self.select(view="table", by=by)
                self.assertTrue(self.texts("#view tbody tr[data-index]"))
                self.assertEqual(self.browser.errors, [])

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
                                 [(str(line["line"] or ""), line["self"][pages.METRICS[metric]]) for line in listed])
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

    def test_moments_of_a_file(self):
        """A click on the flag of a mark, or near the peak, selects the moment for which the file has answers."""
        file = self.written_once(self.record_marks())
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
        self.settled()
        self.assertIn(f"--live-at {self.json('report')['heap']['peak_time_ns']}ns", self.text("#command"))
        # The moment of the click may be another one.
        self.assertIn("one of the moments of this file", self.text("#selection"))
        self.check_sentence("live")
        self.assertEqual(self.printed()["total"]["live_bytes"], 80_000)
        # Of other moments it has none.
        self.browser.click(left + width * 0.42, middle)
        self.settled()
        self.assertRegex(self.text("#command"), r"--from \d0% --to \d0%")

    def test_marks_that_are_not_in_a_file(self):
        """The flag of a mark of which the file has no figures selects no moment near it, but names the command."""
        header = Path(__file__).parents[2] / "preload" / "heapprof.h"
        program = self.compiled("""
            #include <stdio.h>
            #include <stdlib.h>
            #include <unistd.h>
            #include "HEADER"
            int main(void) {
              for (int i = 1; i <= 11; ++i) {
                void* volatile kept = malloc(1000);
                char text[20];
                snprintf(text, sizeof text, "mark %d", i);
                heapprof_mark(text);
                if (i < 10) usleep(30000);  // the last two are close to each other
              }
            }
            """.replace("HEADER", str(header)))
        for _ in range(20):
            self.trace = self.record(program).trace
            marks = self.json("timeline")["marks"]
            duration = self.json("report")["duration_ns"]
            # The process may wait for the processor between the two.
            if marks[-1]["time_ns"] - marks[-2]["time_ns"] < duration / 100:
                break
        self.assertEqual([mark["text"] for mark in marks], [f"mark {i}" for i in range(1, 12)])
        self.assertLess(marks[10]["time_ns"] - marks[9]["time_ns"], duration / 100)
        file = self.written(self.trace)
        self.browser.open(f"{file.as_uri()}#view=table")
        self.settled()
        command = self.text("#command")

        def click(i):
            self.browser.click(*self.browser.evaluate(
                f"(() => {{ const at = document.querySelectorAll('.mark path')[{i}].getBoundingClientRect();"
                "return [at.left + at.width / 2, at.top + at.height / 2]; })()"))
            self.browser.settle()
            self.settled()
        click(10)
        self.assertEqual((self.browser.evaluate("selection.now().at"), self.text("#command")), ("", command))
        ns = marks[10]["time_ns"]
        self.assertIn(f'Mark "mark 11" at {self.shown_as("time", ns)}: this file has no figures of this moment',
                      self.text("#timeline .more"))
        self.assertEqual([shlex.split(text) for text in self.texts("#timeline .more code")],
                         [["heapprof", "report", self.trace.name, "--live-at", f"{ns}ns"],
                          ["heapprof", "serve", self.trace.name]])
        titles = self.texts(".mark title")
        self.assertEqual(["no figures" in title for title in titles], [False] * 10 + [True])
        # That of another one is selected, and the message is gone.
        click(8)
        self.assertEqual(self.browser.evaluate("selection.now().at"), f"{marks[8]['time_ns']}ns")
        self.assertEqual(self.text("#timeline .more"), "")
        self.check_sentence("live")

    def test_peak_that_is_not_in_a_file(self):
        """A click on the line of the peak, of which a pruned file has no figures, selects no mark near it, but names
        the command."""
        header = Path(__file__).parents[2] / "preload" / "heapprof.h"
        program = self.compiled("""
            #include <stdlib.h>
            #include <unistd.h>
            #include "HEADER"
            int main(void) {
              void* volatile kept = malloc(30000);
              usleep(200000);
              void* volatile freed = malloc(50000);
              free(freed);
              heapprof_mark("after");
              usleep(200000);
              return kept == NULL;
            }
            """.replace("HEADER", str(header)))
        for _ in range(20):
            self.trace = self.record(program).trace
            report, marks = self.json("report"), self.json("timeline")["marks"]
            peak = report["heap"]["peak_time_ns"]
            # The process may wait for the processor between the peak and the mark.
            if marks[-1]["time_ns"] - peak < report["duration_ns"] / 100:
                break
        self.assertEqual([mark["text"] for mark in marks], ["after"])
        self.assertLess(0, marks[0]["time_ns"] - peak)
        self.assertLess(marks[0]["time_ns"] - peak, report["duration_ns"] / 100)
        file = self.written(self.trace)
        content = file.read_text()
        self.assertIn(f"live-at={peak}ns", content)
        file.write_text(content.replace(f"live-at={peak}ns", "live-at=left-out"))
        self.browser.open(f"{file.as_uri()}#view=table")
        self.settled()
        command = self.text("#command")
        self.browser.click(*self.browser.evaluate(
            "(() => { const at = document.querySelector('.time-chart line.peak').getBoundingClientRect();"
            "return [at.left + at.width / 2, at.top + at.height / 2]; })()"))
        self.browser.settle()
        self.settled()
        self.assertEqual((self.browser.evaluate("selection.now().at"), self.text("#command")), ("", command))
        self.assertIn(f"Peak at {self.shown_as('time', peak)}: this file has no figures of this moment",
                      self.text("#timeline .more"))
        self.assertEqual(shlex.split(self.text("#timeline .more code")),
                         ["heapprof", "report", self.trace.name, "--live-at", "peak"])

    def test_highest_resident_memory_in_a_file(self):
        """A file has resident memory at the end only, so that the time when it was highest is no link there."""
        header = Path(__file__).parents[2] / "preload" / "heapprof.h"
        trace = self.record(self.compiled("""
            #include <stdlib.h>
            #include <string.h>
            #include "HEADER"
            int main(void) {
              char* block = malloc(64 << 20);
              if (block == NULL) return 1;
              memset(block, 1, 64 << 20);
              heapprof_mark("filled");
              free(block);
            }
            """.replace("HEADER", str(header)))).trace
        self.open(trace, view="resident")
        self.assertIn(" it was highest: ", self.text("#view-head a"))
        self.browser.open(f"{self.written(trace).as_uri()}#view=resident")
        self.settled()
        self.assertIn(" it was highest: ", self.text("#view-head"))
        self.assertEqual(self.texts("#view-head a"), [])

    def record_small_shares(self):
        """A function with 40% of the peak, and 150 with 0.4% each."""
        count = 150
        small = [f"small_{i}" for i in range(count)]
        return self.record(self.compiled("""
            #include <stdlib.h>
            #define SITE __attribute__((noinline))
            void* volatile kept;
            """ + "\n".join(f"SITE void {name}(void) {{ kept = malloc(400); }}" for name in small) + f"""
            SITE void large(void) {{ kept = malloc({400 * count * 2 // 3}); }}
            int main(void) {{ large(); {" ".join(f"{name}();" for name in small)} }}
            """)).trace

    def test_shares_in_a_pruned_file(self):
        """Branches of a larger share are left out than otherwise, and the page says of which: that of the answer that
        the file has."""
        file = self.written(self.record_small_shares(), "--max-size", "600K")
        self.browser.open(f"{file.as_uri()}#view=flame&metric=peak")
        self.settled()
        percent = self.browser.evaluate("ask.file.answers['tree?cost=peak&min-share=0.1'].min_share") * 100
        self.assertGreater(percent, 0.4)
        share = f"{percent:g}"
        self.assertRegex(self.text("#command"), f" --min-share {share}$")
        left, top, width, height = self.browser.evaluate(
            "(() => { const at = [...document.querySelectorAll('.flame rect.o-merged')].at(-1).getBoundingClientRect();"
            "return [at.left, at.top, at.width, at.height]; })()")
        self.browser.move(left + width / 2, top + height / 2)
        self.browser.settle()
        self.assertIn(f"each has less than {share}% of the total", self.text(".flame .tip.on"))
        self.select(view="flame", metric="peak", name="small_7", zoom="function")
        self.assertIn(f"small_7 has less than {share}% of this cost", self.text("#view-head"))
        self.select(view="flame", metric="peak", name="large", shown="sandwich")
        self.assertIn(f"without branches with less than {share}% of everything", self.text("#view-head"))
        for view in ("flame", "tree"):
            with self.subTest(view=view):
                self.select(view=view, metric="peak")
                tree = self.printed()
                self.assertEqual(tree["min_share"], percent / 100)
                self.assertEqual(tree, self.browser.evaluate("ask.file.answers['tree?cost=peak&min-share=0.1']"))

    def test_who_frees_in_a_file(self):
        """Of a file that has no room for it, the figures are shown, and the command that prints it."""
        content = self.written_once(self.record_freed(), "--max-size", "1M").read_text()
        self.assertIn('"frees?', content)
        file = self.dir / "report <&> #1.html"
        file.write_text(content.replace('"frees?', '"left out?'))
        self.browser.open(f"{file.as_uri()}#view=leaks&metric=leaked")
        self.settled()
        self.click("#view tbody tr[data-index] th", "request_small")
        self.check_left()
        self.assertEqual(self.texts("#details .error"), [])
        command = shlex.split(self.text("#details .empty code"))
        self.assertEqual(command, ["heapprof", "frees", self.trace.name, "--function", "^request_small$"])

    def test_frees_in_a_file(self):
        """Who frees the other blocks of a call site, as the command line prints it. A file that was pruned says of how
        many pairs of stacks it knows; if it has none of the call site, it names the command."""
        file = self.written_once(self.record_freed(), "--max-size", "1M")
        page, begin, answers, end = re.fullmatch(r"(.*)(<script [^>]*id=\"answers\">)(.*?)(</script>.*)",
                                                 file.read_text(), re.S).groups()

        def shown(pruned):
            content = json.loads(answers)
            frees = content["answers"]["frees?shared-frames=1&top=500"]
            pruned(frees)
            written = self.dir / f"{pruned.__name__}.html"
            written.write_text("".join((page, begin, json.dumps(content).replace("<", "\\u003c"), end)))
            self.browser.open(f"{written.as_uri()}#view=leaks&metric=leaked")
            self.settled()
            return len(frees["pairs"])

        def whole(frees):
            self.assertEqual(len(frees["pairs"]), frees["all_pairs"])

        def part(frees):
            frees["all_pairs"] = 123

        def others(frees):
            frees["all_pairs"], frees["pairs"] = 123, frees["pairs"][-1:]
            self.assertIn("request_large", json.dumps([frees["frames"][at] for at in frees["pairs"][0]["allocated_by"]]))

        shown(whole)
        self.check_freed()
        self.assertEqual(self.texts("#details code"), [])
        count = shown(part)
        self.check_freed()
        self.assertIn(f"In the {count} pairs of stacks with most blocks, of 123", self.text("#details .calls + p"))
        # Without --top, the command prints ten pairs.
        self.assertEqual(sorted(shlex.split(self.text("#details .calls + p code"))),
                         sorted(["heapprof", "frees", self.trace.name, "--top", "0", "--function", "^request_small$"]))
        shown(others)
        self.click("#view tbody tr[data-index] th", "request_small")
        self.check_left()
        self.assertEqual(shlex.split(self.text("#details .empty code")),
                         ["heapprof", "frees", self.trace.name, "--function", "^request_small$"])

    def test_stacks_in_a_file(self):
        """The stacks of the peak, and of the range in which it is: of that with every metric, if these are all stacks."""
        file = self.written_once(self.real())
        report = self.json("report")
        peak = report["heap"]["peak_time_ns"]
        tenth = min(9, 10 * peak // report["duration_ns"])
        of_range = {"from": f"{tenth * 10}%", "to": f"{tenth * 10 + 10}%"}
        self.browser.open(f"{file.as_uri()}#view=summary")
        self.settled()
        for metric, selection in (("peak", of_range), ("allocated", of_range), ("live", {"at": f"{peak}ns"})):
            with self.subTest(metric=metric):
                self.select(view="table", by="stack", metric=metric, **selection)
                rows = self.printed()["rows"]
                self.assertTrue(rows)
                self.check_table(rows, metric)
        self.click("#view tbody tr[data-index] th")
        self.assertTrue(self.texts("#details .stack li"))

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

    def test_messages_of_the_console(self):
        """Each kind of message would fail the tests of the page: of the browser, of scripts, and exceptions."""
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
            for view in pages.VIEWS:
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
    pages.main()
