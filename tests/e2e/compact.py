"""Commands print the same for a compacted trace as for its original: byte for byte with --exact; otherwise times
are rounded to about a microsecond, and numbers replace addresses. Problems are reported, of the input and of a
compacted trace that was damaged later."""

import gzip
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys

import harness

COSTS = ("peak", "leaked", "allocated", "allocations", "temporary")
REPORTS = tuple(("report", "--json", "--top", "100", "--cost", cost) for cost in COSTS)
COMMANDS = REPORTS + (
    ("report",), ("report", "--json", "--kind", "all"), ("report", "--json", "--kind", "mmap"),
    ("leaks", "--json", "--top", "100"), ("histogram", "--json"), ("churn", "--json"), ("reallocs", "--json"),
    ("threads", "--json"), ("frees", "--json"), ("timeline", "--json"), ("timeline", "--format", "csv"),
    ("timeline", "--format", "svg"), ("timeline", "--format", "openmetrics"), ("flamegraph", "--format", "folded"))
EXPORTS = ("heaptrack", "pprof", "speedscope", "massif", "dhat", "callgrind", "firefox", "perfetto", "ndjson", "csv")
# Times are rounded to the ticks of a microsecond at the clock's nominal rate. The samples may give a lower rate, at
# which these ticks take longer.
MAX_DIFFERENCE_NS = 3_000

# Without the modules that a start imports (-S), most of its events are of its own threads.
PYTHON = """
import _thread
done = [_thread.allocate_lock() for _ in range(3)]
def rows(count):
    return ['%d,%s' % (i, 'x' * i) for i in range(count)]
def work(number, lock):
    for _ in range(20):
        sorted({row: row.split(',') for row in rows(number + 30)}.values(), key=len)
    lock.release()
for number, lock in enumerate(done):
    lock.acquire()
    _thread.start_new_thread(work, (number, lock))
for lock in done:
    lock.acquire()
"""
SQL = """create table t(a integer primary key, b text);
with recursive n(x) as (select 1 union all select x+1 from n where x<3000)
insert into t select x, printf('row %d', x) from n;
create index i on t(b); select count(*) from t where b like '%9%';"""


