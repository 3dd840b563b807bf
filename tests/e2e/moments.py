"""Moments: survivors of a slice, and what changed between two moments. An accountant of this test follows the events of
the trace file, with a clock of its own, and every stack's figures must be its figures."""

import json
import re
import shutil
import subprocess
from bisect import bisect_right
from collections import defaultdict, namedtuple

import harness
import trace_reader

Block = namedtuple("Block", "size stack time_ns")
ZERO = (0, 0)


def sums_by_stack(blocks):
    """{stack: (bytes, blocks)}"""
    sums = defaultdict(lambda: ZERO)
    for block in blocks:
        size, count = sums[block.stack]
        sums[block.stack] = (size + block.size, count + 1)
    return dict(sums)


def total(sums):
    return tuple(map(sum, zip(ZERO, *sums.values())))


class Accountant:
    """The live blocks of a recording at any moment."""

    def __init__(self, path):
        self.trace = trace_reader.Trace(path)
        self.points = [(0, 0)]  # ticks and nanoseconds since the start
        for stream in self.trace.streams.values():
            for event in stream:
                if event.op == trace_reader.SAMPLE and event.address >= self.trace.start_monotonic_ns:
                    self.points.append((event.time, event.address - self.trace.start_monotonic_ns))
        self.points.sort()
        self.events = trace_reader.merged(self.trace)
        self.modules = {number: module.path for number, module in self.trace.modules.items()}
        self.stacks = {}

    def to_ns(self, ticks):
        """Interpolated between two samples; after the last one at the rate of the recording, or at the rate of the
        header if the recording is short."""
        at = bisect_right(self.points, (ticks, 1 << 63)) - 1
        from_ticks, from_ns = self.points[at]
        if at + 1 < len(self.points):
            next_ticks, next_ns = self.points[at + 1]
            return from_ns + (ticks - from_ticks) * (next_ns - from_ns) // (next_ticks - from_ticks)
        if from_ns >= 100_000_000:
            return from_ns + (ticks - from_ticks) * from_ns // from_ticks
        return from_ns + (ticks - from_ticks) * 1_000_000_000 // self.trace.ticks_per_second

    def stack_of(self, node):
        if node not in self.stacks:
            self.stacks[node] = tuple((self.modules.get(module, ""), offset)
                                      for module, offset in self.trace.stack(node) if module or offset)
        return self.stacks[node]

    def live_at(self, moments_ns):
        """For each moment (ascending), the live blocks by address. A realloc that has not returned has not freed,
        unless another thread got the address meanwhile."""
        live, begun, result = {}, defaultdict(list), []

        def end_realloc(thread):
            address, block = begun[thread].pop()
            if live.get(address) is block:
                live.pop(address, None)

        moments = list(moments_ns)
        for thread, event in self.events:
            time_ns = self.to_ns(event.time)
            while moments and time_ns > moments[0]:
                result.append(dict(live))
                moments.pop(0)
            if event.op == trace_reader.ALLOC or (event.op == trace_reader.REALLOC_END and event.address):
                if event.op == trace_reader.REALLOC_END:
                    end_realloc(thread)
                live[event.address] = Block(event.size, self.stack_of(event.node), time_ns)
            elif event.op in (trace_reader.FREE, trace_reader.FREE_STACK):
                live.pop(event.address, None)
            elif event.op == trace_reader.REALLOC_BEGIN:
                begun[thread].append((event.address, live.get(event.address)))
            elif event.op == trace_reader.REALLOC_END:
                end_realloc(thread)
            elif event.op == trace_reader.REALLOC_FAILED:
                begun[thread].pop()
        return result + [dict(live)] * len(moments)


def stack_of(frames):
    """A stack of JSON, as the accountant has it. Requires --no-symbols, so that there are no inlined frames."""
    return tuple((frame["module"], frame["offset"]) for frame in frames)


