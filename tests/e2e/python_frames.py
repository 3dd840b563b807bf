"""Python frames in recorded stacks equal those that the interpreter shows (sys._getframe): file, name and line, in all
kinds of code, on every supported interpreter of the machine."""

import bisect
import collections
import functools
import json
import os
import re
import shutil
import struct
import subprocess

import harness
import pythons
import trace_reader
from python_stacks import PROGRAMS, Lines, compare_instants, python_stack

MIN_INSTANTS = 200
IN_CAMPAIGN = os.environ.get("HEAPPROF_TEST_PYTHON_OBJECTS") == "large"
REUSES = 400 if IN_CAMPAIGN else 120  # of each kind


TRUNCATED = "a truncation root"
EVALUATION = "_PyEval_EvalFrameDefault"
MAX_PIECES = 3  # into which compilers split this function
# C functions that call back, of callbacks.py.
ALL_CALLERS = {"list_sort", "list_sort_impl", "builtin_sorted", "functools_reduce", "_functools_reduce",
               "functools_reduce_impl", "pattern_subx", "closure_fcn", "map_next"}
# Those of the test's own library, which has symbols also where the interpreter is stripped.
CALLBACK_LIBRARY = os.path.realpath(harness.TARGET / "tests" / "programs" / "python_callbacks.so")
CALLERS_IN_LIBRARY = {"call_back", "call_back_again"}


class Symbols:
    """The names of functions by their offsets in a module, from its file."""

    def __init__(self, path):
        # nm would load LLVM's plugin, where it is installed, and shows one table only.
        listed = subprocess.run(["readelf", "-W", "--syms", path], capture_output=True, text=True).stdout
        functions = {int(begin, 16): (int(size, 0), name) for begin, size, name in re.findall(
            r"^ *\d+: ([0-9a-f]+) +(0x[0-9a-f]+|[1-9]\d*) I?FUNC +\w+ +\w+ +\d+ ([^@\s]+)", listed, re.M)}
        self.begins = sorted(functions)
        self.functions = functions

    @functools.cached_property
    def names(self):
        return {name.partition(".")[0] for _, name in self.functions.values()}

    def name(self, offset):
        at = bisect.bisect(self.begins, offset)
        if at == 0:
            return ""
        begin = self.begins[at - 1]
        size, name = self.functions[begin]
        # Compilers split rare parts of a function off, and append clones' kinds to names.
        return name.partition(".")[0] if offset < begin + size else ""


@functools.cache
def segments_of(path):
    """[(offset in the file, offset in the module, bytes)]"""
    listed = subprocess.run(["readelf", "-W", "-l", path], capture_output=True, text=True, check=True).stdout
    return [tuple(int(word, 16) for word in words)
            for words in re.findall(r"LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+)", listed)]


def code_at(path, offset, count):
    """`count` bytes of a module's file."""
    for in_file, begin, size in segments_of(path):
        if begin <= offset < begin + size:
            with open(path, "rb") as file:
                return os.pread(file.fileno(), count, in_file + offset - begin)
    raise AssertionError(f"{offset:#x} is in no segment of {path}")


def called_from(path, returns_to):
    """What the instruction before an offset calls: ("table", address) or ("function", offset); None: another call."""
    code = code_at(path, returns_to - 7, 7)
    if code.startswith(b"\xff\x14\xc5"):  # call *table(,%rax,8)
        return "table", struct.unpack_from("<I", code, 3)[0]
    return ("function", returns_to + struct.unpack_from("<i", code, 3)[0]) if code[2] == 0xe8 else None


@functools.cache
def symbols_of(path):
    return Symbols(path)


class UnwindEntries:
    """The pieces of functions by their offsets in a module: compilers write an entry (FDE) for each. Stripped
    interpreters have no symbols for most of them."""

    def __init__(self, path):
        listed = subprocess.run(["readelf", "-W", "--debug-dump=frames", path], capture_output=True, text=True).stdout
        self.entries = sorted((int(begin, 16), int(end, 16))
                              for begin, end in re.findall(r" FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", listed))

    def begin(self, offset):
        at = bisect.bisect(self.entries, (offset, 1 << 64)) - 1
        return self.entries[at][0] if at >= 0 and offset < self.entries[at][1] else None


@functools.cache
def entries_of(path):
    return UnwindEntries(path)


