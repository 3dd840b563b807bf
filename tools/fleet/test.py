#!/usr/bin/env python3
"""Ask a generated fleet of which every answer is known, with Spark and with ClickHouse (chdb), and compare.

usage: tools/fleet/test.py [--recordings N] [--build DIR] [--keep DIR] [--only spark|chdb]

Needs Java and the packages of tools/fleet/requirements.txt. It

  1. records 1,000 times a program that knows what it allocates (generate.py), and adds to the folders what a fleet
     also has: a recording of an old version, one that is damaged, one that still grows, a file of another kind;
  2. exports rows from ten folders, as NDJSON and as CSV, one of them twice;
  3. answers every query with Spark on two local cores and with ClickHouse, on NDJSON, CSV and Parquet, and compares
     with what the program allocated, computed here;
  4. gives both what is no such row, which they must refuse.

Prints what each step took. Exit status 1: something differs.
"""

import argparse
import gzip
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import generate

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FIGURES = ("peak_bytes", "leaked_bytes", "allocated_bytes", "temporary_allocations")
FOLDERS = 10


class Steps:
    """Prints each step with the time that it took."""

    def __init__(self):
        self.failures = 0
        self.spark = None  # its session, for the time of its process

    def __call__(self, what):
        self.what, self.began = what, time.monotonic()
        return self

    def cpu_of_spark(self):
        if self.spark is None:
            return 0
        fields = Path(f"/proc/{self.spark._jvm.java.lang.ProcessHandle.current().pid()}/stat").read_text().split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        self.cpu = sum(os.times()[:4]) + self.cpu_of_spark()

    def __exit__(self, *error):
        cpu = sum(os.times()[:4]) + self.cpu_of_spark() - self.cpu
        print(f"{time.monotonic() - self.began:7.1f} s  {cpu:6.1f} s of processor time  {self.what}", flush=True)

    def check(self, condition, what):
        if not condition:
            self.failures += 1
            print(f"FAILED   {what}", flush=True)


# ---- what the answers must be ---------------------------------------------------------------------------------


class Truth:
    """The answers, from what each recording allocated by function."""

    def __init__(self, plans, builds):
        self.plans, self.builds = plans, builds

    def build_of(self, plan, by_label):
        return plan["version"] if by_label else self.builds[plan["version"]]

    def top(self, figure):
        total, hosts = defaultdict(int), defaultdict(set)
        for plan in self.plans:
            for function, costs in plan["functions"].items():
                if costs[figure]:
                    total[function] += costs[figure]
                    hosts[function].add(plan["host"])
        everything = sum(total.values())
        return {function: {"total": value, "share": value / everything, "hosts": len(hosts[function])}
                for function, value in total.items()}

    def by_build(self, figure, by_label):
        recordings, total = defaultdict(int), defaultdict(int)
        for plan in self.plans:
            build = self.build_of(plan, by_label)
            recordings[build] += 1
            for function, costs in plan["functions"].items():
                total[build, function] += costs[figure]
        return {key: {"total": value, "mean": value / recordings[key[0]], "recordings": recordings[key[0]]}
                for key, value in total.items() if value}

    def growth(self, figure):
        values = {version: defaultdict(list) for version in generate.VERSIONS}
        count = {version: sum(plan["version"] == version for plan in self.plans) for version in generate.VERSIONS}
        for plan in self.plans:
            for function, costs in plan["functions"].items():
                if costs[figure]:
                    values[plan["version"]][function].append(costs[figure])
        result = {}
        for function in generate.FRAMES:
            means, medians = [], []
            for version in generate.VERSIONS:
                some = values[version][function]
                means.append(sum(some) / count[version])
                medians.append(statistics.median(some + [0] * (count[version] - len(some))))
            if means[1] > means[0]:
                result[function] = {"mean_before": means[0], "mean_after": means[1], "growth": means[1] - means[0],
                                    "median_before": medians[0], "median_after": medians[1]}
        return result

    def means_of_hosts(self, figure, value_of):
        """{version: {host: mean over its recordings}}"""
        values = defaultdict(lambda: defaultdict(list))
        for plan in self.plans:
            values[plan["version"]][plan["host"]].append(value_of(plan))
        return {version: {host: sum(some) / len(some) for host, some in hosts.items()}
                for version, hosts in values.items()}

    def hosts(self, figure):
        result = {}
        sums = self.means_of_hosts(figure, lambda plan: sum(costs[figure] for costs in plan["functions"].values()))
        for hosts in sums.values():
            median = statistics.median(hosts.values())
            deviations = [abs(value - median) for value in hosts.values()]
            mad, mean = statistics.median(deviations), sum(deviations) / len(deviations)
            if mean == 0:
                continue
            scale = mad / 0.6745 if mad else mean * 1.253314
            for host, value in hosts.items():
                if abs(value - median) > 3.5 * scale and abs(value - median) > 0.1 * median:
                    result[host] = {"mean": value, "median": median, "hosts": len(hosts),
                                    "score": (value - median) / scale}
        return result

    def host_stacks(self, figure, host):
        result = {}
        for function in generate.FRAMES:
            hosts = next(hosts for hosts in self.means_of_hosts(
                figure, lambda plan: plan["functions"].get(function, {figure: 0})[figure]).values() if host in hosts)
            median = statistics.median(hosts.values())
            if hosts[host] != median:
                result[function] = {"mean_of_host": hosts[host], "median": median, "difference": hosts[host] - median}
        return result


