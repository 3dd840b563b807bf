#!/usr/bin/env python3
"""Record a fleet whose figures are known: 250 hosts, of which each runs the program `server` four times.

usage: tools/fleet/generate.py DIRECTORY [--recordings N] [--build DIR] [--seed N]

Half of the hosts run version 1.41, the others 1.42, which leaks what it remembers of every request. Three hosts differ
from their peers: one has a cache of forty times the size, one has eight times the sessions, one has neither. Each
recording is a real one, of tools/fleet/server.c; only the name of its host is a label. DIRECTORY gets recordings/ and
truth.json, what each recording allocated by function.
"""

import argparse
import concurrent.futures
import json
import os
import random
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FRAMES = {  # innermost first, as far as the program's own functions go
    "load_config": ["load_config", "main"],
    "parse_request": ["parse_request", "handle_request", "serve", "main"],
    "remember_request": ["remember_request", "handle_request", "serve", "main"],
    "open_session": ["open_session", "serve", "main"],
    "fill_cache": ["fill_cache", "serve", "main"],
}
VERSIONS = ("1.41", "1.42")


def costs_of(bytes_each, allocations, at_peak, leaked, temporary):
    total = bytes_each * allocations
    return {"peak_bytes": total * at_peak, "peak_blocks": allocations * at_peak, "leaked_bytes": total * leaked,
            "leaked_blocks": allocations * leaked, "allocated_bytes": total, "allocations": allocations,
            "temporary_allocations": allocations * temporary, "temporary_bytes": total * temporary}


def plan(recordings, seed):
    """What each recording does, and what it allocates by function."""
    numbers = random.Random(seed)
    hosts = max(recordings // 4, 1)
    plans = []
    for number in range(recordings):
        host = number % hosts
        version = VERSIONS[host % 2]
        config, requests = 20_000, numbers.randint(150, 250)
        sessions, cache = numbers.randint(80, 120), numbers.randint(28_000, 32_000)
        if host == 37 % hosts:
            cache *= 40
        elif host == 42 % hosts:
            sessions *= 8
        elif host == 90 % hosts:
            sessions, cache = 1, 1_000
        functions = {"load_config": costs_of(config, 1, 1, 0, 0),
                     # Its thread allocates nothing between the two calls.
                     "parse_request": costs_of(100, requests, 0, 0, 1),
                     "open_session": costs_of(512, sessions, 1, 0, 0),
                     "fill_cache": costs_of(cache, 1, 1, 1, 0)}
        if version == "1.42":
            functions["remember_request"] = costs_of(64, requests, 1, 1, 0)
        plans.append({"host": f"host-{host:03}", "version": version,
                      "arguments": [config, requests, sessions, cache], "functions": functions})
    return plans


def compile_servers(directory):
    """Both versions, whose build IDs and line numbers differ. Returns {version: path}."""
    source = (HERE / "server.c").read_text()
    servers = {}
    for version, lines, flags in (("1.41", 0, ()), ("1.42", 40, ("-DLEAK",))):
        folder = directory / version
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "server.c").write_text("\n" * lines + source)
        servers[version] = folder / "server"
        subprocess.run(["cc", "-O1", "-g", "-fno-optimize-sibling-calls", *flags, "-o", servers[version],
                        folder / "server.c"], check=True)
    return servers


def environment():
    """Without settings of a recorder that this process may have."""
    return {key: value for key, value in os.environ.items() if not key.startswith("HEAPPROF_")}


def record(heapprof, server, trace, labels, arguments):
    options = [word for key, value in labels.items() for word in ("--label", f"{key}={value}")]
    subprocess.run([heapprof, "record", "-q", "-o", trace, *options, "--", server, *map(str, arguments)],
                   check=True, env=environment(), stdin=subprocess.DEVNULL)


def generate(directory, heapprof, recordings=1000, seed=1):
    """Returns the plans."""
    plans = plan(recordings, seed)
    servers = compile_servers(directory / "programs")
    folder = directory / "recordings"
    folder.mkdir(exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        for done in [threads.submit(record, heapprof, servers[one["version"]], folder / f"{number:04}.heapprof",
                                    {"host": one["host"], "version": one["version"]}, one["arguments"])
                     for number, one in enumerate(plans)]:
            done.result()
    (directory / "truth.json").write_text(json.dumps(plans))
    return plans


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--recordings", type=int, default=1000)
    parser.add_argument("--build", type=Path, default=HERE.parents[1] / "build")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.recordings < 400:
        parser.error("--recordings: with fewer than 400, the hosts that differ would not have enough peers")
    options.directory.mkdir(parents=True, exist_ok=True)
    generate(options.directory, options.build / "analyzer" / "heapprof", options.recordings, options.seed)
    print(f"{options.recordings} recordings in {options.directory / 'recordings'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
