#!/usr/bin/env python3
"""Sends profiles to servers, and compares what arrives with `heapprof report --json`.

usage: tools/collectors/collectors.py [--heapprof FILE] [--otelcol FILE]

  otelcol         an OpenTelemetry collector: OTLP receiver and file exporter. --otelcol FILE: another one than the one
                  that is built
  pyroscope_api   the endpoint /ingest with the parser of names and the definition of pprof that Pyroscope has. The
                  whole of Pyroscope is no module that Go's proxy serves

Both are built from Go modules (tools/collectors/*/go.mod) and kept in ~/.cache/heapprof-collectors. The first build
takes some minutes and 1 GB of disk. Prints rows for docs/push.md.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tools" / "collectors"
TOTALS = {"alloc_objects": "allocations", "alloc_space": "allocated_bytes", "inuse_objects": "leaked_blocks",
          "inuse_space": "leaked_bytes", "peak_objects": "peak_blocks", "peak_space": "peak_bytes",
          "temporary_objects": "temporary_allocations"}
# Allocates for about two seconds, and prints when it has begun.
RUNNING = "import time\nprint('up', flush=True)\nkept = []\nend = time.time() + 2\n" \
          "while time.time() < end:\n    kept.append(bytearray(5000)); time.sleep(0.002)"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > end:
            sys.exit(f"error: no {what} after {seconds} s")
        time.sleep(0.1)
    return result


def accepts(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def build(name):
    """Builds a server, unless its sources have not changed; its path."""
    files = sorted((SOURCES / name).iterdir())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heapprof-collectors"
    folder = cache / hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    program = folder / name
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(file, folder)
        print(f"building {name}", file=sys.stderr)
        subprocess.run(["nice", "go", "build", "-o", name, "."], cwd=folder, check=True,
                       env={**os.environ, "GOFLAGS": "-mod=mod -p=1", "CGO_ENABLED": "0"})
    return program


def version_of(name, module):
    """The version of a module in go.mod."""
    return re.search(rf"{re.escape(module)} (v\S+)", (SOURCES / name / "go.mod").read_text()).group(1)


class Sender:
    def __init__(self, heapprof, folder):
        self.heapprof, self.folder = heapprof, folder
        self.count = 0

    def run(self, *arguments):
        return subprocess.run([self.heapprof, *map(str, arguments)], check=True, capture_output=True, text=True).stdout

    def record(self, *command):
        self.count += 1
        trace = self.folder / f"{self.count}.heapprof"
        self.run("record", "-q", "-o", trace, "--", *command)
        return trace

    def heap(self, trace):
        return json.loads(self.run("report", trace, "--json"))["heap"]

    def stacks(self, trace, cost):
        """{names of functions, innermost first: bytes}; "" for frames without a name."""
        stacks = Counter()
        for row in json.loads(self.run("report", trace, "--json", "--top", "1000000", "--cost", cost))["top"]:
            stacks[tuple(frame["function"] for frame in row["stack"])] += row["bytes"]
        return +stacks

    def push_while_it_runs(self, url):
        """Records a program and follows it; the trace."""
        trace = self.folder / "running.heapprof"
        program = subprocess.Popen([self.heapprof, "record", "-q", "-o", trace, "--", "python3", "-c", RUNNING],
                                   stdout=subprocess.PIPE)
        program.stdout.readline()
        self.run("push", trace, url, "--every", "0.5")
        if program.wait() != 0:
            sys.exit("error: the recorded program failed")
        return trace


def named(stack):
    return tuple("" if re.fullmatch(r"(.*\+)?0x[0-9a-f]+", name) else name
                 for name in stack if not name.startswith("["))


def compare(what, got, expected):
    if got != expected:
        sys.exit(f"error: {what}: {got} arrived, the report has {expected}")


class Profiles:
    """A line of the file exporter: {kind: {stack: value}}."""

    def __init__(self, line):
        message = json.loads(line)
        dictionary = message["dictionary"]
        strings = dictionary["stringTable"]
        functions = [strings[one.get("nameStrindex", 0)] for one in dictionary["functionTable"]]
        locations = [[functions[line.get("functionIndex", 0)] for line in one.get("lines", [])]
                     for one in dictionary["locationTable"]]
        stacks = [named(name for location in one.get("locationIndices", []) for name in locations[location])
                  for one in dictionary["stackTable"]]
        [of_resource] = message["resourceProfiles"]
        # The collector moves the texts of attributes into the dictionary, too.
        self.resource = {strings[one["keyStrindex"]]: strings[value] if kind == "stringValueStrindex" else value
                         for one in of_resource["resource"]["attributes"] for kind, value in one["value"].items()}
        self.sums = {}
        for profile in of_resource["scopeProfiles"][0]["profiles"]:
            sums = self.sums[strings[profile["sampleType"]["typeStrindex"]]] = Counter()
            for sample in profile.get("samples", []):
                sums[stacks[sample["stackIndex"]]] += sum(map(int, sample["values"]))


def try_otelcol(program, sender):
    port, output = free_port(), sender.folder / "arrived.json"
    settings = sender.folder / "otelcol.yaml"
    settings.write_text(f"""
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{file: {{path: {output}, flush_interval: 100ms}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{profiles: {{receivers: [otlp], exporters: [file]}}}}
""")
    log = open(sender.folder / "otelcol.log", "wb")
    server = subprocess.Popen([program, "--config", settings, "--feature-gates=service.profilesSupport"], stdout=log,
                              stderr=log)
    try:
        wait_for(lambda: accepts(port) or server.poll() is not None, "collector")
        if server.poll() is not None:
            sys.exit(Path(log.name).read_text())
        url = f"http://127.0.0.1:{port}/v1development/profiles"
        traces = [sender.record("git", "log", "--oneline", "-n", "200"), sender.record("python3", "-c", "import json")]
        for trace in traces:
            sender.run("push", trace, url, "--label", "odd=a,b}ü")

        def lines():
            text = output.read_text() if output.exists() else ""
            return text.splitlines() if text.endswith("\n") or not text else text.splitlines()[:-1]
        arrived = [Profiles(line) for line in wait_for(lambda: len(lines()) >= 2 and lines(), "profiles")]
        for trace, profiles in zip(traces, arrived, strict=True):
            heap = sender.heap(trace)
            for kind, figure in TOTALS.items():
                compare(f"{trace.name}: {kind}", profiles.sums[kind].total(), heap[figure])
            for kind, cost in (("inuse_space", "leaked"), ("alloc_space", "allocated"), ("peak_space", "peak")):
                if +profiles.sums[kind] != sender.stacks(trace, cost):
                    sys.exit(f"error: {trace.name}: {kind}: the stacks differ")
            compare("the label", profiles.resource["odd"], "a,b}ü")
        trace = sender.push_while_it_runs(url)
        time.sleep(1)
        intervals = [Profiles(line) for line in lines()[2:]]
        heap = sender.heap(trace)
        for kind in ("alloc_objects", "alloc_space"):
            compare(f"{len(intervals)} intervals: {kind}", sum(one.sums[kind].total() for one in intervals),
                    heap[TOTALS[kind]])
        for kind in ("inuse_objects", "inuse_space"):
            compare(f"the end: {kind}", intervals[-1].sums[kind].total(), heap[TOTALS[kind]])
        version = version_of("otelcol", "go.opentelemetry.io/collector/otelcol")
        return f"OpenTelemetry collector {version}: OTLP receiver, file exporter", len(intervals)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)


def try_pyroscope_api(program, sender):
    port, output = free_port(), sender.folder / "arrived.json"
    server = subprocess.Popen([program, f"127.0.0.1:{port}"], stdout=open(output, "wb"))
    try:
        wait_for(lambda: accepts(port), "server")
        url = f"http://127.0.0.1:{port}"
        traces = [sender.record("git", "log", "--oneline", "-n", "200"), sender.record("python3", "-c", "import json")]
        for trace in traces:
            sender.run("push", trace, url, "--service", "a b{}", "--label", "odd.name=a,b}ü = c")
        arrived = [json.loads(line) for line in output.read_text().splitlines()]
        for trace, profile in zip(traces, arrived, strict=True):
            heap = sender.heap(trace)
            for kind, figure in TOTALS.items():
                compare(f"{trace.name}: {kind}", profile["sums"][kind], heap[figure])
            compare("the service", profile["labels"]["__name__"], "a_b__")
            compare("the label", profile["labels"]["odd_name"], "a_b_ü = c")
        trace = sender.push_while_it_runs(url)
        intervals = [json.loads(line) for line in output.read_text().splitlines()[len(traces):]]
        heap = sender.heap(trace)
        for kind in ("alloc_objects", "alloc_space"):
            compare(f"{len(intervals)} intervals: {kind}", sum(one["sums"][kind] for one in intervals),
                    heap[TOTALS[kind]])
        for kind in ("inuse_objects", "inuse_space"):
            compare(f"the end: {kind}", intervals[-1]["sums"][kind], heap[TOTALS[kind]])
        version = version_of("pyroscope_api", "github.com/grafana/pyroscope/api")
        return f"`/ingest` with the parsers of Pyroscope's API {version}", len(intervals)
    finally:
        server.kill()
        server.wait()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--heapprof", default=ROOT / "build" / "analyzer" / "heapprof", type=Path)
    parser.add_argument("--otelcol", type=Path)
    options = parser.parse_args()
    for try_server, program in ((try_otelcol, options.otelcol or build("otelcol")),
                                (try_pyroscope_api, build("pyroscope_api"))):
        with tempfile.TemporaryDirectory(prefix="heapprof-collectors-") as folder:
            name, intervals = try_server(program.resolve(), Sender(options.heapprof.resolve(), Path(folder)))
        print(f"| {name} | totals and labels of 2 recordings, and {intervals} intervals of a running program, equal the "
              f"report | {time.strftime('%Y-%m-%d')} |")


if __name__ == "__main__":
    main()
