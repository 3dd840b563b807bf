"""Every output agrees with the report, is well-formed, and needs no network."""

import csv
import io
import json
import os
import re
import shutil
import stat
import subprocess
import xml.etree.ElementTree

import harness

COSTS = {"peak": "peak_bytes", "leaked": "leaked_bytes", "allocated": "allocated_bytes",
         "allocations": "allocations", "temporary": "temporary_allocations"}


class Outputs(harness.Case):
    def setUp(self):
        super().setUp()
        self.trace = self.record_once(harness.program("ledger_single"), 6_000, 1).trace
        self.report_json = self.call_once(self.report, self.trace)

    def test_report_adds_up_by_every_cost(self):
        for cost, name in COSTS.items():
            with self.subTest(cost=cost):
                rows = self.all_stacks(self.trace, cost)
                total = self.report_json["heap"][name]
                in_bytes = name.endswith("bytes")
                self.assertEqual(sum(row["bytes" if in_bytes else "blocks"] for row in rows), total)
                self.assertAlmostEqual(sum(row["share"] for row in rows), 1, places=2)
                values = [row["bytes" if in_bytes else "blocks"] for row in rows]
                self.assertEqual(values, sorted(values, reverse=True))
                stacks = [json.dumps(row["stack"]) for row in rows]
                self.assertEqual(len(set(stacks)), len(stacks), "a stack occurs twice")

    def test_reserved_address_space(self):
        """Memory that mprotect makes usable is not counted; the report prints how much was reserved."""
        script = ("import ctypes; m = ctypes.CDLL(None).mmap; m.restype = ctypes.c_void_p; "
                  "assert m(None, ctypes.c_size_t(1 << 28), 0, 0x4022, -1, ctypes.c_long(0)) != 2 ** 64 - 1")
        trace = self.record("/usr/bin/python3", "-S", "-c", script).trace
        self.assertGreaterEqual(self.report(trace)["mmap"]["reserved_bytes"], 1 << 28)
        (line,) = [line for line in self.heapprof("report", trace).splitlines() if line.startswith("  reserved ")]
        self.assertIn("256 MiB", line)
        self.assertLess(len(line), 99)
        self.assertNotIn("  reserved ", self.heapprof("report", self.trace))

    def test_top(self):
        for count in (1, 5):
            self.assertEqual(len(self.report(self.trace, "--top", count)["top"]), count)
        self.assertEqual(self.report(self.trace, "--top", 0)["top"], self.all_stacks(self.trace, "peak"))

    def test_folded_flame_graph(self):
        for cost, name in COSTS.items():
            text = self.heapprof("flamegraph", self.trace, "--format", "folded", "--cost", cost)
            total = 0
            for line in text.splitlines():
                stack, _, value = line.rpartition(" ")
                total += int(value)
                self.assertTrue(all(stack.split(";")), line)
            self.assertEqual(total, self.report_json["heap"][name], cost)

    def check_svg(self, text, *words):
        root = xml.etree.ElementTree.fromstring(text)
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        for word in words:
            self.assertIn(word, text)
        # The picture loads nothing: it has no URL except those of XML namespaces.
        for match in re.finditer(r"https?://[^\"' <)]*", text):
            self.assertTrue(match.group().startswith("http://www.w3.org/"), match.group())
        for match in re.finditer(r"(?:href|src)\s*=\s*[\"']([^\"']*)", text):
            self.assertTrue(match.group(1).startswith("#"), match.group())
        if shutil.which("rsvg-convert"):
            picture = self.dir / "picture.png"
            source = self.dir / "picture.svg"
            source.write_text(text)
            subprocess.run(["rsvg-convert", "-o", picture, source], check=True, capture_output=True)
            self.assertGreater(picture.stat().st_size, 3000)

    def test_pictures(self):
        self.check_svg(self.heapprof("flamegraph", self.trace, "--format", "svg"), "site_large", "<script")
        self.check_svg(self.heapprof("flamegraph", self.trace), "site_large")
        self.check_svg(self.heapprof("timeline", self.trace, "--format", "svg"))

    def test_timeline(self):
        rows = list(csv.reader(io.StringIO(self.heapprof("timeline", self.trace, "--format", "csv"))))
        self.assertGreater(len(rows), 1)
        self.assertEqual({len(row) for row in rows}, {len(rows[0])})
        timeline = json.loads(self.heapprof("timeline", self.trace, "--format", "json"))
        text = json.dumps(timeline)
        self.assertIn(str(self.report_json["heap"]["peak_bytes"]), text, "the peak is not in the timeline")
        self.assertTrue(self.heapprof("timeline", self.trace).strip())

    def test_text_report_and_leaks(self):
        text = self.heapprof("report", self.trace)
        self.assertIn("ledger_single", text)
        self.assertIn("site_", text)
        self.assertNotIn("\x1b", text, "colours in a file")
        leaks = self.heapprof("leaks", self.trace)
        self.assertIn("site_", leaks)
        as_json = self.heapprof("leaks", self.trace, "--json")
        self.assertIn(str(self.report_json["heap"]["leaked_bytes"]), as_json)
        json.loads(as_json)
        info = json.loads(self.heapprof("info", self.trace, "--json"))
        self.assertIn("ledger_single", json.dumps(info))
        text = self.heapprof("info", self.trace)
        for word in ("ledger_single", str(self.report_json["pid"]), "6000"):
            self.assertIn(word, text)

    def test_output_file_equals_standard_output(self):
        for command in (("report", "--json"), ("flamegraph", "--format", "folded"), ("timeline", "--format", "csv"),
                        ("leaks", "--json"), ("info", "--json")):
            printed = self.heapprof(command[0], self.trace, *command[1:])
            self.assertEqual(self.heapprof(command[0], self.trace, *command[1:], "-o", "-"), printed)
            target = self.dir / "target"
            self.assertEqual(self.heapprof(command[0], self.trace, *command[1:], "-o", target), "")
            self.assertEqual(target.read_text(), printed)

    def test_two_runs_print_the_same(self):
        for command in (("report", "--json", "--top", "1000"), ("flamegraph", "--format", "svg"),
                        ("timeline", "--format", "svg")):
            self.assertEqual(self.heapprof(command[0], self.trace, *command[1:]),
                             self.heapprof(command[0], self.trace, *command[1:]))

    def test_help(self):
        self.assertIn("record", self.heapprof("--help"))
        for command in ("record", "info", "report", "leaks", "timeline", "flamegraph", "export"):
            self.assertIn("--help", self.heapprof(command, "--help"))
        self.assertRegex(self.heapprof("--version"), r"\d+\.\d+")

    def test_help_is_for_users(self):
        """Lines have at most 100 columns and contain no placeholder of the option parser (UINT, REQUIRED)."""
        pages = self.heapprof("manual", "--list").split()[1:]
        names = [page.removeprefix("heapprof-").replace("export-", "export ") for page in pages]
        commands = [[], ["export"]] + [name.split() for name in names]
        for command in commands:
            text = self.heapprof(*command, "--help")
            # Run as "heapprof" instead of by its path, because help lines contain the name.
            self.assertIn("Usage: " + " ".join(["heapprof", *command]), text)
            self.assertEqual([line for line in text.splitlines() if len(line) > 100], [], command)
            self.assertNotRegex(text, r"\{|UINT|ENUM|FLOAT|REQUIRED|words\.\.\.|\n\n\n|\n\n$", command)

    def test_every_command_names_the_unknown_option(self):
        for page in self.heapprof("manual", "--list").split()[1:]:
            words = page.removeprefix("heapprof-")
            command = words.split("-") if words.startswith("export-") else [words]
            result = self.run_heapprof(*command, "--bogus")
            self.assertEqual(result.returncode, 2, command)
            self.assertRegex(result.stderr, r"^heapprof: unknown option '--bogus'[\n;]", command)
        self.assertIn("unknown option '--childern'; did you mean '--children'?",
                      self.run_heapprof("record", "--childern", "true").stderr)

    def test_the_trace_is_never_replaced(self):
        """An output with the path of the trace is rejected, however the path is written."""
        bytes_before = self.trace.read_bytes()
        trace, other = (shutil.copy(self.trace, self.dir / f"{name}.heapprof") for name in ("trace", "other"))
        link = self.dir / "link.heapprof"
        link.symlink_to(trace)
        for name in (trace, f"{trace.parent}/./{trace.name}", link):
            for command in (["report"], ["flamegraph"], ["export", "csv"], ["compact"], ["bundle"], ["index"],
                            ["query"], ["check", "--max-peak", "1T"], ["check", "--baseline", trace, other]):
                words = command if other in command else [*command, trace]
                result = self.run_heapprof(*words, "-o", name)
                self.assertEqual(result.returncode, 1, command)
                self.assertIn("is the trace itself", result.stderr, command)
                self.assertEqual(trace.read_bytes(), bytes_before, command)

    def test_outputs_that_have_to_be_files(self):
        """They are written through a symbolic link, keep the mode of the replaced file, and refuse a pipe."""
        self.addCleanup(os.umask, os.umask(0o022))
        pipe = self.dir / "pipe"
        os.mkfifo(pipe)
        # Compacted traces and indexes hold what a trace does, which only its owner can read.
        for number, (command, new_mode) in enumerate(((["export", "sqlite"], 0o644), (["compact"], 0o600),
                                                      (["index"], 0o600))):
            with self.subTest(command=command):
                new, old, link = (self.dir / f"{name}{number}" for name in ("new", "old", "link"))
                self.heapprof(*command, self.trace, "-o", new)
                self.assertEqual(stat.S_IMODE(new.stat().st_mode), new_mode)
                old.write_bytes(b"old")
                old.chmod(0o640)
                link.symlink_to(old.name)
                self.heapprof(*command, self.trace, "-o", link)
                self.assertTrue(link.is_symlink())
                self.assertEqual(old.read_bytes()[:8], new.read_bytes()[:8])
                self.assertEqual(stat.S_IMODE(old.stat().st_mode), 0o640)
                result = self.run_heapprof(*command, self.trace, "-o", pipe)
                self.assertEqual(result.returncode, 1)
                self.assertIn(f"{pipe}: is not a regular file", result.stderr)
                self.assertTrue(pipe.is_fifo())

    def test_invalid_outputs(self):
        """The same message and the same exit status from every command."""
        nowhere = self.dir / "nowhere" / "x"
        for command in (["report"], ["flamegraph"], ["timeline"], ["export", "csv"], ["compact"], ["bundle"],
                        ["index"],
                        ["check", "--max-peak", "1T"]):
            result = self.run_heapprof(*command, self.trace, "-o", nowhere)
            self.assertEqual((result.returncode, result.stderr),
                             (1, f"heapprof: {nowhere}: cannot be written: No such file or directory\n"), command)
        for command in ("compact", "index"):
            result = self.run_heapprof(command, self.trace, "-o", "-")
            self.assertEqual((result.returncode, result.stdout), (2, ""), command)
            self.assertIn("for --output; expected a file", result.stderr)
            self.assertFalse((self.dir / "-").exists())

    def test_empty_results(self):
        """Every picture and every export without data: one message per recording, and exit status 0."""
        commands = [["report"], ["leaks"], ["histogram"], ["threads"]]
        commands += [["flamegraph", "--format", form] for form in ("svg", "folded")]
        commands += [["timeline", "--format", form] for form in ("text", "csv", "json", "svg", "openmetrics")]
        commands += [["export", form, "-o", self.dir / "x"] for form in
                     ("heaptrack", "pprof", "speedscope", "massif", "dhat", "callgrind", "firefox", "perfetto", "ndjson",
                      "csv")]
        for command in commands:
            for selection, why in ((["--function", "nosuch"],
                                    "--function nosuch: matches nothing in the recording; 'heapprof report --by "
                                    "function --top 0' lists the functions"),
                                   (["--min-size", "1T"], "nothing matches the selection")):
                result = self.run_heapprof(*command, self.trace, *selection)
                self.assertEqual((result.returncode, result.stderr), (0, f"heapprof: {self.trace}: {why}\n"),
                                 (command, selection))
        for form in ("text", "svg", "folded"):
            result = self.run_heapprof("diff", self.trace, self.trace, "--format", form, "--function", "nosuch")
            messages = result.stderr.count("--function nosuch: matches nothing")
            self.assertEqual((result.returncode, messages), (0, 2), form)
        for words in (["--function", "nosuch"], ["--cost", "leaked", "--max-lifetime", "1000"]):
            result = self.run_heapprof("flamegraph", self.trace, *words)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (0, 1), result.stderr)
            self.assertRegex(result.stdout, r"<text[^>]*>Nothing to show: no bytes live at the \w+\.</text>")
        self.assertIn(">Nothing to show: no byte was live.<",
                      self.heapprof("timeline", self.trace, "--format", "svg", "--function", "nosuch"))
        result = self.run_heapprof("export", "csv", self.trace, "--rows", "blocks", "-o", "-", "--max-lifetime",
                                   "1000")
        self.assertEqual((result.returncode, result.stdout.count("\n"), result.stderr),
                         (0, 1, f"heapprof: {self.trace}: the output has no rows: no block was live at the end\n"))
        self.assertNotIn(">Nothing to show", self.heapprof("flamegraph", self.trace))

    def test_wrong_command_lines(self):
        for words, what in ((["report", self.trace, "--cost", "foo"],
                             "invalid value 'foo' for --cost; expected peak, leaked, "),
                            (["report", self.trace, "--kind", "2"],
                             "invalid value '2' for --kind; expected heap, mmap or all"),
                            (["report", self.trace, "--min-size", "1X"],
                             "invalid value '1X' for --min-size; expected a size"),
                            (["check", self.trace, "--max-peak", "many"],
                             "invalid value 'many' for --max-peak; expected a size"),
                            (["nothing", self.trace], "unknown command 'nothing'"),
                            (["export", "nothing", self.trace], "unknown command 'export nothing'"),
                            (["export"], "missing command after 'heapprof export'"),
                            (["diff"], "missing argument TRACE"),
                            (["diff", self.trace],
                             "missing argument AFTER: give a second recording, or two moments of one, as in "
                             "'heapprof diff TRACE@1 TRACE@2.5' (seconds)"),
                            (["callers", self.trace],
                             "missing argument FUNCTION; 'heapprof report TRACE --by function' lists the functions"),
                            (["repotr", self.trace, "--bogus"],
                             "unknown command 'repotr'; did you mean 'report'?"),
                            (["--bogus"], "unknown option '--bogus'"),
                            (["report", self.trace, "--top", "x"],
                             "invalid value 'x' for --top; expected a whole number"),
                            (["report", self.trace, "--top"], "missing value for --top"),
                            (["report", self.trace, "-o"], "missing value for --output"),
                            (["blocks", self.trace, "two"], "unexpected argument 'two'"),
                            (["report", "--bogus"], "unknown option '--bogus'"),
                            (["report", self.trace, "--bogus=3"], "unknown option '--bogus'"),
                            (["report", "--functon", "x"], "unknown option '--functon'; did you mean '--function'?"),
                            (["leaks", self.trace, "--suppress=x"],
                             "unknown option '--suppress'; did you mean '--suppressions'?"),
                            (["export", "--bogus"], "unknown option '--bogus'"),
                            (["export", "csv", "--row"], "unknown option '--row'; did you mean '--rows'?"),
                            (["completions", "--bogus"], "unknown option '--bogus'"),
                            (["control"], "missing arguments TRACE (or --pid) and ACTION")):
            result = self.run_heapprof(*words)
            self.assertEqual((result.returncode, result.stdout), (2, ""), words)
            first, second = result.stderr.splitlines()
            self.assertTrue(first.startswith("heapprof: " + what), first)
            self.assertRegex(second, r"^See 'heapprof.* --help'\.$")

    def test_closed_pipe(self):
        """`heapprof report | head` prints no error."""
        command = f"'{harness.HEAPPROF}' flamegraph --format svg '{self.trace}' | head -c 10 >/dev/null"
        result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.stderr, "")


if __name__ == "__main__":
    harness.main()
