"""Programs of Debian, with and without the recorder: same exit status, same output, and a plausible report."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import harness


def needs(*programs):
    missing = [name for name in programs if shutil.which(name) is None]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


class Real(harness.Case):
    def compare(self, *command, how="preload", functions=(), cwd=None, **variables):
        """Checks that the behaviour is the same with and without the recorder; returns the report."""
        plain = self.record(*command, how="plain", cwd=cwd, status=None, **variables)
        run = self.record(*command, how=how, cwd=cwd, status=plain.status, **variables)
        self.assertEqual(run.stdout, plain.stdout)
        if how != "record":
            self.assertEqual(run.stderr, plain.stderr)
        return self.check_report(run.trace, functions)

    def check_report(self, trace, functions=(), ended_by=("exit", "unknown")):
        report = self.report(trace)
        integrity = report["integrity"]
        self.assertTrue(integrity["complete"], integrity)
        self.assertIn(integrity["ended_by"], ended_by)
        heap = report["heap"]
        self.assertEqual((heap["unmatched_frees"], heap["implied_frees"]), (0, 0), heap)
        self.assertGreater(heap["allocations"], 100)
        self.assertGreaterEqual(heap["peak_bytes"], heap["leaked_bytes"])
        rows = self.all_stacks(trace, "allocations")
        self.assertEqual(sum(row["blocks"] for row in rows), heap["allocations"])
        truncated = sum(row["blocks"] for row in rows if row["truncated"])
        self.assertLess(truncated, heap["allocations"] * 0.01, "too many truncated stacks")
        # Debian's programs have only dynamic symbols; functions of libraries have names.
        named = sum(row["blocks"] for row in rows
                    if any(not frame["function"].startswith("0x") and frame["function"] for frame in row["stack"]))
        self.assertGreater(named, heap["allocations"] * 0.9, "too many stacks without a name")
        seen = {frame["function"].split("(")[0] for row in rows for frame in row["stack"]}
        for function in functions:
            self.assertIn(function, seen)
        return report

    def test_python(self):
        script = "import json, collections, re\n" \
                 "data = [{'n': i, 's': str(i) * 10} for i in range(20000)]\n" \
                 "text = json.dumps(data)\n" \
                 "print(len(text), len(json.loads(text)), len(re.findall('9+', text)))\n"
        for how in harness.WAYS:
            with self.subTest(how=how):
                self.compare(sys.executable, "-I", "-c", script, how=how, _PYTHONHASHSEED=0, _PYTHONMALLOC="malloc")

    def test_python_threads_and_children(self):
        script = "import subprocess, sys, threading\n" \
                 "said = []\n" \
                 "def work(): said.append(subprocess.run([sys.executable, '-c', 'print(1)'], " \
                 "capture_output=True).stdout)\n" \
                 "threads = [threading.Thread(target=work) for _ in range(4)]\n" \
                 "[t.start() for t in threads]; [t.join() for t in threads]\n" \
                 "print(said)\n" \
                 "import os; pid = os.fork()\n" \
                 "if pid == 0: print('child', flush=True); os._exit(3)\n" \
                 "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
        self.compare(sys.executable, "-I", "-c", script)

    @needs("git")
    def test_git(self):
        environment = dict(_GIT_CONFIG_GLOBAL="/dev/null", _GIT_CONFIG_SYSTEM="/dev/null")
        repository = self.dir / "repository"
        subprocess.run(["git", "init", "-q", "-b", "main", repository], check=True)
        for i in range(200):
            (repository / f"file{i}.txt").write_text("line\n" * i)
        subprocess.run(["git", "-C", repository, "add", "."], check=True)
        subprocess.run(["git", "-C", repository, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit",
                        "-q",
                        "-m", "m"], check=True)
        self.compare("git", "-C", repository, "log", "--stat", "-p", "--no-color", **environment)
        self.compare("git", "-C", repository, "fsck", "--full", "--no-progress", **environment)

    @needs("sqlite3")
    def test_sqlite(self):
        self.compare("sqlite3", ":memory:",
                     "create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c "
                     "where x < 20000) "
                     "insert into t select x, hex(x * x) from c; create index i on t(b); "
                     "select count(*), max(b) from t where b like '%7%';")

    @needs("g++")
    def test_compiler(self):
        source = self.dir / "unit.cpp"
        source.write_text("#include <map>\n#include <string>\n#include <vector>\n"
                          "std::map<std::string, std::vector<int>> m;\n"
                          "int main() { m[\"a\"].push_back(1); return (int)m.size(); }\n")
        outputs = []
        for how in ("plain", "preload"):
            target = self.dir / f"unit.{how}.s"
            run = self.record("g++", "-O1", "-S", source, "-o", target, how=how, CHILDREN=1,
                              OUTPUT=self.dir / "%e.%p.heapprof")
            outputs.append(target.read_text())
        self.assertEqual(outputs[0], outputs[1])
        (trace,) = self.dir.glob("cc1plus.*.heapprof")
        report = self.check_report(trace)
        self.assertGreater(report["heap"]["allocations"], 10_000)

    @needs("perl")
    def test_perl(self):
        self.compare("perl", "-e", "my %h; $h{$_ % 997} .= chr(65 + $_ % 26) x 30 for 1..100000; "
                     "print length(join ',', map { $h{$_} } sort keys %h), qq(\\n); exit 9")

    @needs("redis-server", "redis-benchmark", "redis-cli")
    def test_redis(self):
        with tempfile.TemporaryDirectory(prefix="hp-redis-") as folder:
            socket = Path(folder) / "s"
            trace = self.dir / "redis.heapprof"
            server = self.popen(
                [harness.HEAPPROF, "record", "-q", "-o", trace, "--", "redis-server", "--port", "0", "--unixsocket",
                 socket, "--dir", folder, "--save", "", "--appendonly", "no"],
                env=harness.clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

            def answers():
                self.assertIsNone(server.poll(), "the server has ended")
                ping = subprocess.run(["redis-cli", "-s", socket, "ping"], capture_output=True, text=True)
                return ping.stdout == "PONG\n"
            harness.wait_until(answers, "the server does not answer")
            subprocess.run(["redis-benchmark", "-s", socket, "-q", "-n", "10000", "-r", "2000", "-t",
                            "set,get,lpush,sadd,zadd"], check=True, capture_output=True, timeout=120)
            running = self.report(trace)
            self.assertEqual(running["integrity"]["ended_by"], "running")
            # A forked child writes the snapshot. It must succeed, and must not change the trace.
            saved = subprocess.run(["redis-cli", "-s", socket, "bgsave"], capture_output=True, text=True)
            self.assertIn("started", saved.stdout)

            def persistence():
                return subprocess.run(["redis-cli", "-s", socket, "info", "persistence"], capture_output=True,
                                      text=True).stdout
            harness.wait_until(lambda: "rdb_bgsave_in_progress:0" in persistence(), "the snapshot is not written")
            self.assertIn("rdb_last_bgsave_status:ok", persistence())
            subprocess.run(["redis-cli", "-s", socket, "shutdown", "nosave"], capture_output=True)
            output, _ = server.communicate(timeout=60)
            self.assertEqual(server.returncode, 0, output)
            report = self.check_report(trace, ended_by=("exit",))
            self.assertGreater(report["heap"]["allocations"], 10_000)


if __name__ == "__main__":
    harness.main()