class Frames(harness.Case):
    def check(self, python):
        result = self.dir / "instants.json"
        run = self.record(python.path, PROGRAMS / "instants.py", result, PYTHON=1, PAUSED=1, _PYTHONMALLOC="malloc")
        trace = run.read()
        self.assertEqual(trace.interpreters[0][1], "")
        expected = json.loads(result.read_text())
        self.assertGreaterEqual(len(expected["instants"]), MIN_INSTANTS)
        self.assertNotIn(None, expected["instants"])
        instants, frames = compare_instants(self, python, trace, expected)
        print(f"{python}: {instants} instants, {frames} frames", flush=True)

    def test_frames(self):
        for python in pythons.supported_pythons():
            with self.subTest(str(python)):
                self.check(python)

    def check_reused_code(self, python, allocator):
        result = self.dir / "reused.json"
        run = self.record(python.path, PROGRAMS / "reused_code.py", result, REUSES, PYTHON=1, _PYTHONMALLOC=allocator)
        with open(result) as file:
            expected = json.load(file)
        trace = run.read()
        frames = {}
        for thread in trace.threads():
            for event in thread.events:
                number = event.size - expected["first_size"]
                if event.op == trace_reader.ALLOC and 0 <= number < len(expected["expected"]):
                    frames[number] = python_stack(trace, event.node)[1]
        lines = Lines(python, frames.values())
        found = [[code.name, code.first_line, lines.of(code, instruction)]
                 for code, instruction in (frames[number] for number in range(len(frames)))]
        wrong = [pair for pair in zip(found, expected["expected"]) if pair[0] != pair[1]]
        self.assertEqual((len(found), wrong[:3]), (len(expected["expected"]), []), f"{len(wrong)} wrong")
        print(f"{python}, {allocator}: {len(found)} allocations by code objects whose memory is reused", flush=True)

    def test_reused_code(self):
        for python in pythons.supported_pythons():
            for allocator in ("pymalloc", "malloc"):
                with self.subTest(f"{python}, {allocator}"):
                    self.check_reused_code(python, allocator)

    @staticmethod
    def located_stack(trace, node):
        """Frames by what they are in other recordings, too."""
        def located(module, offset):
            if module == trace_reader.MODULE_PYTHON:
                code, instruction = trace.python_frame(offset)
                return code.name, instruction
            return (trace.modules[module].path, offset) if module in trace.modules else TRUNCATED
        return [located(*frame) for frame in trace.stack(node)]

    def check_truncated(self, python):
        """Stacks that differ only in their outermost C frames: those of a recording with a lower maximum depth are the
        innermost frames of those of one without."""
        stacks = []
        for max_depth in (1000, 64):
            result = self.dir / "sizes.json"
            run = self.record(python.path, PROGRAMS / "deep_c_stacks.py", result, PYTHON=1, MAX_DEPTH=max_depth,
                              _PYTHONHASHSEED=0)
            with open(result) as file:
                pairs = json.load(file)
            trace = run.read()
            sizes = {size for pair in pairs for size in pair}
            stacks.append({event.size: self.located_stack(trace, event.node) for thread in trace.threads()
                           for event in thread.events if event.op == trace_reader.ALLOC and event.size in sizes})
        of_whole, of_truncated = stacks
        truncated = 0
        for pair in pairs:
            self.assertNotEqual(*(of_whole[size] for size in pair))
            for size in pair:
                frames = [frame for frame in of_truncated[size] if frame != TRUNCATED]
                truncated += len(frames) < len(of_whole[size])
                self.assertEqual(frames, of_whole[size][:len(frames)], pair)
        self.assertGreater(truncated, len(pairs))

    def test_truncated(self):
        for python in pythons.supported_pythons():
            with self.subTest(str(python)):
                self.check_truncated(python)

    def named_stack(self, trace, node):
        """(name, whether it is a Python frame), innermost first; "" for C functions without a name."""
        result = []
        for module, offset in trace.stack(node):
            if module == trace_reader.MODULE_PYTHON:
                result.append((trace.python_frame(offset)[0].name, True))
            else:
                path = trace.modules[module].path if module in trace.modules else ""
                # The folder of the build has the same path in other systems.
                file = path if path == CALLBACK_LIBRARY else pythons.ROOT + path
                result.append((symbols_of(file).name(offset) if path.startswith("/") else "", False))
        return result

    def check_places(self, python):
        result = self.dir / "cases.json"
        run = self.record(python.path, PROGRAMS / "callbacks.py", result, CALLBACK_LIBRARY, PYTHON=1)
        with open(result) as file:
            cases = dict(json.load(file))
        trace = run.read()
        found = {event.size: event for thread in trace.threads() for event in thread.events
                 if event.op == trace_reader.ALLOC and event.size in cases}
        self.assertEqual(sorted(found), sorted(cases))
        stacks = {size: self.named_stack(trace, event.node) for size, event in found.items()}
        # The symbol may cover only a small part of the function.
        named = any(outside == (EVALUATION, False) and inside[1]
                    for stack in stacks.values() for outside, inside in zip(stack[1:], stack))
        if python.tail_calls:
            self.check_dispatches(trace, found.values())
        elif not named:
            self.check_unnamed_evaluations(trace, found.values())
        # Debian's interpreter exports only the API, so its other functions have no names.
        stripped = "map_next" not in symbols_of(self.interpreter_path(trace)).names
        for size, frames in cases.items():
            with self.subTest(frames[1], size=size):
                if "delegating" in frames and python.version < (3, 10):
                    # 3.8 does not link the frame, and in 3.9 the list of frames ends with it.
                    if python.version >= (3, 9):
                        frames = frames[:frames.index("delegating") + 1]
                    else:
                        frames = [name for name in frames if name != "delegating"]
                elif named and not python.tail_calls:
                    self.check_evaluations(stacks[size])
                self.check_between(stacks[size], frames, stripped)
        print(f"{python}: {len(cases)} callbacks through C{'' if named else ', functions without symbols'}"
              f"{', stripped' if stripped else ''}", flush=True)

    @staticmethod
    def interpreter_path(trace):
        paths = (pythons.ROOT + module.path for module in trace.modules.values())
        return next(path for path in paths if EVALUATION in symbols_of(path).names)

    def check_evaluations(self, stack):
        """Outside of a group of Python frames is the evaluation that executes them, and each evaluation has one."""
        outside = [name for (name, python), (_, inner) in zip(stack[1:], stack) if inner and not python]
        self.assertEqual(set(outside), {EVALUATION}, stack)
        self.assertEqual(len(outside), sum(name == EVALUATION for name, _ in stack), stack)

    def check_unnamed_evaluations(self, trace, events):
        """The same for an interpreter whose symbols do not cover the function: the frames outside of Python frames
        are of a few pieces of code, which are nowhere else."""
        outside, others = collections.Counter(), collections.Counter()
        for event in events:
            stack = trace.stack(event.node)
            for (module, offset), inside in zip(stack, [None, *(frame[0] for frame in stack)]):
                if module == trace_reader.MODULE_PYTHON or module not in trace.modules:
                    continue
                path = pythons.ROOT + trace.modules[module].path
                piece = path, entries_of(path).begin(offset) if os.path.isfile(path) else None
                (outside if inside == trace_reader.MODULE_PYTHON else others)[piece] += 1
        self.assertGreater(len(outside), 0)
        self.assertLessEqual(len(outside), MAX_PIECES, outside)
        self.assertEqual({path for path, _ in outside}, {self.interpreter_path(trace)})
        self.assertEqual(set(outside) & set(others), set())

    def check_dispatches(self, trace, events):
        """The same for an interpreter whose instructions are functions that jump to each other: compilers put the
        function that calls the first one into its callers. So all frames outside of Python frames, and no others, have
        called a function of the table of instructions, through the table or directly; what is left of the function
        itself also calls those that raise exceptions in generators."""
        path = self.interpreter_path(trace)
        outside, others = set(), set()
        for event in events:
            stack = trace.stack(event.node)
            for (module, offset), inside in zip(stack, [None, *(frame[0] for frame in stack)]):
                if module not in trace.modules or pythons.ROOT + trace.modules[module].path != path:
                    continue
                if symbols_of(path).name(offset) != EVALUATION:
                    (outside if inside == trace_reader.MODULE_PYTHON else others).add(called_from(path, offset + 1))
        (table,) = (place for how, place in filter(None, outside) if how == "table")
        functions = set(struct.unpack("<256Q", code_at(path, table, 256 * 8)))
        dispatches = {("table", table)} | {("function", function) for function in functions}
        self.assertEqual(outside - dispatches, set())
        self.assertEqual(others & dispatches, set())

    def check_between(self, stack, frames, stripped):
        """`frames` as in callbacks.py. `stripped`: only C functions of the test's library are sure to have names."""
        at = 0
        between = {}  # the C functions inside of each Python function, up to the one that it called
        for wanted in frames:
            if isinstance(wanted, list):
                continue
            names = set()
            while not (stack[at][1] and stack[at][0] == wanted):
                self.assertFalse(stack[at][1] and wanted != "allocate", (wanted, stack))
                names.add(stack[at][0])
                at += 1
            between[wanted] = names
            at += 1
        for before, wanted in zip(frames, frames[1:]):
            if isinstance(wanted, list):
                continue
            expected = set(before) if isinstance(before, list) else set()
            if expected and (not stripped or expected <= CALLERS_IN_LIBRARY):
                self.assertTrue(expected & between[wanted], (wanted, expected, between[wanted], stack))
            others = (CALLERS_IN_LIBRARY if expected else ALL_CALLERS | CALLERS_IN_LIBRARY) - expected
            self.assertFalse(others & between[wanted], (wanted, stack))

    def test_places(self):
        for python in pythons.supported_pythons():
            with self.subTest(str(python)):
                self.check_places(python)

    def check_operators(self, python):
        """Each line is called through the C functions of its operator: no other stack with frames at the same places
        is taken for the own one. The capture often finds the C stack by its fast path, and the line is new."""
        first_size, lines, calls, header = 5000, 900, 6000, 33  # as in operators.py; the bytes around those of `bytes`
        trace = self.record(python.path, PROGRAMS / "operators.py", PYTHON=1, _PYTHONMALLOC="malloc").read()
        callers = [collections.Counter() for _ in range(3)]
        for thread in trace.threads():
            for event in thread.events:
                number = event.size - header - first_size
                if event.op != trace_reader.ALLOC or not 0 <= number < lines:
                    continue
                stack = trace.stack(event.node)
                at = [index for index, (module, _) in enumerate(stack) if module == trace_reader.MODULE_PYTHON]
                if [trace.python_frame(stack[index][1])[0].name for index in at] == ["called", "<module>"]:
                    callers[number % 3][tuple(stack[at[0] + 1:at[1]])] += 1
        self.assertEqual(sum(sum(each.values()) for each in callers), calls)
        for one, other in ((0, 1), (0, 2), (1, 2)):
            self.assertEqual(callers[one].keys() & callers[other].keys(), set(), callers)

    def test_operators(self):
        for python in pythons.supported_pythons():
            with self.subTest(str(python)):
                self.check_operators(python)

    def check_places_of_package(self, python, package, folders, module):
        """The frames of `module` (a part of its path) are between the Python function that called it and the one that
        it has called, and nowhere else in the stack."""
        size = 7_300_013
        run = self.record(python.path, PROGRAMS / "package_callbacks.py", package, size, PYTHON=1,
                          _PYTHONPATH=":".join(map(str, folders)))
        trace = run.read()
        nodes = [event.node for thread in trace.threads() for event in thread.events
                 if event.op == trace_reader.ALLOC and event.size == size]
        self.assertEqual(len(nodes), 1)
        stack = [(trace.python_frame(offset)[0].name if number == trace_reader.MODULE_PYTHON else "",
                  trace.modules[number].path if number in trace.modules else "")
                 for number, offset in trace.stack(nodes[0])]
        names = [name for name, _ in stack]
        called, calling = names.index("called"), names.index("calling")
        self.assertEqual([name for name in names if name], ["called", "calling", "<module>"])
        inside = [at for at, (_, path) in enumerate(stack) if module in path]
        self.assertTrue(inside, stack)
        self.assertLess(called, inside[0], stack)
        self.assertLess(inside[-1], calling, stack)
        print(f"{python}: a callback through {package}, {len(inside)} frames of it", flush=True)

    def pybind_module(self, python, include):
        """Compiles pybind_callback.cpp for `python`. Returns its folder; None: there are no headers, or no compiler."""
        if pythons.ROOT:  # the system of the interpreter has no headers
            return None
        asked = subprocess.run([python.path, "-c", "import sysconfig; print(sysconfig.get_path('include'), "
                                "sysconfig.get_config_var('EXT_SUFFIX'))"], capture_output=True, text=True, check=True)
        headers, suffix = asked.stdout.split()
        compiler = shutil.which("clang++") or shutil.which("c++")  # clang++ takes two thirds of the time of g++
        if not os.path.exists(f"{headers}/Python.h") or not compiler:
            return None
        subprocess.run([compiler, "-std=c++17", "-O0", "-shared", "-fPIC", f"-I{headers}", f"-I{include}",
                        PROGRAMS / "pybind_callback.cpp", "-o", self.dir / f"pybind_callback{suffix}"], check=True)
        return self.dir

    def test_places_of_packages(self):
        """NumPy's frompyfunc and pybind11, where they are installed (pythons.packages_of): in the newest interpreter,
        or in all of them for the campaign."""
        ran = set()
        for python in reversed(pythons.supported_pythons()):
            folder = pythons.packages_of(python)
            if folder is None:
                continue
            if (folder / "numpy").is_dir() and ("numpy" not in ran or IN_CAMPAIGN):
                ran.add("numpy")
                with self.subTest(f"{python}, numpy"):
                    self.check_places_of_package(python, "numpy", [folder], "umath")
            include = folder / "pybind11/include"
            if include.is_dir() and ("pybind11" not in ran or IN_CAMPAIGN):
                with self.subTest(f"{python}, pybind11"):
                    if module := self.pybind_module(python, include):
                        ran.add("pybind11")
                        self.check_places_of_package(python, "pybind11", [module], "/pybind_callback.")
        if missing := {"numpy", "pybind11"} - ran:
            self.skipTest(f"not installed (pip install --target ~/.cache/heapprof-python/3.X): {', '.join(missing)}")


if __name__ == "__main__":
    harness.skip_unless(pythons.supported_pythons(), "no supported Python")
    harness.main()
