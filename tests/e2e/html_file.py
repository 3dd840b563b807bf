"""`html`: one file with the answers that the command line prints, below a limit of its size, without secrets unless asked
for."""

import base64
import hashlib
import json
import os
import re
import stat
import subprocess
import urllib.parse
from pathlib import Path

import harness


class Html(harness.Case):
    def page(self, trace, *options, status=0):
        path = self.dir / "page.html"
        result = self.run_heapprof("html", trace, "-o", path, *options)
        self.assertEqual(result.returncode, status, result.stderr)
        self.messages = result.stderr
        return path.read_text() if status == 0 else ""

    def content(self, page):
        found = re.search(r'<script type="application/json" id="answers">(.*?)</script>', page, re.S)
        self.assertNotIn("<", found.group(1))
        return json.loads(found.group(1))

    def words_of(self, key):
        """The command line of a key, without the trace."""
        command, _, query = key.partition("?")
        words, arguments = [command, "--json"], []
        for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True):
            if name == "arg":
                arguments.append(value)
            else:
                is_flag = value == "1" and name in ("inverted", "shared-frames", "all", "only-own")
                words.append(f"--{name}" if is_flag else f"--{name}={value}")
        return words, arguments

    def test_a_page(self):
        """One page is enough for several checks, since each takes a hundred answers."""
        trace = self.record(harness.program("known_leaks"), "secret-argument").trace
        page = self.page(trace)
        self.check_answers(page, trace)
        self.check_policy(page)
        self.assertNotIn("secret-argument", page)
        self.assertIn("no command-line arguments", self.messages)
        self.assertIn("no source text", self.messages)
        source = (Path(__file__).parent.parent / "programs" / "known_leaks.cpp").read_text().splitlines()
        line = json.dumps(next(line for line in source if "malloc(" in line).strip())[1:-1].replace("<", "\\u003c")
        self.assertNotIn(line, page)
        with_all = self.page(trace, "--command-line", "--sources", "--own", "no_such_function")
        self.assertEqual(self.content(with_all)["options"]["report"], ["--own=no_such_function"])
        self.assertIn("secret-argument", with_all)
        self.assertIn(line, with_all)

        smaller = self.page(trace, "--max-size", "600K")
        self.assertLessEqual(len(smaller.encode()), 600 * 1024)
        self.assertLess(len(smaller), len(page))
        content = self.content(smaller)
        self.assertTrue(content["pruned"])
        for sentence in content["pruned"]:
            self.assertIn(sentence, self.messages)
        # The main figures are there.
        self.assertTrue([key for key in content["answers"] if key.startswith("report?")])
        self.assertIn("info?", content["answers"])
        self.page(trace, "--max-size", "1K", status=1)
        self.assertIn("give at least", self.messages)

    def check_answers(self, page, trace):
        content = self.content(page)
        self.assertEqual((content["format_version"], content["trace"], content["pruned"]), (1, trace.name, []))
        answers = content["answers"]
        # The views of the whole recording, of ten ranges, and of the peak.
        commands = {key.partition("?")[0] for key in answers}
        self.assertLessEqual({"info", "report", "timeline", "tree", "leaks", "blocks", "histogram", "churn", "threads",
                              "source"}, commands)
        for moment in ("from=0%25&", "from=90%25&", "live-at="):
            self.assertTrue([key for key in answers if moment in key], moment)
        generator = harness.random_generator("html")
        for key in generator.sample(sorted(set(answers) - {"info?"}), 8):
            words, arguments = self.words_of(key)
            self.assertEqual(answers[key], json.loads(self.heapprof(*words, "--", trace, *arguments, status=(0, 1))), key)

    def check_policy(self, page):
        """The file needs no other, and may load none."""
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page).group(1)
        self.assertTrue(policy.startswith("default-src 'none'; script-src 'sha256-"), policy)
        self.assertNotIn("unsafe", policy)
        self.assertFalse(re.findall(r'<script[^>]* src=|<link[^>]* href="(?!data:)', page))
        scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
        styles = re.findall(r"<style>(.*?)</style>", page, re.S)
        self.assertTrue(scripts and styles)
        for text in scripts + styles:
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            self.assertIn(f"'sha256-{digest}'", policy)
        self.assertEqual(policy.count("sha256-"), len(scripts) + len(styles))

    def test_wrong_input(self):
        trace = self.record(harness.program("hello")).trace
        before = trace.read_bytes()
        for arguments, status, sentence in (((self.dir / "none.heapprof",), 1, "none.heapprof"),
                                            ((trace, "--max-size", "x"), 2, "--max-size"),
                                            (("/etc/passwd",), 1, "not a heapprof trace")):
            self.page(*arguments, status=status)
            self.assertIn(sentence, self.messages)
            self.assertFalse((self.dir / "page.html").exists())
        result = self.run_heapprof("html", trace, "-o", trace)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(trace.read_bytes(), before)
        self.assertEqual(self.run_heapprof("html", trace).returncode, 2)
        trace.write_bytes(before[:len(before) // 2])
        content = self.content(self.page(trace, "--max-size", "400K"))
        self.assertFalse(content["answers"]["info?"]["integrity"]["complete"])

    def test_where_it_is_written(self):
        """As other outputs: into a pipe, through a symbolic link, with the mode that the umask leaves or of the old file."""
        self.addCleanup(os.umask, os.umask(0o022))
        trace = self.record(harness.program("hello")).trace
        # A pipe stands for devices: a defect would remove /dev/null from a machine where tests run as root.
        pipe, read = self.dir / "pipe", self.dir / "read"
        os.mkfifo(pipe)
        with open(read, "wb") as output:
            reader = self.popen(["cat", pipe], stdin=subprocess.DEVNULL, stdout=output)
        self.heapprof("html", trace, "-o", pipe, "--max-size", "400K")
        self.assertTrue(pipe.is_fifo())
        self.assertEqual(reader.wait(60), 0)
        self.assertEqual(self.content(read.read_text())["trace"], trace.name)

        written = self.dir / "page.html"
        self.assertEqual(self.content(self.page(trace, "--max-size", "400K"))["trace"], trace.name)
        self.assertEqual(stat.S_IMODE(written.stat().st_mode), 0o644)
        written.write_text("old")
        written.chmod(0o640)
        link = self.dir / "link.html"
        link.symlink_to(written.name)
        self.heapprof("html", trace, "-o", link, "--max-size", "400K")
        self.assertTrue(link.is_symlink())
        self.assertEqual(self.content(written.read_text())["trace"], trace.name)
        self.assertEqual(stat.S_IMODE(written.stat().st_mode), 0o640)

    def test_standard_output(self):
        trace = self.record(harness.program("hello")).trace
        self.assertTrue(self.heapprof("html", trace, "-o", "-", "--max-size", "400K").startswith("<!doctype html>"))


if __name__ == "__main__":
    harness.main()
