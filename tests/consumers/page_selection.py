"""What is selected in the page: views say what it means for them, and the command that is copied selects the same."""

import os
import shutil
import subprocess
import unittest.mock

import harness
import pages


class Selection(pages.PageCase):
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
        for view in pages.VIEWS:
            self.select(view=view, kind="all")
            with self.subTest(view=view):
                self.assertEqual(self.texts("#view .error"), [])
                self.assertEqual("heap blocks only" in (self.text("#view .empty") or ""),
                                 view in ("lifetimes", "threads", "compare"))

    def test_module_whose_name_is_a_pattern(self):
        """A click on a module selects it, also if its name would match other names as a pattern."""
        program = self.compiled("""
            #include <stdlib.h>
            void* kept;
            int main(void) { kept = malloc(5000); }
            """)
        self.trace = self.record(program.rename(program.with_name("program[1]*"))).trace
        self.open(self.trace, view="table", by="module", metric="leaked")
        self.click("#view tbody tr[data-index] th", "program[1]*")
        self.assertEqual(self.texts("#view .error"), [])
        self.assertEqual(self.printed()["total"]["leaked_bytes"], 5000)

    def test_rows_that_are_no_modules(self):
        """A click on one explains it. It selects nothing: no module has such a name."""
        self.trace = self.record(self.compiled("""
            #include <pthread.h>
            #include <stdlib.h>
            int main(void) {
              pthread_t thread;
              void* block = NULL;
              if (pthread_create(&thread, NULL, (void* (*)(void*))malloc, (void*)5000) != 0) return 1;
              pthread_join(thread, &block);
              return block == NULL;
            }
            """)).trace
        self.open(self.trace, view="table", by="module", metric="leaked", **{"only-own": "1"})
        self.click("#view tbody tr[data-index] th", "(no own code)")
        self.assertEqual(self.browser.evaluate("selection.now().filters"), [])
        self.assertEqual(self.texts("#view .error"), [])
        self.assertIn("have no function of the program's own code", self.text("#details"))

    def test_share_of_mappings(self):
        """The share of the selection is that of what is selected in the whole recording: heap, mappings or both."""
        self.open(self.folder / "plain.heapprof", view="table")
        for kind, words in (("heap", ""), ("mmap", " of the mappings"), ("all", " of heap and mappings")):
            for metric in ("allocated", "leaked", "peak", "live"):
                end = f" of the peak{words}" if metric == "live" else f"{words} of the whole recording"
                with self.subTest(kind=kind, metric=metric):
                    self.select(view="table", kind=kind, metric=metric, module="libleaf.so.1")
                    part = self.printed()["total"][pages.METRICS[metric]]
                    whole = self.json("report", "--kind", kind, "--cost", "peak" if metric == "live" else metric)
                    self.assertGreater(part, 0)
                    self.assertLessEqual(part, whole["total"]["bytes"])
                    share = self.shown_as("percent", part, whole["total"]["bytes"])
                    self.assertTrue(self.text("#sentence").endswith(f" \u00b7 {share}{end}"), self.text("#sentence"))

    def test_empty_selections(self):
        """Each view without a figure says why, and offers to select everything."""
        self.open(self.real(), view="summary", **{"min-size": "99999999999"})
        # The comparison has another text, and resident memory no filters.
        for view in pages.VIEWS[:pages.VIEWS.index("compare")]:
            with self.subTest(view=view):
                self.select(view=view, **{"min-size": "99999999999"})
                self.assertRegex(self.text("#view .empty"), r"(?i)remove a filter")
                self.assertEqual(self.texts("#view tbody tr[data-index]"), [])

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


if __name__ == "__main__":
    pages.main()
