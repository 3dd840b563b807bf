"""Names of functions: inlined functions with their lines, C++ and Rust names, and libraries that were loaded at the
same addresses one after another."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import harness
import heaptrack_file


def pattern(function):
    return "^" + re.escape(function.removesuffix("*")) + ("" if function.endswith("*") else "$")


class Names(harness.Case):
    def test_known_functions(self):
        run = self.record(harness.program("ledger_names"))
        rows = {row["bytes"]: row for row in self.all_stacks(run.trace, "leaked")}
        exported = self.dir / "names.heaptrack"
        self.heapprof("export", "heaptrack", run.trace, "-o", exported)
        file = heaptrack_file.HeaptrackFile(exported)
        traces = {size: trace for size, trace in file.classes}
        for line in run.stdout.splitlines():
            truth = json.loads(line)
            with self.subTest(size=truth["size"]):
                stack = rows[truth["size"]]["stack"]
                while stack[0]["function"].split("(")[0] in ("malloc", "__libc_malloc", "calloc"):
                    stack = stack[1:]
                for (function, number, inlined), frame in zip(truth["frames"], stack):
                    # A part that the optimiser split off has the function's name and a suffix.
                    self.assertRegex(re.sub(r" \[clone [^]]*\]", "", frame["function"]), pattern(function))
                    self.assertEqual(frame["inlined"], inlined, function)
                    if number:
                        self.assertEqual(frame["line"], number, function)
                        self.assertEqual(os.path.basename(frame["file"]), "ledger_names.cpp")
                # The export keeps inlined frames and lines; readers drop operator new.
                frames = [f for f in file.frames(traces[truth["size"]]) if f[0] not in heaptrack_file.OPERATOR_NEW]
                wanted = [f for f in truth["frames"] if f[0] not in heaptrack_file.OPERATOR_NEW]
                while frames[0][0] in ("malloc", "__libc_malloc"):
                    frames = frames[1:]
                for (function, number, _), frame in zip(wanted, frames):
                    self.assertRegex(frame[0], pattern(function))
                    if number:
                        self.assertEqual(frame[2], number, function)

    def test_without_inlines_and_without_symbols(self):
        run = self.record(harness.program("ledger_names"))
        report = self.report(run.trace, "--no-inlines", "--cost", "leaked", "--top", "1000")
        for row in report["top"]:
            self.assertFalse(any(frame["inlined"] for frame in row["stack"]))
        report = self.report(run.trace, "--no-symbols", "--cost", "leaked", "--top", "1000")
        self.assertTrue(report["top"])
        for row in report["top"]:
            for frame in row["stack"]:
                self.assertNotIn("outer_function", frame["function"])

    def test_stripped_function_is_one_row(self):
        """Two call sites in one function of a stripped program: one name, by its start address, in every output."""
        source, program = self.dir / "two.c", self.dir / "two"
        source.write_text("""
            #include <stdlib.h>
            void* volatile kept[3];
            static __attribute__((noinline, noclone)) void maker(int n) {
              kept[0] = malloc(1000 + n);
              kept[1] = malloc(2000 + n);
            }
            int main(int argc, char** argv) { maker(argc); kept[2] = argv; return 0; }""")
        subprocess.run(["cc", "-O1", "-o", program, source], check=True)
        symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
        begin = {line.split()[2]: int(line.split()[0], 16) for line in symbols.splitlines() if len(line.split()) == 3}
        subprocess.run(["strip", program], check=True)
        run = self.record(program)
        bundled = self.dir / "bundled.heapprof"
        self.heapprof("bundle", run.trace, "-o", bundled)
        program.unlink()
        for trace, known in ((run.trace, False), (bundled, True)):
            name = f"two+{begin['maker']:#x}"
            rows = {row["bytes"]: row["stack"] for row in self.all_stacks(trace, "leaked") if row["bytes"] > 999}
            frames = [next(frame for frame in rows[size] if frame["module"] == str(program)) for size in (1001, 2001)]
            self.assertEqual([frame["function"] for frame in frames], ["", ""])
            self.assertNotEqual(frames[0]["offset"], frames[1]["offset"])
            self.assertEqual([frame.get("function_begin") for frame in frames],
                             [begin["maker"]] * 2 if known else [None] * 2)
            folded = self.heapprof("flamegraph", "--format", "folded", "--cost", "leaked", trace)
            self.assertEqual(sum(f";{name} 3002" in line for line in folded.splitlines()), known, folded)
            chosen = self.report(trace, "--cost", "leaked", "--function", name)
            self.assertEqual(chosen["heap"]["leaked_bytes"], 3002 if known else 0)

    def test_a_program_without_build_id_that_was_written_later(self):
        """Its functions are not those that were recorded: of several recordings, too, they are not named."""
        source, program, folder = self.dir / "keep.c", self.dir / "keep", self.dir / "recordings"
        source.write_text("""
            #include <stdlib.h>
            void* volatile kept[2];
            int main(int argc, char** argv) {
              kept[0] = malloc(1000 + argc);
              kept[1] = argv;
              return 0;
            }""")
        subprocess.run(["cc", "-g", "-O1", "-Wl,--build-id=none", "-o", program, source], check=True)
        folder.mkdir()
        for name in ("one", "two"):
            shutil.move(self.record(program).trace, folder / f"{name}.heapprof")
        def names_main(trace):
            stacks = self.heapprof("flamegraph", "--format", "folded", "--cost", "leaked", trace)
            return any("main" in re.split("[; ]", line) for line in stacks.splitlines())
        self.assertTrue(names_main(folder / "one.heapprof"))
        self.assertTrue(names_main(folder))
        program.touch()
        self.assertFalse(names_main(folder / "one.heapprof"))
        self.assertFalse(names_main(folder))

    def test_plugins(self):
        """Plugins found through the caller's RUNPATH, loaded and unloaded at the same addresses; and libraries that
        iconv loads."""
        run = self.record(harness.program("ledger_plugins"), 60)
        ledger = run.ledger()
        self.assert_ledger_clean(ledger)
        truth = ledger.figures()
        self.assert_sound(self.report(run.trace))
        for cost in ("allocated", "leaked"):
            rows = self.all_stacks(run.trace, cost)
            sums = harness.sums_by_site(rows)
            for site, expected in truth.sites.items():
                wanted = (expected.allocated_bytes, expected.allocations) if cost == "allocated" else \
                    (expected.leaked_bytes, expected.leaked_blocks)
                self.assertEqual(sums.get(site, (0, 0)), wanted, site)
            for row in rows:
                site = harness.site_of(row["stack"])
                if site not in ("site_plugin_a", "site_plugin_b"):
                    continue
                letter = site[-1]
                functions = [frame["function"] for frame in row["stack"]]
                self.assertIn(f"plugin_{letter}_inner", functions)
                modules = {os.path.basename(frame["module"]) for frame in row["stack"]
                           if frame["function"] in ("plugin_allocate", f"plugin_{letter}_inner")}
                self.assertEqual(modules, {f"libplugin_{letter}.so"})


def own_copy(program, folder):
    """A copy of `program` that can be moved away later."""
    copy = folder / os.path.basename(program)
    shutil.copy2(program, copy)
    return copy


class Bundle(harness.Case):
    """Reading a trace where the programs do not exist: in a root directory with only heapprof and its libraries."""

    OUTPUTS = (
        ("report", "--stacks", "0"), ("report", "--json"),
        ("report", "--json", "--cost", "allocated", "--top", "0", "--no-inlines"), ("leaks",),
        ("leaks", "--json"), ("timeline",), ("timeline", "--format", "svg"), ("flamegraph",),
        ("flamegraph", "--format", "folded"), ("report", "--function", "outer_function", "--short-names"),
        *(("export", format) for format in
          ("heaptrack", "pprof", "speedscope", "massif", "dhat", "callgrind", "firefox", "perfetto", "ndjson",
           "csv")))

    def outputs(self, run):
        return {" ".join(options): run(*options) for options in self.OUTPUTS}

    def test_another_root(self):
        if os.geteuid() != 0:
            self.skipTest("chroot needs root")
        program = own_copy(harness.program("ledger_names"), self.dir)
        trace = self.record(program).trace
        bundled = self.dir / "bundled.heapprof"
        self.heapprof("bundle", trace, "-o", bundled)
        def read(command, environment):
            result = subprocess.run(command, capture_output=True, env=environment, stdin=subprocess.DEVNULL,
                                    timeout=60)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stdout

        language = {"LC_ALL": "C.UTF-8"}  # the encoding of the timeline
        here = self.outputs(lambda *options: read([harness.HEAPPROF, *options, trace, "-o", "-"],
                                                  language | {"XDG_CACHE_HOME": str(self.dir / "cache")}))
        self.assertIn(b"outer_function", here["report --stacks 0"])
        # A trace that is not bundled has no names in the other root, so these come from the bundle.
        root = self.dir / "root"
        self.make_root(root)
        shutil.copy(bundled, root / "trace.heapprof")
        shutil.copy(trace, root / "bare.heapprof")

        def there(*options, name="trace.heapprof"):
            return read([shutil.which("chroot") or "/usr/sbin/chroot", root, "/bin/heapprof", *options, "/" + name,
                         "-o", "-"], language)

        self.assertNotIn(b"outer_function", there("report", name="bare.heapprof"))
        for options, text in self.outputs(there).items():
            with self.subTest(options):
                self.assertTrue(text == here[options], "differs in the other root")

    def make_root(self, root):
        libraries = subprocess.run(["ldd", harness.HEAPPROF], capture_output=True, text=True, check=True).stdout
        for path in re.findall(r"(/\S+) \(0x", libraries):
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / path[1:])
        (root / "bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(harness.HEAPPROF, root / "bin" / "heapprof")

    def test_programs_renamed(self):
        """The same without chroot: another program has replaced the recorded one."""
        program = own_copy(harness.program("ledger_names"), self.dir)
        trace = self.record(program).trace
        bundled = self.dir / "bundled.heapprof"
        self.heapprof("bundle", trace, "-o", bundled)
        here = self.heapprof("report", trace, "--json")
        os.rename(program, self.dir / "elsewhere")
        shutil.copy2(harness.program("burst"), program)
        self.assertEqual(self.heapprof("report", bundled, "--json", "--no-symbol-cache"), here)
        changed = json.loads(self.heapprof("report", trace, "--json"))
        self.assertIn("changed since the recording", " ".join(changed["symbol_warnings"]))
        # Bundling a bundle loses nothing.
        again = self.dir / "again.heapprof"
        self.heapprof("bundle", bundled, "-o", again)
        self.assertEqual(again.read_bytes(), bundled.read_bytes())

    def test_damaged(self):
        """Damaged names are not used, and every event is read."""
        trace = self.record(harness.program("ledger_names")).trace
        bundled = self.dir / "bundled.heapprof"
        self.heapprof("bundle", trace, "-o", bundled)
        contents = bundled.read_bytes()
        begin = trace.stat().st_size
        self.assertGreater(len(contents), begin)
        heap = self.report(trace)["heap"]
        random = harness.random_generator("damaged names")
        for cut in (1, 41, 2000, len(contents) - begin - 100):
            bundled.write_bytes(contents[:-cut])
            report = self.report(bundled)
            self.assertEqual((report["heap"], report["integrity"]["complete"]), (heap, True), cut)
        for _ in range(12):
            damaged = bytearray(contents)
            for _ in range(random.randrange(1, 9)):
                damaged[random.randrange(begin + 48, len(contents))] ^= 1 << random.randrange(8)
            bundled.write_bytes(damaged)
            report = self.report(bundled)
            self.assertEqual((report["heap"], report["integrity"]["complete"]), (heap, True))

    def test_refused(self):
        trace = self.record(harness.program("ledger_names")).trace
        self.assertIn("is the trace itself", self.run_heapprof("bundle", trace, "-o", trace).stderr)
        self.assertEqual(self.run_heapprof("bundle", trace, "-o", self.dir / "no" / "folder").returncode, 1)
        self.assertEqual(self.run_heapprof("bundle", trace).returncode, 2)


# Every function is compiled separately, and none is inlined.
NODE_OPTIONS = ("--perf-basic-prof", "--always-sparkplug", "--no-opt")
NODE_PROGRAM = """
const kept = [];
function allocate_in_script(n) { const b = Buffer.allocUnsafeSlow(100000 + n); kept.push(b); return b.length; }
function outer_in_script(n) { return allocate_in_script(n) + 1; }
let sum = 0;
for (let i = 0; i < 3000; ++i) { sum += outer_in_script(i); if (kept.length > 50) kept.length = 0; }
console.log(sum, process.pid);
"""


class GeneratedCode(harness.Case):
    """Code generated at run time is named by the perf map that just-in-time compilers write."""

    def setUp(self):
        super().setUp()
        self.node = shutil.which("node")
        if self.node is None:
            self.skipTest("node is not installed")
        self.script = self.dir / "program.js"
        self.script.write_text(NODE_PROGRAM)

    def functions(self, trace, *options):
        report = self.report(trace, "--cost", "allocated", "--top", "50", *options)
        return {frame["function"]: frame for row in report["top"] for frame in row["stack"]}, report

    def test_node(self):
        run = self.record(self.node, *NODE_OPTIONS, self.script)
        pid = self.report(run.trace)["pid"]
        perf_map = f"/tmp/perf-{pid}.map"
        self.addCleanup(lambda: os.path.exists(perf_map) and os.unlink(perf_map))
        self.assertTrue(os.path.exists(perf_map))
        functions, report = self.functions(run.trace)
        for name in ("allocate_in_script", "outer_in_script"):
            self.assertIn(name, functions)
            self.assertTrue(functions[name]["file"].endswith("program.js"), functions[name])
        self.assertEqual(functions["allocate_in_script"]["line"], 3)
        # The bundle keeps the names after the map is deleted.
        bundled = self.dir / "bundled.heapprof"
        self.heapprof("bundle", run.trace, "-o", bundled)
        os.rename(perf_map, self.dir / "moved.map")
        self.assertEqual(self.functions(bundled)[1], report)
        functions, bare = self.functions(run.trace)
        self.assertNotIn("allocate_in_script", functions)
        self.assertIn("perf", " ".join(bare["symbol_warnings"]))
        # A map of an earlier process with the same pid is not used.
        shutil.copy(self.dir / "moved.map", perf_map)
        os.utime(perf_map, (1, 1))
        self.assertNotIn("allocate_in_script", self.functions(run.trace)[0])
        # Nor is one of a later process.
        os.utime(perf_map, (2 ** 33, 2 ** 33))
        functions, bare = self.functions(run.trace)
        self.assertNotIn("allocate_in_script", functions)
        self.assertIn("after the recorded program had ended", " ".join(bare["symbol_warnings"]))
        shutil.copystat(self.dir / "moved.map", perf_map)
        self.assertIn("allocate_in_script", self.functions(run.trace)[0])

    def test_other_root(self):
        """A container: the process has its own pid namespace and file system, and still runs."""
        if os.geteuid() != 0 or shutil.which("unshare") is None:
            self.skipTest("unshare needs root")
        folder = Path(tempfile.mkdtemp(prefix="heapprof-test-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        script = folder / "waits.js"
        script.write_text(NODE_PROGRAM + "setTimeout(() => {}, 600000);")
        trace = folder / "inside.heapprof"
        library = shutil.copy(harness.LIBRARY, folder)  # it may be in /tmp, over which a file system is mounted
        environment = harness.clean_environment(HEAPPROF_OUTPUT=trace)
        command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--mount", "sh", "-c",
                   f"mount -t tmpfs tmpfs /tmp && exec env LD_PRELOAD={library} "
                   + " ".join((self.node, *NODE_OPTIONS, str(script)))]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   text=True,
                                   stdin=subprocess.DEVNULL)
        try:
            line = process.stdout.readline()
            self.assertTrue(line.strip(), "the program did not start")
            self.assertLess(int(line.split()[1]), 100, "not a namespace of its own")
            functions, _ = self.functions(trace)
            self.assertIn("allocate_in_script", functions)
            # A trace that is still being written.
            info = json.loads(self.heapprof("info", trace, "--json"))
            self.assertEqual(info["integrity"]["ended_by"], "running")
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


if __name__ == "__main__":
    harness.main()
