"""Python frames of a C++ program that embeds the interpreter, linked with its library or loading it with dlopen: they
equal those that the interpreter shows, and stand between the right functions of the program, also when interpreters
call each other."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import harness
import pythons
import trace_reader
from python_stacks import PROGRAMS, compare_instants, recorded_instants

SCRIPT = """
import sys, threading
sys.path.insert(0, {programs!r})
import instant

def inner():
    return instant.instant()

def outer():
    call_from_host(inner)
    return [call_from_host(lambda: inner()) for _ in range(2)]

def deeper(depth):
    return call_from_host(lambda: deeper(depth - 1)) if depth else call_from_host(inner)

outer()
sorted(range(3), key=lambda value: call_from_host(inner))
deeper(5)
thread = threading.Thread(target=outer)
thread.start()
thread.join()
instant.instant()
instant.write({result!r})
"""
INSTANTS = 11

CALLING_EACH_OTHER = """
import sys
sys.path.insert(0, {programs!r})
import instant

def step():
    enter() if more() else instant.instant()

for plan in {plans!r}:
    begin(plan)
instant.write({result!r})
"""
# The C stacks of all are equal, and those whose last two are A have equal frames, too: of A only, whose frames alone are
# read. But different evaluations execute them.
PLANS = ["AAA", "ABA", "BAA", "ABA", "BBA", "BAA"]


def libraries():
    """[(interpreter, its shared library)], where there is one."""
    found = []
    for python in pythons.supported_pythons():
        name = f"libpython3.{python.version[1]}.so.1.0"
        found += [(python, Path("/", path.relative_to(pythons.ROOT or "/")))
                  for pattern in (f"lib/{name}", f"lib/*/{name}")
                  for path in Path(pythons.ROOT + str(home_of(python))).glob(pattern)]
    return found


def home_of(python):
    path = Path(python.path)
    return (path if pythons.ROOT else path.resolve()).parent.parent


class Embedding(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.compiled = harness.shared_folder() / "embedding.o"
        subprocess.run(["c++", "-O2", "-g", "-fPIE", "-c", PROGRAMS / "embedding.cpp", "-o", cls.compiled], check=True)

    def linked(self, name, *arguments):
        program = self.dir / name
        subprocess.run(["c++", "-pie", self.compiled, "-o", program, *arguments, "-ldl"], check=True)
        return program

    def stacks(self, python, program, library, script, instants, **values):
        """Checks the frames, and returns the names of the functions of Python and of the program by instant, innermost
        first."""
        result = self.dir / f"{self.count}.json"
        run = self.record(program, library, script.format(programs=str(PROGRAMS), result=str(result), **values),
                          PYTHON=1, _PYTHONHOME=home_of(python), _PYTHONDONTWRITEBYTECODE=1)
        trace = run.read()
        self.assertEqual([reason for _, reason in trace.interpreters], [""])
        expected = json.loads(result.read_text())
        self.assertEqual(compare_instants(self, python, trace, expected)[0], instants)
        symbols = trace_reader.Symbols(str(program))
        program_module = next(module for module in trace.modules.values() if module.path == os.path.realpath(program))
        found = []
        for _, event in sorted(recorded_instants(trace, expected).items()):
            names = []
            for module, offset in trace.stack(event.node):
                if module == trace_reader.MODULE_PYTHON:
                    names.append(trace.python_frame(offset)[0].name.rpartition(".")[2])
                elif module == program_module.number:
                    names.append(harness.plain_name(symbols.name(offset) or "").rpartition("::")[2])
            found.append(names)
        return found

    def check(self, python, program, library):
        calls = 0
        for names in self.stacks(python, program, library, SCRIPT, INSTANTS):
            # Host::call stands between the line that called into the program and the function that it called back.
            for inside, outside, next_one in zip(names, names[1:], names[2:]):
                if outside == "call":
                    self.assertIn(inside, ("inner", "<lambda>"), names)
                    self.assertIn(next_one, ("outer", "<listcomp>", "<lambda>", "deeper"), names)
                    calls += 1
        # outer twice: 1 + 2 calls; sorted: 3; deeper: 6
        self.assertEqual(calls, 2 * 3 + 3 + 6)
        print(f"{python}, {os.path.basename(program)}: {calls} calls", flush=True)

    def test_interpreters_that_call_each_other(self):
        """A calls B, and B calls A, or the other way round: frames of A stand in the evaluations that execute them."""
        loading = self.linked("loading")
        for python, library in libraries():
            with self.subTest(str(python)):
                found = self.stacks(python, loading, library, CALLING_EACH_OTHER, len(PLANS), plans=PLANS)
                if python.version < (3, 11):
                    continue  # evaluations are found by their code, which is the same for both
                for plan, names in zip(PLANS, found):
                    expected = ["<module>"]
                    for interpreter in plan:
                        expected += ["enter_next", "step"] if interpreter == "A" else ["enter_next"]
                    self.assertEqual([name for name in names if name in expected], expected[::-1], plan)
                print(f"{python}: {len(PLANS)} calls between interpreters", flush=True)

    def test_linked_and_loaded(self):
        loading = self.linked("loading")
        for python, library in libraries():
            with self.subTest(str(python), how="dlopen"):
                self.check(python, loading, library)
            with self.subTest(str(python), how="linked"):
                program = self.linked(f"linked-{python.version[1]}", "-Wl,--no-as-needed,--allow-shlib-undefined",
                                      pythons.ROOT + str(library), f"-Wl,-rpath,{library.parent}")
                self.check(python, program, "-")


if __name__ == "__main__":
    harness.skip_unless(libraries() and shutil.which("c++"), "no Python library or no compiler")
    harness.main()
