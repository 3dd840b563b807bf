"""DuckDB loads the rows as ndjson and csv; the totals by SQL equal the report's."""

import re
import sys
from collections import Counter
from pathlib import Path

import consumers
import harness
import nasty

sys.path.insert(0, str(consumers.FOLDER / "python"))
try:
    import duckdb
except ImportError:
    duckdb = None


class Database(consumers.Case):
    def table(self, trace, format_name, rows):
        file = self.export(format_name, trace, "--rows", rows, suffix=f".{rows}")
        reader = "read_json" if format_name == "ndjson" else "read_csv"
        options = (", maximum_object_size=100000000" if format_name == "ndjson"
                   else ", header=true, max_line_size=10000000")
        return f"{reader}('{file}'{options})"

    def query(self, query):
        return [int(value or 0) for value in duckdb.sql(query).fetchall()[0]]

    def test_totals(self):
        self.each_sample(self.check)

    def test_parquet(self):
        """The lines of docs/viewers.md, which make Parquet files of events and blocks."""
        trace = self.real()
        totals = self.totals(trace)
        page = (Path(__file__).resolve().parents[2] / "docs" / "viewers.md").read_text()
        lines = re.findall(r'^duckdb -c "(COPY .*)"$', page, re.M)
        self.assertEqual(len(lines), 2)
        self.export("csv", trace, "--rows", "events").rename(self.dir / "events.csv")
        self.export("ndjson", trace, "--rows", "blocks").rename(self.dir / "blocks.ndjson")
        for line in lines:
            duckdb.sql(re.sub(r"'(\w+\.\w+)'", rf"'{self.dir}/\1'", line))
        events, blocks = (f"'{self.dir}/{name}.parquet'" for name in ("events", "blocks"))
        self.assertEqual(self.query(f"select count(*), sum(size) from {events} where event = 'alloc'"),
                         [totals["allocations"], totals["allocated_bytes"]])
        self.assertEqual(self.query(f"select count(*), sum(size) from {blocks}"),
                         [totals["leaked_blocks"], totals["leaked_bytes"]])
        self.assertGreater(self.query(f"select count(*) from (select unnest(frames, recursive := true) from {blocks}) "
                                      f"where function = 'main' or function = '_start'")[0], 0)

    def test_selections(self):
        """The export accepts the selections that report accepts."""
        self.each_selection(self.check, of_mappings=False)
        for form in ("ndjson", "csv"):
            self.refuses_mappings(form)

    def check(self, name, trace):
        totals = self.totals(trace)
        for form in ("ndjson", "csv"):
            if totals["allocations"] == 0:
                text = self.export(form, trace, "--rows", "events").read_text()
                self.assertEqual(len(text.splitlines()), 1 if form == "csv" else 0)
                continue
            with self.subTest(form=form):
                self.check_rows(name, trace, form, totals)

    def check_rows(self, name, trace, form, totals):
        # Read once for all questions. The table keeps the order of the rows.
        duckdb.sql(f"create or replace temp table events as select * from {self.table(trace, form, 'events')}")
        events = "events"
        self.assertEqual(
            self.query(f"select count(*) filter (event = 'alloc'), sum(size) filter (event = 'alloc'), "
                     f"count(*) filter (temporary), sum(size) filter (temporary) from {events}"),
            [totals[cost] for cost in ("allocations", "allocated_bytes", "temporary", "temporary_bytes")])
        # Rows are in the order of events: the highest running sum is the peak.
        peak = self.query(f"with e as (select row_number() over () as nth, case event when 'alloc' "
                        f"then size::hugeint else -size::hugeint end as change from {events}) select max(live) from "
                        f"(select sum(change) over (order by nth) as live from e)")
        self.check_peak(peak[0], totals)
        if totals["leaked_blocks"] == 0:
            text = self.export(form, trace, "--rows", "blocks").read_text()
            self.assertEqual(len(text.splitlines()), 1 if form == "csv" else 0)
        else:
            blocks = self.table(trace, form, "blocks")
            self.assertEqual(self.query(f"select count(*), sum(size) from {blocks}"),
                             [totals["leaked_blocks"], totals["leaked_bytes"]])
        stacks = self.table(trace, form, "stacks")
        self.assertEqual(
            self.query(f"select sum(peak_bytes), sum(peak_blocks), sum(leaked_bytes), sum(leaked_blocks), "
                     f"sum(allocated_bytes), sum(allocations), sum(temporary_allocations) from {stacks}"),
            [totals[cost]
             for cost in ("peak_bytes", "peak_blocks", "leaked_bytes", "leaked_blocks", "allocated_bytes",
                          "allocations", "temporary")])
        # The column `stack` joins events and stacks.
        self.assertEqual(self.query(f"select sum(e.size) from {events} e join {stacks} s using (stack) "
                                  f"where e.event = 'alloc'"), [totals["allocated_bytes"]])
        if name == "many":
            self.assertEqual(self.query(f"select count(distinct stack) from {events}"), [self.many_stacks])
        if name == "nasty" and form == "ndjson":
            shown = duckdb.sql("select distinct f.function, f.file from "
                               f"(select unnest(frames) as f from {stacks})").fetchall()
            self.check_nasty_names({function for function, _ in shown})
            self.check_nasty_names({file.rpartition("/")[2] for _, file in shown if file}, nasty.clean_files())
        if name == "nasty":
            threads = duckdb.sql(f"select distinct thread from {events}").fetchall()
            self.check_nasty_names({thread for thread, in threads}, nasty.clean_threads())
        if name == "real" and form == "ndjson":
            self.assertGreater(self.query(f"select count(*) from (select unnest(frames) as f from {stacks}) "
                                        f"where f.file like '%ledger_names.cpp' and f.line > 0")[0], 0)

    def test_the_query_in_viewers_md(self):
        """The query of docs/viewers.md for the leaks of each function including its callees: a recursive function
        counts once."""
        guide = (Path(__file__).parents[2] / "docs" / "viewers.md").read_text()
        query = re.search(r'^duckdb -c "([^"]+)"', guide, re.M).group(1)
        for trace in (self.folder / "plain.heapprof", self.real()):
            file = self.export("ndjson", trace, "--rows", "stacks")
            own = Counter()
            for stack in self.all_stacks(trace, "leaked"):
                for name in {frame["function"] or
                             f"{Path(frame['module']).name}+{frame.get('function_begin', frame['offset']):#x}"
                             for frame in stack["stack"]}:
                    own[name] += stack["bytes"]
            found = duckdb.sql(query.replace("stacks.ndjson", str(file)).replace(" limit 10", "")).fetchall()
            self.assertEqual({name: int(size) for name, size in found if size}, dict(+own))
            self.assertEqual([size for _, size in found], sorted((size for _, size in found), reverse=True))

    def test_kind(self):
        for form in ("ndjson", "csv", "dhat"):
            result = self.run_heapprof("export", form, self.folder / "plain.heapprof", "-o", self.dir / "x", "--kind",
                                       "mmap")
            self.assertEqual(result.returncode, 2)
            self.assertIn("invalid value 'mmap' for --kind; expected heap", result.stderr)


if __name__ == "__main__":
    harness.skip_unless(duckdb, "DuckDB is not installed (tools/consumers.sh)")
    harness.main()
