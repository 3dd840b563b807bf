#!/usr/bin/env python3
"""The documents: every relative link and anchor resolves, every file that a page names exists, every page is in the
index, every test and test case that a page names exists, and no line of prose is longer than 118 columns."""
import re
import unittest
from pathlib import Path

import case_runner

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
# A path in backquotes, or the beginning of a command, that begins with a directory of the tree.
NAMED = re.compile(r"(?<![\w./-])((?:analyzer|common|docs|preload|tests|tools)/[\w./*-]*[\w*])")
# `fault-hosts`: *chroot*, *setuid*
TESTS = re.compile(r"`(e2e|fault)-([a-z0-9-]+)`((?::[^|;`\n]*)?)")
# What tools/guide-samples.py renews: `<!-- sample: all 3-5 -->`, then commands and what they print.
SAMPLE = re.compile(r"<!-- sample: ([^\n]*) -->\n```console\n(.*?)```", re.S)
# What a build or a run creates, not the tree.
CREATED = re.compile(r"^(analyzer/heapprof|preload/libheapprof\.so|preload/heapprof_core)$")


def without_code(text):
    """`text` with its fenced blocks and inline code blanked, so that nothing in them is a link or a heading."""
    text = re.sub(r"^```.*?^```", lambda block: "\n" * block.group().count("\n"), text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", lambda code: "x" * len(code.group()), text)


def anchors(page):
    """The anchors that GitHub gives to the headings of a page."""
    found, text = set(), re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for heading in re.findall(r"^#+ +(.+?) *$", text, flags=re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        number, unique = 0, anchor
        while unique in found:
            number += 1
            unique = f"{anchor}-{number}"
        found.add(unique)
    return found


class Docs(unittest.TestCase):
    def test_links_and_anchors(self):
        for page in PAGES:
            for target in LINK.findall(without_code(page.read_text())):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                file = (page.parent / path).resolve() if path else page
                with self.subTest(page=str(page.relative_to(ROOT)), link=target):
                    self.assertTrue(file.exists(), "no such file")
                    if anchor:
                        self.assertIn(anchor, anchors(file))

    def test_named_files(self):
        for page in PAGES:
            if page.name == "changelog.md":
                continue  # it names what there was
            for name in NAMED.findall(page.read_text()):
                name = re.sub(r"\b(NAME|CPU)", "*", name.rstrip("."))  # placeholders
                if CREATED.match(name):
                    continue
                with self.subTest(page=str(page.relative_to(ROOT)), file=name):
                    # A page may leave out the suffix.
                    self.assertTrue(any(ROOT.glob(name)) or any(ROOT.glob(name + ".*")), "no such file")

    def test_documents_that_sources_name(self):
        for directory in ("analyzer", "preload", "common", "tests", "tools"):
            for file in (ROOT / directory).rglob("*"):
                if file.suffix not in (".h", ".cpp", ".c", ".S", ".py", ".sh", ".build"):
                    continue
                for name in re.findall(r"\bdocs/[\w/-]+\.md", file.read_text(errors="replace")):
                    with self.subTest(file=str(file.relative_to(ROOT)), page=name):
                        self.assertTrue((ROOT / name).exists(), "no such page")

    def test_named_tests(self):
        """Every `e2e-x` and `fault-x` is a test; the words in italics after it, in the same cell, are its cases."""
        for page in (ROOT / "docs").rglob("*.md"):
            for kind, name, cases in TESTS.findall(page.read_text()):
                file = ROOT / "tests" / kind / (name.replace("-", "_") + ".py")
                with self.subTest(page=str(page.relative_to(ROOT)), test=f"{kind}-{name}"):
                    self.assertTrue(file.exists(), "no such test")
                for case in re.findall(r"\*([^*]+)\*", cases):
                    with self.subTest(page=str(page.relative_to(ROOT)), case=case):
                        words = re.sub(r"\W+", "_", case.removesuffix(" ...")).lower()
                        self.assertIn(words, re.sub(r"\W+", "_", file.read_text()).lower())

    def test_every_page_is_in_the_index(self):
        index = (ROOT / "docs" / "README.md").read_text()
        linked = {(ROOT / "docs" / target.partition("#")[0]).resolve() for target in LINK.findall(index)}
        for page in PAGES:
            with self.subTest(page=str(page.relative_to(ROOT))):
                self.assertTrue(page in linked or page == ROOT / "docs" / "README.md", "not in docs/README.md")

    def test_samples_are_of_commands_that_ran(self):
        """tools/guide-samples.py writes what the shell prints."""
        for page in PAGES:
            self.assertNotIn("command not found", page.read_text(), page)

    def test_samples_say_what_of_each_output_they_show(self):
        """`<!-- sample: all 3-5 -->` is one value for all commands, or one for each."""
        for page in PAGES:
            for values, body in SAMPLE.findall(page.read_text()):
                commands = [line for line in body.splitlines() if line.startswith("$ ")]
                with self.subTest(page=str(page.relative_to(ROOT)), commands=commands):
                    self.assertIn(len(values.split()), (1, len(commands)))
                    for value in values.split():
                        self.assertRegex(value, r"^(all|unrun|\d+|\d+-\d+)$")

    def test_line_length(self):
        for page in PAGES:
            if page.name == "reference.md":
                continue  # printed by the program
            fenced = False
            for number, line in enumerate(page.read_text().splitlines(), 1):
                if line.startswith("```"):
                    fenced = not fenced
                # Tables and lists of links have one row a line.
                if fenced or line.startswith(("|", "!", "- [")):
                    continue
                with self.subTest(page=str(page.relative_to(ROOT)), line=number):
                    self.assertLessEqual(len(line), 118)


if __name__ == "__main__":
    case_runner.main()
