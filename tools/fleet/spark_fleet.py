#!/usr/bin/env python3
"""Ask rows of `heapprof export rows --per-stack` of many hosts, with Spark (docs/fleets.md).

usage: spark_fleet.py ROWS QUERY [options]
       spark-submit spark_fleet.py ROWS QUERY [options]

ROWS is a file, a directory or a pattern, on any file system that Spark reads: NDJSON or CSV, both also as .gz, or
Parquet. QUERY is one of

  recordings   how many there are, and which the other queries leave out
  top          the stacks with the most bytes over all hosts
  builds       the stacks with the most bytes in each build
  growth       what grew between two builds: --before BUILD --after BUILD
  hosts        hosts that differ from their peers
  host_stacks  why one of them differs: --host HOST

The queries are those of tools/fleet/clickhouse/ and give the same figures. The result is a table, or with --json a
JSON object in each line.
"""

import argparse
import json
import sys

try:
    from pyspark.errors import AnalysisException
    from pyspark.sql import SparkSession, functions
    from pyspark.sql.types import (ArrayType, BooleanType, LongType, MapType, StringType, StructField, StructType)
except ModuleNotFoundError:
    sys.exit("spark_fleet.py: pyspark is not installed: pip install pyspark (it needs Java 17)")

FIGURES = ("peak_bytes", "peak_blocks", "leaked_bytes", "leaked_blocks", "allocated_bytes", "allocations",
           "temporary_allocations", "temporary_bytes")
NUMBERS = {"format_version", "pid", "start_realtime_ns", "duration_ns", "exported_realtime_ns", "stacks", *FIGURES}
COLUMNS = ("format_version", "recording", "host", "program", "build_id", "pid", "start_realtime_ns", "duration_ns",
           "exported_realtime_ns", "ended_by", "complete", "labels", "kind", "stacks", "stack_hash", "site", "frames",
           *FIGURES)
LABELS, FRAMES = MapType(StringType(), StringType()), ArrayType(StringType())
UNREADABLE = "_unreadable"
FORMATS = {"ndjson": ("*.ndjson", "*.ndjson.gz", "*.json", "*.json.gz"), "csv": ("*.csv", "*.csv.gz"),
           "parquet": ("*.parquet",)}


class FleetError(Exception):
    """A sentence for the user."""


def schema_of(form):
    def type_of(name):
        if name in NUMBERS:
            return LongType()
        if name == "complete":
            return BooleanType()
        if name in ("labels", "frames") and form != "csv":
            return LABELS if name == "labels" else FRAMES
        return StringType()
    return StructType([StructField(name, type_of(name)) for name in (*COLUMNS, UNREADABLE)])


def format_of(path):
    for form, patterns in FORMATS.items():
        if any(path.endswith(pattern[1:]) for pattern in patterns):
            return form
    return None


def read_rows(spark, path, form=None):
    """The rows of all files, and nothing else: a line that is no row is an error."""
    form = form or format_of(path) or "ndjson"
    if form == "parquet":
        # ClickHouse writes numbers without a sign, which Spark reads as decimals.
        rows = spark.read.parquet(path)
        return rows.select(*(functions.col(name).cast(schema_of(form)[name].dataType) for name in COLUMNS))
    reader = spark.read.schema(schema_of(form)).option("mode", "PERMISSIVE") \
        .option("columnNameOfCorruptRecord", UNREADABLE)
    if form == "csv":
        # A header line that is not ours does not fit the types.
        rows = reader.csv(path, header=True, quote='"', escape='"', enforceSchema=True)
        rows = rows.withColumn("labels", functions.from_json("labels", LABELS)) \
                   .withColumn("frames", functions.from_json("frames", FRAMES))
    else:
        rows = reader.json(path)
    rows = rows.withColumn("_file", functions.input_file_name()).cache()
    wrong = rows.where(f"{UNREADABLE} IS NOT NULL OR format_version IS NULL OR recording IS NULL OR frames IS NULL")
    first = wrong.select("_file", UNREADABLE).head()
    if first:
        raise FleetError(f"{wrong.count()} lines are no rows of 'heapprof export rows --per-stack', the first one in "
                         f"{first['_file']}: {(first[UNREADABLE] or '')[:80]}")
    newer = rows.where("format_version > 1").select("_file").head()
    if newer:
        raise FleetError(f"{newer['_file']}: rows of a newer version; use the job of that version of heapprof")
    return rows.select(*COLUMNS)


def create_fleet(rows):
    """The view `last_rows`: of each recording the rows of its last export, each once. The view `fleet`: those of
    recordings that are complete."""
    rows.createOrReplaceTempView("stack_rows")
    rows.sparkSession.sql("""
        CREATE OR REPLACE TEMPORARY VIEW last_rows AS
        SELECT * FROM (
            SELECT r.*, row_number() OVER (PARTITION BY recording, kind, stack_hash ORDER BY exported_realtime_ns) AS copy
            FROM stack_rows r
            JOIN (SELECT recording, max(exported_realtime_ns) AS exported_realtime_ns FROM stack_rows GROUP BY recording)
            USING (recording, exported_realtime_ns))
        WHERE copy = 1""")
    rows.sparkSession.sql("CREATE OR REPLACE TEMPORARY VIEW fleet AS SELECT * FROM last_rows WHERE complete")


