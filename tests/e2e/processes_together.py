"""The commands that answer for several recordings: what they add up, and what they say about a moment of all processes,
compared with a program that knows it, with the answers for the single recordings, and with their events."""

import collections
import json
import shutil
import struct
import tempfile
from pathlib import Path

import harness

LARGE = ("--min-size", "100000")  # what the program `relatives` counts


def start_of(trace):
    """CLOCK_MONOTONIC when the recording began (the trace's header)."""
    return struct.unpack_from("<Q", trace.read_bytes(), 56)[0]


class Together(harness.Case):
    recorded = None

    def setUp(self):
        super().setUp()
        if Together.recorded is None:
            folder = Path(tempfile.mkdtemp(dir=harness.shared_folder())) / "relatives"
            done = self.run_heapprof("record", "--children", "-o", f"{folder}/", "--", harness.program("relatives"))
            self.assertEqual(done.returncode, 0, done.stderr)
            Together.truth = json.loads(done.stdout)
            Together.recorded = folder
        self.folder = self.dir / "all"
        shutil.copytree(Together.recorded, self.folder)
        self.traces = sorted(self.folder.iterdir())

    def json_of(self, command, *words, status=0):
        return json.loads(self.heapprof(*command.split(), *words, "--json", status=status))

    def by_role(self, processes, values):
        """Values of processes in the order of the program: parent, A, B."""
        pids = {process["pid"]: value for process, value in zip(processes, values)}
        children = [self.truth["a"], self.truth["b"]]
        parent = next(pid for pid in pids if pid not in children)
        return [pids.get(pid) for pid in (parent, *children)]

    def test_peak_of_the_sum(self):
        timeline = self.json_of("timeline", self.folder, *LARGE)
        peak = timeline["sum_peak"]
        self.assertEqual((peak["bytes"], peak["at_most_bytes"]), (self.truth["sum_peak"],) * 2)
        self.assertEqual(self.by_role(timeline["processes"], peak["live_bytes"]), self.truth["at_sum_peak"])
        self.assertEqual(timeline["peak"], {"time_ns": peak["time_ns"], "bytes": peak["bytes"]})
        self.assertEqual(sorted(site["peak_bytes"] for site in timeline["sites"]), sorted(self.truth["at_sum_peak"]))
        self.assertEqual(max(timeline["samples"]["live_bytes"]), peak["bytes"])
        # What was live then, by stack, and by process.
        report = self.json_of("report", self.folder, *LARGE, "--live-at", "peak", "--by", "process")
        self.assertEqual(report["live_at_ns"], self.json_of("timeline", self.folder)["sum_peak"]["time_ns"])
        self.assertEqual(report["total"]["peak_bytes"], self.truth["sum_peak"])
        live = {row["process"]: row["self"]["peak_bytes"] for row in report["rows"]}
        self.assertEqual(self.by_role(report["processes"], [live[i] for i in range(3)]), self.truth["at_sum_peak"])
        text = self.heapprof("timeline", self.folder, *LARGE)
        self.assertIn("4.48 MiB in all processes", text)

    def test_peak_of_the_sum_of_all_events(self):
        """The same from the events of the single recordings, small blocks included."""
        events = []
        for number, trace in enumerate(self.traces):
            self.heapprof("export", "ndjson", trace, "-o", "events.ndjson")
            start = start_of(trace)
            for order, line in enumerate((self.dir / "events.ndjson").open()):
                event = json.loads(line)
                sign = {"alloc": 1, "free": -1}[event["event"]]
                events.append((start + event["time_ns"], number, order, sign * event["size"]))
            duration = self.json_of("report", trace)["duration_ns"]
            events.append((start + duration + 1, number, order + 1, None))  # the process ends
        first = min(start_of(trace) for trace in self.traces)
        live, highest = collections.Counter(), (0, 0)
        for time, number, _, change in sorted(events):
            live[number] = 0 if change is None else live[number] + change
            if sum(live.values()) > highest[0]:
                highest = (sum(live.values()), time - first)
        peak = self.json_of("timeline", self.folder)["sum_peak"]
        self.assertEqual((peak["bytes"], peak["time_ns"]), highest)
        report = self.json_of("report", self.folder, "--live-at", "peak")
        self.assertEqual(report["total"]["peak_bytes"], highest[0])

    def test_times_are_of_one_clock(self):
        whole = self.json_of("report", self.folder)
        starts = {process["pid"]: process["start_ns"] for process in whole["processes"]}
        self.assertEqual(set(self.by_role(whole["processes"], [True] * 3)), {True})
        # Before B allocates 1,900,000 and after A allocated all: from the peak of A on.
        alone = self.json_of("report", next(t for t in self.traces if f".{self.truth['a']}." in t.name))
        moment = starts[self.truth["a"]] + alone["heap"]["peak_time_ns"] + 5_000_000
        report = self.json_of("report", self.folder, *LARGE, "--live-at", f"{moment / 1e9}")
        self.assertEqual(report["total"]["peak_bytes"], 2_700_000)
        self.assertEqual(report["outside"], 0)
        # At the end only the parent is there.
        report = self.json_of("report", self.folder, *LARGE, "--live-at", "end")
        self.assertEqual((report["total"]["peak_bytes"], report["outside"]), (600_000, 2))
        self.assertEqual([process["from"] for process in report["processes"]], [None])
        # A slice: allocated in all processes, of which some are outside.
        end = max(process["end_ns"] for process in whole["processes"])
        halves = [self.json_of("report", self.folder, *LARGE, "--from", begin, "--to", to)["heap"]["allocated_bytes"]
                  for begin, to in (("0", f"{end // 3}ns"), (f"{end // 3 + 1}ns", "100%"))]
        self.assertEqual(sum(halves), 1_000_000 + 2_300_000 + 5_000_000)
        for words, text in ((("--live-at", "1h"), "after the end of the last process"),
                            (("--from", "50%", "--to", "40%"), "--from is after --to"),
                            (("--from", "a mark"), "their common clock"),
                            (("--from", "0", "--survivors", "end"), "for one recording")):
            done = self.run_heapprof("report", self.folder, *words)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(text, done.stderr)

    def test_leaks(self):
        leaks = self.json_of("leaks", self.folder, "--top", "0", "--no-suppressions")
        alone = [self.json_of("leaks", trace, "--top", "0", "--no-suppressions") for trace in self.traces]
        for key in ("bytes", "blocks"):
            self.assertEqual(leaks["total"][key], sum(one["total"][key] for one in alone))
        sites = collections.Counter()
        for one in alone:
            for site in one["sites"]:
                sites[site["site"]["function"], site["site"]["line"]] += site["bytes"]
        self.assertEqual({(site["site"]["function"], site["site"]["line"]): site["bytes"]
                          for site in leaks["sites"]}, dict(sites))
        for site in leaks["sites"]:
            self.assertEqual(sum(program["bytes"] for program in site["programs"]), site["bytes"])
        large = self.json_of("leaks", self.folder, *LARGE)
        self.assertEqual(self.by_role(large["processes"], [one["leaked_bytes"] for one in large["processes"]]),
                         self.truth["leaked"])
        text = self.heapprof("leaks", self.folder, *LARGE)
        self.assertIn("By process", text)
        self.assertIn("Live at the ends of the recordings: 5.53 MiB", text)

    def test_pictures_and_exports_have_the_sums(self):
        costs = {"leaked": "leaked_bytes", "allocated": "allocated_bytes", "allocations": "allocations"}
        total = self.json_of("report", self.folder)["total"]
        for cost, key in costs.items():
            folded = self.heapprof("flamegraph", self.folder, "--format", "folded", "--cost", cost)
            self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()), total[key])
            self.assertEqual({line.split(";", 1)[0] for line in folded.splitlines()}, {"relatives"})
            bottom_up = self.heapprof("flamegraph", self.folder, "--format", "folded", "--cost", cost, "--bottom-up")
            self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in bottom_up.splitlines()), total[key])
            self.assertEqual({line.rsplit(" ", 1)[0].rsplit(";", 1)[1] for line in bottom_up.splitlines()},
                             {"relatives"})
        self.heapprof("flamegraph", self.folder, "-o", "flame.svg")
        self.assertIn(f"Peak heaps of the processes of {self.folder}", (self.dir / "flame.svg").read_text())
        self.assertEqual(self.json_of("tree", self.folder)["total"], total)
        callers = self.json_of("callers", self.folder, "allocate")
        single = [self.json_of("callers", trace, "allocate") for trace in self.traces]
        self.assertEqual(callers["total"]["allocated_bytes"], sum(one["total"]["allocated_bytes"] for one in single))
        source = self.json_of("source", self.folder, "relatives.cpp")
        self.assertIn("relatives.cpp", json.dumps(source))
        self.heapprof("export", "speedscope", self.folder, "-o", "all.speedscope.json")
        profiles = json.loads((self.dir / "all.speedscope.json").read_text())["profiles"]
        self.assertIn(total["allocated_bytes"], [sum(profile["weights"]) for profile in profiles])
        self.heapprof("export", "csv", "--rows", "stacks", self.folder, "-o", "stacks.csv")
        self.heapprof("export", "pprof", self.folder, "-o", "all.pb.gz")
        self.heapprof("export", "callgrind", self.folder, "-o", "callgrind.out")
        for name in ("heaptrack", "massif", "dhat", "firefox", "ndjson"):
            done = self.run_heapprof("export", name, self.folder, "-o", "x")
            self.assertEqual(done.returncode, 2)
            self.assertIn("is for one recording", done.stderr)

    def test_limits(self):
        check = ("check", self.folder, *LARGE)
        self.heapprof(*check, "--max-peak", "2900000", "--max-sum-peak", "4700000", "--max-sum-leaked", "5800000")
        for words, text in ((("--max-peak", "2899999"), f"peak of relatives, pid {self.truth['b']}: "),
                            (("--max-sum-peak", "4699999"), "peak of all processes together: 4.48 MiB (4,700,000)"),
                            (("--max-sum-leaked", "5799999"), "leaked of all processes together: 5.53 MiB")):
            done = self.run_heapprof(*check, *words, "--junit", "junit.xml")
            self.assertEqual(done.returncode, 3, done.stdout)
            self.assertIn("FAILED  " + text, done.stdout)
            self.assertIn('failures="1"', (self.dir / "junit.xml").read_text())
        checks = self.json_of("check", *check[1:], "--max-peak", "1M", "--max-sum-peak", "1G", status=3)
        peaks = [one["figure"] for one in checks["checks"] if one["of"] == "process"]
        self.assertEqual(self.by_role(checks["processes"], peaks), self.truth["peaks"])
        self.assertEqual([one["figure"] for one in checks["checks"] if one["of"] == "sum"], [self.truth["sum_peak"]])
        self.assertFalse(checks["ok"])
        self.assertEqual(self.run_heapprof("check", self.traces[0], "--max-sum-peak", "1").returncode, 2)

    def test_differences(self):
        done = self.run_heapprof("record", "--children", "-o", f"{self.dir}/again/", "--",
                                 harness.program("relatives"))
        again = json.loads(done.stdout)
        difference = self.json_of("diff", self.folder, self.dir / "again", *LARGE)
        self.assertEqual(difference["changed_stacks"], 0)
        pairs = {(pair["before"]["peak_bytes"], pair["after"]["peak_bytes"]) for pair in difference["processes"]}
        self.assertEqual(pairs, {(peak, peak) for peak in self.truth["peaks"]})
        # Without one of the processes.
        missing = next((self.dir / "again").glob(f"relatives.{again['a']}.*"))
        missing.unlink()
        difference = self.json_of("diff", self.folder, self.dir / "again", *LARGE)
        self.assertEqual(len([pair for pair in difference["processes"] if not pair["after"]]), 1)
        self.assertEqual(len(difference["processes"]), 3)
        text = self.heapprof("diff", self.folder, self.dir / "again", *LARGE)
        self.assertIn("is only before", text)
        self.heapprof("diff", self.folder, self.dir / "again", "--format", "folded")

    def test_shared_memory_counts_once(self):
        report = self.json_of("report", self.folder, *LARGE)
        self.assertEqual([process["began"] for process in report["processes"]], ["root", "forked", "forked"])
        # 400,000 that the children share with the parent are in none of their figures.
        self.assertEqual(report["heap"]["allocated_bytes"], 1_000_000 + 2_300_000 + 5_000_000)
        self.assertEqual(self.json_of("report", self.folder)["heap"]["unmatched_frees"] >= 1, True)
        self.assertIn("counts once, for the parent", " ".join(self.heapprof("report", self.folder).split()))

    def test_figures_of_processes_are_those_of_the_selection(self):
        traces = [self.record_once(harness.program(name)).trace for name in ("ledger_mmap", "ledger_growth")]
        for kind in ("heap", "mmap", "all"):
            report = self.json_of("report", *traces, "--by", "process", "--kind", kind)
            rows = {row["process"]: row["self"] for row in report["rows"]}
            for number, process in enumerate(report["processes"]):
                row = rows.get(number, {"peak_bytes": 0, "leaked_bytes": 0})
                self.assertEqual((process["peak_bytes"], process["leaked_bytes"]),
                                 (row["peak_bytes"], row["leaked_bytes"]), (kind, process["program"]))
                self.assertGreater(process["peak_rss_bytes"], 0)
        self.assertTrue(any(row["peak_bytes"] for row in rows.values()))
        # Resident memory is that of a process: if blocks are selected, it is unknown.
        selected = self.json_of("report", *traces, "--min-size", "10")["processes"]
        self.assertEqual([process["peak_rss_bytes"] for process in selected], [None, None])

    def test_bad_files_are_named_and_left_out(self):
        whole = self.json_of("report", self.folder)
        copy = self.folder / "copy.heapprof"
        shutil.copy(self.traces[0], copy)
        (self.folder / "empty.heapprof").touch()
        (self.folder / "text.heapprof").write_text("no trace\n" * 1000)
        (self.folder / "cut.heapprof").write_bytes(self.traces[1].read_bytes()[:2000])
        done = self.run_heapprof("report", self.folder, "--json")
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"is a copy of {self.folder}", done.stderr)
        for name in ("copy", "empty", "text", "cut"):
            self.assertIn(f"{name}.heapprof", done.stderr)
        self.assertEqual((report["copies"], report["unread"]), (1, 3))
        self.assertEqual((report["heap"], len(report["processes"])), (whole["heap"], 3))
        # A recording of another boot has no clock in common but the calendar.
        for name in ("empty", "text", "cut", "copy"):
            (self.folder / f"{name}.heapprof").unlink()
        shutil.copy(Path(__file__).parents[1] / "golden" / "1.0.hprof", self.folder / "older.heapprof")
        report = self.json_of("report", self.folder, status=(0, 1))
        self.assertIn("calendar", " ".join(report["notes"]))
        self.assertEqual(len(report["processes"]), 4)

    def test_one_recording_only(self):
        for words in (("blocks",), ("pins",), ("rss",), ("histogram",), ("churn",), ("threads",), ("info",)):
            done = self.run_heapprof(*words, self.folder)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"heapprof {words[0]} answers for one recording", done.stderr)
            self.assertIn("heapprof report", done.stderr)
        for words in (("timeline", "--by", "site"), ("timeline", "--resident"), ("flamegraph", "--cost", "pinned"),
                      ("check", "--max-pinned", "1"), ("check", "--baseline", str(self.traces[0]))):
            done = self.run_heapprof(words[0], self.folder, *words[1:])
            self.assertEqual(done.returncode, 2)
            self.assertIn("is for one recording", done.stderr)


if __name__ == "__main__":
    harness.main()
