"""`record --children -o DIRECTORY/` and `report DIRECTORY`: each process has a recording, and the report of all of them
adds up what the reports of the single ones say."""

import collections
import json
import os
import shutil

import harness

SUMS = ("allocations", "allocated_bytes", "frees", "failed", "leaked_bytes", "leaked_blocks",
        "temporary_allocations", "unmatched_frees", "implied_frees")


class Processes(harness.Case):
    def setUp(self):
        super().setUp()
        self.folder = self.dir / "all"

    def record_tree(self):
        """A shell that starts two programs, of which one replaces the shell that started it."""
        names, growth = harness.program("ledger_names"), harness.program("ledger_growth")
        done = self.run_heapprof("record", "--children", "-o", f"{self.folder}/", "--", "sh", "-c",
                                 f"{names}; sh -c 'true; exec {growth}'; true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"next    heapprof report {self.folder}/", done.stderr)
        return sorted(self.folder.iterdir())

    def report_of(self, *words):
        return json.loads(self.heapprof("report", *words, "--json"))

    def test_sums(self):
        traces = self.record_tree()
        alone = {str(trace): self.report_of(trace) for trace in traces}
        self.assertGreaterEqual(len(alone), 3)
        for arguments in ((self.folder,), tuple(traces)):
            together = self.report_of(*arguments)
            self.assertEqual(together["heap"], {key: sum(one["heap"][key] for one in alone.values()) for key in SUMS})
            self.assertEqual(together["events"], sum(one["events"] for one in alone.values()))
            self.assertEqual({one["trace"] for one in together["processes"]}, set(alone))
            for process in together["processes"]:
                single = alone[process["trace"]]
                self.assertEqual((process["pid"], process["program"], process["events"]),
                                 (single["pid"], single["program"], single["events"]))
                self.assertEqual((process["peak_bytes"], process["leaked_bytes"]),
                                 (single["heap"]["peak_bytes"], single["heap"]["leaked_bytes"]))
                self.assertEqual(process["end_ns"] - process["start_ns"], single["duration_ns"])

    def test_tree(self):
        self.record_tree()
        processes = self.report_of(self.folder)["processes"]
        found = {os.path.basename(process["program"]): process for process in processes}
        shells = [process for process in processes if "exec" in process["command"]]
        first = processes[0]
        self.assertEqual((first["began"], first["from"], first["start_ns"]), ("root", None, 0))
        names, growth = found["ledger_names"], found["ledger_growth"]
        self.assertEqual((names["began"], names["from"], names["parent_pid"]), ("started", 0, first["pid"]))
        # The inner shell may not have allocated before it executed the program: then it has no recording.
        if growth["began"] == "executed":
            before = processes[growth["from"]]
            self.assertIn(before, shells)
            self.assertEqual((before["pid"], before["parent_pid"]), (growth["pid"], first["pid"]))
        else:
            self.assertEqual((growth["began"], growth["from"]), ("started", 0))
        self.assertLess(names["start_ns"], growth["start_ns"])
        text = self.heapprof("report", self.folder)
        for process in (names, growth):
            self.assertIn(os.path.basename(process["program"]), text)
        self.assertIn("4 processes" if len({one["pid"] for one in processes}) == 4 else "3 processes", text)

    def test_rows(self):
        """Rows of all recordings are the sums of the rows with that name, and of their programs."""
        traces = self.record_tree()
        for key in ("site", "function", "line", "module"):
            def rows(*words):
                return self.report_of(*words, "--by", key, "--top", "0")["rows"]

            def name(row):
                return tuple(row[part] for part in ("name", "file", "line", "module"))
            expected = collections.defaultdict(collections.Counter)
            by_program = collections.defaultdict(collections.Counter)
            for trace in traces:
                program = os.path.basename(self.report_of(trace)["program"])
                for row in rows(trace):
                    for part in ("self", "total"):
                        for figure, value in row[part].items():
                            expected[name(row)][part, figure] += value
                    by_program[name(row)][program] += row["self"]["allocations"]
            found = rows(self.folder)
            self.assertEqual({name(row) for row in found}, set(expected))
            self.assertGreater(len(found), 5)
            for row in found:
                with self.subTest(key=key, name=name(row)):
                    values = {(part, figure): value for part in ("self", "total") for figure, value in row[part].items()}
                    self.assertEqual(values, dict(expected[name(row)]))
                    self.assertEqual({one["program"]: one["self"]["allocations"] for one in row["programs"]
                                      if one["self"]["allocations"]},
                                     {program: count for program, count in by_program[name(row)].items() if count})

    def test_selections(self):
        traces = self.record_tree()
        together = self.report_of(self.folder, "--min-size", "1000")
        self.assertEqual(sum(row["self"]["allocations"] for row in together["rows"]),
                         sum(self.report_of(trace, "--by", "site", "--min-size", "1000")["total"]["allocations"]
                             for trace in traces))
        # What no recording but one has is no reason for messages.
        done = self.run_heapprof("report", self.folder, "--module", "ledger_growth")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_what_cannot_be_read_is_named(self):
        traces = self.record_tree()
        whole = self.report_of(self.folder)
        # A truncated copy of a recording that is there as a whole.
        (self.folder / "a-copy.heapprof").write_bytes(traces[0].read_bytes()[:4096])
        done = self.run_heapprof("report", self.folder, "--json")
        self.assertIn(f"a-copy.heapprof: is a copy of {traces[0]}", done.stderr)
        self.assertEqual((done.returncode, json.loads(done.stdout)["heap"]), (0, whole["heap"]))
        (self.folder / "cut.heapprof").write_bytes(traces[0].read_bytes()[:2000])
        done = self.run_heapprof("report", self.folder, "--json")
        report = json.loads(done.stdout)
        self.assertIn("cut.heapprof", done.stderr)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(report["heap"], whole["heap"])

    def test_refusals(self):
        traces = self.record_tree()
        for words, text in ((("--survivors", "end"), "one recording"), (("--by", "thread"), "one recording"),
                            (("--by", "site", "--columns", "over-time"), "one recording")):
            done = self.run_heapprof("report", self.folder, *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(text, done.stderr)
        empty = self.dir / "empty"
        empty.mkdir()
        done = self.run_heapprof("report", empty)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no recording", done.stderr)
        done = self.run_heapprof("report", traces[0], self.dir / "missing")
        self.assertEqual(done.returncode, 1)
        self.assertIn("missing", done.stderr)
        # A directory without a slash, where a file is expected.
        done = self.run_heapprof("record", "-o", self.folder, "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"-o {self.folder}/", done.stderr)

    def test_one_file_is_an_ordinary_report(self):
        traces = self.record_tree()
        alone = self.dir / "alone"
        alone.mkdir()
        shutil.copy(traces[0], alone)
        self.assertNotIn("processes", self.report_of(traces[0]))
        self.assertEqual(len(self.report_of(alone)["processes"]), 1)


if __name__ == "__main__":
    harness.main()
