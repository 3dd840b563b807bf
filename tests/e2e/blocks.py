"""The blocks of `heapprof blocks` are those that an independent reader of the trace finds live, at random moments; they
add up to the figures of the report for the same selection; pages, CSV, indexes and compacted traces agree."""

import bisect
import csv
import io
import json
import subprocess
from collections import Counter, defaultdict

import harness
import trace_reader


class Accountant:
    """Live blocks by trace_reader. The ticks of its events get the nanoseconds of the rows of `export csv`: the n-th
    allocation, or free, by time is the n-th one there."""

    def __init__(self, case, trace):
        self.events = trace_reader.merged(trace_reader.Trace(trace))
        rows = list(csv.DictReader(io.StringIO(case.heapprof("export", "csv", trace, "-o", "-"))))
        pairs = []
        allocated = [event.time for _, event in self.events
                     if event.op in (trace_reader.ALLOC, trace_reader.REALLOC_END) and event.address]
        for kind, ticks in (("alloc", sorted(allocated)), ("free", sorted(self.ticks_of_frees()))):
            times = sorted(int(row["time_ns"]) for row in rows if row["event"] == kind)
            if kind == "alloc":
                case.assertEqual(len(ticks), len(times))
            if len(ticks) == len(times):  # not with a realloc of nothing, which frees nothing
                pairs += zip(ticks, times)
        pairs.sort()
        self.known_ticks = [tick for tick, _ in pairs]
        self.known_ns = [ns for _, ns in pairs]

    def ticks_of_frees(self):
        """A realloc frees its block when it returns, or before that, when another block gets the address."""
        begun = defaultdict(list)  # by thread: addresses; None: the block is freed
        for thread, event in self.events:
            if event.op in (trace_reader.FREE, trace_reader.FREE_STACK):
                yield event.time
            elif event.op == trace_reader.REALLOC_BEGIN:
                begun[thread].append(event.address)
            elif event.op == trace_reader.REALLOC_FAILED:
                begun[thread].pop()
            elif event.op == trace_reader.REALLOC_END and begun[thread].pop() is not None:
                yield event.time
            if event.op in (trace_reader.ALLOC, trace_reader.REALLOC_END) and event.address:
                for addresses in begun.values():
                    if event.address in addresses:
                        addresses[addresses.index(event.address)] = None
                        yield event.time

    def ns(self, tick):
        return self.known_ns[min(bisect.bisect_left(self.known_ticks, tick), len(self.known_ns) - 1)]

    def live_at(self, at_ns):
        """{address: (size, time of allocation)}"""
        until = [(thread, event) for thread, event in self.events if self.ns(event.time) <= at_ns]
        allocated = {}
        for _, event in until:
            if event.op in (trace_reader.ALLOC, trace_reader.REALLOC_END) and event.address:
                allocated[event.address] = self.ns(event.time)
        return {address: (size, allocated[address])
                for address, size in trace_reader.replay(until)["live"].items()}


