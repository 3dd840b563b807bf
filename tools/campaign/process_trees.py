#!/usr/bin/env python3
"""Check the answers for several recordings with real trees of processes.

usage: tools/campaign/process_trees.py [--only NAME,...] [--build DIR] [--keep DIR | --recorded DIR]
                                        [-o FILE.md]

Trees: `make -j2` of Debian's lz4, `cargo test` of a crate, PostgreSQL with pgbench, PostgreSQL's regression tests,
Chromium without a window, a pool of Python's multiprocessing. Each is recorded with --children into a directory. Then, of the directory:

  * the sums of `report`, `leaks`, `tree` and the folded stacks are those of its single recordings;
  * the peak of the sum is at least the highest peak of one process and at most the sum of all peaks; what the
    processes had then adds up to it, and is what `report --live-at peak` adds up over stacks;
  * a process that was forked or executed in the tree comes from its parent, of those that have a recording.

Prints a table. Exit status 1: something did not hold, or a program failed. A program that is not installed is left
out, with the reason.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SUMS = ("allocations", "allocated_bytes", "frees", "failed", "leaked_bytes", "leaked_blocks",
        "temporary_allocations", "unmatched_frees", "implied_frees")
POOL = """
import multiprocessing, json
def work(number):
    return len(json.dumps([[i, str(i) * (i % 7)] for i in range(20000 + 5000 * number)]))
if __name__ == "__main__":
    shared = [str(i) for i in range(200000)]
    with multiprocessing.get_context("fork").Pool(4) as pool:
        print(sum(pool.map(work, range(8))), len(shared))
