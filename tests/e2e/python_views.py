"""Python programs that know how many blocks each of their lines allocates: what the commands print about them."""

import gzip
import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import harness
import heaptrack_file
import profile_messages
import profile_receiver
import pythons
import trace_reader
from python_lines import interpreters

# Each line with a comment allocates so many blocks of at least 5,000 bytes, which are never freed.
PROGRAM = '''
import functools, os

keep = []


def straight(count):
    for i in range(count):
        keep.append(bytes(5000))  # 7 straight


class Table:
    def fill(self, count):
        def cell():
            return bytearray(6000)  # 5 Table.fill.<locals>.cell
        keep.extend([cell() for _ in range(count)])

    def __lt__(self, other):
        keep.append(bytes(5000))  # 1 Table.__lt__
        return True


def by_size(a):
    keep.append(bytes(5000))  # 4 by_size
    return a


def numbers():
    for i in range(3):
        yield bytes(5000)  # 3 numbers


async def later():
    return bytes(5000)  # 1 later


straight(7)
Table().fill(5)
sorted([Table(), Table()])
sorted([3, 1, 2, 4], key=by_size)
keep += list(numbers())
keep.append(functools.reduce(lambda a, b: a + [bytes(5000)], range(6), []))  # 6 <lambda>
for _ in range(9):
    exec("keep.append(bytes(5000))")
try:
    later().send(None)
except StopIteration as end:
    keep.append(end.value)
os._exit(0)
'''
EXEC_BLOCKS = 9
MIN_BYTES = 5000
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def wanted():
    """{line: (blocks, name)}. Before Python 3.11, code objects have only the last part of the name."""
    rows = {}
    for number, line in enumerate(PROGRAM.splitlines(), 1):
        if "  # " in line:
            blocks, name = line.split("  # ")[1].split()
            rows[number] = (int(blocks), name)
    return rows


def wanted_of(version):
    """{(line, name): blocks}, with the names that this version has."""
    qualified = tuple(map(int, version.split("."))) >= (3, 11)
    return {(line, name if qualified else name.split(".")[-1]): blocks for line, (blocks, name) in wanted().items()}


def newest_first():
    """(version, path) of each interpreter of the machine."""
    return sorted(interpreters().items(), key=lambda one: tuple(map(int, one[0].split("."))), reverse=True)


