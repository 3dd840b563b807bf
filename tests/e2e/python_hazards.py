"""What endangers a recorder of Python frames: the program runs on, and the recorded frames equal those that the
interpreter shows; or there are none, and a note says why. On every supported interpreter of the machine."""

import json
import re
import shutil
import signal
import struct
import subprocess
import sys
import unittest
from pathlib import Path

import harness
import pythons
import trace_reader
from python_stacks import PROGRAMS, compare_instants, python_stack, recorded_instants

FORKING_THREADS = 4
CHILDREN = 4  # of each of these threads
GRANDCHILDREN = len(range(0, CHILDREN, 3))  # of each of these threads: of every third child
FORKED_CHILD = 2  # kHeaderForkedChild


def for_each(minimum=(3, 0)):
    """Runs the test with each supported interpreter. It is skipped, by name, with those before `minimum`."""
    def decorate(test):
        def run(self):
            for python in pythons.supported_pythons():
                with self.subTest(str(python)):
                    if python.version < minimum:
                        self.skipTest(f"for Python {'.'.join(map(str, minimum))} and later")
                    test(self, python)
        run.__doc__ = test.__doc__
        return run
    return decorate


class Hazards(harness.Case):
    def record_hazard(self, python, hazard, *arguments, options=(), before=(), **variables):
        """The recording, and what the program wrote."""
        result = self.dir / f"{self.count}.json"
        run = self.record(*before, python.path, *options, PROGRAMS / "hazards.py", hazard, result, *arguments,
                          **{"PYTHON": 1, "PAUSED": 1, **variables})
        return run, result

    def check(self, python, hazard, *arguments, at_least, **variables):
        """Compares the recording with what the program wrote, and returns both."""
        return self.compare(*self.record_hazard(python, hazard, *arguments, **variables), python, at_least)

    def compare(self, run, result, python, at_least):
        trace = run.read()
        self.assertEqual(trace.ended_by, "exit")
        self.assertEqual([reason for _, reason in trace.interpreters], [""])
        expected = json.loads(result.read_text())
        instants, _ = compare_instants(self, python, trace, expected)
        self.assertGreaterEqual(instants, at_least)
        return trace, expected

    @for_each()
    def test_finalisation_with_daemon_threads(self, python):
        # CPython 3.10 crashes without a recorder, too, in 2 of 100 runs: a daemon thread that takes the interpreter's
        # lock reads the state of the interpreter, which has been freed (take_gil).
        for _ in range(10 if python.version[:2] == (3, 10) else 1):
            run, result = self.record_hazard(python, "finalisation", status=None)
            if run.status != -signal.SIGSEGV:
                break
        self.assertEqual(run.status, 0, run.stderr)
        trace, expected = self.compare(run, result, python, 90)
        late = {"first_size": expected["first_size"], "instants": [None] * len(expected["instants"])}
        late["instants"][-1] = [expected["late"]]
        self.assertEqual(compare_instants(self, python, trace, late), (1, 1))

    @for_each()
    def test_forks(self, python):
        """Several threads fork many children, while others allocate. Each child has a recording of its own."""
        traces = self.dir / f"forks-{self.count}"
        traces.mkdir()
        run, result = self.record_hazard(python, "forks", FORKING_THREADS, CHILDREN, CHILDREN=1, PAUSED=None,
                                         OUTPUT=traces / "%p")
        children = 0
        for path in traces.iterdir():
            trace = trace_reader.Trace(path)
            if not trace.flags & FORKED_CHILD:
                instants, _ = compare_instants(self, python, trace, json.loads(result.read_text()))
                self.assertGreaterEqual(instants, FORKING_THREADS * CHILDREN)
                continue
            expected = Path(f"{result}.{path.name}")
            if expected.exists():
                children += 1
                instants, _ = compare_instants(self, python, trace, json.loads(expected.read_text()))
                self.assertGreaterEqual(instants, 3)
        self.assertEqual(children, FORKING_THREADS * (CHILDREN + GRANDCHILDREN))

    @for_each()
    def test_greenlets(self, python):
        folder = pythons.packages_of(python)
        if not folder or not list(folder.glob("greenlet/__init__.py")):
            self.skipTest(f"greenlet is not installed for {python}")
        # With stacks of frees: a switch frees what it has copied.
        for free_stacks in (0, 1):
            self.check(python, "greenlets", at_least=50, _PYTHONPATH=folder, FREE_STACKS=free_stacks)

    @for_each()
    def test_subinterpreters(self, python):
        self.check(python, "subinterpreters", at_least=4 + 4 * 16)

    @for_each(minimum=(3, 12))
    def test_subinterpreter_of_another_thread(self, python):
        """Either its thread has a state of its own, or a note says why there are no frames."""
        trace = self.record_hazard(python, "interpreter_of_another_thread")[0].read()
        blocks = [event for thread in trace.threads() for event in thread.events
                  if event.op == trace_reader.ALLOC and 100_000 <= event.size < 100_100]
        self.assertTrue(blocks)
        has_frames = [bool(python_stack(trace, event.node)) for event in blocks]
        notes = " ".join(text for _, text in trace.notes)
        self.assertTrue(all(has_frames) or "of a sub-interpreter that another thread has created" in notes, notes)

    @for_each()
    def test_deep_recursion_and_back(self, python):
        self.check(python, "recursion_and_back", at_least=40, MAX_DEPTH=20000)

    @for_each()
    def test_threads_that_exit_in_python(self, python):
        self.check(python, "thread_exits", at_least=2 * (1 + 2 + 3) + 1)

    @for_each()
    def test_filter_of_system_calls(self, python):
        """Frames in memory that cannot be tested are left out, and the reason is right."""
        run, result = self.record_hazard(python, "filtered")
        trace = run.read()
        expected = json.loads(result.read_text())
        notes = " ".join(text for _, text in trace.notes)
        self.assertIn("while a filter (seccomp) forbids to test whether memory is readable", notes)
        self.assertNotIn("where the interpreter's data are not as its version has them", notes)
        # That in the recursion has no Python frames.
        expected["instants"] = expected["instants"][:1]
        self.assertEqual(compare_instants(self, python, trace, expected)[0], 1)

    @for_each()
    def test_no_memory(self, python):
        """Without memory for placing, stacks have all their C frames. After some thousand events it is tried again."""
        for _ in range(6):
            run, _ = self.record_hazard(python, "no_memory")
            trace = run.read()
            if trace.ended_by == "exit":
                break
            # The trace happened to need another part of its file.
            self.assertIn("cannot map the trace", run.stderr)
        self.assertEqual(trace.ended_by, "exit")
        stacks = {event.size: trace.stack(event.node) for thread in trace.threads() for event in thread.events
                  if event.op == trace_reader.ALLOC and 20_000 <= event.size <= 20_100}
        python_frames = {size: sum(module == trace_reader.MODULE_PYTHON for module, _ in stack)
                         for size, stack in stacks.items()}
        without = [size for size, frames in python_frames.items() if frames == 0]
        self.assertEqual(len(stacks), 1 + 10 + 1)
        self.assertEqual(without, [size for size in stacks if min(without) <= size < 20_100])
        for size, frames in python_frames.items():
            if size not in without:
                outer = len(("work", "run", "_bootstrap_inner", "_bootstrap"))
                self.assertEqual(frames, outer + (1 if size == 20_100 else 2 * (size - 20_000) + 1))
        # The first one has all C frames.
        c_frames = [frame for frame in stacks[20_002] if frame[0] != trace_reader.MODULE_PYTHON]
        self.assertEqual(stacks[min(without)][:6], c_frames[:6])
        self.assertEqual(stacks[min(without)][-4:], c_frames[-4:])
        notes = " ".join(text for _, text in trace.notes)
        self.assertRegex(notes, r"stacks without their Python frames: 4,?\d\d\d for which there was no memory")
        print(f"{python}: {len(stacks[min(without)])} frames without memory", flush=True)

    @for_each(minimum=(3, 12))
    def test_perf_trampolines(self, python):
        """Each function is called through code that is compiled at run time. Before 3.14, it has no frame pointer, so
        the C stack is not known beyond it. Such a stack is marked as truncated, and the other lines are outermost."""
        run, result = self.record_hazard(python, "ordinary", options=("-X", "perf"))
        Path(f"/tmp/perf-{run.read().pid}.map").unlink()  # which the interpreter creates
        trace, expected = self.compare(run, result, python, 5)
        truncated = 0
        for event in recorded_instants(trace, expected).values():
            stack = trace.stack(event.node)
            if stack[-1] != (trace_reader.MODULE_TRUNCATION_ROOT, trace_reader.TRUNCATED_NO_UNWIND_INFO):
                continue
            truncated += 1
            is_python = [module == trace_reader.MODULE_PYTHON for module, _ in stack[:-1]]
            outermost_c = max(at for at, python_frame in enumerate(is_python) if not python_frame)
            self.assertEqual(stack[outermost_c][0], trace_reader.MODULE_ANONYMOUS, stack)
            self.assertTrue(any(is_python[:outermost_c]), stack)
            self.assertTrue(any(is_python[outermost_c + 1:]), stack)
        if python.version < (3, 14):
            self.assertGreater(truncated, 0)
        print(f"{python}: {truncated} stacks are not known beyond a trampoline", flush=True)

    @unittest.skipIf(harness.EMULATOR, "the filter would be for the command that enters the other system")
    @for_each()
    def test_host_that_forbids_process_vm_readv(self, python):
        run, result = self.record_hazard(python, "ordinary", before=(sys.executable, PROGRAMS / "forbid.py",
                                                                     harness.LIBRARY), how="plain")
        trace = run.read()
        self.assertEqual(trace.interpreters[0][1], "")
        instants, _ = compare_instants(self, python, trace, json.loads(result.read_text()))
        self.assertGreaterEqual(instants, 5)


