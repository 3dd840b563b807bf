#!/usr/bin/env python3
"""heapprof pins: what it says would be returned is compared with what a trim really returns, for each allocator.

tests/programs/fragmentation.cpp frees its blocks in steps and trims after each. BLOCKS (variable
HEAPPROF_TEST_PIN_BLOCKS) is 100,000 in the suite; 1,000,000 takes about ten seconds for each allocator.
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import harness
import trace_reader

BLOCKS = int(os.environ.get("HEAPPROF_TEST_PIN_BLOCKS", "100000"))
# Enough for tables of all kinds in a compacted trace.
COMPACTED_BLOCKS = min(BLOCKS, 30_000)
GROUPS = ("session", "cache", "log_line", "index_entry")
MIB = 1 << 20


def preload_is_installed(library):
    """The loader only warns when it does not find a library."""
    result = subprocess.run(["/bin/true"], env=harness.clean_environment(LD_PRELOAD=library), capture_output=True,
                            check=True)
    return not result.stderr


class Fragmentation:
    """A recording of the fixture, with the steps that it printed."""

    def __init__(self, case, library="", blocks=BLOCKS, threads=1, **variables):
        if library:
            variables["_LD_PRELOAD"] = library
        recording = case.record_once(harness.program("fragmentation"), blocks, threads, how="record",
                                     options=("-q",), **variables)
        self.case = case
        self.trace = str(recording.trace)
        self.resident = {name: int(size) for name, size in map(str.split, recording.stdout.splitlines())}
        marks = json.loads(case.call_once(case.heapprof, "info", self.trace, "--json"))["marks"]
        self.marks = {mark["text"]: mark["time_ns"] for mark in marks}

    def run(self, command, *options, status=0):
        result = subprocess.run([str(harness.HEAPPROF), command, self.trace, *options],
                                capture_output=True, text=True, env=harness.analyzer_environment(), check=False)
        self.case.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout if status == 0 else result.stdout + result.stderr

    def at(self, step):
        return f"{self.marks[step] / 1e9:.9f}"

    def pins(self, step, *options):
        return json.loads(self.run("pins", "--at", self.at(step), "--top", "0", "--json", *options))

    @staticmethod
    def group(answer, name):
        return next(group for group in answer["groups"]
                    if group["name"].startswith(f"(anonymous namespace)::{name}("))


class AgainstTrim(harness.Case):
    def compare(self, allocator, library="", tolerance=0.02, slack=MIB // 8, blocks=BLOCKS, threads=1, groups=GROUPS,
                **variables):
        if library and not preload_is_installed(library):
            self.skipTest(f"{library} is not installed")
        run = Fragmentation(self, library, blocks, threads, **variables)
        steps = ("session", *GROUPS[1:], "end")
        for step, after in zip(GROUPS, steps[1:]):
            answer = run.pins(step, "--by", "function")
            self.assertEqual(answer["allocator"], allocator)
            predicted = run.group(answer, step)["alone_bytes"]
            real = run.resident[step] - run.resident[after]
            print(f"{allocator}, {threads} threads, {step}: predicted {predicted / MIB:.2f} MiB, "
                  f"returned {real / MIB:.2f} MiB")
            if step not in groups:
                continue
            with self.subTest(step=step):
                self.assertAlmostEqual(predicted, real, delta=slack + tolerance * real)
        return run

    def test_glibc(self):
        run = self.compare("glibc")
        predicted = run.pins("trim")["returnable_bytes"]
        real = run.resident["trim"] - run.resident["session"]
        print(f"glibc, trim: predicted {predicted / MIB:.2f} MiB, returned {real / MIB:.2f} MiB")
        self.assertAlmostEqual(predicted, real, delta=MIB / 8 + 0.02 * real)

    def test_jemalloc(self):
        self.compare("jemalloc", "libjemalloc.so.2")

    def test_mimalloc(self):
        # The last pages of its size classes are resident only as far as they were used.
        self.compare("mimalloc", "libmimalloc.so.2.0", slack=MIB // 2, _MIMALLOC_DECOMMIT_DELAY="0")

    def test_tcmalloc(self):
        # Its central caches keep up to 6 MiB, whatever the program frees.
        self.compare("tcmalloc", "libtcmalloc_minimal.so.4", tolerance=0.15, blocks=min(6 * BLOCKS, 1_000_000))

    def test_glibc_with_four_threads(self):
        # When the last blocks of an arena are freed, all of it is its top, which malloc_trim returns for the main
        # arena only.
        self.compare("glibc", threads=4, groups=GROUPS[:-1])

    def test_jemalloc_with_four_threads(self):
        self.compare("jemalloc", "libjemalloc.so.2", threads=4)

    def test_mimalloc_with_four_threads(self):
        # Each thread has such pages of its own.
        self.compare("mimalloc", "libmimalloc.so.2.0", slack=2 * MIB, threads=4, _MIMALLOC_DECOMMIT_DELAY="0")

    def test_tcmalloc_with_four_threads(self):
        self.compare("tcmalloc", "libtcmalloc_minimal.so.4", tolerance=0.15, blocks=min(10 * BLOCKS, 1_000_000),
                     threads=4)


PYTHON_SCRIPT = """
import ctypes, os
libc = ctypes.CDLL(None)
libc.prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE, as in fragmentation.cpp
def private_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon:")) * 1024
{work}
ctypes.CDLL(os.environ["LD_PRELOAD"]).heapprof_recorder_mark(b"trim")
before = private_bytes()
libc.malloc_trim(0)
print("trim", before)
print("after", private_bytes())
"""
DICTIONARIES = """
kept = [{"number": i, "text": str(i) * 3} for i in range(60_000)]
kept = kept[::20]
"""
SQLITE = """
import sqlite3
db = sqlite3.connect(":memory:")
db.execute("create table t(a integer primary key, b text)")
db.executemany("insert into t values(?, ?)", ((i, "x" * (i % 300)) for i in range(60_000)))
db.execute("drop table t")
db.close()
"""


class Returnable(harness.Case):
    """What malloc_trim(0) returns, where the free memory is the end of a heap that glibc has not trimmed."""

    def compare(self, *command, **variables):
        for _ in range(10):
            recording = self.record(*command, how="record", options=["-q"], **variables)
            # On a busy machine, the snapshot at the mark may not fit into its time; then another one would be compared.
            # heapprof reads the events before it in a tenth of the time of trace_reader.
            snapshots = json.loads(self.heapprof("rss", recording.trace, "--json"))["snapshots"]
            if any(one["reason"] == "mark" and one["complete"] for one in snapshots):
                break
        resident = {name: int(size) for name, size in map(str.split, recording.stdout.splitlines())}
        real = resident["trim"] - resident["after"]

        def run(name, *options):
            return subprocess.run([str(harness.HEAPPROF), name, str(recording.trace), *options], check=True,
                                  capture_output=True, text=True, env=harness.analyzer_environment()).stdout

        mark = next(mark for mark in json.loads(run("info", "--json"))["marks"] if mark["text"] == "trim")
        at = ("--at", f"{mark['time_ns'] / 1e9:.9f}")
        answer = json.loads(run("pins", "--json", *at))
        predicted = answer["resident"]["returnable_bytes"]
        print(f"predicted {predicted / MIB:.2f} MiB, returned {real / MIB:.2f} MiB, "
              f"free {answer['returnable_bytes'] / MIB:.2f} MiB")
        self.assertEqual(answer["resident"]["source"], "snapshot")
        self.assertGreater(real, 2 * MIB)
        self.assertAlmostEqual(predicted, real, delta=MIB / 4 + 0.03 * real)
        self.assertGreaterEqual(answer["returnable_bytes"], predicted)
        self.assertLess(answer["resident"]["pinned_bytes"], answer["pinned_bytes"] + 1)
        text = run("pins", *at)
        self.assertIn("resident", next(line for line in text.splitlines() if line.startswith("  returnable ")))
        self.assertNotIn("at most", text)

    def test_blocks_in_fast_bins(self):
        self.compare(harness.program("freed_end"))

    def test_python(self):
        self.compare(sys.executable, "-c", PYTHON_SCRIPT.format(work=DICTIONARIES), _PYTHONMALLOC="malloc")

    def test_sqlite(self):
        self.compare(sys.executable, "-c", PYTHON_SCRIPT.format(work=SQLITE), _PYTHONMALLOC="malloc")


class Figures(harness.Case):
    def setUp(self):
        super().setUp()
        self.recording = Fragmentation(self)

    def test_sums_and_groupings(self):
        for by in ("stack", "function", "site"):
            with self.subTest(by=by):
                answer = self.recording.pins("session", "--by", by)
                groups = answer["groups"]
                total = sum(group["alone_bytes"] + group["shared_bytes"] for group in groups)
                self.assertAlmostEqual(total, answer["pinned_bytes"], delta=len(groups))
                for group in groups:
                    self.assertEqual(group["overhead_bytes"],
                                     group["alone_bytes"] + group["shared_bytes"] - group["usable_bytes"])
                overheads = [group["overhead_bytes"] for group in groups]
                self.assertEqual(overheads, sorted(overheads, reverse=True))
                self.assertEqual(answer["overhead_bytes"], answer["pinned_bytes"] - answer["usable_bytes"])
                stacks = len([group for group in groups if "index_entry" in group["name"]])
                self.assertEqual(stacks, 16 if by == "stack" else 1)

    def test_text_names_the_culprit_first(self):
        text = self.recording.run("pins", "--at", self.recording.at("session"))
        for words in ("pinned", "self", "overhead", "returnable", "Who pins it, by call site", "What to do",
                      "malloc_trim(0)", "--max-pinned"):
            self.assertIn(words, text)
        first = next(line for line in text.splitlines() if line.split()[:1] == ["1"])
        self.assertIn("index_entry", first)

    def test_flame_graph_adds_up(self):
        at = self.recording.at("session")
        folded = self.recording.run("flamegraph", "--cost", "pinned", "--to", at, "--format", "folded")
        lines = [line.rsplit(" ", 1) for line in folded.splitlines()]
        self.assertEqual(sum(int(size) for _, size in lines), self.recording.pins("session")["pinned_bytes"])

        for option in ("--at", "--live-at"):
            self.assertEqual(self.recording.run("flamegraph", "--cost", "pinned", option, at, "--format", "folded"),
                             folded)
        svg = self.dir / "pinned.svg"
        self.recording.run("flamegraph", "--cost", "pinned", "--at", at, "-o", str(svg))
        self.assertRegex(svg.read_text(), r"Pinned memory at [0-9.]+ m?s of fragmentation")

    def test_hints_have_the_moment(self):
        at = self.recording.at("session")
        text = self.recording.run("pins", "--at", at)
        self.assertIn(f"heapprof flamegraph TRACE --at {at} --cost pinned -o pinned.svg", text)
        self.assertIn(f"heapprof check TRACE --to {at} --max-pinned SIZE", text)

    def test_rows_and_header_have_the_same_quantity(self):
        text = self.recording.run("pins", "--at", self.recording.at("session"), "--top", "0")
        header = next(line for line in text.splitlines() if line.split()[:2] == ["#", "overhead"])
        self.assertIn("self", header)
        units = {"B": 1, "KiB": 1024, "MiB": MIB}
        rows = 0
        for line in text.splitlines():
            words = line.split()
            if not words or not words[0].isdigit() or len(words) < 9 or words[2] not in units:
                continue
            overhead, alone, shared, own = (float(words[i]) * units[words[i + 1]] for i in (1, 3, 5, 7))
            self.assertAlmostEqual(alone + shared - own, overhead, delta=0.01 * (alone + shared + own))
            rows += 1
        self.assertGreaterEqual(rows, len(GROUPS), text)

    def test_limits(self):
        at = self.recording.at("session")
        overhead = self.recording.pins("session")["overhead_bytes"]
        self.recording.run("check", "--to", at, "--max-pinned", str(overhead))
        self.assertIn("pinned", self.recording.run("check", "--to", at, "--max-pinned", str(overhead - 1), status=3))

    def test_messages(self):
        text = self.recording.run("pins", "--at", "1000", status=2)
        self.assertIn("is after the recording's end", text)
        picture = self.dir / "after.svg"
        text = self.recording.run("flamegraph", "--cost", "pinned", "--at", "1000", "-o", str(picture), status=2)
        self.assertIn("is after the recording's end", text)
        self.assertFalse(picture.exists())
        text = self.recording.run("check", "--max-pinned", "1M", "--live-at", "0.5", status=2)
        self.assertIn("give --to only: --to 0.5", text)
        text = self.recording.run("check", "--max-pinned", "1M", "--function", "session", status=2)
        self.assertIn("--max-pinned is about all blocks together", text)

    def test_missing_events(self):
        # The last snapshot follows events that are lost: it says nothing about the blocks that are known.
        trace = self.dir / "truncated.heapprof"
        data = pathlib.Path(self.recording.trace).read_bytes()
        trace.write_bytes(data[:len(data) * 2 // 3])
        answer = json.loads(self.heapprof("pins", trace, "--json", status=1))
        self.assertFalse(answer["integrity"]["complete"])
        self.assertIsNone(answer["resident"])

    def test_exact_compacted(self):
        compacted = self.dir / "compacted.heapprof"
        original = self.recording.run("pins", "--json")
        self.recording.run("compact", "--exact", "-o", str(compacted))
        self.recording.trace = str(compacted)
        exact = json.loads(self.recording.run("pins", "--json"))
        for key in ("pinned_bytes", "returnable_bytes", "overhead_bytes", "groups"):
            self.assertEqual(exact[key], json.loads(original)[key], key)


def without_residency(answer):
    """Which pages are resident is not known of a trace without addresses."""
    answer = json.loads(answer)
    answer.pop("resident", None)
    return answer


class Compacted(harness.Case):
    """Without addresses, the pinned memory is known at the snapshots of resident pages and at the end."""

    def compare(self, library="", **variables):
        if library and not preload_is_installed(library):
            self.skipTest(f"{library} is not installed")
        original = Fragmentation(self, library, COMPACTED_BLOCKS, **variables)
        recorded = trace_reader.Trace(original.trace)
        moments = [f"{(one.begin_ns - recorded.start_monotonic_ns) / 1e9:.9f}" for one in recorded.snapshots]
        self.assertGreater(len(moments), 3)
        compacted = self.dir / "compacted.heapprof"
        original.run("compact", "-o", str(compacted))
        trace = original.trace
        commands = []
        for moment in moments:
            commands.append(("pins", "--json", "--top", "0", "--at", moment))
        # All groupings and outputs at the end, and where most is live.
        for at, to in (((), ()), (("--at", moments[len(moments) // 2]), ("--to", moments[len(moments) // 2]))):
            commands += [("pins", "--json", "--top", "0", *at), ("pins", "--json", "--by", "stack", *at),
                         ("pins", "--json", "--by", "function", *at),
                         ("flamegraph", "--cost", "pinned", "--format", "folded", *to),
                         ("check", "--max-pinned", "1G", "--json", *to)]
        for command in commands:
            original.trace = trace
            was = original.run(*command)
            original.trace = str(compacted)
            now = original.run(*command).replace(str(compacted), trace)
            if command[0] == "pins":
                self.assertIsNone(json.loads(now)["resident"])
                self.assertIsNotNone(json.loads(was)["resident"])
                self.assertEqual(without_residency(now), without_residency(was), command)
            else:
                self.assertEqual(now, was, command)
        self.assertGreater(json.loads(original.run(*commands[-5]))["pinned_bytes"], MIB)
        original.trace = str(compacted)
        known = json.loads(original.run("info", "--json"))["pinned_at_ns"]
        self.assertEqual([f"{at / 1e9:.9f}" for at in known[:-1]], moments)
        self.check_tolerance(original, known)

    def check_tolerance(self, compacted, known):
        # The table may be of a moment that differs by as much as times are rounded in reports, or by 10 ms.
        gap, begin = max((b - a, a) for a, b in zip(known, known[1:]))
        self.assertGreater(gap, 30_000_000)
        near = f"{(begin + 9_000_000) / 1e9:.9f}"
        exact = f"{begin / 1e9:.9f}"
        for name, option, *more in (("pins", "--at", "--json"), ("flamegraph", "--to", "--cost", "pinned"),
                                    ("flamegraph", "--at", "--cost", "pinned"),
                                    ("check", "--to", "--max-pinned", "1G", "--json")):
            self.assertEqual(compacted.run(name, option, near, *more), compacted.run(name, option, exact, *more), name)
        text = compacted.run("pins", "--at", f"{(begin + gap // 2) / 1e9:.9f}", status=1)
        self.assertIn(f"'heapprof compact' kept it for the end and for {len(known) - 1} snapshots only", text)
        # A moment from the message is one that can be given.
        compacted.run("pins", "--at", text.split("one of the times ")[1].split(",")[0])

    def test_glibc(self):
        self.compare()

    def test_jemalloc(self):
        self.compare("libjemalloc.so.2", threads=2)

    def test_tcmalloc(self):
        self.compare("libtcmalloc_minimal.so.4")

    def test_mimalloc(self):
        self.compare("libmimalloc.so.2.0")

    def test_without_snapshots_the_end_is_known(self):
        recording = Fragmentation(self, SNAPSHOTS=0)
        was = recording.run("pins", "--json")
        compacted = self.dir / "compacted.heapprof"
        recording.run("compact", "-o", str(compacted))
        recording.trace = str(compacted)
        self.assertEqual(without_residency(recording.run("pins", "--json")), without_residency(was))
        self.assertIn("kept it for the end only", recording.run("pins", "--at", "50%", status=1))

    def test_damage_is_reported(self):
        recording = Fragmentation(self)
        compacted = self.dir / "compacted.heapprof"
        recording.run("compact", "-o", str(compacted))
        data = bytearray(compacted.read_bytes())
        recording.trace = str(compacted)
        # The table of the end is the last one; its payload follows a header of 72 bytes.
        table = data.rindex(b"HSEC\x06\x00\x00\x00")
        data[table + 72 + 10] ^= 1
        compacted.write_bytes(data)
        self.assertIn("wrong checksum", recording.run("pins", status=1))
        compacted.write_bytes(data[:table])
        self.assertIn("is damaged or truncated", recording.run("pins", status=1))


if __name__ == "__main__":
    harness.main()
