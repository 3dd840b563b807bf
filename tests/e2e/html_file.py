"""`html`: one file with the answers that the command line prints, below a limit of its size, without secrets unless asked
for."""

import base64
import contextlib
import hashlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import urllib.parse
from pathlib import Path

import harness

FIGURES = "report?cost=peak&shared-frames=1&top=5"


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

    def printed(self, key, trace):
        """What the command line of a key prints."""
        command, _, query = key.partition("?")
        words, arguments = [command, "--json"], []
        for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True):
            if name == "arg":
                arguments.append(value)
            else:
                is_flag = value == "1" and name in ("inverted", "shared-frames", "all", "only-own", "no-suppressions")
                words.append(f"--{name}" if is_flag else f"--{name}={value}")
        subject = [f"{trace}{moment}" for moment in arguments] if command == "diff" else [trace, *arguments]
        return json.loads(self.heapprof(*words, "--", *subject, status=(0, 1)))

    def test_a_page(self):
        """One page is enough for several checks, since each takes a hundred answers."""
        run = self.recorded_evenly("open_session", harness.program("known_leaks"), "secret-argument")
        trace = run.trace
        page = self.page(trace)
        self.check_answers(page, trace)
        self.check_choices(self.content(page), trace, json.loads(run.stdout))
        self.check_policy(page)
        self.assertNotIn("secret-argument", page)
        self.assertIn("no command-line arguments", self.messages)
        self.assertIn("no source text", self.messages)
        source = (Path(__file__).parent.parent / "programs" / "known_leaks.cpp").read_text().splitlines()
        line = json.dumps(next(line for line in source if "malloc(" in line).strip())[1:-1].replace("<", "\\u003c")
        self.assertNotIn(line, page)
        with_all = self.page(trace, "--command-line", "--sources", "--own", "no_such_function", "--max-size", "2M")
        self.assertEqual(self.content(with_all)["options"]["report"], ["--own=no_such_function"])
        self.assertIn("secret-argument", with_all)
        self.assertIn(line, with_all)
        # The lines of a file have all metrics: there is one answer about them.
        lines = [key for key in self.content(with_all)["answers"] if re.match(r"source\?.*arg=.*known_leaks\.cpp", key)]
        self.assertEqual([key for key in lines if "cost=" in key], [])
        self.assertEqual(len(lines), 1)

        smaller = self.page(trace, "--max-size", "600K")
        self.assertLessEqual(len(smaller.encode()), 600 * 1024)
        self.assertLess(len(smaller), len(page))
        content = self.content(smaller)
        self.assertTrue(content["pruned"])
        for sentence in content["pruned"]:
            self.assertIn(sentence, self.messages)
        # What is less important is left out first, and is named.
        self.assertIn("rows by line, call site and module of the peak, the ten ranges", "".join(content["pruned"]))
        # The main figures are there.
        self.assertTrue([key for key in content["answers"] if key.startswith("report?")])
        self.assertIn("info?", content["answers"])
        # The size that the message gives is the least one of a file with the main figures.
        self.page(trace, "--max-size", "1K", status=1)
        enough = int(re.search(r"give at least (\d+)K$", self.messages, re.M).group(1))
        self.page(trace, "--max-size", f"{enough - 1}K", status=1)
        least = self.page(trace, "--max-size", f"{enough}K")
        self.assertLessEqual(len(least.encode()), enough * 1024)
        self.assertLessEqual({"info?", FIGURES}, set(self.content(least)["answers"]))

    def test_options_count_for_the_size(self):
        """They are in the file for each command that has them."""
        trace = self.record(harness.program("hello")).trace
        own = [f"--own=^company::module{i}::.*{'x' * 300}" for i in range(4)]
        page = self.page(trace, "--max-size", "500K", *own)
        self.assertTrue(self.content(page)["pruned"])
        self.assertLessEqual(len(page.encode()), 500 * 1024)

    def test_deep_recursion(self):
        """Five stacks of 900 frames have more than an eighth of the file, unless their frames are shared."""
        program = self.dir / "program"
        subprocess.run(["cc", "-O0", "-g", "-x", "c", "-", "-o", program], input="""
            #include <stdlib.h>
            void* volatile kept;
            void recurse(int depth) {
              if (depth % 15 == 0) kept = malloc(2000 - depth);  // those of the deepest stacks are the largest
              if (depth > 0) recurse(depth - 1);
              __asm__ volatile("" ::: "memory");
            }
            int main(void) { recurse(900); }
            """, text=True, check=True, timeout=60)
        trace = self.record(program).trace
        stacks = json.loads(self.heapprof("report", trace, "--json", "--top", 5))["top"]
        self.assertGreater(min(len(stack["stack"]) for stack in stacks), 800)
        self.assertGreater(len(json.dumps(stacks, separators=(",", ":"))), (5 << 20) / 8)
        # The call tree has two levels of JSON for each frame.
        self.addCleanup(sys.setrecursionlimit, sys.getrecursionlimit())
        sys.setrecursionlimit(10_000)
        answers = self.content(self.page(trace))["answers"]
        self.assertIn("to keep the file below 5.00 MiB", self.messages)
        self.assertEqual(answers[FIGURES], self.printed(FIGURES, trace))

    def html_that_waits(self, trace):
        """Starts `html`. It has read the suppressions; each of its processes that needs them waits for someone who
        writes them again."""
        suppressions = self.dir / "suppressions"
        os.mkfifo(suppressions)
        html = self.popen([harness.HEAPPROF, "html", trace, "-o", self.dir / "page.html", "--suppressions",
                           suppressions, "--max-size", "1M"], env=harness.analyzer_environment(),
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        suppressions.write_text("")
        return html, suppressions

    @staticmethod
    def reads_suppressions(html):
        """The processes of `html` that need the suppressions."""
        found = []
        for child in Path(f"/proc/{html.pid}/task/{html.pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                if words[1:2] == [b"leaks"] and b"--no-suppressions" not in words:
                    found.append(int(child))
        return found

    def test_answers_that_fail(self):
        """The file says that it lacks them, and the messages say why. What a recording cannot have is no failure."""
        trace = self.record(harness.program("hello")).trace
        html, _ = self.html_that_waits(trace)
        killed = set()

        def ends():
            for child in self.reads_suppressions(html):
                killed.add(child)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            return html.poll() is not None
        harness.wait_until(ends, "html", seconds=240)
        messages = html.stderr.read()
        self.assertEqual(html.returncode, 1, messages)
        content = self.content((self.dir / "page.html").read_text())
        self.assertEqual([key for key in content["answers"] if key.startswith("leaks?")],
                         ["leaks?no-suppressions=1&shared-frames=1&top=200"])
        sentence, = [sentence for sentence in content["pruned"]
                     if "answers about the whole recording failed" in sentence]
        self.assertIn(f"{sentence}: the process that computed this answer was ended by signal 9", messages)
        self.assertGreaterEqual(len(killed), int(sentence.split()[0]))

        # Resident memory by line needs addresses, which it does not have.
        compacted = self.dir / "compacted.heapprof"
        self.heapprof("compact", trace, "-o", compacted)
        content = self.content(self.page(compacted, "--max-size", "500K"))
        self.assertEqual([key for key in content["answers"] if key.startswith("rss?")], [])
        self.assertNotIn("failed", self.messages)

    def test_recording_that_is_deleted(self):
        """The answers that need it after that fail."""
        trace = self.record(harness.program("hello")).trace
        html, suppressions = self.html_that_waits(trace)
        harness.wait_until(lambda: self.reads_suppressions(html), "a process that needs the suppressions")
        trace.unlink()

        def ends():
            # Lets those that wait go on. Without one, nobody has opened the file for reading.
            with contextlib.suppress(OSError):
                os.close(os.open(suppressions, os.O_WRONLY | os.O_NONBLOCK))
            return html.poll() is not None
        harness.wait_until(ends, "html", seconds=240)
        messages = html.stderr.read()
        self.assertEqual(html.returncode, 1, messages)
        self.assertRegex(messages, f"answers about .* failed: .*{re.escape(trace.name)}")
        content = self.content((self.dir / "page.html").read_text())
        self.assertTrue([sentence for sentence in content["pruned"] if sentence.endswith(" failed")], content["pruned"])
        self.assertIn(FIGURES, content["answers"])

    def test_running_program(self):
        """Its answers are of different moments, which the file says."""
        trace = self.dir / "running.heapprof"
        process = self.start_steady(trace, 1)
        self.steady_rounds(process)
        content = self.content(self.page(trace, "--max-size", "500K"))
        sentence, = [sentence for sentence in content["pruned"] if sentence.startswith("the program ran")]
        self.assertIn("its answers are of different moments, from ", sentence)
        self.assertIn(sentence, self.messages)
        process.kill()
        process.wait()
        content = self.content(self.page(trace, "--max-size", "500K"))
        self.assertNotIn("different moments", "".join(content["pruned"]))

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
            self.assertEqual(answers[key], self.printed(key, trace), key)

    def check_choices(self, content, trace, truth):
        """What views ask after a choice has the figures of the command line, and those that the program knows."""
        answers = content["answers"]
        all_stacks = "report?by=stack&shared-frames=1&sort=peak&top=500"
        for by in ("function", "line", "site", "stack", "module", "thread"):
            with self.subTest(by=by):
                key = all_stacks if by == "stack" else f"report?by={by}&top=0"
                self.assertTrue(answers[key]["rows"])
                self.assertEqual(answers[key], self.printed(key, trace))
        # All stacks are those with the highest peaks, so other metrics need no answers.
        self.assertEqual(len(answers[all_stacks]["rows"]), answers[all_stacks]["all_rows"])
        self.assertNotIn(all_stacks.replace("peak", "leaked"), answers)
        of_cache = [row["self"] for row in answers["report?by=line&top=0"]["rows"]
                    if harness.plain_name(row["name"]) == "fill_cache"]
        self.assertEqual([sum(row["leaked_bytes"] for row in of_cache), sum(row["leaked_blocks"] for row in of_cache)],
                         truth["fill_cache"])
        own, = [row["self"] for row in answers["report?by=module&top=0"]["rows"]
                if Path(row["name"]).name == "known_leaks"]
        self.assertGreaterEqual(own["leaked_bytes"], sum(size for size, _ in truth.values()))
        for key in ("from=40%25&to=50%25&top=0", "live-at="):
            self.assertTrue([each for each in answers if each.startswith("report?by=line&") and key in each], key)
        # The stacks of the peak and of ranges, of which these are all.
        of_peak, = [key for key in answers if key.startswith("report?by=stack&live-at=")]
        of_range = "report?by=stack&from=40%25&shared-frames=1&sort=peak&to=50%25&top=500"
        for key in (of_peak, of_range):
            self.assertTrue(answers[key]["rows"])
            self.assertEqual(answers[key], self.printed(key, trace))
        # Who frees whose blocks is not recorded.
        self.assertNotIn("frees?shared-frames=1&top=500", answers)

        before, after = content["compared"]["before"], content["compared"]["after"]
        heap, duration = answers[FIGURES]["heap"], answers[FIGURES]["duration_ns"]
        is_until_peak = heap["leaked_bytes"] * 2 < heap["peak_bytes"]
        self.assertEqual(after, "peak" if is_until_peak else "end")
        end = heap["peak_time_ns"] if is_until_peak else duration
        self.assertAlmostEqual(float(before) * 1e9, end * 2 / 3, delta=duration / 500)
        for key, part in ((f"diff?arg=%40{before}&arg=%40{after}&top=200", "sites"),
                          ("leaks?no-suppressions=1&shared-frames=1&top=200", "sites"),
                          ("timeline?by=module&sites=6", "sites"), ("timeline?by=thread&sites=6", "sites")):
            with self.subTest(question=key):
                self.assertTrue(answers[key][part])
                self.assertEqual(answers[key], self.printed(key, trace))
        self.assertEqual(answers["leaks?no-suppressions=1&shared-frames=1&top=200"]["suppressed_bytes"], 0)

    def test_moments_of_marks(self):
        """The last two marks are compared: by their texts, or by their times if these could be read as times. With the
        stacks of frees, the file also has who frees whose blocks."""
        for program, of_mark, free_stacks in (("ledger_growth", lambda mark: mark["text"], 1),
                                              ("marks", lambda mark: f"{mark['time_ns']}ns", 0)):
            with self.subTest(program=program):
                trace = self.record(harness.program(program), FREE_STACKS=free_stacks).trace
                content = self.content(self.page(trace, "--max-size", "2M"))  # without most of the ranges
                marks = json.loads(self.heapprof("timeline", trace, "--json"))["marks"]
                before, after = map(of_mark, marks[-2:])
                self.assertEqual(content["compared"], {"before": before, "after": after})
                key = "diff?" + urllib.parse.urlencode((("arg", f"@{before}"), ("arg", f"@{after}"), ("top", "200")),
                                                       quote_via=urllib.parse.quote)
                self.assertEqual(content["answers"][key], self.printed(key, trace))
                key = "frees?shared-frames=1&top=500"
                self.assertEqual(key in content["answers"], bool(free_stacks))
                if free_stacks:
                    self.assertTrue(content["answers"][key]["pairs"])
                    self.assertEqual(content["answers"][key], self.printed(key, trace))

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

    def test_index(self):
        """Of a recording that is large enough for it, an index is written first. The answers are the same."""
        for command, has_index in (([harness.program("ledger_threads"), 20_000, 1, 2], True),
                                   ([harness.program("hello")], False)):
            with self.subTest(command=command):
                trace, cache = self.record(*command).trace, self.dir / f"cache of {has_index}"
                subprocess.run([harness.HEAPPROF, "html", trace, "-o", self.dir / "page.html", "--max-size", "600K"],
                               env=harness.analyzer_environment(XDG_CACHE_HOME=cache), check=True, capture_output=True,
                               timeout=120)
                self.assertEqual(len(list(cache.glob("heapprof/index/*.idx"))), has_index)
                answers = self.content((self.dir / "page.html").read_text())["answers"]
                for key in (FIGURES, "report?by=function&top=0"):
                    self.assertEqual(answers[key], self.printed(key, trace))

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
        # A damaged recording has a page; the messages and the exit status are those of the other commands.
        self.page(trace, "--max-size", "450K", status=1)
        self.assertIn("recorded data is missing", self.messages)
        report = self.run_heapprof("report", trace)
        self.assertEqual(report.returncode, 1)
        self.assertIn(report.stderr, self.messages)
        content = self.content((self.dir / "page.html").read_text())
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
        self.heapprof("html", trace, "-o", pipe, "--max-size", "450K")
        self.assertTrue(pipe.is_fifo())
        self.assertEqual(reader.wait(60), 0)
        self.assertEqual(self.content(read.read_text())["trace"], trace.name)

        written = self.dir / "page.html"
        self.assertEqual(self.content(self.page(trace, "--max-size", "450K"))["trace"], trace.name)
        self.assertEqual(stat.S_IMODE(written.stat().st_mode), 0o644)
        written.write_text("old")
        written.chmod(0o640)
        link = self.dir / "link.html"
        link.symlink_to(written.name)
        self.heapprof("html", trace, "-o", link, "--max-size", "450K")
        self.assertTrue(link.is_symlink())
        self.assertEqual(self.content(written.read_text())["trace"], trace.name)
        self.assertEqual(stat.S_IMODE(written.stat().st_mode), 0o640)

    def test_standard_output(self):
        trace = self.record(harness.program("hello")).trace
        result = self.run_heapprof("html", trace, "-o", "-", "--max-size", "450K")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.startswith("<!doctype html>"))
        self.assertRegex(result.stderr, "(?m)^heapprof: standard output: [0-9.]+ KiB$")


if __name__ == "__main__":
    harness.main()
