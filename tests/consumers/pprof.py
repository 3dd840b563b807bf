"""go tool pprof: totals and flat sums of each sample type equal the report's, and no sample is missing."""

import concurrent.futures
import contextlib
import json
import re
import subprocess
import time
import urllib.request
from collections import Counter

import consumers
import harness
import nasty
import ports

# In the order of the file.
TYPES = {"alloc_objects": "allocations", "alloc_space": "allocated_bytes", "inuse_objects": "leaked_blocks",
         "inuse_space": "leaked_bytes", "peak_objects": "peak_blocks", "peak_space": "peak_bytes",
         "temporary_objects": "temporary", "temporary_space": "temporary_bytes"}


class Pprof(consumers.Case):
    def pprof(self, *arguments):
        # With a separate settings folder, and without a search for binaries or symbols.
        return self.run_consumer(consumers.pprof(), *arguments, environment={
            "PPROF_TMPDIR": self.dir, "XDG_CONFIG_HOME": self.dir, "PPROF_BINARY_PATH": self.dir / "none"})

    def test_totals(self):
        self.each_sample(self.check_totals)

    def check_totals(self, name, trace):
        file = self.export("pprof", trace)
        self.assertEqual(file.read_bytes()[:2], b"\x1f\x8b")
        totals = self.totals(trace)
        raw = self.pprof("-raw", file)
        types = re.search(r"^Samples:\n(.*)$", raw, re.M).group(1).split()
        self.assertEqual([t.split("/")[0] for t in types], list(TYPES))
        self.assertTrue(types[3].endswith("[dflt]"), types)
        sums = [0] * len(TYPES)
        samples = 0
        for line in raw[raw.index(types[-1]):raw.index("\nLocations")].splitlines()[1:]:
            values, colon, _ = line.partition(":")
            if colon and re.fullmatch(r"\s*\d[\d ]*", values):
                sums = [a + int(b) for a, b in zip(sums, values.split(), strict=True)]
                samples += 1
        self.assertEqual(dict(zip(TYPES, sums)), {kind: totals[cost] for kind, cost in TYPES.items()})
        if name == "nasty":
            raw = self.pprof("-raw", "-symbolize=none", file)  # otherwise it shortens names that look like C++
            self.check_nasty_names(raw)
            self.check_nasty_names(raw, nasty.clean_files())
        if name == "many":
            self.assertEqual(samples, self.many_stacks)
        self.assertNotIn("[NS]", raw, "a mapping that pprof would symbolise")

    def test_top_and_traces(self):
        self.each_sample(self.check_top)

    def check_top(self, name, trace):
        file = self.export("pprof", trace)
        kinds = ("inuse_space",) if name == "many" else ("inuse_space", "peak_space", "alloc_space")
        for kind in kinds:
            top = self.pprof("-top", "-nodecount=0", "-nodefraction=0", "-unit=B", f"-sample_index={kind}", file)
            total = self.totals(trace)[TYPES[kind]]
            if total == 0:
                continue
            self.assertEqual(int(re.search(r"of (\d+)B total", top).group(1)), total)
            flat = [int(m) for m in re.findall(r"^\s*(\d+)B?\s+\S+%\s", top, re.M)]
            self.assertEqual(sum(flat), total)
        if name != "many":
            self.assertIn("-----------+", self.pprof("-traces", "-unit=B", file))

    def test_inclusive_sums(self):
        """The totals of `report --by function` are pprof's cumulative sums."""
        for trace in (self.real(), self.record(harness.program("ledger_single"), 2_000, 1, 1).trace):
            file = self.export("pprof", trace)
            rows = json.loads(self.heapprof("report", trace, "--by", "function", "--json"))["rows"]
            names = Counter(row["name"] for row in rows)
            for kind, figure in (("inuse_space", "leaked_bytes"), ("peak_space", "peak_bytes"),
                                 ("alloc_space", "allocated_bytes")):
                top = self.pprof("-top", "-cum", "-symbolize=none", "-nodecount=0", "-nodefraction=0", "-unit=B",
                                 f"-sample_index={kind}", file)
                theirs = {re.sub(r" \((partial-)?inline\)$", "", name): int(value) for value, name in
                          re.findall(r"^\s*\d+B?\s+\S+%\s+\S+%\s+(\d+)B?\s+\S+%\s+(.+)$", top, re.M)}
                # pprof adds up functions of one name in several modules.
                ours = {row["name"]: row["total"][figure] for row in rows
                        if names[row["name"]] == 1 and row["total"][figure] != 0}
                self.assertGreater(len(ours), 5)
                self.assertEqual({name: theirs.get(name) for name in ours}, ours, kind)

    def test_selections(self):
        """The export accepts the selections that report accepts."""
        self.each_selection(self.check_totals, of_mappings=True)

    def test_of_a_server(self):
        """go tool pprof reads /debug/pprof of `heapprof serve`, and what a running program allocates in a second."""
        trace = self.dir / "run.heapprof"
        process = self.popen([harness.program("commanded")], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env=harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_OUTPUT=trace))

        def command(commands):
            process.stdin.write(commands)
            process.stdin.flush()
            self.assertEqual(process.stdout.read(len(commands)), "." * len(commands))
        command("aaa")
        server = self.popen([str(harness.HEAPPROF), "serve", str(trace), "--no-open"], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            env=harness.analyzer_environment())
        base, _, token = server.stdout.readline().strip().partition("/?token=")

        environment = harness.clean_environment(PPROF_TMPDIR=self.dir, XDG_CONFIG_HOME=self.dir,
                                                PPROF_BINARY_PATH=self.dir / "none")

        def pprof(*arguments):
            # It prints the address on standard error.
            return subprocess.run([consumers.pprof(), "-top", "-unit=B", "-nodefraction=0", *arguments],
                                  env=environment, capture_output=True, text=True, check=True, timeout=100,
                                  stdin=subprocess.DEVNULL).stdout
        top = pprof(f"{base}/debug/pprof/heap?token={token}")
        self.assertRegex(top, r"\s30000B? .* grow_first\n")
        # Its page in a browser.
        port = ports.free_port()
        self.popen([consumers.pprof(), f"-http=127.0.0.1:{port}", "-no_browser",
                    f"{base}/debug/pprof/heap?token={token}"], env=environment, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def page():
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/ui/top", timeout=60) as answer:
                    return answer.read().decode()
        self.assertIn("grow_first", harness.wait_until(page, "the page of go tool pprof"))
        for _ in range(10):
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                sent = pool.submit(pprof, "-sample_index=alloc_space",
                                   f"{base}/debug/pprof/allocs?seconds=1&token={token}")
                rounds = 0
                while not sent.done():
                    command("b")
                    rounds += 1
                    time.sleep(0.01)
            top = sent.result()
            self.assertNotIn("grow_first", top)
            # The program may wait for the processor during this second.
            if found := re.search(r"\s(\d+)B? .* grow_second\n", top):
                break
        bytes_allocated = int(found.group(1))
        self.assertEqual(bytes_allocated % 1000, 0)
        self.assertTrue(0 < bytes_allocated <= rounds * 1000, (bytes_allocated, rounds))

    def test_symbols_are_kept(self):
        trace = self.real()
        raw = self.pprof("-raw", self.export("pprof", trace))
        self.assertIn("ledger_names.cpp:", raw)
        stack = self.all_stacks(trace, "leaked")[0]["stack"]
        self.assertIn(next(frame["build_id"] for frame in stack if frame["build_id"]), raw)


if __name__ == "__main__":
    harness.skip_unless(consumers.go(), "go tool pprof is not installed")
    harness.main()
