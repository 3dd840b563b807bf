"""Recording Python frames never harms the program: interpreters that are unloaded, and signal handlers that interrupt
the interpreter at any instruction. And what is left out is said."""

import functools
import shutil
import subprocess
import unittest
from pathlib import Path

import harness
import pythons
import trace_reader

PROGRAMS = Path(__file__).parent.parent / "programs" / "python"
FIRST_SIZE = 777000
MAX_STACK = 4096  # as in tests/abi/library_test.py


@functools.cache
def libraries():
    """[(interpreter, path of its shared library)], where there is one."""
    found = []
    for python in pythons.supported_pythons():
        asked = subprocess.run([python.path, "-c", "import sysconfig as s; print(s.get_config_var('LIBDIR') + '/' "
                                "+ s.get_config_var('INSTSONAME'))"], capture_output=True, text=True)
        path = Path(asked.stdout.strip())
        if path.suffix != ".a" and path.is_file():
            found.append((python, str(path)))
    return found


def python_names(trace, size):
    """The names of the Python frames of each allocation of `size` bytes, or one more for the byte behind the text."""
    return [[trace.python_frame(offset)[0].name for module, offset in trace.stack(event.node)
             if module == trace_reader.MODULE_PYTHON]
            for thread in trace.threads() for event in thread.events
            if event.op == trace_reader.ALLOC and event.size in (size, size + 1)]


class Safety(harness.Case):
    def home(self, python):
        return str(Path(python.path).resolve().parent.parent)

    def run_host(self, python, library, what):
        run = self.record(harness.program("python_host"), library, what, PYTHON=1, _PYTHONHOME=self.home(python))
        self.assertEqual(run.stdout, "done\n")
        return run.read()

    @unittest.skipUnless(libraries(), "no Python library")
    def test_unloaded_library(self):
        for python, library in libraries():
            for what in ("use", "initialize"):
                with self.subTest(str(python), what=what):
                    trace = self.run_host(python, library, what)
                    if what == "initialize":
                        self.assertEqual(python_names(trace, FIRST_SIZE), [["round0", "<module>"]])

    @unittest.skipUnless(libraries(), "no Python library")
    def test_library_loaded_again_elsewhere(self):
        for python, library in libraries():
            with self.subTest(str(python)):
                trace = self.run_host(python, library, "reload")
                for number in range(2):
                    # The second interpreter frees nothing that the first one left: only the names matter.
                    self.assertIn([f"round{number}", "<module>"], python_names(trace, FIRST_SIZE + number))

    def run_compiled(self, source, python, library):
        program = self.dir / f"{source}-{python.version[1]}-{python.version[2]}"
        # Not position-independent, so that references to variables of the library become COPY relocations.
        subprocess.run(["cc", "-O1", "-fno-pie", "-no-pie", "-w", PROGRAMS / f"{source}.c", library,
                        f"-Wl,-rpath,{Path(library).parent}", "-o", program], check=True)
        return program, self.record(program, PYTHON=1, _PYTHONHOME=self.home(python)).read()

    @unittest.skipUnless(libraries() and shutil.which("cc"), "no Python library or no compiler")
    def test_types_that_the_linker_has_copied(self):
        for python, library in libraries():
            with self.subTest(str(python)):
                program, trace = self.run_compiled("linked_host", python, library)
                copied = subprocess.run(["readelf", "-rW", program], capture_output=True, text=True).stdout
                for name in ("PyUnicode_Type", "PyCode_Type"):
                    self.assertRegex(copied, rf"R_X86_64_COPY.* {name}")
                self.assertEqual(python_names(trace, FIRST_SIZE), [["hello", "<module>"]])

    def test_handler_at_every_instruction(self):
        plugin = harness.TARGET / "tests" / "programs" / "python_interrupt.so"
        for python in pythons.supported_pythons():
            with self.subTest(str(python)):
                run = self.record(python.path, PROGRAMS / "interrupted.py", plugin, PYTHON=1)
                count, right, stack_use = run.stdout.split()
                self.assertEqual(right, "right")
                self.assertGreater(int(count), 10000)
                self.assertLessEqual(int(stack_use), MAX_STACK)
                trace = run.read()
                mapped = [event for thread in trace.threads() for event in thread.events
                          if event.op == trace_reader.MAP and event.size == 4096]
                self.assertGreaterEqual(len(mapped), int(count))
                notes = " ".join(text for _, text in trace.notes)
                self.assertIn("in signal handlers that interrupted Python", notes)
                print(f"{python}: {count} interrupted instructions, {stack_use} bytes of stack", flush=True)


if __name__ == "__main__":
    harness.skip_unless(pythons.supported_pythons(), "no supported Python")
    harness.main()