class Moments(harness.Case):
    def json(self, *arguments, status=0):
        return json.loads(self.heapprof(*arguments, "--json", "--no-symbols", status=status))

    def recordings(self, random):
        for program, arguments in (("ledger_single", (3_000, random.randrange(1000), 1)),
                                   ("ledger_threads", (800, random.randrange(1000), 3, 1))):
            yield self.record(harness.program(program), *arguments).trace

    def moments_between_events(self, accountant, random, count):
        """Between random events: beside other work, a program may run for a small part of its recording's time."""
        times = sorted(accountant.to_ns(event.time) for _, event in accountant.events)
        return sorted(random.sample([(a + b) // 2 for a, b in zip(times, times[1:]) if b - a > 100], count))

    def by_stack(self, rows, *keys):
        sums = defaultdict(lambda: (0,) * len(keys))
        for row in rows:
            stack = stack_of(row["stack"])
            sums[stack] = tuple(a + row[key] for a, key in zip(sums[stack], keys))
        return {stack: figures for stack, figures in sums.items() if any(figures)}

    def test_survivors(self):
        random = harness.random_generator("survivors")
        compared = 0
        for trace in self.recordings(random):
            accountant = Accountant(trace)
            for i in range(6):
                begin, end, later = self.moments_between_events(accountant, random, 3)
                until_end = i % 3 == 0
                with self.subTest(trace=trace, begin=begin, end=end, later=None if until_end else later):
                    live = accountant.live_at([1 << 62 if until_end else later])[0]
                    truth = sums_by_stack(block for block in live.values() if begin <= block.time_ns <= end)
                    selection = ["--from", f"{begin}ns", "--to", f"{end}ns", "--survivors"]
                    if not until_end:
                        selection.append(f"{later}ns")
                    for cost in ("leaked", "peak", "live"):
                        report = self.json("report", trace, *selection, "--top", 0, "--cost", cost)
                        self.assertEqual(self.by_stack(report["top"], "bytes", "blocks"),
                                         {stack: sums for stack, sums in truth.items() if any(sums)})
                    heap = report["heap"]
                    self.assertEqual((heap["leaked_bytes"], heap["leaked_blocks"]), total(truth))
                    self.assertEqual((heap["peak_bytes"], heap["peak_blocks"]), total(truth))
                    leaks = self.json("leaks", trace, *selection, "--top", 0, "--no-suppressions")
                    self.assertEqual(self.by_stack(leaks["top"], "bytes", "blocks"),
                                     {stack: sums for stack, sums in truth.items() if any(sums)})
                    rows = self.json("report", trace, *selection, "--by", "stack")["total"]
                    self.assertEqual((rows["leaked_bytes"], rows["live_bytes"]), (total(truth)[0],) * 2)
                    folded = self.heapprof("flamegraph", trace, *selection, "--format", "folded")
                    self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()),
                                     total(truth)[0])
                    compared += len(truth)
        self.assertGreater(compared, 20)

    def check_difference(self, accountant, trace, moments, *options):
        before_ns, after_ns, later_ns = moments
        before, after, later = accountant.live_at(moments)
        fresh = {address: block for address, block in after.items() if block.time_ns > before_ns}
        left = [block for block in later.values() if before_ns < block.time_ns <= after_ns]
        truth = {name: sums_by_stack(blocks.values()) for name, blocks in
                 (("before", before), ("after", after), ("new", fresh))}
        truth["left"] = sums_by_stack(left)
        # Freed: live at the first moment, and not the same block at the second one.
        truth["freed"] = sums_by_stack(block for address, block in before.items() if after.get(address) != block)
        diff = self.json("diff", f"{trace}@{before_ns}ns", f"{trace}@{after_ns}ns", "--survivors", f"{later_ns}ns",
                         "--top", 0, *options)
        self.assertEqual((diff["before"]["at_ns"], diff["after"]["at_ns"]), (before_ns, after_ns))
        self.assertEqual(diff["survivors_ns"], later_ns)
        changed = {stack for name in ("new", "freed") for stack in truth[name]}
        expected = {}
        for stack in changed:
            figures = []
            for name in ("before", "after", "new", "freed", "left"):
                figures += truth[name].get(stack, ZERO)
            figures += (a - b for a, b in zip(truth["after"].get(stack, ZERO), truth["before"].get(stack, ZERO)))
            expected[stack] = tuple(figures)
        keys = ("bytes_before", "blocks_before", "bytes_after", "blocks_after", "new_bytes", "new_blocks",
                "freed_bytes", "freed_blocks", "survivor_bytes", "survivor_blocks", "bytes", "blocks")
        self.assertEqual(self.by_stack(diff["top"], *keys), expected)
        for name, figures in (("new", ("new_bytes", "new_blocks")), ("freed", ("freed_bytes", "freed_blocks")),
                              ("left", ("survivor_bytes", "survivor_blocks"))):
            self.assertEqual(tuple(diff["total"][figure] for figure in figures), total(truth[name]), name)
            for figure in figures:
                self.assertEqual(sum(row[figure] for row in diff["sites"]), diff["total"][figure], figure)
                self.assertEqual(sum(row[figure] for row in diff["top"]), diff["total"][figure], figure)
        self.assertEqual((diff["before"]["live_bytes"], diff["before"]["live_blocks"]), total(truth["before"]))
        self.assertEqual((diff["after"]["live_bytes"], diff["after"]["live_blocks"]), total(truth["after"]))
        self.assertEqual(diff["total"]["bytes"], diff["total"]["new_bytes"] - diff["total"]["freed_bytes"])
        # The totals are those of other commands.
        until = self.report(trace, "--to", f"{after_ns}ns")["heap"]
        self.assertEqual(diff["after"]["live_bytes"], until["leaked_bytes"])
        left_of_slice = self.report(trace, "--from", f"{before_ns + 1}ns", "--to", f"{after_ns}ns", "--survivors",
                                    f"{later_ns}ns")["heap"]
        self.assertEqual(diff["total"]["survivor_bytes"], left_of_slice["leaked_bytes"])
        folded = self.heapprof("diff", f"{trace}@{before_ns}ns", f"{trace}@{after_ns}ns", "--format", "folded")
        values = [line.rsplit(" ", 2)[1:] for line in folded.splitlines()]
        self.assertEqual([sum(int(value[i]) for value in values) for i in (0, 1)],
                         [total(truth["before"])[0], total(truth["after"])[0]])
        return diff

    def test_differences(self):
        random = harness.random_generator("differences")
        for trace in self.recordings(random):
            accountant = Accountant(trace)
            for _ in range(4):
                moments = self.moments_between_events(accountant, random, 3)
                with self.subTest(trace=trace, moments=moments):
                    self.check_difference(accountant, trace, moments)

    def test_the_same_with_an_index_and_compacted(self):
        trace = self.record(harness.program("ledger_single"), 3_000, 3, 1).trace
        duration = self.report(trace)["duration_ns"]
        commands = [("diff", "{}@30%", "{}@80%", "--survivors", "--top", 0),
                    ("report", "{}", "--from", "30%", "--to", "80%", "--survivors", f"{duration * 9 // 10}ns")]

        def answers(path):
            result = []
            for command in commands:
                answer = self.json(*(str(word).format(path) for word in command))
                for side in ("before", "after"):
                    if side in answer:
                        del answer[side]["trace"]
                result.append(answer)
            return result

        truth = answers(trace)
        self.heapprof("index", trace)
        self.assertEqual(answers(trace), truth)
        exact = self.dir / "exact.heapprof"
        self.heapprof("compact", "--exact", trace, "-o", exact)
        diff, report = answers(exact)
        self.assertEqual(diff, truth[0])
        self.assertEqual((report["heap"], report["top"]), (truth[1]["heap"], truth[1]["top"]))

    def test_other_selections_apply(self):
        trace = self.record(harness.program("ledger_threads"), 800, 5, 3, 1).trace
        tids = [thread["tid"] for thread in self.report(trace)["threads"]]
        whole = self.json("diff", f"{trace}@20%", f"{trace}@70%")["total"]
        parts = [self.json("diff", f"{trace}@20%", f"{trace}@70%", "--thread", tid)["total"] for tid in tids]
        for figure, value in whole.items():
            self.assertEqual(sum(part[figure] for part in parts), value, figure)
        small = self.json("diff", f"{trace}@20%", f"{trace}@70%", "--max-size", 100)["total"]
        large = self.json("diff", f"{trace}@20%", f"{trace}@70%", "--min-size", 101)["total"]
        self.assertEqual(small["new_bytes"] + large["new_bytes"], whole["new_bytes"])


class CacheAndLeak(harness.Case):
    """docs/examples/pages.cpp: a cache that turns over, beside a log that is never written out. "What was allocated
    between two moments and is still there?" """

    STEPS, REQUESTS, RECORD, PAGES, PAGE = 1500, 5, 1000, 4352, 4096

    def setUp(self):
        super().setUp()
        self.trace = self.record_once(harness.program("pages"), 0).trace

    def first_function(self, *command):
        """The function of the first call site in a table."""
        text = self.call_once(self.heapprof, *command)
        return re.search(r"^ +1 .*?(\w+::\w+)  ", text, re.MULTILINE)[1]

    def test_survivors_at_the_end(self):
        selection = ("--from", "first", "--to", "second", "--survivors")
        leaked = self.report(self.trace, *selection, "--function", "add_record")["heap"]["leaked_bytes"]
        self.assertAlmostEqual(leaked, self.STEPS * self.REQUESTS * self.RECORD, delta=leaked / 10)
        pages = self.report(self.trace, *selection, "--function", "read_page")["heap"]
        self.assertLess(pages["leaked_bytes"], leaked / 20)
        self.assertGreater(pages["allocated_bytes"], 20 << 20)
        for command in ("leaks", "report"):
            self.assertEqual(self.first_function(command, self.trace, *selection), "AuditLog::add_record")

    def test_the_end_of_the_slice_is_another_question(self):
        """At the end of the slice the cache holds more; the title says so, and names --survivors."""
        command = ("leaks", self.trace, "--from", "first", "--to", "second", "--sort", "bytes")
        text = self.call_once(self.heapprof, *command)
        self.assertRegex(text, r"\nAllocated from [\d.]+ m?s to ([\d.]+ m?s) and live at \1: ")
        self.assertIn("Of these, still live at the end of the recording: --survivors\n", text)
        self.assertEqual(self.first_function(*command), "PageCache::read_page")

    def test_difference(self):
        moments = (f"{self.trace}@first", f"{self.trace}@second")
        self.assertEqual(self.first_function("diff", *moments), "AuditLog::add_record")
        self.assertEqual(self.first_function("diff", *moments, "--sort", "new"), "PageCache::read_page")
        diff = json.loads(self.heapprof("diff", *moments, "--json", "--survivors"))
        self.assertEqual(diff["before"]["moment"], "first")
        sites = {}
        for site in diff["sites"]:
            sites.setdefault(site["name"].split("(")[0], site)
        cache, log = sites["PageCache::read_page"], sites["AuditLog::add_record"]
        # The cache was full before: all its pages were replaced, and later replaced again. Containers allocate some
        # blocks of their own on the same lines.
        pages, records = self.PAGES * self.PAGE, self.STEPS * self.REQUESTS * self.RECORD
        self.assertAlmostEqual(cache["new_bytes"], pages, delta=pages / 50)
        self.assertAlmostEqual(cache["freed_bytes"], pages, delta=pages / 50)
        self.assertLess(abs(cache["bytes"]), pages / 1000)
        self.assertLess(cache["survivor_bytes"], pages / 1000)
        self.assertAlmostEqual(log["new_bytes"], records, delta=records / 20)
        self.assertAlmostEqual(log["survivor_bytes"], records, delta=records / 20)
        self.assertLess(log["freed_bytes"], records / 1000)
        svg = self.heapprof("diff", *moments, "--format", "svg")
        self.assertIn("Changes in pages", svg)

    def test_the_peak_is_a_moment(self):
        """In all commands, the same; a filter does not change which moment it is. What was freed at the same time,
        but later, is live."""
        heap = self.report(self.trace)["heap"]
        peak_ns = heap["peak_time_ns"]
        at_peak = self.report(self.trace, "--live-at", "peak")
        live = at_peak["heap"]["peak_bytes"]
        self.assertEqual(at_peak["live_at_ns"], peak_ns)
        self.assertEqual((live, at_peak["heap"]["peak_blocks"]), (heap["peak_bytes"], heap["peak_blocks"]))
        log = self.report(self.trace, "--at", "peak", "--function", "AuditLog")
        self.assertEqual(log["live_at_ns"], peak_ns)
        blocks = json.loads(self.heapprof("blocks", self.trace, "--at", "peak", "--json", "--top", 1))
        self.assertEqual(blocks["total"]["bytes"], live)
        until = self.report(self.trace, "--to", "peak")
        self.assertEqual((until["slice"]["to_ns"], until["heap"]["peak_bytes"], until["heap"]["leaked_bytes"]),
                         (peak_ns, heap["peak_bytes"], live))
        diff = json.loads(self.heapprof("diff", f"{self.trace}@first", f"{self.trace}@peak", "--json"))
        self.assertEqual((diff["after"]["moment"], diff["after"]["at_ns"], diff["after"]["live_bytes"]),
                         ("peak", peak_ns, live))
        pins = json.loads(self.heapprof("pins", self.trace, "--at", "peak", "--json"))
        self.assertEqual(pins["at_ns"], peak_ns)
        # `pins` takes all events of the time of the peak, so what was freed at that time is not live in it.
        at_its_time = self.report(self.trace, "--live-at", f"{peak_ns}ns")["heap"]["peak_bytes"]
        self.assertLessEqual(at_its_time, live)
        self.assertGreaterEqual(pins["usable_bytes"], at_its_time)
        rss = json.loads(self.heapprof("rss", self.trace, "--at", "peak", "--json"))
        self.assertLess(abs(rss["at_ns"] - peak_ns), max(10_000_000, peak_ns / 200))

    def test_tables_fit_the_terminal(self):
        for width in (40, 60, 80, 120):
            environment = harness.analyzer_environment(COLUMNS=width, LC_ALL="C.UTF-8")
            text = subprocess.run([str(harness.HEAPPROF), "diff", f"{self.trace}@first", f"{self.trace}@second",
                                   "--survivors"], env=environment, capture_output=True, text=True, check=True,
                                  stdin=subprocess.DEVNULL, timeout=120).stdout
            self.assertLessEqual(max(map(len, text.splitlines())), width, text)

    def test_nothing_is_lost_in_a_narrow_terminal(self):
        """In 40 columns sentences are wrapped, not cut, and every row of a table is one line with its figures."""
        environment = harness.analyzer_environment(COLUMNS=40, LC_ALL="C.UTF-8")
        for command in ("leaks", "pins", "rss"):
            # A path can be longer than a line.
            text = subprocess.run([str(harness.HEAPPROF), command, self.trace.name], env=environment, check=True,
                                  capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
                                  cwd=self.trace.parent).stdout
            self.assertLessEqual(max(map(len, text.splitlines())), 40, text)
            words = " ".join(text.split())
            if command == "leaks":
                # "the last allocation" if the program took long to exit after it.
                self.assertRegex(words, r"growing [\d.]+ MiB [\d,]+ blocks: 1 call site grew until the "
                                 r"(end|last allocation \([\d.]+ m?s\)); ")
                rows = re.findall(r"^ +\d+ +([\d.]+ [KM]iB)  \w+  ", text, re.MULTILINE)
                self.assertGreater(len(rows), 1, text)
            elif command == "pins":
                self.assertRegex(text, r"(?m)^  1 +[\d.]+ [KM]iB +[\d.]+ [KM]iB  \S+$")
            else:
                self.assertIn("requested by the program, in live blocks", words)

    def test_wrong_moments(self):
        trace = self.trace
        for arguments, message in (((f"{trace}@second", f"{trace}@first"), "@second is after @first"),
                                   ((f"{trace}@100", f"{trace}@first"), "@100 is after the recording's end"),
                                   ((f"{trace}@first", f"{trace}@100"), "@100 is after the recording's end"),
                                   ((f"{trace}@frist", f"{trace}@second"),
                                    "no mark has the text 'frist'; the recording's marks are 'first' ("),
                                   ((f"{trace}@5x", f"{trace}@second"), "invalid time '5x'"),
                                   ((f"{trace}@first", f"{trace}@second", "--live-at", "1ms"), "omit --from")):
            with self.subTest(arguments=arguments):
                result = self.run_heapprof("diff", *arguments)
                self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
                self.assertIn(message, result.stderr)
        for options in (("--survivors",), ("--from", "first", "--survivors", "--live-at", "second"),
                        ("--from", "first", "--to", "second", "--survivors", "first"),
                        ("--from", "second", "--to", "first"), ("--live-at", "third")):
            with self.subTest(options=options):
                self.heapprof("leaks", trace, *options, status=2)
        named = self.dir / "run@first"
        shutil.copy(trace, named)
        self.assertEqual(json.loads(self.heapprof("diff", named, trace, "--json"))["before"]["trace"], str(named))
        self.assertEqual(json.loads(self.heapprof("diff", f"{named}@second", f"{named}@end", "--json"))["before"]
                         ["moment"], "second")


if __name__ == "__main__":
    harness.main()