"""


class Left(Exception):
    """A tree that cannot be recorded here."""


def need(program):
    path = shutil.which(program) or next(
        (path for path in (f"/usr/lib/postgresql/15/bin/{program}", f"/usr/local/bin/{program}")
         if os.access(path, os.X_OK)), None)
    if path is None:
        raise Left(f"{program} is not installed")
    return path


def debian_source(package, folder):
    """Fetches and unpacks the source of a Debian package, with an apt configuration of its own."""
    apt = os.path.join(folder, "apt")
    for part in ("parts", "lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(apt, part))
    lines = []
    for directory, _, names in os.walk("/etc/apt"):
        for name in names:
            if name.endswith((".list", ".sources")):
                with open(os.path.join(directory, name), encoding="utf-8") as file:
                    text = file.read()
                if name.endswith(".sources"):
                    with open(f"{apt}/parts/{name}", "w", encoding="utf-8") as out:
                        out.write("".join("Types: deb-src\n" if line.startswith("Types:") else line
                                          for line in text.splitlines(True)))
                else:
                    lines += ["deb-src" + line[3:] for line in text.splitlines() if line.startswith("deb ")]
    with open(f"{apt}/parts/all.list", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    config = f"{apt}/apt.conf"
    with open(config, "w", encoding="utf-8") as file:
        file.write(f'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "{apt}/parts";\n'
                   f'Dir::State::lists "{apt}/lists";\nDir::Cache "{apt}/cache";\nAPT::Sandbox::User "root";\n'
                   'Acquire::Languages "none";\n#clear APT::Update::Post-Invoke;\n'
                   '#clear APT::Update::Post-Invoke-Success;\n')
    for command in (["update", "-qq"], ["source", "-qq", package]):
        done = subprocess.run(["apt-get", *command], cwd=folder, env={**os.environ, "APT_CONFIG": config},
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise Left(f"apt-get {command[0]}: {done.stderr.strip()[-200:]}")
    return next(os.path.join(folder, name) for name in sorted(os.listdir(folder))
                if name.startswith(package.partition("=")[0] + "-") and os.path.isdir(os.path.join(folder, name)))


class Trees:
    """One method for each tree: prepares, then calls self.record(command, ...)."""

    def __init__(self, build, folder):
        self.heapprof = os.path.join(build, "analyzer", "heapprof")
        self.folder = folder
        self.recordings = os.path.join(folder, "recordings")
        self.least = 1

    def record(self, command, cwd=None, while_running=None, prefix=(), least=5, **variables):
        """`least`: with fewer processes the check says nothing."""
        self.least = least
        command = [*prefix, self.heapprof, "record", "-q", "--children", "-o", self.recordings + "/", "--", *command]
        environment = {**os.environ, **variables}
        with open(os.path.join(self.folder, "output.txt"), "w+", encoding="utf-8", errors="replace") as output:
            program = subprocess.Popen(command, cwd=cwd or self.folder, env=environment, stdout=output, stderr=output,
                                       stdin=subprocess.DEVNULL)
            try:
                if while_running:
                    while_running()
                status = program.wait(timeout=900)
            finally:
                if program.poll() is None:
                    program.kill()
            output.seek(0)
            if status:
                raise RuntimeError(f"exit status {status}: {output.read()[-500:]}")

    def make(self):
        """make -j2 of lz4, from Debian's source"""
        need("make")
        self.record(["make", "-j2", "lib", "lz4"], cwd=debian_source("lz4", self.folder), least=50)

    def cargo(self):
        """cargo test of the crate itoa, offline after its download"""
        cargo = need("cargo")
        subprocess.run([cargo, "init", "--quiet", "--lib", "--name", "numbers", "crate"], cwd=self.folder, check=True)
        crate = os.path.join(self.folder, "crate")
        if subprocess.run([cargo, "add", "--quiet", "itoa"], cwd=crate, capture_output=True, check=False).returncode:
            raise Left("the crate itoa cannot be fetched")
        with open(os.path.join(crate, "src", "lib.rs"), "a", encoding="utf-8") as file:
            file.write("\n#[test]\nfn formats() {\n    let all: Vec<String> = (0..100_000u32)\n        "
                       ".map(|n| itoa::Buffer::new().format(n).to_string()).collect();\n    "
                       "assert_eq!(all[99_999], \"99999\");\n}\n")
        subprocess.run([cargo, "fetch", "--quiet"], cwd=crate, check=True)
        self.record([cargo, "test", "--offline", "--quiet", "-j2"], cwd=crate)

    def without_root(self):
        """The prefix of commands that root must not execute."""
        if os.geteuid():
            return []
        for path in (self.folder, os.path.dirname(self.folder)):
            os.chmod(path, 0o777)
        return ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]

    def postgresql(self):
        """PostgreSQL while pgbench runs"""
        postgres, pgbench = need("postgres"), need("pgbench")
        initdb, pg_ctl = need("initdb"), need("pg_ctl")
        data, socket = os.path.join(self.folder, "data"), self.folder
        user = self.without_root()
        subprocess.run([*user, initdb, "-D", data, "-A", "trust"], check=True, capture_output=True, cwd=self.folder)

        def load():
            client = ["-h", socket, "-p", "54329", "-U", "postgres", "postgres"]
            for _ in range(300):
                if subprocess.run([pgbench, "-i", "-q", "-s", "2", *client], capture_output=True,
                                  check=False).returncode == 0:
                    break
                time.sleep(0.2)
            try:
                subprocess.run([pgbench, "-c", "4", "-j", "2", "-t", "500", *client], check=True, capture_output=True)
            finally:
                subprocess.run([*user, pg_ctl, "stop", "-D", data, "-m", "fast"], check=True, capture_output=True,
                               cwd=self.folder)
        self.record([postgres, "-D", data, "-k", socket, "-p", "54329", "-h", ""], while_running=load, prefix=user,
                    least=10)

    def postgresql_regression(self):
        """PostgreSQL's regression tests, with the server that is installed"""
        server = os.path.dirname(os.path.realpath(need("postgres")))
        package = subprocess.run(["dpkg-query", "-S", f"{server}/postgres"], capture_output=True, text=True,
                                 check=False).stdout.partition(":")[0]
        version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True,
                                 check=False).stdout
        if not version:
            raise Left("PostgreSQL is not from a Debian package")
        source = debian_source(f"{package}={version}", self.folder)
        quiet = {"check": True, "capture_output": True, "cwd": source}
        subprocess.run(["./configure", "--without-readline", "--without-zlib", "--without-icu"], **quiet)
        subprocess.run(["make", "-j2", "-C", "src/test/regress"], **quiet)
        tests = os.path.join(source, "src", "test", "regress")
        user = self.without_root()
        if user:
            subprocess.run(["chown", "-R", "postgres", source], check=True)

        def command(name):
            results = os.path.join(source, name)
            return [f"{tests}/pg_regress", f"--bindir={server}", f"--inputdir={tests}", f"--dlpath={tests}",
                    f"--outputdir={results}", f"--temp-instance={results}/instance",
                    "--no-locale", "--encoding=SQL_ASCII", "--max-concurrent-tests=20", "--port=54328",
                    f"--schedule={tests}/parallel_schedule"]

        def failed(output):
            return re.findall(r"^(?:test|    ) +(\S+) +\.\.\. FAILED", output, re.MULTILINE)

        # A test may fail without the recorder, too.
        before = subprocess.run([*user, *command("unrecorded")], capture_output=True, text=True, cwd=source,
                                stdin=subprocess.DEVNULL, timeout=900, check=False)
        if "... ok" not in before.stdout:
            raise RuntimeError(f"the tests do not run without the recorder: {before.stdout[-500:]}{before.stderr[-500:]}")
        try:
            self.record(command("recorded"), cwd=source, prefix=user, least=400)
        except RuntimeError:
            pass  # the exit status is that of failed tests
        with open(os.path.join(self.folder, "output.txt"), encoding="utf-8", errors="replace") as output:
            after = output.read()
        if failed(after) != failed(before.stdout) or after.count("... ok") != before.stdout.count("... ok"):
            raise RuntimeError(f"failed when recorded: {failed(after)}, else {failed(before.stdout)}: {after[-500:]}")

    def chromium(self):
        """Chromium without a window renders a page to a file"""
        browser = need("chromium")
        page = os.path.join(self.folder, "page.html")
        with open(page, "w", encoding="utf-8") as file:
            file.write("<table>" + "<tr><td>heap<td>profile" * 2000 + "</table>")
        self.record([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}/profile",
                     f"--screenshot={self.folder}/page.png", f"file://{page}"])

    def pool(self):
        """a pool of Python's multiprocessing that forks its workers"""
        with open(os.path.join(self.folder, "pool.py"), "w", encoding="utf-8") as file:
            file.write(POOL)
        self.record(["/usr/bin/python3", "pool.py"], PYTHONMALLOC="malloc")