def equal(found, expected):
    return all(math.isclose(found[key], value, rel_tol=1e-9) for key, value in expected.items())


def compare(steps, what, found, expected, order):
    """`found`: {key: row} in the order of the answer; `order`: the figure by which it is sorted."""
    steps.check(found.keys() == expected.keys(), f"{what}: {sorted(map(str, found))} instead of {sorted(map(str, expected))}")
    for key in found.keys() & expected.keys():
        steps.check(equal(found[key], expected[key]), f"{what}: {key}: {found[key]} instead of {expected[key]}")
    values = [abs(row[order]) for row in found.values()]
    steps.check(values == sorted(values, reverse=True), f"{what}: not sorted by {order}")


def check_answers(steps, engine, ask, truth, figures=FIGURES):
    """`ask(query, **parameters)` returns rows as dictionaries."""
    def by_function(rows):
        for row in rows:
            own = [frame for frame in row["frames"] if frame in {*generate.FRAMES, "handle_request", "serve", "main"}]
            steps.check(own == generate.FRAMES.get(row["site"]), f"{engine}: frames {row['frames']} of {row['site']}")
        return {row["site"]: row for row in rows}
    for figure in figures:
        common = {"figure": figure, "program": "server"}
        compare(steps, f"{engine} top {figure}", by_function(ask("top", **common)), truth.top(figure), "total")
        for label in ("", "version"):
            rows = ask("builds", **common, build_label=label)
            expected = truth.by_build(figure, bool(label))
            found = {(row["build"], row["site"]): row for row in rows}
            for build in {key[0] for key in expected}:
                compare(steps, f"{engine} builds {figure} {label}", {key: row for key, row in found.items() if key[0] == build},
                        {key: row for key, row in expected.items() if key[0] == build}, "total")
            before, after = (version if label else truth.builds[version] for version in generate.VERSIONS)
            compare(steps, f"{engine} growth {figure} {label}",
                    by_function(ask("growth", **common, build_label=label, before=before, after=after)),
                    truth.growth(figure), "growth")
        hosts = {row["host"]: row for row in ask("hosts", **common)}
        compare(steps, f"{engine} hosts {figure}", hosts, truth.hosts(figure), "score")
        for host in truth.hosts(figure):
            compare(steps, f"{engine} host_stacks {figure} {host}",
                    by_function(ask("host_stacks", **common, host=host)), truth.host_stacks(figure, host), "difference")