class Blocks(harness.Case):
    def blocks(self, trace, *options):
        return json.loads(self.heapprof("blocks", trace, "--json", *options))

    def moments(self, random, count):
        return [f"{random.uniform(0, 100):.2f}%" for _ in range(count)]

    def check_list(self, blocks):
        self.assertEqual(sum(block["size_bytes"] for block in blocks["blocks"]), blocks["total"]["bytes"])
        self.assertEqual(len(blocks["blocks"]), blocks["total"]["blocks"])
        for block in blocks["blocks"]:
            self.assertEqual(block["allocated_ns"] + block["age_ns"], blocks["at_ns"])
            self.assertLess(block["stack"], len(blocks["stacks"]))
            self.assertLess(block["thread"], len(blocks["threads"]))
        for stack in blocks["stacks"]:
            self.assertLess(max(stack["frames"], default=-1), len(blocks["frames"]))

    def check_moment(self, accountant, blocks):
        self.check_list(blocks)
        found = {block["address"]: (block["size_bytes"], block["allocated_ns"]) for block in blocks["blocks"]}
        self.assertEqual(len(found), len(blocks["blocks"]))
        expected = accountant.live_at(blocks["at_ns"])
        self.assertEqual(found, expected)

    def test_random_moments(self):
        random = harness.random_generator("blocks")
        for program, arguments in (("ledger_single", (2_000, random.randrange(1000), 1)),
                                   ("ledger_realloc", ()),
                                   ("ledger_threads", (500, random.randrange(1000), 3, 1))):
            trace = self.record(harness.program(program), *arguments).trace
            accountant = Accountant(self, trace)
            for moment in self.moments(random, 4):
                with self.subTest(program=program, moment=moment):
                    self.check_moment(accountant, self.blocks(trace, "--live-at", moment))
            self.check_moment(accountant, self.blocks(trace))

    def test_sums_of_selections(self):
        random = harness.random_generator("block selections")
        trace = self.record(harness.program("ledger_threads"), 800, 5, 3, 1).trace
        report = self.report(trace)
        thread = random.choice([one["tid"] for one in report["threads"] if one["allocations"]])
        first, second = sorted(random.sample(range(1, 99), 2))
        for selection in ((), ("--from", f"{first}%"), ("--from", f"{first}%", "--to", f"{second}%"),
                          ("--to", f"{second}%", "--min-size", 100), ("--thread", thread),
                          ("--live-at", f"{first}%", "--thread", thread, "--max-size", 1000),
                          ("--from", f"{first}%", "--live-at", f"{second}%"),
                          ("--function", "site_malloc", "--live-at", f"{second}%"),
                          ("--not-function", "site_", "--min-lifetime", "20us"),
                          ("--live-at", f"{second}%", "--max-lifetime", "10ms"),
                          ("--from", f"{first}%", "--to", f"{second}%", "--freed", "no"),
                          ("--from", f"{first}%", "--to", f"{second}%", "--freed", "yes"),
                          ("--kind", "mmap"), ("--kind", "all"), ("--kind", "all", "--from", f"{first}%")):
            with self.subTest(selection=selection):
                blocks = self.blocks(trace, *selection)
                sums = json.loads(self.heapprof("report", trace, "--by", "site", "--json", *selection))["total"]
                kind = "live" if "--live-at" in selection else "leaked"
                self.assertEqual(blocks["total"], {"bytes": sums[f"{kind}_bytes"], "blocks": sums[f"{kind}_blocks"]})
                self.assertEqual(sum(block["size_bytes"] for block in blocks["blocks"]), sums[f"{kind}_bytes"])
                if "--kind" not in selection:
                    heap = self.report(trace, *selection)["heap"]
                    if heap["peak_bytes"] == 0 and "--live-at" not in selection:
                        # The scheduler let the program allocate at another time only.
                        self.heapprof("blocks", trace, *selection, "--cost", "peak", status=2)
                        continue
                    at_peak = self.blocks(trace, *selection, "--cost", "peak")
                    self.assertEqual(at_peak["total"], {"bytes": heap["peak_bytes"], "blocks": heap["peak_blocks"]})
                by_thread = Counter()
                for block in blocks["blocks"]:
                    by_thread[blocks["threads"][block["thread"]]["tid"]] += 1
                if "--thread" in selection:
                    self.assertLessEqual(set(by_thread), {thread})

    def test_peaks_at_equal_times(self):
        """Frees at the recorded time of the peak come after it; a slice in which memory only falls has its peak at its
        start."""
        trace = self.record(harness.program("ledger_growth")).trace
        for options in ((), ("--function", "^request_"), ("--from", "60%"), ("--from", "30%", "--to", "70%")):
            with self.subTest(options=options):
                heap = self.report(trace, *options)["heap"]
                blocks = self.blocks(trace, *options, "--cost", "peak")
                self.assertEqual(blocks["total"], {"bytes": heap["peak_bytes"], "blocks": heap["peak_blocks"]})
        end = self.report(trace)["duration_ns"]
        falling = ("--from", f"{end - 1}ns", "--to", f"{end}ns")
        heap = self.report(trace, *falling)["heap"]
        self.assertEqual(self.blocks(trace, *falling, "--cost", "peak")["total"],
                         {"bytes": heap["peak_bytes"], "blocks": heap["peak_blocks"]})
        refused = self.run_heapprof("blocks", trace, "--cost", "peak", "--kind", "mmap")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--cost peak lists blocks of the heap only; use --cost leaked", refused.stderr)

    def test_stacks(self):
        """The blocks of each stack are those of the report."""
        trace = self.record(harness.program("ledger_single"), 2_000, 3, 1).trace
        blocks = self.blocks(trace)

        def key(frames):
            return tuple((frame["module"], frame["offset"], frame["function"]) for frame in frames)

        sums = Counter()
        for block in blocks["blocks"]:
            frames = [blocks["frames"][number] for number in blocks["stacks"][block["stack"]]["frames"]]
            sums[key(frames)] += block["size_bytes"]
        expected = Counter()
        for stack in self.all_stacks(trace, "leaked"):
            expected[key(stack["stack"])] += stack["bytes"]
        self.assertEqual(+sums, +expected)

    def test_the_same_from_an_index_and_a_compacted_trace(self):
        random = harness.random_generator("blocks of an index")
        trace = self.record(harness.program("ledger_single"), 3_000, 8, 1).trace
        moments = self.moments(random, 3)
        before = [self.blocks(trace, "--live-at", moment) for moment in moments] + [self.blocks(trace)]
        exact = self.dir / "exact.heapprof"
        self.heapprof("compact", trace, "--exact", "-o", exact)
        self.heapprof("index", trace)
        for path in (trace, exact):
            after = [self.blocks(path, "--live-at", moment) for moment in moments] + [self.blocks(path)]
            for one, other in zip(after, before):
                self.assertEqual(one["blocks"], other["blocks"])
                self.assertEqual(one["stacks"], other["stacks"])
        rounded = self.dir / "rounded.heapprof"
        self.heapprof("compact", trace, "-o", rounded)
        blocks = self.blocks(rounded)
        self.assertEqual(blocks["total"], before[-1]["total"])
        self.assertEqual({block["address"] for block in blocks["blocks"]}, {None})

    def test_pages_and_csv(self):
        trace = self.record(harness.program("ledger_single"), 1_500, 4, 1).trace
        for order, key in (("size", lambda block: -block["size_bytes"]), ("age", lambda block: -block["age_ns"]),
                           ("address", lambda block: block["address"])):
            blocks = self.blocks(trace, "--sort", order)["blocks"]
            values = [key(block) for block in blocks]
            self.assertEqual(values, sorted(values))
            paged = []
            for skip in range(0, len(blocks), 97):
                paged += self.blocks(trace, "--sort", order, "--top", 97, "--skip", skip)["blocks"]
            for block in blocks + paged:
                block.pop("stack")  # numbered in the order of the page
            self.assertEqual(paged, blocks)
            table = list(csv.DictReader(io.StringIO(self.heapprof("blocks", trace, "--csv", "--sort", order))))
            self.assertEqual([(int(row["address"]), int(row["size_bytes"]), int(row["age_ns"]), row["name"])
                              for row in table],
                             [(block["address"], block["size_bytes"], block["age_ns"], block["name"])
                              for block in blocks])

    def test_tables_fit_the_terminal(self):
        trace = self.record(harness.program("ledger_names")).trace
        for width in (40, 60, 80, 120):
            text = self.printed(width, "blocks", trace)
            self.assertLessEqual(max(map(len, text.splitlines())), width, text)

    def printed(self, width, *command):
        environment = harness.analyzer_environment(COLUMNS=width, LC_ALL="C.UTF-8")
        return subprocess.run([str(harness.HEAPPROF), *map(str, command)], env=environment, capture_output=True,
                              text=True, check=True, stdin=subprocess.DEVNULL, timeout=120).stdout


if __name__ == "__main__":
    harness.main()
