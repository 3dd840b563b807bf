"""Source lines with their costs: they add up to the figures of the report, and their totals are those that an accountant
of this test adds up from the report's stacks. The text is found beside the debug information, in a directory, and in a
bundle."""

import json
import os
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import harness

FIGURES = ("peak_bytes", "peak_blocks", "leaked_bytes", "leaked_blocks", "allocated_bytes", "allocations",
           "temporary_bytes", "temporary_allocations", "live_bytes", "live_blocks")


class Source(harness.Case):
    def source(self, trace, *options, status=0):
        return json.loads(self.heapprof("source", trace, "--json", *options, status=status))

    def recorded(self, *arguments):
        return self.record(harness.program("ledger_single"), *(arguments or (2_000, 5, 1))).trace

    def listing(self, trace, file, *options):
        return self.source(trace, file, *options)

    def test_lines_add_up(self):
        trace = self.recorded()
        for selection in ((), ("--from", "20%", "--to", "60%"), ("--function", "site_malloc"), ("--live-at", "50%")):
            with self.subTest(selection=selection):
                files = self.source(trace, *selection)
                heap = self.report(trace, *selection)["heap"]
                for key in ("peak_bytes", "leaked_bytes", "allocated_bytes", "allocations", "temporary_allocations"):
                    self.assertEqual(files["total"][key], heap[key])
                sums = Counter()
                for file in files["files"]:
                    sums.update(file["self"])
                    if file["file"] is None:
                        continue
                    listing = self.listing(trace, file["file"], *selection)
                    self.assertEqual((listing["self"], listing["total"]), (file["self"], file["total"]))
                    self.assertEqual(len(listing["lines"]), file["lines_with_costs"])
                    of_lines = Counter()
                    for line in listing["lines"]:
                        of_lines.update(line["self"])
                        for figure in FIGURES:
                            self.assertLessEqual(line["self"][figure], line["total"][figure])
                            self.assertLessEqual(line["total"][figure], file["total"][figure])
                    self.assertEqual({figure: of_lines[figure] for figure in FIGURES}, file["self"])
                self.assertEqual({figure: sums[figure] for figure in FIGURES}, files["total"])

    def test_totals_are_those_of_the_stacks(self):
        trace = self.recorded()
        for cost, figure in (("peak", "peak_bytes"), ("leaked", "leaked_bytes"), ("allocated", "allocated_bytes")):
            lines, files = defaultdict(Counter), Counter()
            for stack in self.all_stacks(trace, cost):
                places = {(frame["file"], frame["line"]) for frame in stack["stack"]}
                for file, line in places:
                    lines[file][line] += stack["bytes"]
                for file in {file for file, _ in places}:
                    files[file] += stack["bytes"]
            found = {file["file"]: file["total"][figure] for file in self.source(trace)["files"]}
            self.assertEqual({file: total for file, total in found.items() if total and file},
                             {file: total for file, total in files.items() if total and file})
            for file in filter(None, found):
                listing = {line["line"]: line["total"][figure] for line in self.listing(trace, file)["lines"]}
                self.assertEqual({line: total for line, total in listing.items() if total},
                                 dict(+lines[file]))

    def test_the_text_is_that_of_the_file(self):
        trace = self.recorded()
        listing = self.listing(trace, "tests/support/sites.h")
        lines = Path(listing["file"]).read_text().splitlines()
        self.assertEqual(listing["text"]["from"], "file")
        self.assertEqual(listing["text"]["path"], listing["file"])
        for line in listing["lines"]:
            self.assertEqual(line["text"], lines[line["line"] - 1])
        self.assertTrue(any("site_malloc" in line["functions"] for line in listing["lines"]))
        everything = self.listing(trace, "sites.h", "--all")["lines"]
        self.assertEqual([line["text"] for line in everything], lines)
        self.assertEqual([line["line"] for line in everything], list(range(1, len(lines) + 1)))
        function = self.listing(trace, "site_malloc")
        self.assertEqual(function["function"], "site_malloc")
        self.assertEqual({name for line in function["lines"] for name in line["functions"]}, {"site_malloc"})

    def test_gaps_and_context(self):
        trace = self.recorded()
        with_costs = [line["line"] for line in self.listing(trace, "sites.h")["lines"] if line["total"]["peak_bytes"]]
        for context in (0, 2):
            shown = sorted({near for line in with_costs for near in range(line - context, line + context + 1)})
            gaps = sum(1 for one, other in zip(shown, shown[1:]) if other != one + 1)
            text = self.heapprof("source", trace, "sites.h", "--context", context)
            lines = text.splitlines()
            table = lines[next(i for i, line in enumerate(lines) if line.split()[:2] == ["self", "total"]) + 1:]
            table = table[:table.index("")] if "" in table else table
            marks = [line for line in table if line.strip() in ("…", "...")]
            self.assertEqual((len(marks), len(table) - len(marks)), (gaps, len(shown)), text)

    def test_a_line_of_a_file(self):
        """FILE:LINE prints the lines around that one, whether they have costs or not."""
        trace = self.recorded()
        path = Path(self.listing(trace, "sites.h")["file"])
        texts = path.read_text().splitlines()
        for line in (1, len(texts) // 2, len(texts)):
            text = self.heapprof("source", trace, f"sites.h:{line}")
            shown = [row.split() for row in text.splitlines()]
            for near in range(max(1, line - 5), min(len(texts), line + 5) + 1):
                words = [str(near)] + texts[near - 1].split()
                self.assertTrue(any(" ".join(words[:3]) in " ".join(row) for row in shown), (line, near, text))
            listed = self.listing(trace, f"sites.h:{line}")
            self.assertEqual(listed["line"], line)
            near = range(max(1, line - 5), min(len(texts), line + 5) + 1)
            self.assertEqual([(row["line"], row["text"]) for row in listed["lines"]],
                             [(number, texts[number - 1]) for number in near])
            # The command at the end is about these lines, not about the rest of the file.
            called = re.search(r"Who calls the costliest line:\s+heapprof callers TRACE (\S+)", text)
            functions = {name.split("(")[0] for row in listed["lines"] for name in row["functions"]}
            self.assertEqual(called is not None, any(row["total"]["peak_bytes"] for row in listed["lines"]), text)
            if called:
                self.assertIn(called[1], functions)
        self.assertIsNone(self.listing(trace, "sites.h")["line"])
        missing = self.run_heapprof("source", trace, f"sites.h:{len(texts) + 1}")
        self.assertEqual(missing.returncode, 1)
        self.assertIn(f"the file has only {len(texts)} lines", missing.stderr)

    def test_a_line_of_a_file_without_text(self):
        """FILE:LINE prints the rows of that line and those near it, and no others."""
        bundle = self.dir / "bundle.heapprof"
        self.heapprof("bundle", self.recorded(), "-o", bundle)
        without = ("--sysroot", self.dir)
        with_costs = [line["line"] for line in self.listing(bundle, "sites.h", *without)["lines"]
                      if line["line"] and line["total"]["peak_bytes"]]

        def printed(line):
            text = self.heapprof("source", bundle, f"sites.h:{line}", *without)
            return [int(number) for number in re.findall(r" (\d+)  in ", text)], text

        for line in with_costs:
            self.assertEqual(printed(line)[0], [near for near in with_costs if abs(near - line) <= 5])
            listed = self.listing(bundle, f"sites.h:{line}", *without)["lines"]
            self.assertEqual([row["line"] for row in listed if row["total"]["peak_bytes"]], printed(line)[0])
            self.assertTrue(all(abs(row["line"] - line) <= 5 for row in listed), listed)
        far = with_costs[-1] + 100
        numbers, text = printed(far)
        self.assertEqual(numbers, [])
        self.assertIn(f"No line around {far} has this cost; the nearest that do: {with_costs[-1]}.", text)

    def test_other_places_of_the_text(self):
        trace = self.recorded()
        original = Path(self.listing(trace, "sites.h")["file"])
        elsewhere = self.dir / "elsewhere"
        elsewhere.mkdir()
        copy = Path(shutil.copy(original, elsewhere / original.name))
        options = ("--source-path", elsewhere)

        os.utime(copy, (1, 1))
        found = self.listing(trace, "sites.h", *options)
        self.assertEqual((found["text"]["path"], found["text"]["warning"]), (str(copy), None))
        os.utime(copy)
        self.assertIn("changed after the program was built", self.listing(trace, "sites.h", *options)["text"]["warning"])
        copy.write_text("\n")
        self.assertIn("has only 1 lines", self.listing(trace, "sites.h", *options)["text"]["warning"])

    def test_control_characters_are_not_printed(self):
        trace = self.recorded()
        original = Path(self.listing(trace, "sites.h")["file"])
        (self.dir / original.name).write_text(original.read_text().replace("\n", " \x1b]0;title\x07\x9b31m\n"))
        text = self.heapprof("source", trace, "sites.h", "--source-path", self.dir)
        self.assertNotIn("\x1b", text)
        self.assertNotIn("\x07", text)
        self.assertIn("]0;title", text)

    def test_a_bundle_has_the_text(self):
        trace = self.recorded()
        bundle, plain, compacted = (self.dir / name for name in ("bundle.heapprof", "plain.heapprof", "small.heapprof"))
        self.heapprof("bundle", trace, "-o", plain)
        done = self.run_heapprof("bundle", trace, "--sources", "-o", bundle)
        self.assertEqual(done.returncode, 0)
        self.assertIn(" source files, ", done.stderr)
        self.heapprof("compact", bundle, "-o", compacted)
        before = self.listing(trace, "sites.h")
        for path in (bundle, compacted):
            found = self.listing(path, "sites.h", "--sysroot", self.dir)
            self.assertEqual(found["text"]["from"], "bundle")
            self.assertEqual([line["text"] for line in found["lines"]], [line["text"] for line in before["lines"]])
        lacking = self.listing(plain, "sites.h", "--sysroot", self.dir)
        self.assertIsNone(lacking["text"]["from"])
        self.assertEqual([line["line"] for line in lacking["lines"]], [line["line"] for line in before["lines"]])
        self.assertEqual({line["text"] for line in lacking["lines"]}, {None})
        text = self.heapprof("source", plain, "sites.h", "--sysroot", self.dir)
        self.assertIn("the file was not found", text)
        self.assertIn("in site_malloc", text)
        self.assertEqual(self.report(bundle)["heap"], self.report(trace)["heap"])

    def test_names_that_are_not_there(self):
        trace = self.recorded(200, 1, 1)
        missing = self.run_heapprof("source", trace, "site.h")
        self.assertEqual((missing.returncode, missing.stdout), (1, ""))
        self.assertIn("no file and no function 'site.h'", missing.stderr)
        self.assertIn("sites.h", missing.stderr)
        self.heapprof("source", trace, "sites.h", "--cost", "peka", status=2)

    def test_a_name_of_two_files(self):
        for folder in ("one", "two"):
            (self.dir / folder).mkdir()
            (self.dir / folder / "util.c").write_text(
                f"#include <stdlib.h>\nvoid *{folder}(void) {{\n  return malloc({len(folder)}00);\n}}\n"
                f"__attribute__((noinline)) void *pool_{folder}(void) {{\n  return {folder}();\n}}\n")
        (self.dir / "main.c").write_text("void *pool_one(void), *pool_two(void);\n"
                                         "int main(void) { return pool_one() == pool_two(); }\n")
        program = self.dir / "program"
        subprocess.run(["cc", "-g", "-O0", "-o", program, "main.c", "one/util.c", "two/util.c"], cwd=self.dir, check=True)
        trace = self.record(program).trace
        two = self.run_heapprof("source", trace, "util.c")
        self.assertEqual((two.returncode, two.stdout), (1, ""))
        self.assertIn(f"2 files are called 'util.c'; name one of them: {self.dir}/one/util.c (in program), "
                      f"{self.dir}/two/util.c (in program)", two.stderr)
        lines = {line["line"]: (line["self"]["leaked_bytes"], line["total"]["leaked_bytes"])
                 for line in self.listing(trace, "one/util.c")["lines"]}
        self.assertEqual(lines, {3: (300, 300), 6: (0, 300)})
        self.assertEqual(self.listing(trace, "pool_two")["file"], f"{self.dir}/two/util.c")

    def test_tables_fit_the_terminal(self):
        trace = self.recorded(200, 1, 1)
        for width in (40, 60, 80, 120):
            environment = harness.analyzer_environment(COLUMNS=width, LC_ALL="C.UTF-8")
            for what in ((), ("sites.h",), ("site_malloc",)):
                text = subprocess.run([str(harness.HEAPPROF), "source", str(trace), *what], env=environment, check=True,
                                      capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120).stdout
                self.assertLessEqual(max(map(len, text.splitlines())), width, text)


if __name__ == "__main__":
    harness.main()
