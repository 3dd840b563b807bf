#!/usr/bin/env python3
"""Compare what the page of `heapprof serve` shows of real programs with the command line.

usage: tools/real-programs/page.py [--build DIR] [--prometheus PATH] [NAME...]

Records programs, opens their recordings in Chromium, and compares the figures of each view with those of the command
line, by the tests of tests/consumers/page_figures.py, page_flame.py and page_memory.py:

  redis       redis-server under redis-benchmark
  python3     a script that parses its own library, with PYTHONMALLOC=malloc
  cc1plus     g++'s compiler, with a source that includes <regex>
  rust        a service with threads, compiled by rustc, until its client asks it to end
  killed      docs/examples/gateway.cpp, killed by SIGKILL while it allocates
  prometheus  no recording of its own: Debian's prometheus scrapes /metrics of a program that runs

Exit status 1: a figure differs, or a program is not installed.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))

import prometheus

SECONDS = 120   # maximum time of each step

PYTHON = """
import ast, json, tokenize
for _ in range(3):
    text = open(tokenize.__file__).read()
    tree = ast.parse(text)
    json.loads(json.dumps([ast.dump(node) for node in tree.body]))
"""
CPP = """
#include <map>
#include <regex>
#include <string>
std::map<std::string, std::regex> all;
int main() { all.emplace("a", "[a-z]+"); }
"""
RUST = """
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

