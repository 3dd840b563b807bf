"""The figures of leaks, histogram, churn, reallocs, threads and frees, and the peaks of slices, compared with those
that the program counts itself."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

import harness


def named(rows, function, key="site"):
    """The row of the call site with that function."""
    for row in rows:
        frames = row[key] if isinstance(row[key], list) else [row[key]]
        if any(harness.plain_name(frame["function"]) == function for frame in frames):
            return row
    return None


def summed(rows, function):
    """[bytes, blocks] of all stacks through that function."""
    chosen = [row for row in rows if named([row], function, "stack")]
    return [sum(row["bytes"] for row in chosen), sum(row["blocks"] for row in chosen)]


def too_long(text, columns):
    """Lines that exceed the columns. Lines with file names may."""
    return [line for line in text.splitlines()
            if len(line) > columns and not re.fullmatch(r"  command line +/\S+|(From |to   )/.*", line)]


class Growth(harness.Case):
    """ledger_growth: leaks and their trends; peaks of slices."""

    def setUp(self):
        super().setUp()
        run = self.recorded_evenly_once("request_steady", harness.program("ledger_growth"))
        self.trace = run.trace
        self.truth = json.loads(run.stdout)
        timeline = json.loads(self.call_once(self.heapprof, "timeline", self.trace, "--json", "--sites", 0))
        self.marks = {mark["text"]: mark["time_ns"] for mark in timeline["marks"]}

    def leaks(self, *options):
        return json.loads(self.call_once(self.heapprof, "leaks", self.trace, "--json", "--top", 0, *options))

    def test_leaks(self):
        leaks = self.leaks("--function", "^request_")
        rows = {name: named(leaks["top"], f"request_{name}", "stack")
                for name in ("steady", "cache", "ring", "once", "trickle")}
        self.assertEqual(len(leaks["top"]), 5)
        for name, row in rows.items():
            self.assertEqual([row["bytes"], row["blocks"]], self.truth[name], name)
        self.assertEqual({name: row["trend"] for name, row in rows.items()},
                         {"steady": "growing", "trickle": "growing", "cache": "stable", "once": "stable",
                          "ring": "in_use"})
        # Growing stacks are ranked before larger stable ones, but not a trickle of bytes; stacks in use are last.
        self.assertEqual([row["bytes"] for row in leaks["top"]],
                         [self.truth[name][0] for name in ("steady", "once", "cache", "trickle", "ring")])
        self.assertEqual((rows["steady"]["smallest_bytes"], rows["steady"]["largest_bytes"]), (100, 149))
        self.assertEqual(rows["ring"]["freed_blocks"], self.truth["ring_released"])
        self.assertEqual(rows["steady"]["low_bytes"][-1], self.truth["steady"][0])
        grown = [sum(of) for of in zip(self.truth["steady"], self.truth["trickle"])]
        self.assertEqual(leaks["trends"]["growing"], {"bytes": grown[0], "blocks": grown[1], "stacks": 2})
        start = json.loads(self.heapprof("info", self.trace, "--json"))["start_realtime_ns"]
        for name in ("first", "last"):
            before, after = self.truth[name]
            at = start + rows["steady"][f"{name}_ns"]
            # The program and the recorder read different clocks.
            self.assertTrue(before - 20_000_000 < at < after + 20_000_000, (name, before, at, after))

    def test_trends_of_call_sites(self):
        """Of all sites, also those that `--top` leaves out, and equal to those of the text."""
        leaks = self.leaks()
        known = {key: {"bytes": 0, "blocks": 0, "sites": 0} for key in ("growing", "with_load", "stable", "in_use")}
        for site in leaks["sites"]:
            key = "with_load" if site["trend"] == "stable" and site["grew_with_load"] else site["trend"]
            for figure, value in (("bytes", site["bytes"]), ("blocks", site["blocks"]), ("sites", 1)):
                known[key][figure] += value
        self.assertEqual(leaks["site_trends"], known)
        self.assertEqual(json.loads(self.heapprof("leaks", self.trace, "--json", "--top", 1))["site_trends"], known)
        self.assertEqual(sum(of["bytes"] for of in known.values()) + leaks["suppressed_bytes"],
                         leaks["heap"]["leaked_bytes"])
        text = self.heapprof("leaks", self.trace)
        printed = re.findall(r"^  (growing|with load|stable|in use) +[\d.]+ \S+ +([\d,]+) blocks? +(\d+) call", text, re.M)
        self.assertEqual({label: (int(blocks.replace(",", "")), int(sites)) for label, blocks, sites in printed},
                         {key.replace("_", " "): (of["blocks"], of["sites"]) for key, of in known.items()
                          if of["sites"]})

    def test_sort_orders(self):
        for order, key in (("bytes", "bytes"), ("blocks", "blocks"), ("age", "first_ns")):
            values = [row[key] for row in self.leaks("--sort", order)["top"]]
            self.assertEqual(values, sorted(values, reverse=order != "age"), order)
        plain = self.leaks("--no-history", "--sort", "bytes")
        self.assertNotIn("trends", plain)

    def test_slice(self):
        options = ("--from", f"{self.marks['half']}ns", "--function", "request_steady")
        leaks = self.leaks(*options)
        self.assertEqual([leaks["top"][0]["bytes"], leaks["top"][0]["blocks"]], self.truth["half"])
        text = self.heapprof("leaks", self.trace, *options)
        self.assertRegex(text, r"\nAllocated from [\d.]+ m?s on and live at the end: ")
        self.assertNotIn("Leaked (live at the end)", text)
        self.assertRegex(self.heapprof("report", self.trace, "--cost", "leaked", *options),
                         r"\nAllocated from [\d.]+ m?s on and live at the end, by call site")

    def test_suppressions(self):
        """Built-in suppressions match the runtime's blocks and none of the program's; the sums agree."""
        all_blocks = self.leaks("--no-default-suppressions")
        self.assertEqual(all_blocks["suppressed"]["blocks"], 0)
        leaks = self.leaks()
        self.assertEqual(sum(row["blocks"] for row in leaks["top"]) + leaks["suppressed"]["blocks"],
                         sum(row["blocks"] for row in all_blocks["top"]))
        self.assertGreater(leaks["suppressed"]["blocks"], 0)  # thread-local storage of the second thread, at least
        self.assertTrue(all(hit["built_in"] for hit in leaks["suppressed"]["by"]))
        self.assertEqual(self.leaks("--function", "^request_")["suppressed"]["blocks"], 0)
        file = self.dir / "suppressions"
        file.write_text("# accepted\nleak:request_steady\nleak:^request_o*e$\n")
        mine = self.leaks("--suppressions", file, "--no-default-suppressions")
        self.assertEqual({hit["name"]: hit["bytes"] for hit in mine["suppressed"]["by"]},
                         {"request_steady": self.truth["steady"][0], "^request_o*e$": self.truth["once"][0]})
        text = self.heapprof("leaks", self.trace, "--suppressions", file)
        self.assertIn("request_steady", text)
        self.assertIn("(built in)", text)

    def test_peaks_of_slices(self):
        names = [phase["name"] for phase in self.truth["phases"]] + ["rounds"]
        for phase, end in zip(self.truth["phases"], names[1:]):
            report = self.report(self.trace, "--top", 0, "--from", f"{self.marks[phase['name']]}ns",
                                 "--to", f"{self.marks[end]}ns")
            for colour in ("red", "blue"):
                self.assertEqual(summed(report["top"], f"request_{colour}"), phase[colour],
                                 f"{phase['name']} {colour}")
        # The peak of the first two phases together is that of the higher one.
        highest = max(self.truth["phases"][:2], key=lambda phase: phase["red"][0] + phase["blue"][0])
        report = self.report(self.trace, "--top", 0, "--to", f"{self.marks['third']}ns")
        self.assertEqual(summed(report["top"], "request_red"), highest["red"])
        self.assertEqual(summed(report["top"], "request_blue"), highest["blue"])


class CallSites(harness.Case):
    """containers: the call site is the program's function, however the containers' functions are named."""

    def sites(self, command, arguments, key):
        """The program's figures, and {function: figure of its call sites} of the functions that the program names."""
        run = self.record_once(harness.program("containers"), *arguments)
        truth = json.loads(run.stdout)
        one_of_them = rf"\b({'|'.join(truth)})(\[abi:cxx11\])?[<(]"
        answer = json.loads(self.heapprof(command, run.trace, "--json", "--function", one_of_them))
        found = {}
        for site in answer["sites"]:
            name = site["label"] if "label" in site else site["site"]["function"]
            known = re.search(one_of_them, name)
            found[known.group(1) if known else name] = site[key]
        return truth, found

    def test_threads(self):
        truth, found = self.sites("threads", ("threads",), "blocks")
        self.assertEqual(set(found), set(truth))
        for function, blocks in truth.items():
            self.assertGreaterEqual(found[function], blocks, function)

    def test_churn(self):
        truth, found = self.sites("churn", (), "allocations")
        self.assertEqual(set(found), set(truth))
        for function, blocks in truth.items():
            self.assertGreaterEqual(found[function], blocks, function)

    def test_timeline(self):
        """Not all functions have live bytes at the peak, but those that have are the program's."""
        truth, found = self.sites("timeline", (), "peak_bytes")
        self.assertTrue(found)
        self.assertLessEqual(set(found), set(truth))


