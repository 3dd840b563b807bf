"""The queries of docs/query.md give the figures of the other commands; SQL that is wrong or would write is refused; the
database of `export sqlite` has the same rows; damaged, growing and hostile recordings are read."""

import collections
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
from pathlib import Path

import harness

SOURCE = Path(__file__).resolve().parents[2]


def page_queries():
    """{heading: SQL} of docs/query.md."""
    page = (SOURCE / "docs/query.md").read_text()
    return dict(re.findall(r"^### ([^\n]*)\n\n```sql\n(.*?)```", page, re.M | re.S))


MARKS = """
#include <stdlib.h>
#include "preload/heapprof.h"
int main(void) {
  void* kept[40];
  for (int i = 0; i < 30; ++i) kept[i] = malloc(1000 + i);
  heapprof_mark("loaded");
  for (int i = 0; i < 20; ++i) free(kept[i]);
  for (int i = 30; i < 40; ++i) kept[i] = malloc(50);
  heapprof_mark("served");
  return kept[39] == kept[0];
}
"""


class Query(harness.Case):
    def query(self, trace, sql, *options):
        """The rows, as dictionaries."""
        answer = json.loads(self.heapprof("query", trace, sql, "--json", *options))
        return [dict(zip(answer["columns"], row)) for row in answer["rows"]]

    def json_of(self, command, *arguments):
        """Of a recording that has ended, as report_of()."""
        return json.loads(self.call_once(self.heapprof, command, *arguments, "--json"))

    def report_of(self, trace, *options):
        return self.call_once(self.report, trace, *options)

    def threads_trace(self):
        return self.record_once(harness.program("ledger_threads"), 500, 7, 3, 1).trace

    # ---- the page: a check for each query, by its heading ------------------------------------------------

    def expect_totals_of_a_recording(self, trace, rows):
        heap = self.report_of(trace)["heap"]
        self.assertEqual(rows, [{key: heap[key] for key in rows[0]}])

    def rows_by(self, trace, by, figure):
        return [row for row in self.json_of("report", trace, "--by", by)["rows"] if row["self"][figure]]

    def expect_call_sites_with_the_most_memory_at_the_peak(self, trace, rows):
        expected = sorted((row["name"], row["file"], row["line"], row["self"]["peak_bytes"], row["self"]["peak_blocks"])
                          for row in self.rows_by(trace, "site", "peak_bytes"))
        self.assertEqual(sorted(tuple(row.values()) for row in rows), expected)
        self.assertEqual([row["peak_bytes"] for row in rows], sorted((row[3] for row in expected), reverse=True))

    def expect_stacks_that_leak_most(self, trace, rows):
        self.assertEqual(sorted(tuple(row.values()) for row in rows),
                         sorted((row["name"], row["self"]["leaked_bytes"], row["self"]["leaked_blocks"])
                                for row in self.rows_by(trace, "stack", "leaked_bytes")))

    def expect_memory_that_was_allocated_below_a_function(self, trace, rows):
        heap = self.report_of(trace, "--function", "^main$")["heap"]
        self.assertEqual(rows, [{"allocations": heap["allocations"], "bytes": heap["allocated_bytes"]}])

    def expect_the_frames_of_the_largest_stack(self, trace, rows):
        largest = max(self.all_stacks(trace, "allocated"), key=lambda stack: stack["bytes"])
        self.assertEqual([(row["file"], row["line"]) for row in rows],
                         [(frame["file"], frame["line"]) for frame in largest["stack"]])
        for row, frame in zip(rows, largest["stack"]):
            if frame["function"]:
                self.assertEqual(row["name"], frame["function"])

    def grouped(self, trace, key, figure):
        sums = collections.Counter()
        for row in self.json_of("report", trace, "--by", "site")["rows"]:
            sums[row[key]] += row["self"][figure]
        return {name: value for name, value in sums.items() if value}

    def expect_leaks_by_origin_of_the_code(self, trace, rows):
        self.assertEqual({row["origin"]: row["bytes"] for row in rows if row["bytes"]},
                         self.grouped(trace, "origin", "leaked_bytes"))

    def expect_what_was_allocated_by_the_modules_of_the_call_sites(self, trace, rows):
        self.assertEqual({row["module"]: row["bytes"] for row in rows if row["bytes"]},
                         self.grouped(trace, "module", "allocated_bytes"))

    def expect_sites_of_which_nearly_nothing_is_freed(self, trace, rows):
        expected = [row for row in self.rows_by(trace, "site", "allocated_bytes")
                    if row["self"]["leaked_bytes"] > 0.9 * row["self"]["allocated_bytes"]]
        self.assertEqual(sorted((row["name"], row["allocated_bytes"]) for row in rows),
                         sorted((row["name"], row["self"]["allocated_bytes"]) for row in expected))

    def expect_what_each_thread_allocates_and_leaks(self, trace, rows):
        expected = {row["tid"]: row["self"] for row in self.json_of("report", trace, "--by", "thread")["rows"]}
        self.assertGreaterEqual(len(expected), 3)
        for row in rows:
            for figure in ("allocations", "allocated_bytes", "leaked_bytes"):
                self.assertEqual(row[figure], expected[row["tid"]][figure] if row["tid"] in expected else 0)

    def expect_the_most_frequent_sizes(self, trace, rows):
        known = {one["size"]: one["allocations"] for one in self.json_of("histogram", trace)["common_sizes"]}
        found = {row["size_bytes"]: row["allocations"] for row in rows}
        self.assertEqual({size: found.get(size) for size in known}, known)
        self.assertEqual(sum(found.values()), self.report_of(trace)["heap"]["allocations"])

    def expect_blocks_that_live_for_less_than_a_millisecond(self, trace, rows):
        total = self.json_of("churn", trace)["total"]
        self.assertEqual(rows, [{"blocks": total["short_lived"], "bytes": total["short_lived_bytes"]}])

    def expect_short_lived_blocks_by_call_site(self, trace, rows):
        total = self.json_of("churn", trace)["total"]
        self.assertEqual(sum(row["blocks"] for row in rows), total["short_lived"])
        self.assertEqual(sum(row["bytes"] for row in rows), total["short_lived_bytes"])

    def expect_blocks_that_another_thread_freed(self, trace, rows):
        threads = self.json_of("threads", trace, "--top", 0)
        tids = [thread["tid"] for thread in threads["threads"]]
        expected = {(tids[pair["allocated_by"]], tids[pair["freed_by"]]): (pair["blocks"], pair["bytes"])
                    for pair in threads["pairs"] if pair["allocated_by"] != pair["freed_by"]}
        self.assertTrue(expected)
        self.assertEqual({(row["allocated_by"], row["freed_by"]): (row["blocks"], row["bytes"]) for row in rows}, expected)

    def expect_temporary_allocations(self, trace, rows):
        self.assertEqual(rows, [{"allocations": self.report_of(trace)["heap"]["temporary_allocations"]}])

    def expect_what_was_allocated_in_a_part_of_the_time(self, trace, rows):
        duration = self.report_of(trace)["duration_ns"]
        heap = self.report_of(trace, "--from", f"{duration // 4}ns", "--to", f"{duration // 2}ns")["heap"]
        self.assertEqual((rows[0]["allocations"], rows[0]["bytes"] or 0), (heap["allocations"], heap["allocated_bytes"]))

    def expect_the_largest_blocks_that_were_never_freed(self, trace, rows):
        blocks = self.json_of("blocks", trace, "--top", 10)["blocks"]
        self.assertEqual([(row["size_bytes"], row["allocated_ns"], row["age_ns"], row["thread_id"]) for row in rows],
                         [(one["size_bytes"], one["allocated_ns"], one["age_ns"], one["thread"]) for one in blocks])

    def expect_what_is_live_at_the_peak_by_thread(self, trace, rows):
        heap = self.report_of(trace)["heap"]
        self.assertEqual(sum(row["bytes"] for row in rows), heap["peak_bytes"])
        self.assertEqual(sum(row["blocks"] for row in rows), heap["peak_blocks"])
        by_thread = {row["tid"]: row["self"]["peak_bytes"] for row in self.json_of("report", trace, "--by", "thread")["rows"]}
        self.assertEqual({row["tid"]: row["bytes"] for row in rows if row["bytes"]},
                         {tid: size for tid, size in by_thread.items() if size})

    def expect_what_grew_between_two_moments(self, trace, rows):
        top = self.json_of("diff", f"{trace}@25%", f"{trace}@75%", "--top", 0)["top"]
        self.assertEqual(sorted(row["growth_bytes"] for row in rows),
                         sorted(stack["bytes"] for stack in top if stack["bytes"] > 0))

    def expect_live_memory_at_each_mark(self, trace, rows):
        expected = []
        for mark in self.json_of("info", trace)["marks"]:
            total = self.json_of("blocks", trace, "--live-at", "mark:" + mark["text"])["total"]
            expected.append({"text": mark["text"], "blocks": total["blocks"], "bytes": total["bytes"]})
        self.assertEqual([row["text"] for row in rows], ["loaded", "served"])
        self.assertEqual(rows, expected)

    def expect_live_memory_over_time(self, trace, rows):
        samples = self.json_of("timeline", trace)["samples"]
        self.assertEqual({key: [row[key] for row in rows] for key in ("time_ns", "live_bytes", "highest_bytes")},
                         {key: samples[key] for key in ("time_ns", "live_bytes", "highest_bytes")})

    def expect_the_highest_resident_memory(self, trace, rows):
        self.assertEqual(rows, [{"rss_bytes": self.report_of(trace)["peak_rss_bytes"]}])

    def expect_mappings_that_are_left_by_stack(self, trace, rows):
        live = self.report_of(trace)["mmap"]["live_bytes"]
        self.assertGreater(live, 0)
        self.assertEqual(sum(row["bytes"] for row in rows), live)

    def expect_the_tree_of_processes(self, folder, rows):
        processes = self.json_of("report", folder)["processes"]
        self.assertGreaterEqual(len(processes), 2)
        expected = []
        for one in processes:
            parent = None if one["from"] is None else processes[one["from"]]["pid"]
            expected.append({"pid": one["pid"], "program": one["program"], "started_by": parent,
                             "peak_bytes": one["peak_bytes"], "leaked_bytes": one["leaked_bytes"]})
        self.assertEqual(rows, expected)

    def test_page(self):
        queries = page_queries()
        self.assertGreaterEqual(len(queries), 20)
        (self.dir / "marks.c").write_text(MARKS)
        subprocess.run(["cc", "-O0", "-g", "-I", SOURCE, "-o", self.dir / "marks", self.dir / "marks.c"],
                       check=True)
        marks = self.record(self.dir / "marks").trace
        mapped = self.record(harness.program("ledger_mmap")).trace
        folder = self.dir / "tree"
        self.run_heapprof("record", "--children", "-o", f"{folder}/", "--", "sh", "-c",
                          f"{harness.program('ledger_names')}; true")
        others = {"Live memory at each mark": marks, "Mappings that are left, by stack": mapped,
                  "The tree of processes": folder}
        for heading, sql in queries.items():
            with self.subTest(heading):
                trace = others.get(heading, self.threads_trace())
                check = getattr(self, "expect_" + re.sub(r"\W+", "_", heading.lower()))
                check(trace, self.query(trace, sql))

    # ---- the tables --------------------------------------------------------------------------------------

    def test_blocks_at_random_moments_and_slices(self):
        random = harness.random_generator("query")
        trace = self.threads_trace()
        rows = self.query(trace, "SELECT allocated_ns, freed_ns, size_bytes, address, thread_id, stack_id FROM allocations")
        short = self.query(trace, "SELECT allocated_ns, size_bytes, address FROM allocations")
        keys = ("allocated_ns", "size_bytes", "address")
        self.assertEqual(sorted(tuple(row[key] for key in keys) for row in rows),
                         sorted(tuple(row[key] for key in keys) for row in short))
        self.assertEqual([row["allocated_ns"] for row in short], sorted(row["allocated_ns"] for row in short))
        for _ in range(3):
            at = random.choice(rows)["allocated_ns"]
            blocks = self.json_of("blocks", trace, "--live-at", f"{at}ns")["blocks"]
            found = self.query(trace, f"SELECT address, size_bytes FROM live_blocks({at})")
            self.assertEqual(sorted((row["address"], row["size_bytes"]) for row in found),
                             sorted((one["address"], one["size_bytes"]) for one in blocks))
            # Constraints are only a shorter way to the same rows.
            low, high = sorted(row["allocated_ns"] for row in random.sample(rows, 2))
            one = random.choice(rows)
            for where, keep in (
                    (f"allocated_ns BETWEEN {low} AND {high}", lambda row: low <= row["allocated_ns"] <= high),
                    (f"allocated_ns > {low} AND lifetime_ns < 100000",
                     lambda row: row["allocated_ns"] > low and row["freed_ns"] is not None
                     and row["freed_ns"] - row["allocated_ns"] < 100000),
                    (f"size_bytes = {one['size_bytes']}", lambda row: row["size_bytes"] == one["size_bytes"]),
                    (f"stack_id IN ({one['stack_id']}, -1, NULL)", lambda row: row["stack_id"] == one["stack_id"]),
                    (f"allocated_ns < {low} OR allocated_ns > {high}",
                     lambda row: row["allocated_ns"] < low or row["allocated_ns"] > high),
                    (f"(size_bytes = {one['size_bytes']} AND allocated_ns > {low}) OR stack_id = {one['stack_id']}",
                     lambda row: (row["size_bytes"] == one["size_bytes"] and row["allocated_ns"] > low)
                     or row["stack_id"] == one["stack_id"]),
                    (f"thread_id <> {one['thread_id']}", lambda row: row["thread_id"] != one["thread_id"]),
                    ("freed_ns IS NULL AND kind = 'HEAP' COLLATE NOCASE", lambda row: row["freed_ns"] is None),
                    ("kind = 'mmap'", lambda row: False), ("process_id = 2", lambda row: False)):
                with self.subTest(where):
                    sums = self.query(trace, "SELECT count(*) AS n, total(size_bytes) AS s, total(freed_ns) AS f "
                                             "FROM allocations WHERE " + where)[0]
                    kept = [row for row in rows if keep(row)]
                    self.assertEqual((sums["n"], sums["s"], sums["f"]),
                                     (len(kept), sum(row["size_bytes"] for row in kept),
                                      sum(row["freed_ns"] or 0 for row in kept)))

    def test_alternatives_and_outer_joins(self):
        """SQLite recognizes rows by their numbers, then: the same as without these tables (sqlite3 of Python)."""
        trace = self.threads_trace()
        database = sqlite3.connect(":memory:")
        for table in ("stacks", "frames", "live_blocks", "threads"):
            rows = self.query(trace, f"SELECT * FROM {table}")
            names = list(rows[0])
            database.execute(f"CREATE TABLE {table} ({', '.join(names)})")
            database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})",
                                 ([row[name] for name in names] for row in rows))
        one, other, *_ = (row["stack_id"] for row in self.query(trace, "SELECT stack_id FROM stacks"))
        for sql in (
                f"SELECT * FROM stacks WHERE (stack_id = {one} AND peak_bytes >= 0) OR (stack_id = {other} AND "
                f"peak_blocks >= 0) ORDER BY stack_id",
                f"SELECT name, stack_id FROM frames WHERE (stack_id = {one} AND position = 0) OR (stack_id = {other} AND "
                f"position = 0) OR (stack_id = {one} AND position < 2) ORDER BY stack_id, position",
                f"SELECT count(*) AS n, sum(size_bytes) AS bytes FROM live_blocks WHERE (stack_id = {one} AND size_bytes "
                f"> 8) OR (thread_id = 0 AND size_bytes > 4) OR (address > 0 AND stack_id = {other})",
                f"SELECT s.stack_id, count(size_bytes) AS n FROM live_blocks RIGHT JOIN stacks s USING (stack_id) GROUP "
                f"BY 1 ORDER BY 1",
                f"SELECT t.thread_id, count(b.address) AS n FROM (SELECT * FROM live_blocks WHERE stack_id = {one}) b "
                f"FULL JOIN threads t ON b.thread_id = t.thread_id GROUP BY 1 ORDER BY 1"):
            with self.subTest(sql):
                expected = database.execute(sql)
                names = [column[0] for column in expected.description]
                self.assertEqual(self.query(trace, sql), [dict(zip(names, row)) for row in expected])
        result = self.run_heapprof("query", trace, "SELECT count(*) FROM stacks RIGHT JOIN allocations USING (stack_id)")
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn("allocations has no rowid", result.stderr)

    def test_selections(self):
        trace = self.threads_trace()
        # The program does nothing for most of the time.
        times = [row["allocated_ns"] for row in self.query(trace, "SELECT allocated_ns FROM allocations")]
        first, middle, last = (f"{times[len(times) * i // 4]}ns" for i in (1, 2, 3))
        for selection in (("--from", first, "--to", last), ("--min-size", 100), ("--live-at", middle),
                          ("--not-function", "^site_c"), ("--max-lifetime", "1ms")):
            with self.subTest(selection):
                total = self.json_of("report", trace, "--by", "site", *selection)["total"]
                for table in ("stacks", "call_sites"):
                    sums = ", ".join(f"sum({key}) AS {key}" for key in total)
                    self.assertEqual(self.query(trace, f"SELECT {sums} FROM {table}", *selection), [total])
                self.assertEqual(self.query(trace, "SELECT count(*) AS n, sum(size_bytes) AS bytes, count(freed_ns) "
                                                   "AS freed FROM allocations", *selection),
                                 [{"n": total["allocations"], "bytes": total["allocated_bytes"],
                                   "freed": total["allocations"] - total["leaked_blocks"]}])
                self.assertEqual(self.query(trace, "SELECT count(*) AS n FROM allocations", *selection),
                                 [{"n": total["allocations"]}])

    def test_mappings_as_allocations(self):
        trace = self.record(harness.program("ledger_mmap")).trace
        mmap = self.report_of(trace)["mmap"]
        for columns in ("", ", count(freed_ns) AS freed"):
            rows = self.query(trace, f"SELECT count(*) AS n, sum(size_bytes) AS bytes{columns} FROM allocations",
                              "--kind", "mmap")
            self.assertEqual((rows[0]["n"], rows[0]["bytes"]), (mmap["mappings"], mmap["mapped_bytes"]))
        total = self.json_of("blocks", trace, "--kind", "all")["total"]
        self.assertEqual(self.query(trace, "SELECT sum(size_bytes) AS bytes, count(*) AS blocks FROM live_blocks",
                                    "--kind", "all"), [total])

    def test_labels(self):
        labels = {"env": "prod", "note": 'a, "b" = 100%', "zone": "Köln"}
        given = [word for key, value in labels.items() for word in ("--label", f"{key}={value}")]
        directory = self.dir / "labels"
        directory.mkdir()
        for options in (given, ()):
            shutil.move(self.record(harness.program("hello"), how="record", options=options).trace, directory)
        self.assertEqual(self.query(directory, "SELECT key, value FROM labels ORDER BY key"),
                         [{"key": key, "value": value} for key, value in sorted(labels.items())])
        self.assertEqual(self.query(directory, "SELECT count(*) AS processes, sum(process_id IN (SELECT process_id FROM "
                                    "labels WHERE key = 'env' AND value = 'prod')) AS in_prod FROM processes"),
                         [{"processes": 2, "in_prod": 1}])

    def test_residency(self):
        trace = self.threads_trace()
        snapshots = self.json_of("rss", trace)["snapshots"]
        rows = self.query(trace, "SELECT snapshot_id AS number, time_ns AS begin_ns FROM residency GROUP BY snapshot_id")
        self.assertEqual(rows, [{key: one[key] for key in ("number", "begin_ns")} for one in snapshots])

    # ---- refusals ----------------------------------------------------------------------------------------

    def test_refused(self):
        trace = self.threads_trace()
        for sql, words in (
                ("SELECT peek_bytes FROM stacks", ("no such column: peek_bytes", "did you mean 'peak_bytes'?", "^",
                                                   "columns of stacks: process_id, stack_id")),
                ("SELECT * FROM stack", ("no such table: stack", "did you mean 'stacks'?", "live_blocks")),
                ("SELECT 1 FROM stacks WHERE", ("incomplete input",)), ("SELEC 1", ('near "SELEC": syntax error',)),
                ("DELETE FROM stacks", ("may not be modified",)), ("CREATE TABLE x (a)", ("a change of the tables is refused",)),
                ("ATTACH 'x.db' AS x", ("ATTACH is refused",)), ("PRAGMA journal_mode = wal", ("PRAGMA", "refused")),
                ("SELECT load_extension('x')", ("refused",)), ("VACUUM INTO 'x.db'", ("refused",)),
                ("BEGIN IMMEDIATE", ("refused",)), ("SELECT 1; SELECT 2", ("more than one statement",)),
                (" -- nothing", ("no statement",)), ("SELECT * FROM live_blocks('12 parsecs')", ("12 parsecs",)),
                ("SELECT * FROM live_blocks(1.5)", ("whole number of nanoseconds",)),
                ("SELECT * FROM live_blocks(9000000000000000)", ("is after",))):
            with self.subTest(sql):
                before = set(os.listdir(self.dir))
                done = self.run_heapprof("query", trace, sql, "-o", self.dir / "out.csv")
                self.assertEqual(done.returncode, 2, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)
                self.assertEqual(set(os.listdir(self.dir)), before)
        for arguments, word in (((trace, "SELECT 1", "--csv", "--json"), "exclude each other"),
                                (("SELECT 1",), "missing argument TRACE"),
                                ((trace, "SELECT 1", "--temp-dir", trace), "a directory"),
                                ((trace, "SELECT 1", trace), "give the SQL last")):
            done = self.run_heapprof("query", *arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)
        self.assertEqual(self.run_heapprof("query", self.dir / "absent", "SELECT 1").returncode, 1)
        done = self.run_heapprof("query", trace, "SELECT 1", "-o", trace)
        self.assertIn("is the trace itself", done.stderr)

    def test_schema_and_formats(self):
        trace = self.threads_trace()
        text = self.heapprof("query", trace)
        self.assertEqual(text, self.heapprof("query", "--schema"))
        for word in ("call_sites\n", "  lifetime_ns ", "(at)"):
            self.assertIn(word, text)
        # The term of docs/glossary.md, in allocations and live_blocks.
        self.assertEqual((text.count("requested size"), text.count("asked for")), (2, 0))
        tables = {one["name"]: one for one in json.loads(self.heapprof("query", "--schema", "--json"))["tables"]}
        self.assertEqual(set(tables), {"processes", "labels", "threads", "modules", "frames", "stacks", "call_sites", "allocations",
                                       "live_blocks", "samples", "timeline", "marks", "mappings", "residency"})
        sql = "SELECT NULL AS a, 1 AS b, 1.5 AS c, 'x,\"y' || char(27) AS d, x'00ff' AS e"
        self.assertEqual(self.heapprof("query", trace, sql, "--csv"), 'a,b,c,d,e\n,1,1.5,"x,""y\ufffd",X\'00ff\'\n')
        self.assertEqual(self.heapprof("query", trace, sql, "--table"),
                         "a  b    c  d      e\n   1  1.5  x,\"y\ufffd  X'00ff'\n")
        self.assertEqual(json.loads(self.heapprof("query", trace, sql, "--json"))["rows"],
                         [[None, 1, 1.5, 'x,"y\x1b', "X'00ff'"]])

    # ---- other recordings --------------------------------------------------------------------------------

    def test_database(self):
        trace = self.threads_trace()
        path = self.dir / "run.db"
        self.heapprof("export", "sqlite", trace, "-o", path, "--events")
        database = sqlite3.connect(path)
        for table in ("processes", "labels", "threads", "modules", "stacks", "call_sites", "frames", "timeline", "marks",
                      "samples", "residency", "mappings", "live_blocks", "allocations"):
            with self.subTest(table):
                cursor = database.execute(f"SELECT * FROM {table}")
                found = [dict(zip([column[0] for column in cursor.description], row)) for row in cursor]
                expected = self.query(trace, f"SELECT * FROM {table}")
                order = lambda row: json.dumps(row, sort_keys=True)  # noqa: E731
                self.assertEqual(sorted(found, key=order), sorted(expected, key=order))
        self.heapprof("export", "sqlite", trace, "-o", path)  # replaces it
        names = {row[0] for row in sqlite3.connect(path).execute("SELECT name FROM sqlite_master")}
        self.assertNotIn("allocations", names)
        self.assertEqual(sorted(os.listdir(self.dir)), ["run.db"])
        self.assertEqual(self.run_heapprof("export", "sqlite", trace, "-o", trace).returncode, 1)
        self.assertEqual(self.run_heapprof("export", "sqlite", trace, "-o", "-").returncode, 2)

    def test_several_recordings(self):
        folder = self.dir / "both"
        folder.mkdir()
        for name in ("ledger_names", "ledger_growth"):
            shutil.copy(self.record(harness.program(name)).trace, folder / f"{name}.heapprof")
        sums = collections.Counter()
        for trace in sorted(folder.iterdir()):
            sums[self.report_of(trace)["pid"]] = self.report_of(trace)["heap"]["allocations"]
        for table in ("stacks", "allocations"):
            value = "sum(s.allocations)" if table == "stacks" else "count(*)"
            rows = self.query(folder, f"SELECT pid, {value} AS n FROM {table} s JOIN processes USING (process_id) "
                                      "GROUP BY process_id")
            self.assertEqual({row["pid"]: row["n"] for row in rows}, dict(sums))
        rows = self.query(folder, "SELECT count(*) AS n, count(s.stack_id) AS known FROM allocations a LEFT JOIN stacks s "
                                  "USING (stack_id)")
        self.assertEqual(rows, [{"n": sum(sums.values()), "known": sum(sums.values())}])
        done = self.run_heapprof("query", folder, "SELECT 1 FROM stacks", "--from", "10%")
        self.assertEqual(done.returncode, 2)

    def test_damaged(self):
        trace = self.dir / "damaged.heapprof"
        data = bytearray(self.threads_trace().read_bytes())
        data[len(data) // 2:len(data) // 2 + 64] = bytes(64)
        trace.write_bytes(data)
        report = json.loads(self.heapprof("report", trace, "--json", status=(0, 1)))
        for sql, expected in (("SELECT sum(allocations) FROM stacks", report["heap"]["allocations"]),
                              ("SELECT count(*) FROM allocations", report["heap"]["allocations"]),
                              ("SELECT sum(size_bytes) FROM live_blocks", report["heap"]["leaked_bytes"])):
            done = self.run_heapprof("query", trace, sql, "--csv")
            self.assertEqual(done.returncode, 0 if report["integrity"]["complete"] else 1, done.stderr)
            self.assertEqual(int(done.stdout.split("\n")[1]), expected)

    def test_growing(self):
        trace = self.dir / "steady.heapprof"
        process = self.start_steady(trace, 2)
        self.steady_rounds(process, 3)
        rows = self.query(trace, "SELECT ended_by, allocations, leaked_blocks, (SELECT count(*) FROM allocations) AS all_rows, "
                                 "(SELECT count(*) FROM live_blocks) AS live, (SELECT count(*) FROM live_blocks('100%')) "
                                 "AS at_end, (SELECT sum(allocations) FROM stacks) AS of_stacks FROM processes")
        self.assertEqual(rows[0]["ended_by"], "running")
        self.assertGreater(rows[0]["allocations"], 0)
        self.assertEqual(rows[0]["all_rows"], rows[0]["allocations"])
        self.assertEqual(rows[0]["of_stacks"], rows[0]["allocations"])
        self.assertEqual((rows[0]["live"], rows[0]["at_end"]), (rows[0]["leaked_blocks"],) * 2)

    def test_interrupted_output(self):
        """A query that is ended while it writes rows leaves the file that its output would replace."""
        trace = self.record(harness.program("ledger_single"), 50, 1, 1).trace
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
        folder = self.dir / "interrupted"
        folder.mkdir()
        output = folder / "rows.csv"
        output.write_text("old")
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)):
            query = subprocess.Popen([harness.HEAPPROF, "query", trace, endless, "--csv", "-o", output],
                                     env=harness.analyzer_environment(), stderr=subprocess.DEVNULL)
            self.addCleanup(query.kill)
            harness.wait_until(lambda: sum(file.stat().st_size for file in folder.iterdir()) >= 100_000,
                               "the query writes no rows")
            query.send_signal(number)
            self.assertEqual(query.wait(60), status)
            self.assertEqual(output.read_text(), "old")
            if number == signal.SIGINT:
                self.assertEqual(list(folder.iterdir()), [output])

    def test_peak_of_a_growing_recording(self):
        """It is the peak of all blocks, also where only some are selected."""
        trace = self.dir / "commanded.heapprof"
        process = self.popen([harness.program("commanded")], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env=harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace))
        commands = "b" + 100 * "a" + 1000 * "f" + "b"
        process.stdin.write(commands)
        process.stdin.flush()
        self.assertEqual(process.stdout.read(len(commands)), len(commands) * ".")
        question = (trace, "SELECT count(*) AS blocks FROM live_blocks('peak')", "--function", "grow_second")
        growing = self.query(*question)
        process.stdin.close()
        process.wait()
        self.assertEqual(growing, [{"blocks": 5}])
        self.assertEqual(self.query(*question), growing)

    def test_hostile_names(self):
        source = self.dir / "nasty.c"
        source.write_text("#include <stdlib.h>\n__attribute__((noinline)) void* aaaaaaaaaaaa(void) { return malloc(77); }\n"
                          "int main(void) { return aaaaaaaaaaaa() == 0; }\n")
        subprocess.run(["cc", "-O0", "-g", "-o", self.dir / "nasty", source], check=True)
        image = (self.dir / "nasty").read_bytes()
        hostile = b"\x1b[31m';\"\xff,\n-"
        assert len(hostile) == 12
        (self.dir / "nasty").write_bytes(image.replace(b"aaaaaaaaaaaa", hostile))
        trace = self.record(self.dir / "nasty").trace
        for form in ("--csv", "--table", "--json"):
            out = self.heapprof("query", trace, "SELECT f.name, s.name FROM frames f JOIN stacks s USING (stack_id)",
                                form)
            self.assertIn("[31m';", out)
            self.assertNotIn("\x1b", out)
        self.heapprof("export", "sqlite", trace, "-o", self.dir / "o'dd name.db")
        self.assertTrue(sqlite3.connect(self.dir / "o'dd name.db").execute("SELECT count(*) FROM frames").fetchone()[0])


if __name__ == "__main__":
    harness.main()