class Compact(harness.Case):
    of_originals = {}

    def compact(self, trace, *options, status=0):
        result = self.dir / f"{trace.stem}{''.join(options)}.compact.heapprof"
        self.heapprof("compact", trace, "-o", result, *options, status=status)
        return result

    def output_of_original(self, trace, command):
        """output_of(), once for all tests."""
        key = (trace, *command)
        if key not in self.of_originals:
            self.of_originals[key] = self.output_of(trace, command)
        return self.of_originals[key]

    def output_of(self, trace, command):
        """The output of a command, without the names of traces."""
        if command[0] == "export":
            target = self.dir / "export"
            self.heapprof("export", command[1], trace, *command[2:], "-o", target)
            data = target.read_bytes()
            data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        else:
            data = self.heapprof(command[0], trace, *command[1:]).encode()
        data = re.sub(rb'("HEAPPROF_OUTPUT": ?)"[^"]*"', rb'\1"TRACE"', data)  # of a compacted trace, its original
        return data.replace(str(trace).encode(), b"TRACE").replace(trace.name.encode(), b"TRACE")

    def recordings(self):
        """Threads, reallocations, call stacks of frees, mappings, marks; and two real programs."""
        yield self.record_once(harness.program("ledger_threads"), 1_000, 1, 3, 1).trace
        yield self.record_once(harness.program("ledger_patterns"), FREE_STACKS=1).trace
        yield self.record_once(harness.program("ledger_growth")).trace
        yield self.record_once(harness.program("ledger_mmap")).trace
        python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
        yield self.record_once(python, "-S", "-c", PYTHON, _PYTHONMALLOC="malloc").trace
        if shutil.which("sqlite3"):
            yield self.record_once("sqlite3", ":memory:", SQL).trace

    def test_exact(self):
        for trace in self.recordings():
            exact = self.compact(trace, "--exact")
            self.assertLess(exact.stat().st_size, trace.stat().st_size / 2)
            for command in COMMANDS + tuple(("export", name) for name in EXPORTS) + (
                    ("report", "--json", "--top", "100", "--from", "20%", "--to", "70%"),
                    ("leaks", "--json", "--from", "50%"),
                    ("report", "--json", "--min-lifetime", "10us"), ("report", "--json", "--live-at", "30%"),
                    ("export", "ndjson", "--from", "30%", "--to", "60%"),
                    ("query", "select * from allocations", "--csv"), ("query", "select * from call_sites", "--csv"),
                    ("query", "select duration_ns, ended_by, events, peak_bytes, leaked_bytes from processes", "--csv")):
                with self.subTest(trace=trace.name, command=command):
                    self.assertEqual(self.output_of(exact, command), self.output_of_original(trace, command))

    def test_beside_other_recordings(self):
        one, other, *_ = self.recordings()
        exact = self.compact(one, "--exact")
        for command in ("report", "leaks", "timeline"):
            was = json.loads(self.heapprof(command, one, other, "--json"))
            now = json.loads(self.heapprof(command, exact, other, "--json"))
            for process in was["processes"] + now["processes"]:
                del process["trace"]
            self.assertEqual(was, now, command)
        # A copy of a recording is left out.
        self.assertEqual(json.loads(self.heapprof("report", one, exact, "--json"))["copies"], 1)

    def same(self, was, now, where=""):
        """Checks that two JSON values are equal, except for times, which may differ by MAX_DIFFERENCE_NS."""
        self.assertEqual(type(was), type(now), where)
        if isinstance(was, dict):
            self.assertEqual(was.keys(), now.keys(), where)
            for key, one in was.items():
                other = now[key]
                if type(one) is type(other) and not isinstance(one, (dict, list)) and one == other:
                    continue  # usual, and quicker than assertEqual()
                if key.endswith("_ns") and one is not None and other is not None:
                    self.assertLessEqual(abs(one - other), MAX_DIFFERENCE_NS, f"{where}.{key}")
                else:
                    self.same(one, other, f"{where}.{key}")
        elif isinstance(was, list):
            self.assertEqual(len(was), len(now), where)
            for number, (one, other) in enumerate(zip(was, now)):
                self.same(one, other, f"{where}[{number}]")
        else:
            self.assertEqual(was, now, where)

    def same_events(self, trace, rounded, *options):
        """Checks that both traces have the same events in the same order. In a rounded trace, a number replaces each
        block's address."""
        was = [json.loads(line) for line in self.output_of_original(trace, ("export", "ndjson", *options)).splitlines()]
        now = [json.loads(line) for line in self.output_of(rounded, ("export", "ndjson", *options)).splitlines()]
        self.assertGreater(len(was), 0)
        number_of = {}
        for one, other in zip(was, now):
            address, number = one.pop("address", None), other.pop("address", None)
            if one.get("event") == "alloc":
                number_of[address] = number
            elif one.get("event") == "free" and address in number_of:
                self.assertEqual(number_of[address], number)
            if one.get("old_address") is not None:
                self.assertEqual(number_of.get(one["old_address"], other["old_address"]), other["old_address"])
                del one["old_address"], other["old_address"]
            self.same(one, other)
        self.assertEqual(len(was), len(now))
        return was

    def times_without_events(self, events, count):
        """Times without an event within some microseconds: rounding moves no event across them."""
        times = sorted(event["time_ns"] for event in events if "time_ns" in event)
        between = [(before + after) // 2 for before, after in zip(times, times[1:]) if after - before > 6_000]
        self.assertGreater(len(between), count)
        return [between[i * len(between) // count] for i in range(count)]

    def lifetime_of_no_block(self, trace):
        """A time near a millisecond that no block's lifetime equals within some microseconds."""
        born, lives = {}, []
        for event in map(json.loads, self.output_of_original(trace, ("export", "ndjson")).splitlines()):
            if event.get("event") == "alloc":
                born[event["address"]] = event["time_ns"]
            elif event.get("event") == "free" and event["address"] in born:
                lives.append(event["time_ns"] - born.pop(event["address"]))
        lives.sort()
        between = [(before + after) // 2 for before, after in zip([0, *lives], [*lives, 10**18])
                   if after - before > 8_000]
        return f"{min(between, key=lambda life: abs(life - 1_000_000))}ns"

    def test_rounded(self):
        for trace in self.recordings():
            rounded = self.compact(trace)
            self.assertLess(rounded.stat().st_size, trace.stat().st_size / 2)
            info = json.loads(self.heapprof("info", rounded, "--json"))
            self.assertTrue(info["compacted"] and info["rounded"])
            self.assertEqual(info["original_bytes"], trace.stat().st_size)
            for command in REPORTS + (("report", "--json", "--kind", "all"), ("reallocs", "--json"),
                                       ("threads", "--json"),
                                       ("frees", "--json"),
                                       ("churn", "--json", "--within", self.lifetime_of_no_block(trace))):
                with self.subTest(trace=trace.name, command=command):
                    self.same(json.loads(self.output_of_original(trace, command)),
                              json.loads(self.output_of(rounded, command)))
            for command in (("flamegraph", "--format", "folded"), ("export", "callgrind"), ("export", "speedscope")):
                with self.subTest(trace=trace.name, command=command):
                    self.assertEqual(self.output_of(rounded, command), self.output_of_original(trace, command))
            with self.subTest(trace=trace.name):
                events = self.same_events(trace, rounded)
                moments = self.times_without_events(events, 3) if len(events) > 100 else []
                for begin, end in zip(moments, moments[1:]):
                    slice_ = ("--from", f"{begin}ns", "--to", f"{end}ns")
                    self.same(json.loads(self.output_of(trace, ("report", "--json", "--top", "100", *slice_))),
                              json.loads(self.output_of(rounded, ("report", "--json", "--top", "100", *slice_))),
                              slice_)

    def test_compacted_bundle_keeps_names(self):
        """A bundled trace that is compacted shows names where neither the program nor the symbol cache exists."""
        program = self.dir / "ledger_single"
        shutil.copy(harness.program("ledger_single"), program)
        trace = self.record(program, 500).trace
        bundled = self.dir / "bundled.heapprof"
        self.heapprof("bundle", trace, "-o", bundled)
        compacted = self.compact(bundled)
        answers = [json.loads(self.output_of(one, REPORTS[0])) for one in (trace, bundled)]
        program.unlink()
        # The other order: compact, then bundle.
        for one in (bundled, compacted):
            now = json.loads(self.output_of(one, REPORTS[0] + ("--no-symbol-cache",)))
            self.same(answers[0]["top"], now["top"])
            self.assertTrue(any(harness.site_of(row["stack"]) for row in now["top"]))

    def test_bundle_of_a_compacted_trace(self):
        program = self.dir / "ledger_single"
        shutil.copy(harness.program("ledger_single"), program)
        compacted = self.compact(self.record(program, 500).trace)
        answer = json.loads(self.output_of(compacted, REPORTS[0]))
        bundled = self.dir / "bundled.heapprof"
        self.heapprof("bundle", compacted, "-o", bundled)
        program.unlink()
        self.same(answer["top"], json.loads(self.output_of(bundled, REPORTS[0] + ("--no-symbol-cache",)))["top"])

    def refused(self, *arguments, words):
        result = self.run_heapprof("compact", *arguments)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        self.assertIn(words, result.stderr)

    def test_invalid_inputs_and_outputs_are_refused(self):
        trace = self.record(harness.program("ledger_single"), 300).trace
        compacted = self.compact(trace)
        self.refused(compacted, "-o", self.dir / "again.heapprof", words="already compacted")
        self.refused(trace, "-o", trace, words="is the trace itself")
        self.refused(trace, "-o", self.dir / "no" / "folder.heapprof", words="No such file")
        (self.dir / "notes.txt").write_text("these are notes\n" * 1000)
        self.refused(self.dir / "notes.txt", "-o", self.dir / "again.heapprof", words="not a")
        self.assertEqual(self.run_heapprof("compact", trace).returncode, 2)
        self.assertEqual(self.run_heapprof("compact", trace, "-o", "-").returncode, 2)
        self.assertFalse((self.dir / "again.heapprof").exists())
        self.assertFalse((self.dir / "-").exists())

    def test_running_program(self):
        trace = self.dir / "running.heapprof"
        process = self.start_steady(trace, 0)
        try:
            snapshot = self.compact(trace)
            report = self.report(snapshot)
            self.assert_sound(report, ended_by=("running",))
            result = self.run_heapprof("bundle", trace, "-o", self.dir / "bundled.heapprof")
            self.assertEqual(result.returncode, 1)
            self.assertIn("heapprof compact", result.stderr)
            # A compacted copy of a running program's trace can be bundled, and does not change when the program ends.
            self.heapprof("bundle", snapshot, "-o", self.dir / "bundled.heapprof")
        finally:
            process.kill()
            process.wait()

    def test_killed_program(self):
        """The trace has no end record, and no event is missing."""
        trace = self.record("bash", "-c", f"'{harness.program('ledger_single')}' 300; kill -9 $$", status=None,
                            CHILDREN=0).trace
        was = self.report(trace)
        self.assertEqual(was["integrity"]["ended_by"], "unknown")
        self.same(was, self.report(self.compact(trace)))

    def test_full_disk(self):
        """A failed write leaves no file, and an older result is kept."""
        trace = self.record(harness.program("ledger_single"), 6_000, 1).trace
        target = self.dir / "result.heapprof"
        target.write_text("older")

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

        result = subprocess.run([harness.HEAPPROF, "compact", trace, "-o", target], preexec_fn=limit,
                                restore_signals=False,
                                capture_output=True, text=True, env=harness.analyzer_environment(), timeout=60,
                                check=False)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("result.heapprof: cannot be written: File too large", result.stderr)
        self.assertEqual(target.read_text(), "older")
        self.assertEqual([path.name for path in self.dir.glob("result*")], ["result.heapprof"])

    def test_damaged_original(self):
        """Events that the original lost are lost in the compacted trace too. Both report it, and so does compact."""
        trace = self.record(harness.program("ledger_threads"), 1_500, 1, 3, 1, BLOCK_BYTES=4096).trace
        data = trace.read_bytes()
        generator = harness.random_generator("damaged")
        for number in range(6):
            path = self.dir / f"damaged{number}.heapprof"
            if number % 2:
                path.write_bytes(data[:generator.randrange(len(data) // 3, len(data))])
            else:
                damaged = bytearray(data)
                damaged[generator.randrange(8192, len(data) // 2)] ^= 16
                path.write_bytes(damaged)
            for options in ((), ("--exact",)):
                with self.subTest(number=number, options=options):
                    was = self.report(path, status=(0, 1))
                    status = 0 if was["integrity"]["complete"] else 1
                    self.same(was, self.report(self.compact(path, *options, status=status), status=status))

    def test_damaged(self):
        trace = self.record(harness.program("ledger_threads"), 1_500, 1, 3, 1).trace
        compacted = self.compact(trace)
        data = compacted.read_bytes()
        undamaged = self.report(compacted)
        path = self.dir / "damaged.heapprof"
        generator = harness.random_generator("cut")
        incomplete = refused = 0
        for number in range(40):
            damaged = bytearray(data)
            if number % 4 == 0:
                damaged = damaged[:generator.randrange(len(data))]
            else:
                damaged[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
            path.write_bytes(damaged)
            with self.subTest(number=number):
                result = self.run_heapprof("report", path, "--json", "--top", "100")
                self.assertIn(result.returncode, (0, 1), result.stderr[-2000:])
                if result.returncode == 0:
                    self.assertEqual(json.loads(result.stdout)["events"], undamaged["events"])
                elif result.stdout:
                    report = json.loads(result.stdout)
                    incomplete += 1
                    self.assertFalse(report["integrity"]["complete"])
                    self.assertLess(report["events"], undamaged["events"])
                    if report["integrity"]["events_lost"] is not None:
                        self.assertGreater(report["integrity"]["events_lost"], 0)
                else:
                    refused += 1
                    self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
                    self.assertIn("damaged.heapprof", result.stderr)
        self.assertGreater(incomplete, 3)
        self.assertGreater(refused, 0)


if __name__ == "__main__":
    harness.main()
