"""What the page says of selections that are wrong and of recordings, programs and sources that miss something."""

import json
import os
import shutil
import subprocess

import harness
import pages


class Errors(pages.PageCase):
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
        for option, wrong, right in (("min-size", "abc", "4K"), ("max-lifetime", "4K", "20us"),
                                     ("min-lifetime", "5MS", "5ms"), ("min-lifetime", "5 ms", "1.5h"),
                                     ("freed", "never", "no"), ("kind", "x", "mmap")):
            valid = [self.browser.evaluate(
                f"(() => {{ const [option, value] = {form}.elements; option.value = '{option}'; value.value = '{text}';"
                f"value.dispatchEvent(new Event('input')); return {form}.checkValidity(); }})()")
                for text in (wrong, right)]
            self.assertEqual(valid, [False, True], option)

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
        self.assertIn("events lost", self.texts("#details dt"))
        # Stacks alone can be missing: then no events are said to be lost, not even 0.
        script = self.browser.call(
            "Page.addScriptToEvaluateOnNewDocument", source="(() => { const fetched = window.fetch; "
            "window.fetch = (...asked) => fetched(...asked).then(async answer => new Response("
            "(await answer.text()).replace(/\"events_lost\": ?null/g, '\"events_lost\":0'), answer)); })()")["identifier"]
        try:
            self.browser.open("about:blank")
            self.open(trace, view="summary")
        finally:
            self.browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
        self.click(".findings button", "incomplete")
        self.assertEqual(self.text("#details h2"), "The recording is incomplete")
        self.assertIn("ended by", self.texts("#details dt"))
        self.assertNotIn("events lost", self.texts("#details dt"))

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

    def test_lines_that_are_lost(self):
        """A table whose lines over time cannot be read says so, and has its other figures."""
        self.open(self.folder / "plain.heapprof", view="leaks")
        self.refuse("over-time", "The lines are lost.")
        for view in ("table", "flame"):
            with self.subTest(view=view):
                self.select(view=view, metric="allocated")
                self.assertIn("Growth and lines over time are unknown: The lines are lost.", self.texts("#view .more"))
        self.select(view="table", metric="allocated")
        self.check_table(self.printed()["rows"], "allocated")

    def test_metric_without_figures(self):
        """Where nothing has the selected metric, no code without line numbers is to blame."""
        self.trace = self.record(self.compiled("""
            #include <stdlib.h>
            void* volatile kept;
            int main(void) { kept = malloc(1000); kept = malloc(2000); }
            """)).trace
        self.assertEqual(self.json("report")["heap"]["temporary_allocations"], 0)
        self.open(self.trace, view="source", metric="temporary")
        self.assertTrue(self.printed()["files"])
        self.assertEqual(self.texts("#view .warning"), [])


if __name__ == "__main__":
    pages.main()
