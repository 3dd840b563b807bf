#!/usr/bin/env python3
"""Ask rows of `heapprof export rows --per-stack` of many hosts, with chdb: ClickHouse in a process (docs/fleets.md).

usage: chdb_fleet.py ROWS QUERY [NAME=VALUE...]

ROWS is a file, a directory or a pattern in quotes: NDJSON or CSV, both also as .gz or .zst, or Parquet. QUERY is the
name of a file in tools/fleet/clickhouse/ without .sql; NAME=VALUE are its parameters, such as figure=leaked_bytes or
limit=5. Writes a JSON object in each line.
"""

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path

try:
    from chdb import session
except ModuleNotFoundError:
    sys.exit("chdb_fleet.py: chdb is not installed: pip install chdb")

SQL = Path(__file__).resolve().parent / "clickhouse"
QUERIES = sorted(path.stem for path in SQL.glob("*.sql") if path.stem != "tables")
PARAMETERS = {"figure": "peak_bytes", "build_label": "", "program": "", "limit": 20}


def quoted(text):
    return "'" + str(text).replace("\\", "\\\\").replace("'", "\\'") + "'"


def format_of(path):
    name = re.sub(r"\.(gz|zst)$", "", str(path))
    return {"csv": "CSVWithNames", "parquet": "Parquet"}.get(name.rpartition(".")[2], "JSONEachRow")


class Fleet:
    def __init__(self, directory):
        """`directory`: where the table is stored."""
        self.session = session.Session(str(directory))
        self.session.query("CREATE DATABASE IF NOT EXISTS heapprof")
        self.session.query("USE heapprof")
        for statement in re.sub(r"--[^\n]*", "", (SQL / "tables.sql").read_text()).split(";"):
            if statement.strip():
                self.session.query(statement)

    def load(self, path):
        """Adds rows. A column that is JSON text in CSV is the same in the table."""
        form = format_of(path)
        source = f"file({quoted(path)}, {form})"
        if form == "CSVWithNames":
            columns = [row["name"] for row in self.rows("DESCRIBE TABLE stack_rows")]
            types = {"labels": "String", "frames": "String"}
            structure = ", ".join(f"{row['name']} {types.get(row['name'], row['type'])}"
                                  for row in self.rows("DESCRIBE TABLE stack_rows"))
            source = f"file({quoted(path)}, {form}, {quoted(structure)})"
            select = ", ".join({"labels": "JSONExtract(labels, 'Map(String, String)')",
                                "frames": "JSONExtract(frames, 'Array(String)')"}.get(name, name) for name in columns)
            self.session.query(f"INSERT INTO stack_rows SELECT {select} FROM {source}")
        else:
            structure = ", ".join(f"{row['name']} {row['type']}" for row in self.rows("DESCRIBE TABLE stack_rows"))
            source = f"file({quoted(path)}, {form}, {quoted(structure)})"
            self.session.query(f"INSERT INTO stack_rows SELECT * FROM {source}")

    def rows(self, sql, **parameters):
        text = str(self.session.query(sql, "JSONEachRow", params=parameters))
        return [json.loads(line) for line in text.splitlines() if line]

    def ask(self, query, **parameters):
        return self.rows((SQL / f"{query}.sql").read_text().rstrip().rstrip(";"), **{**PARAMETERS, **parameters})


def parameter(word):
    name, equals, value = word.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"invalid value '{word}'; expected NAME=VALUE")
    return name, value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", metavar="ROWS")
    parser.add_argument("query", metavar="QUERY", choices=QUERIES, help=", ".join(QUERIES))
    parser.add_argument("parameters", metavar="NAME=VALUE", nargs="*", type=parameter)
    options = parser.parse_args()
    path = Path(options.rows)
    with tempfile.TemporaryDirectory() as directory:
        fleet = Fleet(directory)
        try:
            for one in sorted(path.iterdir()) if path.is_dir() else [path]:
                fleet.load(one)
            rows = fleet.ask(options.query, **dict(options.parameters))
            for row in rows:
                print(json.dumps(row))
            if not rows:
                print("chdb_fleet.py: nothing is found; the query 'recordings' lists programs and builds", file=sys.stderr)
        except RuntimeError as error:
            print(f"chdb_fleet.py: {str(error).splitlines()[0]}", file=sys.stderr)
            return 1
        finally:
            fleet.session.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