class Patterns(harness.Case):
    """ledger_patterns: sizes, lifetimes, churn, reallocs, threads, frees."""

    def setUp(self):
        super().setUp()
        run = self.record_once(harness.program("ledger_patterns"), FREE_STACKS=1)
        self.trace = run.trace
        self.truth = json.loads(run.stdout)

    def json_of(self, command, *options):
        return json.loads(self.call_once(self.heapprof, command, self.trace, "--json", *options))

    def test_sizes(self):
        forever = self.json_of("histogram", "--function", "request_forever")
        expected = [{"from_bytes": (1 << i) // 2 + 1 if i else 1, "to_bytes": 1 << i, "allocations": 1,
                     "bytes": 1 << i}
                    for i in range(self.truth["forever"])]
        self.assertEqual(forever["sizes"], expected)
        self.assertEqual(forever["not_freed"],
                         {"blocks": self.truth["forever"], "bytes": (1 << self.truth["forever"]) - 1})
        all_blocks = self.json_of("histogram")
        self.assertEqual(sum(size["allocations"] for size in all_blocks["sizes"]), all_blocks["allocations"])
        self.assertEqual(sum(size["bytes"] for size in all_blocks["sizes"]), all_blocks["allocated_bytes"])
        self.assertEqual({size["size"]: size["allocations"] for size in all_blocks["common_sizes"]}[33],
                         self.truth["brief"])

    def test_lifetimes(self):
        lasting = self.json_of("histogram", "--function", "request_lasting")
        long = sum(lives["blocks"] for lives in lasting["lifetimes"] if lives["from_ns"] >= 10_000_000)
        self.assertEqual(long, self.truth["lasting"])
        all_blocks = self.json_of("histogram")
        self.assertEqual(sum(lives["blocks"] for lives in all_blocks["lifetimes"]) +
                         all_blocks["not_freed"]["blocks"],
                         all_blocks["allocations"])
        self.assertEqual(sum(lives["bytes"] for lives in all_blocks["lifetimes"]) + all_blocks["not_freed"]["bytes"],
                         all_blocks["allocated_bytes"])

    def test_churn(self):
        churn = self.json_of("churn", "--within", "100s", "--top", 0)
        brief = named(churn["sites"], "request_brief")
        self.assertEqual([brief[key] for key in ("allocations", "allocated_bytes", "freed", "short_lived",
                                                 "temporary")],
                         [self.truth["brief"], 33 * self.truth["brief"]] + 3 * [self.truth["brief"]])
        pair = named(churn["sites"], "request_pair")
        self.assertEqual([pair["allocations"], pair["short_lived"], pair["short_lived_bytes"], pair["temporary"]],
                         [2 * self.truth["pairs"], 2 * self.truth["pairs"], 129 * self.truth["pairs"],
                          self.truth["pairs"]])
        self.assertIsNone(named(churn["sites"], "request_forever"))
        first = self.json_of("churn", "--within", "100s", "--top", 1)
        self.assertEqual((len(first["sites"]), first["all_sites"], churn["all_sites"]), (1, *[len(churn["sites"])] * 2))
        short = self.json_of("churn", "--within", "5ms", "--top", 0)
        self.assertIsNone(named(short["sites"], "request_lasting"))
        self.assertEqual(short["total"]["temporary"], self.report(self.trace)["heap"]["temporary_allocations"])
        self.heapprof("churn", self.trace, "--within", "soon", status=2)

    def test_kind(self):
        """Commands that read blocks refuse mappings, which are split and merged while they live."""
        for command in ("histogram", "churn", "reallocs", "threads", "frees"):
            with self.subTest(command=command):
                for kind in ("mmap", "all"):
                    result = self.run_heapprof(command, self.trace, "--kind", kind)
                    self.assertEqual((result.returncode, result.stdout), (2, ""))
                    self.assertIn(f"invalid value '{kind}' for --kind; expected heap", result.stderr)
                self.assertEqual(self.json_of(command, "--kind", "heap"), self.json_of(command))

    def test_reallocs(self):
        reallocs = self.json_of("reallocs", "--top", 0, "--function", "begin_buffer|grow_buffer|trim_buffer")
        for name in ("grow", "trim"):
            row = named(reallocs["sites"], f"{name}_buffer")
            truth = self.truth[name]
            self.assertEqual([row["steps"], row["moved"], row["copied_bytes"], row["longest"]["steps"]],
                             [truth["steps"], truth["moved"], truth["copied"], truth["longest"]], name)
        all_sites = len(self.json_of("reallocs", "--top", 0)["sites"])
        first = self.json_of("reallocs", "--top", 1)
        self.assertEqual((len(first["sites"]), first["all_sites"]), (1, all_sites))
        # Two of the four buffers were trimmed last.
        self.assertEqual(named(reallocs["sites"], "grow_buffer")["chains"], 2)
        self.assertEqual(named(reallocs["sites"], "trim_buffer")["chains"], 2)
        longest = named(reallocs["sites"], "grow_buffer")["longest"]
        self.assertEqual((longest["first_bytes"], longest["last_bytes"]), (16, 64 * 16 << 3))

    def test_threads(self):
        threads = self.json_of("threads", "--top", 0)
        index = {thread["tid"]: thread["index"] for thread in threads["threads"]}
        pairs = {(pair["allocated_by"], pair["freed_by"]): (pair["blocks"], pair["bytes"])
                 for pair in threads["pairs"]}
        main, first, second = (index[tid] for tid in (self.truth["tid"], *self.truth["tids"]))
        shared = self.truth["shared"]
        shared_site = named(threads["sites"], "request_shared")
        self.assertEqual((shared_site["blocks"], shared_site["bytes"]),
                         (shared + shared // 4, 48 * shared + 64 * shared // 4))
        cut = self.json_of("threads", "--top", 1)
        self.assertEqual((len(cut["pairs"]), cut["all_pairs"], threads["all_pairs"]), (1, *[len(pairs)] * 2))
        of_ours = self.json_of("threads", "--top", 0, "--function", "request_shared")
        ours = {(pair["allocated_by"], pair["freed_by"]): (pair["blocks"], pair["bytes"])
                for pair in of_ours["pairs"]}
        self.assertEqual(ours, {(main, first): (shared, 48 * shared),
                                (main, second): (shared // 4, 64 * shared // 4)})
        self.assertEqual(of_ours["threads"][main]["freed_by_itself"], {"blocks": shared - shared // 4,
                                                                          "bytes": 64 * (shared - shared // 4)})
        self.assertEqual(sum(blocks for blocks, _ in pairs.values()), threads["cross_thread_frees"]["blocks"])

    def test_frees(self):
        frees = self.json_of("frees", "--top", 0, "--function", "request_left|request_right")
        self.assertTrue(frees["free_stacks_recorded"])
        self.assertEqual(frees["unknown"]["blocks"], 0)

        def key(stack, names):
            return next(name for name in names
                        if any(harness.plain_name(frame["function"]) == name for frame in stack))
        found = {}
        for pair in frees["pairs"]:
            names = (key(pair["allocated_by"], ("request_left", "request_right")),
                     key(pair["freed_by"], ("free_here", "free_there")))
            found[names] = found.get(names, 0) + pair["blocks"]
        self.assertEqual(found, {("request_left", "free_here"): 30, ("request_left", "free_there"): 20,
                                 ("request_right", "free_here"): 7, ("request_right", "free_there"): 90})

    def test_frees_not_recorded(self):
        trace = self.record_once(harness.program("ledger_patterns")).trace
        frees = json.loads(self.heapprof("frees", trace, "--json", "--top", 0))
        self.assertFalse(frees["free_stacks_recorded"])
        steps = self.json_of("reallocs")["total"]["steps"]
        self.assertGreaterEqual(frees["known"]["blocks"], steps)  # the frees of realloc
        self.assertGreater(frees["unknown"]["blocks"], frees["known"]["blocks"])
        self.assertIn("--free-stacks", self.heapprof("frees", trace))

    def test_text_output(self):
        """At most 100 columns, ASCII where the locale is ASCII, no colours in a pipe."""
        for command in ("report", "leaks", "histogram", "churn", "reallocs", "threads", "frees", "info", "timeline"):
            with self.subTest(command=command):
                for locale in ("C", "C.UTF-8"):
                    text = self.heapprof_in(locale, command, self.trace)
                    self.assertNotIn("\x1b", text)
                    self.assertNotRegex(text, r"\b1 (blocks|stacks|allocations|buffers)\b")
                    if locale == "C":
                        self.assertTrue(text.isascii(), [line for line in text.splitlines() if not line.isascii()])
                    self.assertEqual(too_long(text, 100), [])

    def test_terminal_output(self):
        """At most the terminal's columns; colours, unless NO_COLOR is set."""
        other = self.record_once(harness.program("ledger_growth")).trace
        for columns, no_colour in ((70, ""), (132, ""), (70, "1")):
            for command in (("report",), ("leaks",), ("churn",), ("reallocs",), ("histogram",), ("timeline",),
                            ("info",),
                            ("diff", other)):
                with self.subTest(command=command[0], columns=columns, no_colour=no_colour):
                    text = self.on_terminal(columns, no_colour, *command, self.trace)
                    self.assertEqual("\x1b[" in text, not no_colour)
                    plain = re.sub(r"\x1b\[[0-9;]*[mK]", "", text)
                    self.assertEqual(too_long(plain, columns), [])

    def on_terminal(self, columns, no_colour, *arguments):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        environment = harness.analyzer_environment(LC_ALL="C.UTF-8", TERM="xterm", NO_COLOR=no_colour)
        process = subprocess.Popen([str(harness.HEAPPROF), *map(str, arguments)], env=environment, stdin=theirs,
                                   stdout=theirs, stderr=subprocess.DEVNULL)
        os.close(theirs)
        out = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            out += piece
        os.close(ours)
        self.assertEqual(process.wait(60), 0)
        return out.decode().replace("\r\n", "\n")

    def heapprof_in(self, locale, *arguments):
        environment = harness.analyzer_environment(LC_ALL=locale, LANG=locale)
        result = subprocess.run([str(harness.HEAPPROF), *map(str, arguments)], env=environment, capture_output=True,
                                text=True, encoding="utf-8", timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout


class Selections(harness.Case):
    """Each selection, compared with the program's figures, and one selection in every command."""

    def heap(self, trace, *options):
        heap = self.report(trace, *options)["heap"]
        return heap["allocations"], heap["allocated_bytes"]

    def test_blocks(self):
        run = self.record_once(harness.program("ledger_patterns"))
        trace, truth = run.trace, json.loads(run.stdout)
        brief, pairs, lasting, shared = (truth[name] for name in ("brief", "pairs", "lasting", "shared"))
        own = ("--function", "^request_")
        # Every request_ function of the program: allocations and sizes.
        sums = {"brief": (brief, 33 * brief), "pair": (2 * pairs, 129 * pairs), "lasting": (lasting, 1000 * lasting),
                "forever": (truth["forever"], (1 << truth["forever"]) - 1), "shared": (2 * shared, 112 * shared),
                "left": (50, 500), "right": (97, 1940)}

        def of(*names):
            return tuple(sum(sums[name][i] for name in names) for i in (0, 1))

        for options, expected in (
                (own, of(*sums)),
                ((*own, "--not-function", "request_brief", "--not-function", "request_pair"),
                 of(*(sums.keys() - {"brief", "pair"}))),
                (("--function", "request_forever", "--min-size", "8", "--max-size", "128"),
                 (5, 8 + 16 + 32 + 64 + 128)),
                ((*own, "--min-size", "1000", "--max-size", "1000"), of("lasting")),
                ((*own, "--thread", truth["tid"]), of(*sums)),
                ((*own, "--thread", truth["tids"][0]), (0, 0)),
                ((*own, "--module", "ledger_patterns"), of(*sums)),
                ((*own, "--module", "nothing_of_the_kind"), (0, 0)),
                (("--function", "request_(lasting|brief)$", "--min-lifetime", "400ms"), of("lasting")),
                (("--function", "request_(lasting|brief|forever)$", "--max-lifetime", "400ms"), of("brief")),
                # Blocks that are never freed live until the end, which is after the long wait.
                (("--function", "request_(lasting|brief|forever)$", "--min-lifetime", "400ms"),
                 of("lasting", "forever"))):
            with self.subTest(options):
                self.assertEqual(self.heap(trace, *options), expected)

    def test_moments(self):
        run = self.record_once(harness.program("ledger_growth"))
        truth = json.loads(run.stdout)
        timeline = json.loads(self.call_once(self.heapprof, "timeline", run.trace, "--json", "--sites", 0))
        half = next(mark["time_ns"] for mark in timeline["marks"] if mark["text"] == "half")
        made = truth["steady"][1] - truth["half"][1]
        for site, expected in (("steady", (made, truth["steady"][0] - truth["half"][0])), ("ring", (40, 40 * 300)),
                               ("once", (1, truth["once"][0])), ("cache", (truth["cache"][1], truth["cache"][0]))):
            with self.subTest(site):
                self.assertEqual(self.heap(run.trace, "--function", f"request_{site}$", "--live-at", f"{half}ns"),
                                 expected)
        self.assertEqual(self.heap(run.trace, "--function", "request_steady$", "--from", f"{half}ns"),
                         (truth["half"][1], truth["half"][0]))

    def test_every_command(self):
        """The five blocks of request_forever from 8 to 128 bytes."""
        trace = self.record_once(harness.program("ledger_patterns"), FREE_STACKS=1).trace
        five = ("--function", "request_forever", "--min-size", "8", "--max-size", "128")

        def json_of(command, *options):
            return json.loads(self.heapprof(command, trace, "--json", *options, *five))

        self.assertEqual(sum(row["blocks"] for row in json_of("leaks", "--top", 0)["top"]), 5)
        self.assertEqual(json_of("histogram")["allocations"], 5)
        self.assertEqual(max(json_of("timeline")["samples"]["live_bytes"]), 8 + 16 + 32 + 64 + 128)
        self.assertEqual(json_of("churn", "--top", 0)["total"]["allocations"], 5)
        self.assertEqual(json_of("reallocs", "--top", 0)["total"]["steps"], 0)
        self.assertEqual(json_of("frees", "--top", 0)["pairs"], [])
        self.assertEqual(json_of("threads", "--top", 0)["pairs"], [])
        folded = self.heapprof("flamegraph", trace, "--format", "folded", "--cost", "allocations", *five)
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()), 5)
        events = [json.loads(line)
                  for line in self.heapprof("export", "ndjson", trace, "-o", "-", *five).splitlines()]
        self.assertEqual(sum(event.get("event") == "alloc" for event in events), 5)
        diff = json.loads(self.heapprof("diff", trace, trace, "--json", *five))
        self.assertEqual(diff["before"]["allocations"], 5)
        self.heapprof("check", trace, "--max-allocations", 5, *five)
        self.heapprof("check", trace, "--max-allocations", 4, *five, status=3)


class Json(harness.Case):
    def test_shared_frames(self):
        """The stacks are the same with and without --shared-frames."""
        trace = self.record_once(harness.program("ledger_growth")).trace
        for command in ("report", "leaks"):
            plain = json.loads(self.heapprof(command, trace, "--json", "--top", 0))
            shared = json.loads(self.heapprof(command, trace, "--json", "--top", 0, "--shared-frames"))
            frames = shared.pop("frames")
            self.assertEqual(len({json.dumps(frame) for frame in frames}), len(frames))
            for row in shared["top"]:
                row["stack"] = [frames[position] for position in row["stack"]]
            self.assertEqual(shared, plain)
            self.assertTrue(all(row["stack"] for row in plain["top"] if row["truncated"] is None))
        empty = self.heapprof("report", trace, "--json", "--function", "nothing_of_the_kind")
        self.assertEqual(json.loads(empty)["top"], [])
        empty = self.heapprof("report", trace, "--json", "--function", "nothing_of_the_kind", "--shared-frames")
        self.assertEqual(json.loads(empty)["frames"], [])


if __name__ == "__main__":
    harness.main()
