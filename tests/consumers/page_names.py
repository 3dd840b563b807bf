"""Names that are difficult for the page: none becomes markup."""

import csv
import io
import json
import re
import shutil
import xml.etree.ElementTree as ElementTree

import nasty
import pages


class Names(pages.PageCase):
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
        for view in (*pages.VIEWS, "processes"):
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

    def test_files_that_many_folders_have(self):
        """They are shown with their folders, as in the terminal."""
        self.open(self.folder / "plain.heapprof", view="table")
        files = ("/usr/lib/json/__init__.py", "mod.rs", "/src/net/mod.rs", "/a.py")
        rows = [{"file": file, "line": 3} for file in files]
        shown = self.browser.evaluate(f"{json.dumps(rows)}.map(names.place)")
        self.assertEqual(shown, ["json/__init__.py:3", "mod.rs:3", "net/mod.rs:3", "a.py:3"])

    def test_names_that_look_like_formulas(self):
        """No field of a CSV file begins with a formula, whatever separates fields for the spreadsheet."""
        self.open(self.folder / "plain.heapprof", view="table")
        texts = ["=1+1", "x;=HYPERLINK(1)", "x;@SUM(A1);-2;+3", "\t=1", "a\t=1", "a\n=1", "a;b, c; -d", "-"]
        saved = self.browser.evaluate(f"saving.csv({json.dumps([[text, 'x', text, -1] for text in texts])})")
        rows = list(csv.reader(io.StringIO(saved)))
        self.assertEqual([row[1::2] for row in rows], [["x", "-1"]] * len(texts))
        self.assertEqual([(row[0].replace("'", ""), row[2].replace("'", "")) for row in rows],
                         [(text, text) for text in texts])
        self.assertEqual([row[0] for row in rows[-2:]], ["a;b, c; -d", "'-"])
        # A name, which is the first field of a row, stays whole.
        first = next(csv.reader(io.StringIO(saved.splitlines()[1]), delimiter=";"))[0]
        self.assertTrue(first.startswith("x;'=HYPERLINK(1)"), first)
        for separator in (",", ";", "\t"):
            fields = [field for row in csv.reader(io.StringIO(saved), delimiter=separator) for field in row]
            self.assertEqual([field for field in fields if field[:1] in set("=+-@\t\r") and field != "-1"], [])

    def test_names_of_recordings(self):
        """In the list of recordings, a file's name and a program's cannot hide a direction or a line break."""
        folder = self.dir / "recordings"
        folder.mkdir()
        program = self.compiled("#include <stdlib.h>\nint main(void) { return malloc(1) == NULL; }")
        trace = self.record(program.rename(self.dir / "pro\u202egram")).trace
        for file in ("a\u202eb.heapprof", "c\nd.heapprof", "e\u2067f.heapprof"):
            shutil.copy(trace, folder / file)
        self.address(folder)
        (folder / "e\u2067f.heapprof").unlink()  # it is listed with an error
        self.open(folder, view="processes")
        lines = self.texts("#view tbody tr[data-index]")
        self.assertEqual(len(lines), 3)
        self.assertEqual(re.findall("[\\n\u202e\u2067]", "".join(lines)), [])
        for name in ("a\u00b7b.heapprof", "c\u00b7d.heapprof", "e\u00b7f.heapprof: "):
            self.assertEqual(len([line for line in lines if line.startswith(name)]), 1, lines)
        self.assertEqual(len([line for line in lines if "pro\u00b7gram" in line]), 2, lines)
        self.browser.errors.clear()  # the browser reports answers that are errors


if __name__ == "__main__":
    pages.main()