class Queries:
    """Each method returns a DataFrame."""

    def __init__(self, spark, figure="peak_bytes", build_label="", program="", limit=20):
        if figure not in FIGURES:
            raise FleetError(f"invalid value '{figure}' for --figure; expected one of {', '.join(FIGURES)}")
        self.spark, self.limit = spark, limit
        self.arguments = {"build_label": build_label, "program": program}
        self.rows = f"""
            (SELECT regexp_extract(program, '[^/]*$', 0) AS program,
                    if(:build_label = '', ifnull(build_id, ''), ifnull(labels[:build_label], '')) AS build,
                    host, recording, kind, stack_hash, site, frames, {figure} AS value
             FROM fleet WHERE :program IN ('', regexp_extract(program, '[^/]*$', 0)))"""

    def sql(self, text, **arguments):
        return self.spark.sql(text.replace("{rows}", self.rows).replace("{limit}", str(int(self.limit))),
                              {**self.arguments, **arguments})

    @staticmethod
    def median(values, count):
        """SQL: the median of `count` values, of which those that are not in the array are 0."""
        def at(position):
            zeros = f"({count} - size({values}))"
            return f"if({position} < {zeros}, 0, {values}[CAST({position} - {zeros} AS INT)])"
        return f"({at(f'(({count} - 1) DIV 2)')} + {at(f'({count} DIV 2)')}) / 2"

    def recordings(self):
        return self.sql("""
            SELECT regexp_extract(program, '[^/]*$', 0) AS program,
                   if(:build_label = '', ifnull(build_id, ''), ifnull(labels[:build_label], '')) AS build,
                   count(DISTINCT host) AS hosts, count(DISTINCT recording) AS recordings,
                   count(DISTINCT if(complete, NULL, recording)) AS incomplete,
                   count(DISTINCT if(ended_by = 'running', recording, NULL)) AS running,
                   count(DISTINCT if(kind = 'rest' AND stacks > 0, recording, NULL)) AS cut
            FROM last_rows WHERE :program IN ('', regexp_extract(program, '[^/]*$', 0))
            GROUP BY 1, 2 ORDER BY recordings DESC, program, build LIMIT {limit}""")

    def top(self):
        return self.sql("""
            SELECT stack_hash, first(site) AS site, first(frames) AS frames, sum(value) AS total,
                   total / (SELECT sum(value) FROM {rows}) AS share,
                   count(DISTINCT host) AS hosts, count(DISTINCT recording) AS recordings
            FROM {rows} WHERE kind = 'stack' AND value > 0
            GROUP BY stack_hash ORDER BY total DESC, stack_hash LIMIT {limit}""")

    def builds(self):
        return self.sql("""
            WITH r AS (SELECT * FROM {rows}),
                 builds AS (SELECT program, build, count(DISTINCT recording) AS recordings FROM r GROUP BY program, build),
                 stacks AS (
                    SELECT program, build, recordings, stack_hash, first(site) AS site, first(frames) AS frames,
                           sum(value) AS total, sum(value) / recordings AS mean
                    FROM r JOIN builds USING (program, build) WHERE kind = 'stack' AND value > 0
                    GROUP BY program, build, recordings, stack_hash)
            SELECT program, build, recordings, stack_hash, site, frames, total, mean FROM (
                SELECT *, row_number() OVER (PARTITION BY program, build ORDER BY total DESC, stack_hash) AS rank
                FROM stacks)
            WHERE rank <= {limit} ORDER BY program, build, rank""")

    def growth(self, before, after):
        return self.sql(f"""
            WITH r AS (SELECT *, build = :after AS is_after FROM {{rows}} WHERE build IN (:before, :after)),
                 counts AS (
                    SELECT count(DISTINCT if(is_after, NULL, recording)) AS recordings_before,
                           count(DISTINCT if(is_after, recording, NULL)) AS recordings_after FROM r),
                 stacks AS (
                    SELECT stack_hash, first(site) AS site, first(frames) AS frames,
                           sum(if(is_after, 0, value)) AS before, sum(if(is_after, value, 0)) AS after,
                           sort_array(collect_list(if(is_after, NULL, value))) AS values_before,
                           sort_array(collect_list(if(is_after, value, NULL))) AS values_after
                    FROM r WHERE kind = 'stack' AND value > 0 GROUP BY stack_hash)
            SELECT stack_hash, site, frames, try_divide(before, recordings_before) AS mean_before,
                   try_divide(after, recordings_after) AS mean_after, mean_after - mean_before AS growth,
                   {self.median('values_before', 'recordings_before')} AS median_before,
                   {self.median('values_after', 'recordings_after')} AS median_after,
                   recordings_before, recordings_after
            FROM stacks CROSS JOIN counts
            WHERE try_divide(after, recordings_after) > try_divide(before, recordings_before)
            ORDER BY growth DESC, stack_hash LIMIT {{limit}}""", before=before, after=after)

    def hosts(self):
        return self.sql("""
            WITH recordings AS (
                    SELECT program, build, host, recording, sum(value) AS value
                    FROM {rows} GROUP BY program, build, host, recording),
                 hosts AS (
                    SELECT program, build, host, count(*) AS recordings, sum(value) / count(*) AS mean
                    FROM recordings GROUP BY program, build, host),
                 medians AS (
                    SELECT program, build, count(*) AS hosts, percentile(mean, 0.5) AS median
                    FROM hosts GROUP BY program, build HAVING count(*) >= 5),
                 spreads AS (
                    SELECT program, build, first(m.median) AS median, first(m.hosts) AS hosts,
                           percentile(abs(mean - m.median), 0.5) AS mad, avg(abs(mean - m.median)) AS mean_deviation
                    FROM hosts JOIN medians m USING (program, build) GROUP BY program, build)
            SELECT program, build, host, recordings, mean, median, hosts,
                   try_divide(mean - median, if(mad > 0, mad / 0.6745, mean_deviation * 1.253314)) AS score
            FROM hosts JOIN spreads USING (program, build)
            WHERE mean_deviation > 0 AND abs(mean - median) > 0.1 * median
              AND abs(mean - median) > 3.5 * if(mad > 0, mad / 0.6745, mean_deviation * 1.253314)
            ORDER BY abs(score) DESC, program, build, host LIMIT {limit}""")

    def host_stacks(self, host):
        return self.sql(f"""
            WITH r AS (SELECT * FROM {{rows}}),
                 groups AS (
                    SELECT program, build, count(DISTINCT host) AS hosts FROM r
                    GROUP BY program, build HAVING count_if(host = :host) > 0),
                 hosts AS (
                    SELECT program, build, host, count(DISTINCT recording) AS recordings FROM r
                    GROUP BY program, build, host),
                 means AS (
                    SELECT program, build, host, stack_hash, first(site) AS site, first(frames) AS frames,
                           sum(value) / first(recordings) AS mean
                    FROM r JOIN hosts USING (program, build, host) WHERE kind = 'stack' AND value > 0
                    GROUP BY program, build, host, stack_hash),
                 stacks AS (
                    SELECT program, build, stack_hash, first(site) AS site, first(frames) AS frames, first(hosts) AS hosts,
                           sum(if(host = :host, mean, 0)) AS mean_of_host, sort_array(collect_list(mean)) AS means
                    FROM means JOIN groups USING (program, build) GROUP BY program, build, stack_hash)
            SELECT program, build, stack_hash, site, frames, mean_of_host,
                   {self.median('means', 'hosts')} AS median, mean_of_host - median AS difference
            FROM stacks WHERE mean_of_host != {self.median('means', 'hosts')}
            ORDER BY abs(difference) DESC, program, build, stack_hash LIMIT {{limit}}""", host=host)


