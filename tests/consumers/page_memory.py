"""Resident and pinned memory in the page: the figures of `rss` and `pins`."""

import pages


class Memory(pages.PageCase):
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


if __name__ == "__main__":
    pages.main()
