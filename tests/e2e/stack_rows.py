"""Rows of `export rows --per-stack` add up to the report and to the ledger, and those of two builds on two hosts merge by
their hashes; labels are recorded, replaced and refused; what cannot be read is named, and does not stop the others."""

import csv
import json
import os
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import harness

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "1.0.hprof"
# report --json has the figures of all rows together.
FIGURES = ("peak_bytes", "peak_blocks", "leaked_bytes", "leaked_blocks", "allocated_bytes", "allocations",
           "temporary_allocations")
SERVICE = """
#include <stdlib.h>
void* volatile last;
__attribute__((noinline)) void* load(size_t bytes) { return last = malloc(bytes); }
__attribute__((noinline)) void* walk(int depth) { return depth == 0 ? load(40) : (last = walk(depth - 1)); }
int main(int count, char** arguments) {
  for (int i = 0; i < atoi(arguments[1]); ++i) load(100);
#ifdef NEW
  for (int i = 0; i < 5; ++i) walk(3);
#else
  for (int i = 0; i < 5; ++i) walk(7);
#endif
  return count == 0;
}
"""


class StackRows(harness.Case):
    def rows(self, *arguments, status=0):
        output = self.heapprof("export", "rows", "--per-stack", *arguments, "-o", "-", status=status)
        return [json.loads(line) for line in output.splitlines()]

    def sums(self, rows):
        return {figure: sum(row[figure] for row in rows) for figure in FIGURES}

    def test_sums_are_those_of_the_report_and_of_the_ledger(self):
        run = self.record_once(harness.program("ledger_single"), 2000)
        heap = self.report(run.trace)["heap"]
        rows = self.rows(run.trace)
        self.assertEqual(self.sums(rows), {figure: heap[figure] for figure in FIGURES})
        by_site = defaultdict(lambda: [0, 0, 0])
        for row in rows:
            self.assertEqual((row["kind"], row["host"], row["program"]), ("stack", os.uname().nodename, harness.program("ledger_single")))
            for frame in row["frames"]:
                if frame.startswith("site_"):
                    for i, figure in enumerate(("allocations", "allocated_bytes", "leaked_bytes")):
                        by_site[harness.base_site(frame)][i] += row[figure]
        expected = {site: [cost.allocations, cost.allocated_bytes, cost.leaked_bytes]
                    for site, cost in run.ledger().figures().sites.items() if cost.allocations}
        self.assertEqual(by_site, expected)
        self.assertEqual(len({row["stack_hash"] for row in rows}), len(rows))
        largest = max(rows, key=lambda row: row["allocated_bytes"])["stack_hash"]
        for top in (1, 3):
            cut = self.rows(run.trace, "--top", top)
            self.assertEqual(self.sums(cut), self.sums(rows))
            self.assertEqual([row["kind"] for row in cut].count("rest"), 1)
            self.assertLessEqual(len(cut), 3 * top + 1)
            self.assertIn(largest, {row["stack_hash"] for row in cut})
            self.assertEqual(sum(row["stacks"] for row in cut), sum(row["stacks"] for row in rows))

    def test_csv_has_the_same_rows(self):
        run = self.record_once(harness.program("ledger_names"), LABELS="note=a%2C%22b%22%0Ac")
        rows = self.rows(run.trace)
        self.heapprof("export", "rows", "--per-stack", run.trace, "-o", self.dir / "rows.csv")
        with open(self.dir / "rows.csv", newline="") as file:
            from_csv = list(csv.DictReader(file))
        self.assertGreater(len(rows), 3)
        self.assertEqual(len(from_csv), len(rows))
        for text, row in zip(from_csv, rows):
            self.assertEqual(text.keys(), row.keys())
            for key, value in row.items():
                if key == "exported_realtime_ns":
                    continue
                found = text[key] if isinstance(value, str) else json.loads(text[key] or "null")
                self.assertEqual(found, value, key)

    def test_rows_of_two_builds_on_two_hosts_merge_by_hash(self):
        (self.dir / "old.c").write_text(SERVICE)
        (self.dir / "new.c").write_text("\n" * 30 + SERVICE)
        runs = {}
        for build, host, count in (("old", "a", 3), ("new", "b", 4)):
            # Without optimisation, so that recursion is recursion.
            subprocess.run(["cc", "-O0", "-g", f"-D{build.upper()}", "-o", self.dir / build, self.dir / f"{build}.c"], check=True)
            runs[build] = self.record(self.dir / build, count, how="record", options=("--label", f"host={host}")).trace
        folder = self.dir / "fleet"
        folder.mkdir()
        for trace in runs.values():
            shutil.move(trace, folder)
        rows = self.rows(folder)
        self.assertEqual(len({row["build_id"] for row in rows}), 2)
        self.assertEqual(len({row["recording"] for row in rows}), 2)
        merged, hosts = defaultdict(int), defaultdict(set)
        for row in rows:
            own = tuple(frame for frame in row["frames"] if frame in ("load", "walk", "main"))
            merged[row["stack_hash"], own] += row["leaked_bytes"]
            hosts[row["stack_hash"]].add(row["host"])
        # However deep the recursion was.
        self.assertEqual({own: value for (_, own), value in merged.items() if own},
                         {("load", "main"): 700, ("load", "walk", "main"): 400})
        self.assertEqual(len([one for one in hosts.values() if one == {"a", "b"}]), 2)

    def test_labels(self):
        run = self.record(harness.program("hello"), how="record", LABELS="env=test,zone=z1",
                          options=("--label", "env=prod", "--label", 'note="a, b" = 100%', "--label", "name=Köln"))
        labels = {"env": "prod", "zone": "z1", "note": '"a, b" = 100%', "name": "Köln"}
        compacted = self.dir / "compacted.heapprof"
        self.heapprof("compact", run.trace, "-o", compacted)
        for trace in (run.trace, compacted):
            self.assertEqual(json.loads(self.heapprof("info", trace, "--json"))["labels"], labels)
            self.assertIn('env=prod, name=Köln, note="a, b" = 100%, zone=z1', self.heapprof("info", trace))
            self.assertEqual(self.rows(trace)[0]["labels"], labels)
        row = self.rows(run.trace, "--label", "zone=z2", "--label", "host=h", "--label", "program=p", "--label", "more=")[0]
        self.assertEqual(row["labels"], {**labels, "zone": "z2", "host": "h", "program": "p", "more": ""})
        self.assertEqual((row["host"], row["program"]), ("h", "p"))
        # What the recorder cannot store is no label, and the program runs.
        run = self.record(harness.program("hello"), LABELS="a b=c")
        self.assertIn("HEAPPROF_LABELS: invalid value 'a b=c'; expected KEY=VALUE", run.stderr)
        self.assertEqual(json.loads(self.heapprof("info", run.trace, "--json"))["labels"], {})
        for options, words in ((("--label", "a"), "KEY=VALUE"), (("--label", "a=x\ny"), "control characters"),
                               (("--label", b"a=\xff"), "UTF-8"), (("--label", "a=" + "x" * 2000), "2002 bytes of at most 1024")):
            result = subprocess.run([harness.HEAPPROF, "record", *options, "--", "touch", self.dir / "ran"],
                                    capture_output=True, text=True, cwd=self.dir, env=harness.analyzer_environment())
            self.assertEqual(result.returncode, 2)
            self.assertIn(words, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1)
            self.assertFalse((self.dir / "ran").exists())

    def test_folder_with_recordings_that_differ(self):
        folder = self.dir / "fleet"
        folder.mkdir()
        shutil.copy(GOLDEN, folder / "old.hprof")
        (folder / "notes.heapprof").write_text("this is no recording\n")
        run = self.record(harness.program("ledger_single"), 3000, LABELS="host=whole")
        shutil.copy(run.trace, folder / "whole.heapprof")
        damaged = bytearray(self.record(harness.program("ledger_single"), 3000, LABELS="host=damaged").trace.read_bytes())
        for at in range(len(damaged) // 3, len(damaged) * 2 // 3):
            damaged[at] ^= 0x5a
        (folder / "damaged.heapprof").write_bytes(damaged)
        process = self.start_steady(folder / "growing.heapprof", 1, HEAPPROF_LABELS="host=growing")
        self.steady_rounds(process)
        result = self.run_heapprof("export", "rows", "--per-stack", folder, "-o", "-")
        process.kill()
        self.assertEqual(result.returncode, 1)
        self.assertIn("notes.heapprof", result.stderr)
        self.assertIn("damaged.heapprof", result.stderr)
        by_host = defaultdict(list)
        for line in result.stdout.splitlines():
            row = json.loads(line)
            by_host[row["host"]].append(row)
        self.assertEqual(by_host.keys(), {"golden", "whole", "damaged", "growing"})
        self.assertEqual({host: (rows[0]["complete"], rows[0]["ended_by"]) for host, rows in by_host.items()},
                         {"golden": (True, "exit"), "whole": (True, "exit"), "damaged": (False, "exit"), "growing": (True, "running")})
        self.assertEqual(by_host["golden"][0]["labels"], {})
        heap = self.report(run.trace)["heap"]
        self.assertEqual(self.sums(by_host["whole"]), {figure: heap[figure] for figure in FIGURES})
        only_bad = self.dir / "bad"
        only_bad.mkdir()
        shutil.copy(folder / "notes.heapprof", only_bad)
        result = self.run_heapprof("export", "rows", "--per-stack", only_bad, "-o", self.dir / "none.ndjson")
        self.assertEqual((result.returncode, (self.dir / "none.ndjson").exists()), (1, False))


if __name__ == "__main__":
    harness.main()