fn main() {
    let store: Arc<Mutex<HashMap<String, Vec<String>>>> = Arc::new(Mutex::new(HashMap::new()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let mut threads = Vec::new();
    for connection in listener.incoming() {
        let connection = connection.unwrap();
        let store = store.clone();
        let mut out = connection.try_clone().unwrap();
        let mut first = String::new();
        let mut lines = BufReader::new(connection);
        lines.read_line(&mut first).unwrap();
        if first == "quit\\n" { break; }
        threads.push(std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let mut store = store.lock().unwrap();
                let values = store.entry(line.chars().take(3).collect()).or_default();
                values.push(line.to_uppercase());
                writeln!(out, "{}", values.len()).unwrap();
            }
        }));
    }
    for thread in threads { thread.join().unwrap(); }
}
"""


class Missing(Exception):
    pass


def installed(name, path=None):
    found = path or shutil.which(name)
    if not found or not os.path.exists(found):
        raise Missing(f"{name} is not installed")
    return found


class Recorder:
    def __init__(self, build, directory):
        self.heapprof = build / "analyzer/heapprof"
        self.library = build / "preload/libheapprof.so"
        self.directory = directory

    def popen(self, name, *command, **options):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HEAPPROF_")}
        environment.update(options.pop("variables", {}), LD_PRELOAD=str(self.library),
                           HEAPPROF_OUTPUT=str(self.trace(name)))
        return subprocess.Popen([str(word) for word in command], cwd=self.directory, env=environment, text=True,
                                stdin=subprocess.DEVNULL, **{"stdout": subprocess.DEVNULL, **options})

    def trace(self, name):
        return self.directory / f"{name}.heapprof"

    def run(self, name, *command, **options):
        status = self.popen(name, *command, **options).wait(SECONDS)
        if status != 0:
            raise SystemExit(f"{name}: exit status {status}")

    def compile(self, *command):
        subprocess.run([str(word) for word in command], cwd=self.directory, check=True, timeout=SECONDS)

    def wait_for(self, condition, what):
        deadline = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise SystemExit(what)
            time.sleep(0.02)

    # ---- Programs. Each leaves a finished recording of its name.

    def redis(self):
        path = self.directory / "redis.sock"
        client = [installed("redis-cli"), "-s", path]
        server = self.popen("redis", installed("redis-server"), "--port", "0", "--unixsocket", path, "--save", "",
                            "--appendonly", "no")
        self.wait_for(path.exists, "redis-server does not listen")
        subprocess.run([installed("redis-benchmark"), "-s", path, "-n", "5000", "-r", "3000", "-q", "-t",
                        "set,lpush,hset,zadd"], check=True, stdout=subprocess.DEVNULL, timeout=SECONDS)
        subprocess.run([*client, "shutdown", "nosave"], check=True, timeout=SECONDS)
        server.wait(SECONDS)

    def python3(self):
        self.run("python3", installed("python3", "/usr/bin/python3"), "-c", PYTHON,
                 variables={"PYTHONMALLOC": "malloc"})

    def cc1plus(self):
        compiler = next(iter(sorted(Path("/usr/lib/gcc/x86_64-linux-gnu").glob("*/cc1plus"))), None)
        if compiler is None:
            raise Missing("cc1plus is not installed")
        (self.directory / "main.cpp").write_text(CPP)
        self.compile(installed("g++"), "-E", "main.cpp", "-o", "main.ii")
        self.run("cc1plus", compiler, "-quiet", "-fpreprocessed", "main.ii", "-o", "main.s")

    def rust(self):
        (self.directory / "service.rs").write_text(RUST)
        self.compile(installed("rustc"), "-g", "service.rs", "-o", "service")
        service = self.popen("rust", "./service", stdout=subprocess.PIPE)
        port = int(service.stdout.readline())
        connections = []
        for number in range(3):
            connection = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
            connections.append(connection)
            lines = ["hello", *(f"{number}{key % 50}: a value of {key}" for key in range(2000))]
            connection.sendall(("\n".join(lines) + "\n").encode())
            received = connection.makefile()
            for _ in lines[1:]:
                received.readline()
            received.close()
        for connection in connections:
            connection.close()
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
            connection.sendall(b"quit\n")
            if service.wait(SECONDS) != 0:
                raise SystemExit("rust: the service failed")
        service.stdout.close()

    def gateway(self, name):
        self.compile(installed("g++"), "-g", "-O1", "-I", ROOT / "preload", ROOT / "docs/examples/gateway.cpp", "-o",
                     "gateway", "-pthread")
        process = self.popen(name, "./gateway", "10000000")
        self.wait_for(lambda: self.trace(name).exists() and self.trace(name).stat().st_size > 1 << 20,
                      "the program records nothing")
        return process

    def killed(self):
        process = self.gateway("killed")
        # No snapshot of the resident pages is taken when it is killed.
        subprocess.run([self.heapprof, "control", self.trace("killed"), "snapshot"], check=True,
                       stdout=subprocess.DEVNULL, timeout=SECONDS)
        process.kill()
        process.wait()


RECORDED = ("redis", "python3", "cc1plus", "rust", "killed")
TESTS = ("test_summary", "test_table", "test_flame_graph_and_tree", "test_leaks_threads_lifetimes",
         "test_source_and_compare", "test_ranges_and_moments", "test_pinned", "test_resident", "test_first_blocks")


def check_pages(build, traces):
    """Runs the tests for each recording; returns whether all figures are equal."""
    os.environ["HEAPPROF_TEST_BUILD"] = str(build)
    sys.path.insert(0, str(ROOT / "tests/consumers"))
    import page_figures
    import page_flame
    import page_memory

    class RealProgram(page_figures.Figures, page_flame.FlameGraphAndTree, page_memory.Memory):
        recording = None

        def real(self):
            return self.recording

        def test_first_blocks(self):
            self.open(self.recording, view="blocks", metric="leaked")
            head, *lines = self.saved_rows()
            blocks = self.printed()["blocks"]
            shown = [(line[head.index("size_bytes")], line[head.index("address")]) for line in lines]
            known = [(str(block["size_bytes"]), str(block["address"])) for block in blocks]
            self.assertEqual(shown[:len(known)], known)
            self.assertGreater(len(known), 0)

    suite = unittest.TestSuite()
    for name, trace in traces.items():
        case = type(f"Page_of_{name}", (RealProgram,), {"recording": trace})
        suite.addTest(unittest.TestSuite(case(test) for test in TESTS))
    return unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(suite).wasSuccessful()


def check_prometheus(recorder, heapprof, program):
    """Scrapes a running program, and compares the stored samples with the server's own."""
    program = installed("prometheus", program)
    process = recorder.gateway("prometheus")
    server = subprocess.Popen([heapprof, "serve", recorder.trace("prometheus"), "--no-open"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        with prometheus.Prometheus(program, recorder.directory, server.stdout.readline().strip()) as scraper:
            recorder.wait_for(lambda: len(scraper.samples("heapprof_live_bytes")) >= 3,
                              "prometheus has fewer than three samples of /metrics")
            samples = scraper.samples("heapprof_live_bytes")
            process.kill()
            process.wait()
            report = json.loads(subprocess.run([heapprof, "report", "--json", recorder.trace("prometheus")],
                                               check=True, stdout=subprocess.PIPE).stdout)
            sites = scraper.values("heapprof_site_live_bytes")
            types = scraper.ask("metadata")
            print(f"prometheus: {len(samples)} samples of heapprof_live_bytes, {len(sites)} call sites, "
                  f"{len([name for name in types if name.startswith('heapprof')])} metrics with metadata")
            return samples == sorted(samples) and 0 < samples[-1] <= report["heap"]["peak_bytes"] and len(sites) > 0
    finally:
        for one in (process, server):
            one.send_signal(signal.SIGKILL)
            one.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--prometheus", help="this program instead of the installed one")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    names = options.names or [*RECORDED, "prometheus"]
    if unknown := set(names) - {*RECORDED, "prometheus"}:
        parser.error(f"unknown program {', '.join(sorted(unknown))}")
    build = options.build.resolve()
    missing, succeeded = [], True
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        recorder = Recorder(build, Path(directory))
        traces = {}
        for name in names:
            try:
                if name == "prometheus":
                    succeeded &= check_prometheus(recorder, build / "analyzer/heapprof", options.prometheus)
                else:
                    getattr(recorder, name)()
                    traces[name] = recorder.trace(name)
                    print(f"{name}: {traces[name].stat().st_size / 1e6:.1f} MB", flush=True)
            except Missing as error:
                missing.append(f"{name}: {error}")
        if traces:
            succeeded &= check_pages(build, traces)
    for line in missing:
        print(f"not compared: {line}")
    return 0 if succeeded and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
