"""`top --once` and `--batch`: the figures of a program that does what this test commands, in the tables while it runs;
those of `report` once it has ended; what is printed for names, widths, damaged traces and wrong options."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import harness

FIGURES = ("live_bytes", "live_blocks", "allocations", "allocated_bytes")
RATE_ERROR_NS = 10_000_000  # a fifth of the interval between two tables


def figures(row):
    return tuple(row[name] for name in FIGURES)


class Top(harness.Case):
    def start(self, trace=None, name=None):
        """Starts tests/programs/commanded.cpp, under another name if given."""
        self.trace = trace or self.dir / "run.heapprof"
        binary = harness.program("commanded")
        if name:
            binary = shutil.copy(binary, self.dir / name)
        environment = harness.clean_environment(LD_PRELOAD=str(harness.LIBRARY), HEAPPROF_OUTPUT=str(self.trace))
        self.process = self.popen([str(binary)], env=environment, text=True, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def command(self, commands):
        self.process.stdin.write(commands)
        self.process.stdin.flush()
        self.assertEqual(self.process.stdout.read(len(commands)), "." * len(commands))

    def end(self):
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)

    def once(self, *options, of=None, status=0):
        return json.loads(self.heapprof("top", of or self.trace, "--once", "--json", "--top", 0, *options,
                                        status=status))

    def rows(self, table):
        return {row["name"]: figures(row) for row in table["rows"]}

    def start_batch(self, *options):
        self.batch = self.popen([str(harness.HEAPPROF), "top", str(self.trace), "--batch", "--json", "--interval",
                                 "0.05", *options], env=harness.analyzer_environment(),
                                text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def next_table(self):
        line = self.batch.stdout.readline()
        self.assertTrue(line, "top has ended")
        return json.loads(line)

    def table_after_commands(self):
        """The first table with as many events as another reader sees now, when the program does nothing, and with the
        names of all stacks."""
        def events(table):
            return table["total"]["allocations"] + table["total"]["frees"]
        wanted = events(self.once())
        for _ in range(400):
            table = self.next_table()
            if events(table) == wanted and not any(row["name"].startswith("(new stacks") for row in table["rows"]):
                return table
        self.fail(f"events are missing: {events(table)} instead of {wanted}")

    def test_a_table_has_what_the_program_did(self):
        self.start()
        self.command("abbfff")
        table = self.once()
        rows = self.rows(table)
        self.assertEqual(rows["grow_first"], (7000, 7, 10, 10_000))
        self.assertEqual(rows["grow_second"], (2000, 10, 10, 2000))
        self.assertEqual((table["format_version"], table["pid"], table["state"], table["by"], table["sort"]),
                         (1, self.process.pid, "recording", "site", "live"))
        self.assertEqual(table["integrity"], {"complete": True, "ended_by": "running", "end_status": None,
                                              "stop_reason": None, "events_lost": 0, "bytes_damaged": 0, "notes": []})
        for figure in FIGURES:
            self.assertEqual(table["total"][figure], sum(row[figure] for row in table["rows"]), figure)
        self.assertEqual([row["live_bytes"] for row in table["rows"]],
                         sorted((row["live_bytes"] for row in table["rows"]), reverse=True))
        by_blocks = [row["live_blocks"] for row in self.once("--sort", "blocks")["rows"]]
        self.assertEqual(by_blocks, sorted(by_blocks, reverse=True))
        # The same by process id, in every grouping, and while the program is stopped in every detail.
        self.process.send_signal(signal.SIGSTOP)
        harness.wait_until(lambda: harness.process_state(self.process.pid) == "T", "the program does not stop")
        heap = self.report(self.trace)["heap"]
        for by in ("site", "function", "line", "module", "thread", "stack"):
            total = self.once("--by", by, of=self.process.pid)["total"]
            self.assertEqual((total["live_bytes"], total["live_blocks"], total["allocations"],
                              total["allocated_bytes"], total["frees"]),
                             (heap["leaked_bytes"], heap["leaked_blocks"], heap["allocations"],
                              heap["allocated_bytes"], heap["frees"]), by)
        self.process.send_signal(signal.SIGCONT)
        self.end()

    def test_tables_follow_the_program(self):
        self.start()
        self.command("a")
        self.start_batch("--top", "0")
        first = self.next_table()
        self.assertEqual(self.rows(first)["grow_first"], (10_000, 10, 10, 10_000))
        self.assertEqual(first["total"]["growth_bytes"], 0)
        # A site, a thread, a realloc and a child that are new since then.
        self.command("b")
        self.assertEqual(self.rows(self.table_after_commands())["grow_second"], (1000, 5, 5, 1000))
        self.command("t")
        self.assertEqual(self.rows(self.table_after_commands())["grow_in_thread"], (21_000, 7, 7, 21_000))
        self.command("ffr")
        table = self.table_after_commands()
        rows = self.rows(table)
        self.assertEqual((rows["grow_first"], rows["resize"]), ((7000, 7, 10, 10_000), (5000, 1, 1, 5000)))
        growth = {row["name"]: (row["growth_bytes"], row["growth_blocks"]) for row in table["rows"]}
        self.assertEqual((growth["grow_first"], growth["grow_second"], growth["resize"]),
                         ((-3000, -3), (1000, 5), (5000, 1)))
        self.command("o")
        self.assertEqual(self.rows(self.table_after_commands())["grow_first"], rows["grow_first"],
                         "blocks of the child count for the parent")
        # Many blocks, so that staging blocks become frames while the trace is followed.
        self.command("ab" * 400)
        rows = self.rows(self.table_after_commands())
        self.assertEqual((rows["grow_first"], rows["grow_second"]),
                         ((4_007_000, 4007, 4010, 4_010_000), (401_000, 2005, 2005, 401_000)))
        self.end()
        while table["state"] != "ended":
            table = self.next_table()
        self.assertEqual(self.batch.stdout.read(), "")
        self.assertEqual((self.batch.wait(60), self.batch.stderr.read()), (0, ""))
        self.assertEqual(table["integrity"]["ended_by"], "exit")
        heap = self.report(self.trace)["heap"]
        self.assertEqual(figures(table["total"]), (heap["leaked_bytes"], heap["leaked_blocks"], heap["allocations"],
                                                   heap["allocated_bytes"]))

    def test_a_stopped_top_prints_no_tables_for_the_time_it_was_stopped(self):
        self.start()
        self.command("a")
        self.start_batch()
        self.next_table()
        self.batch.send_signal(signal.SIGSTOP)
        time.sleep(1.5)  # 30 intervals
        self.batch.send_signal(signal.SIGCONT)
        while (table := self.next_table())["interval_ns"] < 1_000_000_000:
            pass  # printed before the stop
        later = [self.next_table() for _ in range(20)][-1]
        self.assertGreater(later["at_ns"] - table["at_ns"], 500_000_000)  # not all at once
        self.end()

    def test_threads(self):
        self.start()
        self.command("at")
        threads = {row["name"]: row for row in self.once("--by", "thread")["rows"]}
        worker = next(row for name, row in threads.items() if name.startswith("worker "))
        self.assertEqual(worker["name"], f"worker {worker['tid']}")
        self.assertIn(str(worker["tid"]), os.listdir(f"/proc/{self.process.pid}/task"))
        self.assertEqual(figures(worker), (21_000, 7, 7, 21_000))
        self.end()

    def test_a_program_that_is_killed(self):
        self.start()
        self.command("ab")
        self.start_batch("--by", "function")
        before = self.next_table()
        self.command("a")
        # Rates are exact to 0.001, and those of the time between two tables.
        while (table := self.next_table())["total"]["allocated_bytes"] == before["total"]["allocated_bytes"]:
            before = table
        added = table["total"]["allocated_bytes"] - before["total"]["allocated_bytes"]
        self.assertAlmostEqual(table["total"]["allocated_bytes_per_s"], added * 1e9 / table["interval_ns"], places=2)
        self.assertEqual(table["interval_ns"], table["at_ns"] - before["at_ns"])
        idle = self.next_table()
        self.process.kill()
        self.process.wait()
        while (table := self.next_table())["state"] != "ended":
            pass
        self.assertEqual((self.batch.stdout.read(), self.batch.wait(60)), ("", 0))
        self.assertEqual(self.rows(table)["grow_first"], (20_000, 20, 20, 20_000))
        self.assertIn(table["integrity"]["ended_by"], ("unknown", "signal"))
        # The recording ends with its last event, which was after the table without it. `top` estimates the clock's rate
        # until the recorder has taken a sample; a process that waited between two readings of clocks makes both
        # differ, 31 microseconds once. (`report` may take another rate, too: it only has the recording.)
        self.assertGreater(table["at_ns"], before["at_ns"] - RATE_ERROR_NS)
        self.assertLess(table["at_ns"], idle["at_ns"] + RATE_ERROR_NS)
        self.assertEqual(self.once()["total"]["live_bytes"], self.report(self.trace)["heap"]["leaked_bytes"])

    def test_finished_recordings(self):
        run = self.record(harness.program("ledger_threads"), 2_000)
        heap = self.report(run.trace)["heap"]
        expected = (heap["leaked_bytes"], heap["leaked_blocks"], heap["allocations"], heap["allocated_bytes"])
        table = self.once(of=run.trace)
        self.assertEqual((figures(table["total"]), table["state"]), (expected, "ended"))
        # Rows as report has them, by its own accounting.
        report = json.loads(self.heapprof("report", run.trace, "--by", "site", "--json"))
        rows = {(row["name"], row["module"]): row["self"] for row in report["rows"]}
        for row in table["rows"]:
            of_report = rows[row["name"], row["module"]]
            self.assertEqual(figures(row), (of_report["leaked_bytes"], of_report["leaked_blocks"],
                                            of_report["allocations"], of_report["allocated_bytes"]), row["name"])
        self.assertEqual(len(table["rows"]), len(rows))
        compacted = self.dir / "compacted.heapprof"
        self.heapprof("compact", run.trace, "-o", compacted)
        self.assertEqual(figures(self.once(of=compacted)["total"]), expected)
        # --batch prints one table of a recording that does not grow.
        batch = self.heapprof("top", run.trace, "--batch", "--json")
        self.assertEqual(len(batch.splitlines()), 1)

    def test_programs_at_full_speed(self):
        """The last table of a recording that was followed has the figures of a report, row by row."""
        # python3 waits until top has printed a table: its standard input is closed then.
        script = ("import ast, sys\nsys.stdin.read()\n"
                  "for _ in range(3): ast.dump(ast.parse(open(ast.__file__).read()))")
        for number, command in enumerate(((harness.program("ledger_threads"), "20000"),
                                          (sys.executable, "-c", script))):
            self.trace = self.dir / f"full-{number}.heapprof"
            environment = harness.clean_environment(LD_PRELOAD=str(harness.LIBRARY), HEAPPROF_OUTPUT=str(self.trace),
                                                    LEDGER_FILE=self.dir / "ledger", PYTHONMALLOC="malloc",
                                                    HEAPPROF_BLOCK_BYTES="4096")
            program = self.popen(list(map(str, command)), env=environment, stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL)
            harness.wait_until(lambda: self.trace.exists() and self.trace.stat().st_size > 4096, "no trace is written")
            self.start_batch("--by", "function", "--top", "0", "--no-symbols")
            table = self.next_table()
            if number == 1:
                self.assertEqual(table["state"], "recording")
            program.stdin.close()
            lines = self.batch.stdout.read().splitlines()
            self.assertEqual((self.batch.wait(60), self.batch.stderr.read(), program.wait(60)), (0, "", 0))
            if number == 1:
                self.assertTrue(lines, "top has printed nothing after the end of python3")
            table = json.loads(lines[-1]) if lines else table
            self.assertEqual((table["state"], table["integrity"]["complete"]), ("ended", True))
            self.assertGreater(table["total"]["allocations"], 50_000)
            report = json.loads(self.heapprof("report", self.trace, "--by", "function", "--json", "--no-symbols"))
            def place(row):
                return row["name"], row["module"], row["file"], row["line"]
            of_report = {place(row): tuple(row["self"][figure] for figure in (
                "leaked_bytes", "leaked_blocks", "allocations", "allocated_bytes")) for row in report["rows"]}
            of_top = {place(row): figures(row) for row in table["rows"]}
            self.assertEqual(of_top, {name: row for name, row in of_report.items() if row[2]})

    def test_a_program_that_only_allocates(self):
        """Extents and blocks follow each other as fast as the recorder can write them."""
        self.trace = self.dir / "burst.heapprof"
        environment = harness.clean_environment(LD_PRELOAD=str(harness.LIBRARY), HEAPPROF_OUTPUT=str(self.trace))
        program = self.popen([harness.program("burst"), "3000000"], env=environment)
        harness.wait_until(lambda: self.trace.exists() and self.trace.stat().st_size > 4096, "no trace is written")
        self.start_batch("--no-symbols")
        out, errors = self.batch.communicate(timeout=120)
        self.assertEqual((self.batch.returncode, errors, program.wait(60)), (0, "", 0))
        table = json.loads(out.splitlines()[-1])
        info = json.loads(self.heapprof("info", self.trace, "--json"))
        self.assertEqual((table["state"], table["integrity"]), ("ended", info["integrity"]))
        self.assertTrue(info["integrity"]["complete"])
        self.assertGreaterEqual(info["events"], 6_000_000)
        self.assertEqual(table["total"]["allocations"] + table["total"]["frees"], info["events"])

    def test_text(self):
        self.start(name="odd\x1b[31m\nname")
        self.command("ab")
        for width in (60, 100):
            environment = harness.clean_environment(COLUMNS=str(width), XDG_CACHE_HOME=self.dir / "cache")
            text = subprocess.run([str(harness.HEAPPROF), "top", str(self.trace), "--batch", "--count", "2",
                                   "--interval", "0.05"], env=environment, capture_output=True, text=True, check=True,
                                  stdin=subprocess.DEVNULL, timeout=60).stdout
            self.assertEqual(text.count("By call site, sorted by live bytes"), 2)
            self.assertLessEqual(max(map(len, text.splitlines())), width)
            self.assertFalse([char for char in text if ord(char) < 32 and char != "\n"], "control characters")
            line = next(line for line in text.splitlines() if "grow_first" in line)
            self.assertIn("9.77 KiB", line)
        self.end()

    def test_damaged_traces(self):
        run = self.record(harness.program("ledger_single"), 20_000, BLOCK_BYTES=4096)
        data = bytearray(run.trace.read_bytes())
        damaged = self.dir / "damaged.heapprof"
        frames = [found.start() for found in re.finditer(b"HFRM", data)]
        self.assertGreater(len(frames), 10)
        data[frames[len(frames) // 2] + 100] ^= 1
        damaged.write_bytes(data)
        result = self.run_heapprof("top", damaged, "--once", "--json")
        table = json.loads(result.stdout)
        report = self.report(damaged, status=1)
        self.assertEqual(result.returncode, 1)
        self.assertIn("incomplete", result.stderr)
        self.assertFalse(table["integrity"]["complete"])
        self.assertEqual(table["integrity"]["events_lost"], report["integrity"]["events_lost"])
        self.assertGreater(table["total"]["allocations"], 0)
        self.assertIn("incomplete", self.run_heapprof("top", damaged, "--once").stderr)

    def test_wrong_options(self):
        run = self.record(harness.program("hello"))
        for arguments, message in (
                ((run.trace,), "is no terminal; add --once"),
                ((run.trace, "--once", "--batch"), "exclude each other"),
                ((run.trace, "--once", "--interval", "2"), "--batch"),
                ((run.trace, "--json"), "--once"),
                ((run.trace, "--once", "--count", "2"), "--batch"),
                ((run.trace, "--batch", "--interval", "0"), "--interval"),
                ((run.trace, "--once", "--config", self.dir / "missing.toml"), "there is no such file"),
                ((run.trace, "--once", "--config", self.dir), "is a directory"),
                ((run.trace, "--once", "--by", "nonsense"), "--by")):
            result = self.run_heapprof("top", *arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
            self.assertIn(message, result.stderr, arguments)
        nothing = self.dir / "nothing.heapprof"
        nothing.write_bytes(b"")
        for trace, message in ((nothing, "is empty"), (self.dir / "missing", "missing"),
                               (4194305, "there is no process 4194305"),
                               (os.getpid(), "is not recorded")):
            result = self.run_heapprof("top", trace, "--once")
            self.assertEqual((result.returncode, result.stdout), (1, ""), trace)
            self.assertIn(message, result.stderr)


if __name__ == "__main__":
    harness.main()