def session():
    return SparkSession.builder.appName("heapprof fleet").config("spark.ui.showConsoleProgress", "false") \
        .config("spark.sql.session.timeZone", "UTC").getOrCreate()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", metavar="ROWS")
    parser.add_argument("query", metavar="QUERY", choices=("recordings", "top", "builds", "growth", "hosts", "host_stacks"))
    parser.add_argument("--format", choices=sorted(FORMATS), help="of ROWS; by default, the end of the name decides")
    parser.add_argument("--figure", default="peak_bytes", help="%(default)s, or another column of figures")
    parser.add_argument("--build-label", default="", metavar="KEY", help="tell builds apart by this label, not by build ID")
    parser.add_argument("--program", default="", help="ask about the program with this file name only")
    parser.add_argument("--before", metavar="BUILD")
    parser.add_argument("--after", metavar="BUILD")
    parser.add_argument("--host")
    parser.add_argument("--limit", type=int, default=20, help="rows of the result (%(default)s)")
    parser.add_argument("--json", action="store_true", help="write a JSON object in each line")
    options = parser.parse_args()
    names = {"growth": ("before", "after"), "host_stacks": ("host",)}.get(options.query, ())
    missing = [f"--{name}" for name in names if getattr(options, name) is None]
    if missing:
        parser.error(f"{options.query} needs {' and '.join(missing)}")
    spark = session()
    try:
        create_fleet(read_rows(spark, options.rows, options.format))
        queries = Queries(spark, options.figure, options.build_label, options.program, options.limit)
        result = getattr(queries, options.query)(**{name: getattr(options, name) for name in names})
        rows = result.collect()
        if not rows:
            print("spark_fleet.py: nothing is found; the query 'recordings' lists programs and builds", file=sys.stderr)
        elif options.json:
            for row in rows:
                print(json.dumps(row.asDict()))
        else:
            result = spark.createDataFrame(rows, result.schema)
            result.withColumn("frames", functions.array_join("frames", " < ")).show(options.limit, truncate=60) \
                if "frames" in result.columns else result.show(options.limit, truncate=60)
    except FleetError as error:
        print(f"spark_fleet.py: {error}", file=sys.stderr)
        return 1
    except AnalysisException as error:
        print(f"spark_fleet.py: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