def symbol(library, name):
    """The position of a variable in the file of a library."""
    symbols = subprocess.run(["readelf", "-W", "--dyn-syms", library], capture_output=True, text=True,
                             check=True).stdout
    address = int(re.search(rf": ([0-9a-f]+) .* {name}$", symbols, re.M).group(1), 16)
    segments = subprocess.run(["readelf", "-W", "-l", library], capture_output=True, text=True, check=True).stdout
    for offset, begin, size in re.findall(r"LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+)", segments):
        if int(begin, 16) <= address < int(begin, 16) + int(size, 16):
            return address - int(begin, 16) + int(offset, 16)
    raise AssertionError(f"{name} is in no segment of {library}")


class NotRead(harness.Case):
    """Interpreters whose frames are not read: copies of a program or of a library with other words."""

    @staticmethod
    def file_of(python):
        """The file with the interpreter's code; None: it is in another system, not there, or named by its path."""
        program = Path(python.path).resolve()
        if pythons.ROOT or not program.exists():
            return None
        listed = subprocess.run(["readelf", "-W", "-d", program], capture_output=True, text=True).stdout
        needed = re.search(r"NEEDED.*\[(.*libpython3\..*)\]", listed)
        if needed is None:
            return program
        return None if "/" in needed.group(1) else program.parent.parent / "lib" / needed.group(1)

    def check(self, minimum, change, reason, shown=None):
        """`change` gets the file's bytes and a function that finds variables in them."""
        for python in pythons.supported_pythons():
            file = self.file_of(python)
            if python.version >= minimum and file is not None and file.exists():
                break
        else:
            self.skipTest("no interpreter that can be changed")
        data = bytearray(file.read_bytes())
        change(data, lambda name: symbol(file, name))
        copy = self.dir / file.name
        copy.write_bytes(data)
        shutil.copymode(file, copy)
        result = self.dir / "result.json"
        program, variables = python.path, {"_LD_LIBRARY_PATH": self.dir}
        if file == Path(python.path).resolve():
            program, variables = copy, {"_PYTHONHOME": file.parent.parent}
        run = self.record(program, PROGRAMS / "hazards.py", "ordinary", result, PYTHON=1, **variables)
        trace = run.read()
        self.assertEqual([text for _, text in trace.interpreters], [reason])
        self.assertEqual(trace.python_code, {})
        self.assertNotIn(trace_reader.MODULE_PYTHON, {module for _, module, _, _ in trace.nodes.values()})
        info = self.heapprof("info", run.trace)
        shown = shown or "{}.{}".format(*python.version)
        self.assertIn(f"the program contains Python {shown}, but its Python frames are not recorded: {reason}",
                      " ".join(info.split()))
        print(f"{python}, changed: {reason}", flush=True)

    def test_build_without_the_global_interpreter_lock(self):
        def change(data, find):
            position = find("_PyRuntime") + 16
            self.assertEqual(struct.unpack_from("<Q", data, position), (0,))
            struct.pack_into("<Q", data, position, 1)
        self.check((3, 13), change, "interpreters without the global interpreter lock are not supported")

    def test_unknown_version(self):
        def change(data, find):
            struct.pack_into("<I", data, find("Py_Version"), 0x031f00f0)
        self.check((3, 11), change, "this version is not supported", "3.31")

    def test_other_layout(self):
        def change(data, find):
            position = find("_PyRuntime")
            words = list(struct.unpack_from("<64Q", data, position))
            # The first offset of 72 is that of a thread's innermost frame.
            self.assertIn(72, words)
            struct.pack_into("<Q", data, position + 8 * words.index(72), 80)
        self.check((3, 13), change, "the interpreter's layout is not that of its version")


if __name__ == "__main__":
    harness.skip_unless(pythons.supported_pythons(), "no supported Python")
    harness.main()