class Check:
    """The answers for a directory, and what of them does not hold."""

    def __init__(self, heapprof, folder):
        self.heapprof, self.folder = heapprof, folder
        self.traces = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        self.wrong = []
        self.seconds = {}

    def ask(self, *words):
        before = os.times()
        done = subprocess.run([self.heapprof, *words], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL)
        after = os.times()
        if self.folder in words and words[0] in ("report", "leaks", "timeline") and "--live-at" not in words:
            self.seconds.setdefault(words[0], (after.children_user + after.children_system -
                                               before.children_user - before.children_system))
        if done.returncode not in (0, 1):
            raise RuntimeError(f"{' '.join(words)}: {done.stderr[-500:]}")
        return done.stdout

    def json(self, *words):
        return json.loads(self.ask(*words, "--json", "--no-symbols"))

    def equal(self, what, found, expected):
        if found != expected:
            self.wrong.append(f"{what}: {found}, expected {expected}")

    def run(self):
        single = {trace: self.json("report", trace, "--top", "1") for trace in self.traces}
        report = self.json("report", self.folder)
        processes = report["processes"]
        self.equal("recordings", len(processes) + report["copies"] + report["unread"], len(self.traces))
        self.equal("sums", report["heap"], {key: sum(one["heap"][key] for one in single.values()) for key in SUMS})
        for process in processes:
            one = single[process["trace"]]
            self.equal(f"peak of {process['trace']}", process["peak_bytes"], one["heap"]["peak_bytes"])
            if process["from"] is not None and process["began"] in ("forked", "started"):
                self.equal(f"parent of {process['pid']}", processes[process["from"]]["pid"], process["parent_pid"])
        leaked = sum(one["heap"]["leaked_bytes"] for one in single.values())
        self.equal("leaks", self.json("leaks", self.folder, "--top", "1")["total"]["bytes"], leaked)
        self.equal("tree", self.json("tree", self.folder)["total"]["leaked_bytes"], leaked)
        folded = self.ask("flamegraph", self.folder, "--format", "folded", "--cost", "leaked", "--no-symbols")
        self.equal("folded stacks", sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()), leaked)
        peaks = [process["peak_bytes"] for process in processes]
        peak = self.json("timeline", self.folder)["sum_peak"]
        if not max(peaks) <= peak["bytes"] <= sum(peaks) or peak["at_most_bytes"] < peak["bytes"]:
            self.wrong.append(f"peak of the sum: {peak['bytes']}, of {max(peaks)} to {sum(peaks)}")
        self.equal("processes at the peak", sum(peak["live_bytes"]), peak["bytes"])
        at_peak = self.json("report", self.folder, "--live-at", "peak")
        self.equal("stacks at the peak", at_peak["total"]["peak_bytes"], peak["bytes"])
        return report, peak