class PythonViews(harness.Case):
    def setUp(self):
        super().setUp()
        self.program = self.dir / "app.py"
        self.program.write_text(PROGRAM)

    def recordings(self, found):
        """Records each interpreter of `found`, and yields (version, trace) if its lines are recorded, as those of each
        supported one are. If there is no such interpreter, the test is skipped."""
        supported = {python.path for python in pythons.supported_pythons()}
        any_recorded = False
        for version, path in found:
            run = self.record(path, self.program, PYTHON="1")
            info = json.loads(self.heapprof("info", run.trace, "--json"))
            if any(one["frames_recorded"] for one in info["python"]):
                any_recorded = True
                print("recorded:", version)
                yield version, run.trace
            else:
                self.assertNotIn(path, supported)
        if not any_recorded:
            self.skipTest("no supported Python")

    def rows(self, trace, *options):
        result = self.heapprof("report", trace, "--by", "line", "--min-size", MIN_BYTES, "--json", *options)
        return json.loads(result)["rows"]

    def rows_of_lines(self, trace):
        return json.loads(self.heapprof("report", trace, "--by", "line", "--json", "--top", "0"))["rows"]

    def test_lines_and_names(self):
        for version, trace in self.recordings(newest_first()):
            with self.subTest(version=version):
                rows = self.rows(trace)
                right = wanted_of(version)
                # What an import allocates is a cost of its line, and differs between versions.
                own = [row for row in rows if row["file"] == str(self.program) and row["self"]["leaked_blocks"]
                       and not PROGRAM.splitlines()[row["line"] - 1].startswith("import")]
                self.assertEqual({(row["line"], row["name"]): row["self"]["leaked_blocks"] for row in own}, right)
                self.assertEqual({row["origin"] for row in own}, {"own"})
                # The nine code objects of exec are one line. Packages of the interpreter can call exec as well.
                self.assertIn(("<string>", 1, EXEC_BLOCKS),
                              [(row["file"], row["line"], row["self"]["leaked_blocks"]) for row in rows])

    def test_folding(self):
        """The functions in C that do work stand between the lines of Python, and those that pass calls on do not."""
        _, trace = next(self.recordings(newest_first()))
        folded = self.heapprof("flamegraph", trace, "--format", "folded", "--cost", "leaked", "--function",
                               "by_size")
        self.assertIn("<module> app.py;", folded)
        self.assertIn("by_size app.py", folded)
        self.assertNotIn("_PyEval_EvalFrameDefault;by_size", folded)
        between = folded.split("<module> app.py;")[1].split("by_size")[0]
        self.assertIn("sort", between, folded)
        whole = self.heapprof("flamegraph", trace, "--format", "folded", "--cost", "leaked", "--function", "by_size",
                              "--interpreter-frames")
        self.assertGreater(whole.count(";"), folded.count(";"))

    def test_folding_in_an_interpreter_with_another_name(self):
        """Functions of a renamed interpreter are folded as those of python3 are, but for those without a name."""
        for version, path in newest_first():
            prefix, real = subprocess.run([path, "-c", "import os, sys; print(sys.base_prefix, "
                                           "os.path.realpath(sys.executable), sep='\\n')"], capture_output=True,
                                          text=True, check=True).stdout.splitlines()
            renamed = self.dir / "worker"
            shutil.copy(real, renamed)
            run = self.record(renamed, self.program, PYTHON="1", PYTHONHOME=prefix)
            folded = self.heapprof("flamegraph", run.trace, "--format", "folded", "--cost", "leaked", "--function",
                                   "by_size")
            if "_PyEval_EvalFrameDefault" in self.heapprof("flamegraph", run.trace, "--format", "folded", "--cost",
                                                           "leaked", "--interpreter-frames"):
                break  # neither stripped, nor without recorded lines
        else:
            self.skipTest("no interpreter has names of functions and recorded lines")
        between = folded.split("<module> app.py;")[1].split("by_size")[0]
        self.assertIn("sort", between, folded)
        for function in ("_PyEval_EvalFrameDefault", "PyObject_Vectorcall"):
            self.assertNotIn(function, between, version)

    def test_example_of_the_documents(self):
        """docs/examples/orders.py: both leaks are found, the one in C by its line and that of its caller."""
        for version, path in newest_first():
            include = subprocess.run([path, "-c", "import sysconfig; print(sysconfig.get_path('include'))"],
                                     capture_output=True, text=True, check=True).stdout.strip()
            if os.path.exists(f"{include}/Python.h") and shutil.which("cc"):
                break
        else:
            self.skipTest("no interpreter with headers, or no compiler")
        shutil.copy(EXAMPLES / "orders.py", self.dir)
        subprocess.run(["cc", "-g", "-O1", "-shared", "-fPIC", f"-I{include}", EXAMPLES / "fields.c", "-o",
                        self.dir / "fields.so"], check=True)
        orders = 3000
        run = self.record(path, self.dir / "orders.py", orders, PYTHON="1", _PYTHONMALLOC="malloc")
        lines = {name: (EXAMPLES / name).read_text().splitlines() for name in ("orders.py", "fields.c")}
        leaked, at_peak = {}, {}
        for row in self.rows_of_lines(run.trace):
            file = os.path.basename(row["file"] or "")
            if file in lines:
                line = lines[file][row["line"] - 1].strip()
                leaked[line], at_peak[line] = row["self"]["leaked_blocks"], row["self"]["peak_blocks"]
        field = next(line for line in leaked if "PyUnicode_FromStringAndSize" in line)
        self.assertEqual(leaked[field], 5 * orders)
        # Python frees the sessions when it ends.
        notes = "self.notes = bytearray(400)"
        self.assertGreaterEqual(at_peak[notes], orders)
        self.assertEqual(leaked[notes], 0)
        print(f"{version}: found the leaks of orders.py", flush=True)

    def test_copies_and_sources(self):
        """A compacted trace has the same rows; a bundle shows the source when the file is gone."""
        _, trace = next(self.recordings(reversed(newest_first())))
        right = self.rows(trace)
        for command in ("compact", "bundle"):
            copy = self.dir / f"{command}.heapprof"
            self.heapprof(command, trace, "-o", copy, *(["--sources"] if command == "bundle" else []))
            self.assertEqual(self.rows(copy), right)
        os.unlink(self.program)
        source = self.heapprof("source", self.dir / "bundle.heapprof", "app.py")
        self.assertIn("keep.append(bytes(5000))  # 7 straight", source)

    def own_lines(self, stacks):
        """{(line, name): blocks} of the stacks whose innermost line of Python is the program's. `stacks`: {frames
        (function, file, line), innermost first: blocks}."""
        source = PROGRAM.splitlines()
        found = Counter()
        for stack, blocks in stacks.items():
            name, file, line = next((frame for frame in stack if frame[1].endswith(".py") or frame[1][:1] == "<"),
                                    ("", "", 0))
            if file == str(self.program) and not source[line - 1].startswith("import"):
                found[line, name] += blocks
        return dict(+found)

    @staticmethod
    def stacks_of_heaptrack(path):
        """The live blocks of at least MIN_BYTES at the end."""
        file = heaptrack_file.HeaptrackFile(path)
        live = Counter()
        for letter, number in file.events:
            if letter in "+-":
                live[number] += 1 if letter == "+" else -1
        stacks = Counter()
        for number, (size, trace) in enumerate(file.classes):
            stack = []
            while trace:
                ip, trace = file.traces[trace]
                fields = file.ips[ip][2:]  # without address and module
                stack += [(file.strings[function] or "", file.strings[source] or "", line)
                          for function, source, line in zip(fields[0::3], fields[1::3], fields[2::3])]
            if size >= MIN_BYTES:
                stacks[tuple(stack)] += live[number]
        return stacks

    def test_exports_and_push(self):
        """The lines in exported and sent profiles have the blocks that the program knows."""
        version, trace = next(self.recordings(newest_first()))
        right = wanted_of(version)
        heaptrack, pprof = self.dir / "app.heaptrack.gz", self.dir / "app.pb.gz"
        self.heapprof("export", "heaptrack", trace, "-o", heaptrack)
        self.assertEqual(self.own_lines(self.stacks_of_heaptrack(heaptrack)), right)
        self.heapprof("export", "pprof", trace, "--min-size", MIN_BYTES, "-o", pprof)
        receiver = profile_receiver.Receiver()
        self.addCleanup(receiver.stop)
        self.heapprof("push", trace, receiver.url, "--min-size", MIN_BYTES)
        [request] = receiver.requests
        for data in (gzip.decompress(pprof.read_bytes()), request.body):
            profiles, _ = profile_messages.read_pprof(data, with_lines=True)
            self.assertEqual(self.own_lines(profiles["inuse_objects"].stacks), right)

    def test_how_lines_are_turned_off(self):
        """They are recorded by default. The variable and the option turn off lines, and nothing else."""
        supported = pythons.supported_pythons()
        if not supported:
            self.skipTest("no supported Python")
        blocks = sum(blocks for blocks, _ in wanted().values()) + EXEC_BLOCKS
        for what, variables, has_lines in (("preload", {}, True),
                                           ("preload", {"PYTHON": 0}, False),
                                           ("record", {}, True),
                                           ("record", {"options": ("--python", "off")}, False)):
            with self.subTest(what, **variables):
                run = self.record(supported[-1].path, self.program, how=what, **variables)
                trace = run.read()
                in_program = {row["line"] for row in self.rows(run.trace) if row["file"] == str(self.program)}
                frames = sum(module == trace_reader.MODULE_PYTHON for _, module, _, _ in trace.nodes.values())
                if has_lines:
                    self.assertLessEqual(set(wanted()), in_program)
                    self.assertGreater(frames, len(wanted()))
                    self.assertEqual([reason for _, reason in trace.interpreters], [""])
                else:
                    self.assertEqual((in_program, frames, trace.python_code, trace.interpreters), (set(), 0, {}, []))
                heap = json.loads(self.heapprof("report", run.trace, "--min-size", MIN_BYTES, "--json"))["heap"]
                self.assertGreaterEqual(heap["leaked_blocks"], blocks)


if __name__ == "__main__":
    harness.main()
