"""Resident and pinned memory in the page: the figures of `rss` and `pins`."""

import collections
import re
import shlex

import pages

# Lines of `rss` that have another name in the page.
LINES = {"requested": "asked for", "held_back": "held back", "mmap": "mappings"}


class Memory(pages.PageCase):
    def test_pinned(self):
        """At the end and at the peak, the metric Pinned has the figures of `pins` by each kind of rows, and the stacks
        of `flamegraph --cost pinned`."""
        self.open(self.real(), view="table", metric="pinned")
        heap = self.json("report")["heap"]
        peak = {"at": f"{heap['peak_time_ns']}ns"}
        for blocks, moment in ((heap["leaked_blocks"], {}), (heap["peak_blocks"], peak)):
            for by, title in (("function", "Function"), ("site", "Call site"), ("stack", "Stack")):
                with self.subTest(by=by, **moment):
                    self.select(view="table", metric="pinned", by=by, **moment)
                    self.assertEqual(bool(self.check_pinned_rows(title)), blocks > 0)
            with self.subTest("stacks", **moment):
                self.select(view="flame", metric="pinned", **moment)
                frames = self.check_pinned_frames()
                self.assertEqual(bool(frames), blocks > 0)
                self.select(view="tree", metric="pinned", **moment)
                self.check_pinned_tree(frames)
        self.select(view="threads", metric="pinned")
        self.assertIn("without pinned bytes", self.text(".shown"))
        self.select(view="table", by="pinned")  # the address before this was a metric
        self.assertIn("heapprof pins", self.text("#command"))

    def check_pinned_rows(self, title):
        """The rows are the groups that the copied command prints. Returns these."""
        answer = self.printed()
        head, *lines = self.saved_rows()
        columns = [head.index(name) for name in (title, "Overhead", "Alone", "Shared", "Self", "Blocks")]
        self.assertEqual(sorted([line[column].removeprefix("'") for column in columns] for line in lines),
                         sorted([group["name"], *(str(group[f"{key}_bytes"]) for key in
                                                  ("overhead", "alone", "shared", "usable")), str(group["blocks"])]
                                 for group in answer["groups"]))
        self.assertIn(self.shown_as("bytes", answer["pinned_bytes"]), self.text("#sentence b"))
        self.assertEqual(self.text("#view .empty") is None, bool(lines))
        return answer["groups"]

    def printed_frames(self):
        """Of the stacks that the copied command prints: how many frames have this depth, name and sum."""
        words = shlex.split(self.text("#command"))
        self.assertEqual(words[:2], ["heapprof", "flamegraph"])
        root = ["", 0, {}]  # name, sum, and the frames that it calls
        for line in self.heapprof(words[1], self.trace, *words[3:]).split("\n"):
            stack, _, size = line.rpartition(" ")
            if stack == "":
                continue
            frame = root
            frame[1] += int(size)
            for name in stack.split(";"):
                frame = frame[2].setdefault(name, [name, 0, {}])
                frame[1] += int(size)
        frames, pending = collections.Counter(), [(0, root)] if root[2] else []
        while pending:
            depth, (name, size, called) = pending.pop()
            frames[depth, name, size] += 1
            pending += [(depth + 1, frame) for frame in called.values()]
        return frames

    @staticmethod
    def folded_name(text):
        """A name of the CSV as folded stacks have it: folded_name() in analyzer/render/flame_tree.cpp."""
        return re.sub(r" ([0-9.]+)\Z", "\u00a0\\1", text.removeprefix("'").replace(";", ":"))

    def check_pinned_frames(self):
        """The flame graph has the frames of the stacks that the copied command prints. Returns these."""
        printed = self.printed_frames()
        if not printed:
            self.assertTrue(self.texts("#view .empty"))
            return printed
        head, *lines = self.saved_rows()
        columns = [head.index(name) for name in ("depth", "name", "pinned_bytes")]
        shown = collections.Counter()
        for line in lines:
            depth, name, size = (line[column] for column in columns)
            shown[int(depth), self.folded_name(name), int(size)] += 1
        # Some of the frames that differ: a program has thousands.
        self.assertEqual((list((shown - printed).items())[:5], list((printed - shown).items())[:5]), ([], []))
        return printed

    def check_pinned_tree(self, frames):
        """The rows of the branches that are open are among these frames."""
        self.assertIn("heapprof flamegraph", self.text("#command"))
        head, *lines = self.saved_rows()
        columns = [head.index(name) for name in ("depth", "name", "Total")]
        rows = [[line[column] for column in columns] for line in lines]
        self.assertEqual(bool(rows), bool(frames))
        for depth, name, size in rows:
            self.assertIn((int(depth) + 1, self.folded_name(name), int(size)), frames)

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
        sentence = f"keep pins {self.shown_as('bytes', most['overhead_bytes'])} of free memory"
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
        """The view has the lines of `rss` and their parts, at the end and at a snapshot; the summary leads to it."""
        self.open(self.real(), view="summary")
        self.click(".tile", "Highest resident")
        answer = self.check_resident()
        # The end of a program that was killed is estimated. A snapshot shows each page.
        complete = [one for one in answer["snapshots"] if one["complete"]]
        highest = max(complete, key=lambda one: one["statm_bytes"] or 0)
        self.select(view="resident", metric="live", at=f"{highest['end_ns']}ns")
        answer = self.check_resident()
        self.assertEqual((answer["source"], answer["at_ns"]), ("snapshot", highest["end_ns"]))
        # Free pages are kept by others' blocks, which the table of pinned memory has.
        sizes = {line["name"]: line["bytes"] for line in answer["lines"]}
        self.click("#view tr .line", "returnable" if sizes["returnable"] else "holes")
        self.assertIn("heapprof pins", self.text("#command"))

    def check_resident(self):
        """The rows are the lines that the copied command prints, each before its parts: files, and call sites of
        mappings. Lines sum to resident memory. Returns what the command prints."""
        self.assertIn("heapprof rss", self.text("#command"))
        # The document has all parts; the text, which users copy the command for, would leave some out.
        self.assertIn("--top 0", self.text("#command"))
        answer = self.printed()
        lines = [line for line in answer["lines"] if line["bytes"]]
        self.assertEqual(sum(line["bytes"] for line in lines), answer["rss_bytes"])
        expected = []
        for line in lines:
            expected += [(LINES.get(line["name"], line["name"]), line["bytes"]), *self.parts_of(line)]
        head, *rows = self.saved_rows()
        self.assertEqual(head, ["Line", "Bytes"])
        self.assertEqual([(name.removeprefix("'"), int(size)) for name, size in rows], expected)
        size = self.shown_as("bytes", answer["rss_bytes"])
        self.assertIn(f"{size} at", self.text("#sentence"))
        self.assertIn("snapshot" if answer["source"] == "snapshot" else "estimated", self.text(".shown"))
        self.assertTrue(answer["verdict"])
        self.assertEqual(self.texts("#view .verdict"), [text.replace("TRACE", str(self.trace)) for text in (
            answer["verdict"], answer["note"]) if text])
        return answer

    @staticmethod
    def parts_of(line):
        """Name and bytes of each part, the largest first. Mappings with one call site are one part, and so are the
        pages of a file that can be written, and those that cannot."""
        sums = {}
        for part in line.get("children", ()):
            key = (part["name"] if "stack" in part else part["name"].rpartition("/")[2], part["name"],
                   part.get("writable"))
            sums[key] = sums.get(key, 0) + part["bytes"]
        parts = sorted(((name, size) for (name, *_), size in sums.items()), key=lambda part: -part[1])
        rest = line["bytes"] - sum(sums.values())
        return parts + ([("others", rest)] if line["name"] == "mmap" and parts and rest else [])

    def test_pinned_memory_of_many_stacks(self):
        """The answer with all of them is too large: the table has those with the highest overhead, also below the flame
        graph."""
        self.open(self.folder / "many.heapprof", view="table", metric="pinned", by="stack")
        answer = self.printed()
        self.assertEqual(len(answer["groups"]), 500)
        more = f"+{self.shown_as('plural', answer['all_groups'] - 500, 'row')} with less overhead"
        self.assertGreater(answer["all_groups"], 10_000)
        for view in ("table", "flame"):
            with self.subTest(view=view):
                self.select(view=view, metric="pinned", by="stack")
                self.assertEqual(self.texts("#view .error"), [])
                self.assertIn(more, self.texts("#view .more"))
        self.assertRegex(self.text(".flame svg text.label"), "^all: ")
        self.select(view="table", metric="pinned", by="stack")
        head, *lines = self.saved_rows()
        self.assertEqual([int(line[head.index("Overhead")]) for line in lines],
                         [group["overhead_bytes"] for group in answer["groups"]])

    def test_pinned_memory_of_a_name_with_a_line_separator(self):
        """It is a character of a name, and ends no line of the folded stacks."""
        program = self.compiled("""
            #include <stdlib.h>
            __attribute__((noinline)) void* take___separator(void) { return malloc(5000); }
            void* kept[100];
            int main(void) { for (int i = 0; i < 100; ++i) kept[i] = take___separator(); }
            """)
        name = "take\u2028separator"
        program.write_bytes(program.read_bytes().replace(b"take___separator", name.encode()))
        self.trace = self.record(program).trace
        folded = self.heapprof("flamegraph", self.trace, "--cost", "pinned", "--format", "folded")
        stacks = [line.rpartition(" ") for line in folded.split("\n") if line]
        with_name = sum(int(size) for stack, _, size in stacks if name in stack.split(";"))
        self.assertGreater(with_name, 100_000)
        self.open(self.trace, view="flame", metric="pinned")
        head, *lines = self.saved_rows()
        self.assertEqual([line[-1] for line in lines if line[0] == "0"], [str(sum(int(size) for *_, size in stacks))])
        self.assertEqual([line[-1] for line in lines if line[1] == name], [str(with_name)])


if __name__ == "__main__":
    pages.main()