# ---- the fleet ------------------------------------------------------------------------------------------------


def heapprof_environment(directory):
    return {**generate.environment(), "XDG_CACHE_HOME": str(directory / "cache")}


def export(heapprof, directory, folder, output, *options, status=0):
    result = subprocess.run([heapprof, "export", "rows", "--per-stack", folder, "-o", output, *options],
                            env=heapprof_environment(directory), capture_output=True, text=True, errors="replace")
    if result.returncode != status:
        sys.exit(f"export of {folder}: status {result.returncode}\n{result.stderr}")
    return result.stderr


def add_others(steps, heapprof, directory, servers):
    """Recordings of which something is special, of a program with another name; and no recording. Returns the process
    whose recording grows."""
    folder = directory / "others"
    folder.mkdir()
    other = directory / "programs" / "other"
    shutil.copy(servers["1.41"], other)
    for name in ("damaged", "whole"):
        generate.record(heapprof, other, folder / f"{name}.heapprof", {"host": name}, [100, 4000, 1000, 1000])
    data = bytearray((folder / "damaged.heapprof").read_bytes())
    for at in range(len(data) // 3, len(data) * 2 // 3, 7):
        data[at] ^= 0x5a
    (folder / "damaged.heapprof").write_bytes(data)
    shutil.copy(ROOT / "tests" / "golden" / "1.0.hprof", folder / "old.heapprof")
    (folder / "notes.heapprof").write_text("this is no recording\n")
    shutil.copy(folder / "whole.heapprof", folder / "copy.heapprof")
    growing = subprocess.Popen([heapprof, "record", "-q", "-o", folder / "growing.heapprof", "--label", "host=growing", "--",
                                other, "100", "10", "10", "1000", "600"], env=generate.environment(),
                               stdin=subprocess.DEVNULL, start_new_session=True)
    while not (folder / "growing.heapprof").exists():
        time.sleep(0.01)
    time.sleep(0.5)
    return folder, growing


def check_others(steps, engine, sql, ask):
    """`sql(text)` and `ask(query, **parameters)` return rows as dictionaries."""
    def hosts_of(table):
        by_host = defaultdict(list)
        for row in sql(f"SELECT * FROM {table} WHERE host NOT LIKE 'host-%'"):
            by_host[row["host"]].append(row)
        return by_host
    everything, counted = hosts_of("stack_rows"), hosts_of("fleet")
    steps.check(everything.keys() == {"damaged", "whole", "growing", "golden"}, f"{engine}: others: {sorted(everything)}")
    steps.check(counted.keys() == everything.keys() - {"damaged"}, f"{engine}: others that count: {sorted(counted)}")
    steps.check(all(row["ended_by"] == "running" for row in counted["growing"]), f"{engine}: growing is not marked")
    for host, requests in (("whole", 4000), ("growing", 10)):
        found = sum(row["temporary_allocations"] for row in counted[host])
        steps.check(found == requests, f"{engine}: {host}: {found} temporary allocations instead of {requests}")
    rows = ask("recordings", figure="peak_bytes", program="")
    sums = {key: sum(row[key] for row in rows) for key in ("recordings", "incomplete", "running", "cut")}
    steps.check(sums["incomplete"] == sums["running"] == 1 and sums["cut"] == 0, f"{engine} recordings: {sums}")
    servers = [row for row in rows if row["program"] == "server"]
    steps.check(sum(row["recordings"] for row in servers) == sums["recordings"] - 4, f"{engine} recordings: {servers}")


def build_ids(rows):
    """{version: build ID}"""
    found = {}
    for path in rows:
        for line in gzip.open(path, "rt"):
            row = json.loads(line)
            if "version" in row["labels"]:
                found[row["labels"]["version"]] = row["build_id"]
    return found


def prepare(steps, directory, heapprof, recordings):
    with steps(f"record {recordings} times"):
        plans = generate.generate(directory, heapprof, recordings)
    traces = sorted((directory / "recordings").iterdir())
    print(f"           {sum(path.stat().st_blocks * 512 for path in traces) / len(traces) / 1024:.0f} KiB a recording")
    folders = []
    for number in range(FOLDERS):
        folders.append(directory / f"folder-{number}")
        folders[-1].mkdir()
        for path in traces[number::FOLDERS]:
            path.rename(folders[-1] / path.name)
    servers = {version: directory / "programs" / version / "server" for version in generate.VERSIONS}
    others, growing = add_others(steps, heapprof, directory, servers)
    rows = directory / "rows"
    rows.mkdir()
    try:
        with steps(f"export {recordings} recordings as NDJSON"):
            for number, folder in enumerate(folders):
                export(heapprof, directory, folder, rows / f"{number}.ndjson.gz")
        messages = export(heapprof, directory, others, rows / "others.ndjson.gz", status=1)
        export(heapprof, directory, others, directory / "others.csv", status=1)
    finally:
        os.killpg(growing.pid, 9)
        growing.wait()
    for name, words in (("notes.heapprof", "not"), ("copy.heapprof", "copy"), ("damaged.heapprof", "rest was read")):
        steps.check(any(name in line and words in line for line in messages.splitlines()), f"no message about {name}: {messages}")
    print(f"           {sum(path.stat().st_size for path in rows.iterdir()) / recordings:.0f} bytes a recording, "
          f"{sum(len(gzip.open(path).read()) for path in rows.iterdir()) / recordings:.0f} uncompressed")
    with steps(f"export {recordings} recordings as CSV"):
        csv = directory / "csv"
        csv.mkdir()
        for number, folder in enumerate(folders):
            export(heapprof, directory, folder, csv / f"{number}.csv")
    (directory / "others.csv").rename(csv / "others.csv")
    # Exported again, later, and the first export a second time: neither counts twice.
    export(heapprof, directory, folders[0], rows / "0-again.ndjson.gz")
    shutil.copy(rows / "1.ndjson.gz", rows / "1-copy.ndjson.gz")
    return plans


def run_chdb(steps, directory, truth):
    from chdb_fleet import Fleet
    for name, pattern in (("NDJSON", "rows/*.ndjson.gz"), ("CSV", "csv/*.csv")):
        fleet = Fleet(directory / f"chdb-{name}")
        with steps(f"chdb: load {name}"):
            fleet.load(directory / pattern)
        with steps(f"chdb: one query of {name}"):
            fleet.ask("top")
        with steps(f"chdb: all queries of {name}"):
            check_answers(steps, f"chdb {name}", fleet.ask, truth)
        check_others(steps, f"chdb {name}", fleet.rows, fleet.ask)
        hashes = fleet.rows("SELECT count() AS n FROM fleet WHERE kind = 'stack' AND stack_hash != "
                            "lower(leftPad(hex(xxh3(concat(arrayStringConcat(frames, '\\n'), '\\n'))), 16, '0'))")
        steps.check(hashes == [{"n": 0}], f"stack_hash is not XXH3 of the frames: {hashes}")
        if name == "NDJSON":
            (directory / "parquet").mkdir()
            fleet.session.query(f"SELECT * FROM stack_rows INTO OUTFILE '{directory}/parquet/rows.parquet' FORMAT Parquet")
        fleet.session.close()
    fleet = Fleet(directory / "chdb-bad")
    for name, text in BAD_ROWS.items():
        (directory / name).write_text(text)
        try:
            fleet.load(directory / name)
            steps.check(False, f"chdb loaded {name}")
        except Exception as error:
            steps.check(any(word in str(error) for word in (name, "parse", "is_row_of_a_stack")), f"chdb: message about {name}: {error}")
    fleet.session.close()


BAD_ROWS = {
    "text.ndjson": "this is no row\n",
    "cut.ndjson": '{"format_version":1,"recording":"00",\n',
    "other.csv": "a,b\n1,2\n",
}


def run_spark(steps, directory, truth):
    import spark_fleet
    with steps("Spark: start"):
        spark = spark_fleet.SparkSession.builder.master("local[2]").appName("heapprof fleet") \
            .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "4") \
            .config("spark.ui.showConsoleProgress", "false").config("spark.driver.bindAddress", "127.0.0.1") \
            .config("spark.driver.host", "127.0.0.1").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        steps.spark = spark
    inputs = [("NDJSON", "rows", "ndjson"), ("CSV", "csv", "csv")]
    if (directory / "parquet").exists():
        inputs.append(("Parquet", "parquet", "parquet"))
    for name, folder, form in inputs:
        def ask(query, figure="peak_bytes", program="", build_label="", **parameters):
            queries = spark_fleet.Queries(spark, figure, build_label, program)
            return [row.asDict() for row in getattr(queries, query)(**parameters).collect()]
        with steps(f"Spark: read {name}, and one query"):
            spark_fleet.create_fleet(spark_fleet.read_rows(spark, str(directory / folder), form))
            ask("top")
        spark.catalog.cacheTable("fleet")
        with steps(f"Spark: all queries of {name}"):
            check_answers(steps, f"Spark {name}", ask, truth, FIGURES if name == "NDJSON" else FIGURES[:1])
        check_others(steps, f"Spark {name}", lambda text: [row.asDict() for row in spark.sql(text).collect()], ask)
    for name, text in BAD_ROWS.items():
        (directory / name).write_text(text)
        try:
            spark_fleet.read_rows(spark, str(directory / name))
            steps.check(False, f"Spark read {name}")
        except spark_fleet.FleetError as error:
            steps.check(name in str(error), f"Spark: message about {name}: {error}")
    steps.spark = None
    spark.stop()


