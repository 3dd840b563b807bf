"""The server of profiler-cli, the command line of the Firefox Profiler, uses the viewer's importer and call trees: its
totals of allocated and retained memory, overall and for each function, equal the report's. A parser of the documented
format checks that the columns of a table have one length, indexes are in range, parents precede children, and
retained memory, matched by address as in the viewer, equals the report's."""

import json
import shutil
import socket
import subprocess
import time
from collections import Counter

import consumers
import harness

NODE = consumers.FOLDER / "node_modules" / "node" / "bin" / "node"
PROFILER = consumers.FOLDER / "node_modules" / "@firefox-devtools" / "profiler-cli" / "dist" / "profiler-cli.js"

# Column: the table that it refers to.
POINTERS = {("stackTable", "frame"): "frameTable", ("stackTable", "prefix"): "stackTable",
            ("frameTable", "func"): "funcTable", ("funcTable", "resource"): "resourceTable",
            ("nativeAllocations", "stack"): "stackTable"}
STRINGS = (("funcTable", "name"), ("funcTable", "fileName"), ("resourceTable", "name"))
COLUMNS = {
    "samples": {"stack", "time"}, "markers": {"data", "name", "startTime", "endTime", "phase", "category"},
    "nativeAllocations": {"time", "weight", "stack", "memoryAddress", "threadId"},
    "stackTable": {"frame", "category", "subcategory", "prefix"},
    "frameTable": {"address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol", "innerWindowID",
                   "implementation", "line", "column"},
    "funcTable": {"isJS", "relevantForJS", "name", "resource", "fileName", "lineNumber", "columnNumber"},
    "resourceTable": {"lib", "name", "host", "type"},
    "nativeSymbols": {"libIndex", "address", "name", "functionSize"}}


@harness.unittest.skipUnless(NODE.exists() and PROFILER.exists(), "profiler-cli: not fetched (tools/consumers.sh)")
class Profiler(consumers.Case):
    def setUp(self):
        super().setUp()
        self.environment = {"PROFILER_CLI_SESSION_DIR": str(self.dir / "sessions")}

    def profiler(self, **command):
        """The server's answer to a command, in lines of JSON as its client sends them. Node needs 0.15 s of processor
        time to start the client."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(100)
            connection.connect(f"{self.dir}/sessions/test.sock")
            connection.sendall(json.dumps({"type": "command", "command": command}).encode() + b"\n")
            with connection.makefile("rb") as lines:
                answer = json.loads(lines.readline())
        self.assertEqual(answer["type"], "success", answer)
        return answer["result"]

    def load(self, file):
        """Starts profiler-cli's server with the file, waits until the file is loaded, and returns the process. The
        command `load` waits only half a second."""
        server = subprocess.Popen([NODE, PROFILER, "--daemon", file, "--session", "test"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  env=harness.clean_environment(**self.environment))
        log = self.dir / "sessions" / "test.log"
        try:
            for _ in range(1000):
                if log.exists() and "Profile loaded successfully" in log.read_text():
                    return server
                self.assertIsNone(server.poll(), "profiler-cli rejects the file")
                time.sleep(0.1)
            self.fail("the server does not become ready")
        except BaseException:
            self.end(server)
            raise

    def end(self, server):
        server.kill()
        server.wait()
        shutil.rmtree(self.dir / "sessions", ignore_errors=True)

    def own_bytes(self, strategy):
        """{function: bytes that it allocates itself}."""
        self.profiler(command="strategy", strategy=strategy)
        answer = self.profiler(command="thread", subcommand="functions", functionFilters={"limit": 1_000_000})
        self.assertEqual((answer["callTreeSummaryStrategy"], answer["weightType"]), (strategy, "bytes"))
        self.assertEqual(len(answer["functions"]), answer["totalFunctionCount"])
        own = Counter()
        for function in answer["functions"]:
            own[function["name"]] += function["selfSamples"]
        return +own

    def wanted(self, trace, cost):
        """The same from the report."""
        own = Counter()
        for stack in self.all_stacks(trace, cost, *self.options):
            frame = stack["stack"][0] if stack["stack"] else None
            own[frame["function"] if frame else "[no stack]"] += stack["bytes"]
        return +own

    def test_totals(self):
        self.each_sample(self.check)

    def test_selections(self):
        self.each_selection(self.check, of_mappings=False)

    def check(self, name, trace):
        file = self.export("firefox", trace)
        server = self.load(file)
        try:
            totals = self.totals(trace)
            if totals["allocations"] == 0:
                return
            strategies = (("native-retained-allocations", "leaked"), ("native-allocations", "allocated"))
            for strategy, cost in strategies[:1] if self.options else strategies:
                own = self.own_bytes(strategy)
                self.assertEqual(sum(own.values()), totals[f"{cost}_bytes"], strategy)
                if name in ("real", "nasty"):
                    wanted = self.wanted(trace, cost)
                    named = {function for function in wanted if function and not function.startswith("[")}
                    self.assertEqual({function: own[function] for function in named}, {f: wanted[f] for f in named})
                if name == "nasty":
                    self.check_nasty_names(own)
        finally:
            self.end(server)


class Firefox(consumers.Case):
    def test_totals(self):
        self.each_sample(self.check)

    def test_selections(self):
        """The export accepts the selections that report accepts."""
        self.each_selection(self.check, of_mappings=False)
        self.refuses_mappings("firefox")

    def check(self, name, trace):
        profile = consumers.load(self.export("firefox", trace))
        self.assertEqual(profile["meta"]["preprocessedProfileVersion"], 48)
        (thread,) = profile["threads"]
        for table, columns in COLUMNS.items():
            self.assertEqual({key for key, value in thread[table].items() if isinstance(value, list)}, columns, table)
            self.assertEqual({len(thread[table][column]) for column in columns}, {thread[table]["length"]}, table)
        for (table, column), target in POINTERS.items():
            for value in thread[table][column]:
                self.assertTrue(value in (None, -1) or 0 <= value < thread[target]["length"], (table, column, value))
        for table, column in STRINGS:
            for value in thread[table][column]:
                self.assertTrue(value is None or 0 <= value < len(thread["stringArray"]), (table, column, value))
        for i, prefix in enumerate(thread["stackTable"]["prefix"]):
            self.assertTrue(prefix is None or prefix < i)
        for lib in thread["resourceTable"]["lib"]:
            self.assertLess(lib, len(profile["libs"]))

        totals = self.totals(trace)
        events = thread["nativeAllocations"]
        live, live_bytes, peak, allocated = {}, 0, 0, 0
        for weight, address, stack in zip(events["weight"], events["memoryAddress"], events["stack"]):
            self.assertIsNotNone(stack)
            size = abs(weight)
            if address in live:
                self.assertEqual(live.pop(address), size)
                live_bytes -= size
            else:
                self.assertGreaterEqual(weight, 0)
                live[address] = size
                live_bytes += size
                allocated += size
            peak = max(peak, live_bytes)
        self.assertEqual((allocated, live_bytes, len(live)),
                         tuple(totals[cost] for cost in ("allocated_bytes", "leaked_bytes", "leaked_blocks")))
        self.check_peak(peak, totals)
        self.assertEqual(events["time"], sorted(events["time"]))
        counts = profile["counters"][0]["samples"]["count"]
        # The track shows all live memory, in a time slice also of older blocks.
        (self.assertGreaterEqual if "--from" in self.options else self.assertEqual)(sum(counts),
                                                                                    totals["leaked_bytes"])
        if name == "real":
            self.assertTrue(any(text.endswith("ledger_names.cpp") for text in thread["stringArray"]))


if __name__ == "__main__":
    harness.main()
