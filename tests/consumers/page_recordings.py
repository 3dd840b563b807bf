"""The page of a directory: the list of its recordings, the choice of one, and the comparison of two."""

import json
import re
import shlex
from pathlib import Path

import harness
import pages


class Recordings(pages.PageCase):
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
        # Nor are the moments that were compared, and the source file.
        self.select(view="processes", trace="1", before="10%", after="60%", file="main.c")
        self.assertEqual(self.texts(".time-chart .pin text"), ["A", "B"])
        self.click("#view tbody tr[data-index]", paths[0].name)
        self.assertEqual(self.texts(".time-chart .pin text"), [])
        self.assertEqual(self.browser.evaluate("['before', 'after', 'file'].map(key => selection.now()[key])"),
                         ["", "", ""])

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

    def test_call_site_of_the_recording_before(self):
        """A call site of the timeline whose name is known late is not selected in a recording that was chosen since."""
        folder, paths = self.recordings("plain", "plain")
        self.open(folder, view="leaks", trace="1")
        self.hold("by=function")
        self.browser.evaluate("document.querySelector('#timeline .legend button.entry').click(); 0")
        harness.wait_until(lambda: self.browser.evaluate("held.length"), "the name is not asked for")
        self.browser.evaluate("location.hash = 'view=leaks&trace=0'; 0")
        harness.wait_until(lambda: paths[0].name in self.text("#about") and "pid" in self.text("#about"),
                           "the other recording is not shown")
        self.release()
        self.settled()
        self.assertEqual(self.browser.evaluate("[selection.now().trace, selection.now().name]"), ["0", ""])

    def check_one_recording(self, paths):
        """Two moments of the second recording are compared."""
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('#view-head input[size]').length"), 2)
        words = shlex.split(self.text("#command"))
        self.assertEqual([Path(word.partition("@")[0]).name for word in words if "@" in word], [paths[1].name] * 2)
        self.assertIn("Net", self.texts(".tile span"))
        self.assertEqual(self.texts("#selection .segments button:not(:disabled)"), [])

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
        self.assertEqual(self.browser.evaluate("document.title"), f"{paths[0].name} \u00b7 heapprof")
        self.select(view="summary", trace="2")
        self.check_header(paths[2])
        self.assertTrue(self.texts("#timeline .area"))
        self.browser.errors.clear()  # the browser reports answers that are errors

    def check_unreadable(self, reason):
        self.assertIn(reason, self.text("#view .error"))
        self.assertIn("cannot be read", self.text("#about"))
        self.assertEqual(self.texts(".waiting, .stale, #timeline .area, #details dl, #view tr, #progress > *"), [])


if __name__ == "__main__":
    pages.main()