def run_command(steps, engine, *command):
    """A command of docs/fleets.md names the hosts that differ."""
    with steps(f"{engine}: one query by command"):
        result = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True)
    hosts = {json.loads(line)["host"] for line in result.stdout.splitlines() if line.startswith("{")}
    steps.check(hosts == {"host-037", "host-042", "host-090"}, f"{engine}: {result.stdout}{result.stderr[-2000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=int, default=1000)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write everything to DIR, which must not exist, and keep it")
    parser.add_argument("--only", choices=("spark", "chdb"))
    options = parser.parse_args()
    directory = options.keep or Path(tempfile.mkdtemp(prefix="heapprof-fleet-"))
    if options.keep:
        directory.mkdir(parents=True)
    steps = Steps()
    try:
        plans = prepare(steps, directory, options.build / "analyzer" / "heapprof", options.recordings)
        builds = build_ids(sorted((directory / "rows").iterdir()))
        steps.check(len(builds) == len(set(builds.values())) == 2, f"build IDs: {builds}")
        truth = Truth(plans, builds)
        steps.check(set(truth.hosts("peak_bytes")) == {"host-037", "host-042", "host-090"} or options.recordings != 1000,
                    f"the hosts that differ are {truth.hosts('peak_bytes')}")
        if options.only != "spark":
            run_chdb(steps, directory, truth)
            run_command(steps, "chdb", HERE / "chdb_fleet.py", directory / "rows", "hosts", "program=server")
        if options.only != "chdb":
            run_spark(steps, directory, truth)
            run_command(steps, "Spark", HERE / "spark_fleet.py", directory / "rows", "hosts",
                         "--program", "server", "--json")
    finally:
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)
    print("every answer is as expected" if steps.failures == 0 else f"{steps.failures} checks failed")
    return 1 if steps.failures else 0


if __name__ == "__main__":
    sys.exit(main())