def main():
    names = [name for name in vars(Trees) if not name.startswith("_") and name not in ("record", "without_root")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(names))
    parser.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"))
    parser.add_argument("--keep", help="leave the recordings in this directory")
    parser.add_argument("--recorded", help="check the recordings that --keep left in this directory; record nothing")
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    rows, failed = [], False
    for name in options.only.split(","):
        work = options.keep or options.recorded
        work = work and os.path.join(os.path.abspath(work), name)
        if options.keep:
            os.makedirs(work)
        folder = work or tempfile.mkdtemp(prefix="process-trees-")
        trees = Trees(os.path.abspath(options.build), folder)
        what = getattr(Trees, name).__doc__
        try:
            if not options.recorded:
                getattr(trees, name)()
            check = Check(trees.heapprof, trees.recordings)
            report, peak = check.run()
            if len(report["processes"]) < trees.least:
                check.wrong.append(f"{len(report['processes'])} recordings, at least {trees.least} expected")
        except Left as reason:
            rows.append(f"| {what} | left out: {reason} | | | | | | |")
            continue
        except (RuntimeError, subprocess.CalledProcessError) as error:
            rows.append(f"| {what} | failed: {error} | | | | | | |")
            failed = True
            continue
        finally:
            if not work:
                shutil.rmtree(folder, ignore_errors=True)
        failed |= bool(check.wrong)
        for wrong in check.wrong:
            print(f"{name}: {wrong}", file=sys.stderr)
        processes = report["processes"]
        exact = "" if peak["at_most_bytes"] == peak["bytes"] else f" (at most {peak['at_most_bytes']:,})"
        rows.append(
            f"| {what} | {len({one['pid'] for one in processes})} in {len(processes)} | {report['events']:,} | "
            f"{sum(one['peak_bytes'] for one in processes):,} | {peak['bytes']:,}{exact} | "
            f"{report['heap']['leaked_bytes']:,} | "
            f"{', '.join(f'{seconds:.1f}' for seconds in check.seconds.values())} | "
            f"{'equal' if not check.wrong else '**differ**'} |")
        print(rows[-1], flush=True)
    table = "\n".join(["| tree | processes in recordings | events | sum of the peaks (bytes) | peak of the sum | "
                       "leaked | report, leaks, timeline (s of processor time) | sums |",
                       "|---|---|---|---|---|---|---|---|", *rows]) + "\n"
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(table)
    print(table)
    return failed


def run_with_a_large_stack():
    """A recursion of thousands of functions is as deep in the JSON of `tree`."""
    sys.setrecursionlimit(200_000)
    threading.stack_size(1 << 30)
    status = []

    def run():
        try:
            status.append(main())
        except SystemExit as end:  # --help, or a wrong command line
            status.append(end.code)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return status[0] if status else 1


if __name__ == "__main__":
    sys.exit(run_with_a_large_stack())
