"""Programs whose libc is musl: started in every way, with complete stacks through libc, whose code has no unwind
information; and what is refused. The ledger tests run with musl programs, too (HEAPPROF_TEST_LIBC=musl)."""

import os
import shutil
import subprocess
from pathlib import Path

import harness

MUSL = harness.BUILD / "tests" / "programs" / "musl"
LOADER = Path("/lib/ld-musl-x86_64.so.1")

# The functions of callers.c, and the functions of libc that they call. There may be more, which libc does not export.
THROUGH_LIBC = {"by_strdup": ["strdup"], "by_asprintf": ["vasprintf", "asprintf"], "by_fopen": ["fopen"],
                "by_opendir": ["opendir"], "by_setenv": [], "in_thread": ["strdup"],
                "in_handler": ["strdup"], "at_end": ["strdup"]}
DIRECTLY = {"by_malloc": 1001, "by_calloc": 2002, "by_realloc": 1003, "by_reallocarray": 4004,
            "by_aligned_alloc": 1088, "by_memalign": 1007, "by_valloc": 1008, "by_posix_memalign": 1009}


def is_libc(frame):
    return Path(frame["module"]).name in ("libc.so", LOADER.name)


class Musl(harness.Case):
    def stacks_of(self, trace, *options):
        """{function of the program: stack}, by the innermost frame in the program."""
        result = {}
        for row in self.all_stacks(trace, "allocations", *options):
            for position, frame in enumerate(row["stack"]):
                if not is_libc(frame):
                    result[frame["function"]] = (row, position)
                    break
        return result

    def check_stacks(self, name):
        run = self.record(MUSL / name)
        self.assert_sound(self.report(run.trace))
        stacks = self.stacks_of(run.trace)
        for row, position in stacks.values():
            functions = [frame["function"] for frame in row["stack"]]
            self.assertIsNone(row["truncated"], functions)
            self.assertNotIn("libheapprof", " ".join(frame["module"] for frame in row["stack"]))
            # The caller of main, and of a thread's function, is in libc.
            self.assertTrue(is_libc(row["stack"][-1]), functions)
        for function, size in DIRECTLY.items():
            row, position = stacks[function]
            functions = [frame["function"] for frame in row["stack"]]
            self.assertEqual((position, row["bytes"], row["blocks"]), (0, size, 1), functions)
            self.assertEqual(functions[:2], [function, "main"])
        for function, expected in THROUGH_LIBC.items():
            row, position = stacks[function]
            functions = [frame["function"] for frame in row["stack"]]
            self.assertEqual(functions[position - len(expected):position], expected, functions)
            if function.startswith("by_"):
                self.assertEqual(functions[position + 1], "main", functions)
        functions = [frame["function"] for frame in stacks["in_handler"][0]["stack"]]
        self.assertIn("by_raise", functions)
        self.assertIn("main", functions)
        functions = [frame["function"] for frame in stacks["comparison"][0]["stack"]]
        self.assertIn("qsort_r", functions)
        self.assertIn("by_qsort", functions)

    def test_stacks_through_libc(self):
        self.check_stacks("callers")

    def test_stacks_with_frame_pointers(self):
        self.check_stacks("callers_with_frame_pointers")

    def test_every_way_of_starting(self):
        for how, loader in (("preload", None), ("record", None), ("loader", LOADER)):
            with self.subTest(how=how):
                if loader is None:
                    run = self.record(MUSL / "callers", how=how)
                else:
                    trace = self.dir / "loader.heapprof"
                    environment = harness.clean_environment(HEAPPROF_OUTPUT=trace)
                    subprocess.run([loader, "--preload", harness.LIBRARY, MUSL / "callers"], env=environment,
                                   check=True, timeout=60)
                    run = harness.Recording(trace, 0, "", "", None)
                report = self.report(run.trace)
                self.assert_sound(report)
                self.assertEqual(Path(report["program"]).name, "callers")
                self.assertGreater(report["heap"]["allocations"], 15)
                self.assertIn("callers", self.heapprof("info", run.trace))

    def test_executable_path_when_the_loader_is_started(self):
        """/proc/self/exe is the loader; the recorder's hooks answer with the program, as without the loader."""
        result = subprocess.run([LOADER, "--preload", harness.LIBRARY, MUSL / "missing"], capture_output=True,
                                text=True, env=harness.clean_environment(HEAPPROF_OUTPUT=self.dir / "t.heapprof"))
        self.assertEqual((result.returncode, result.stdout), (0, "all found\n"), result.stderr)

    def test_functions_that_musl_lacks(self):
        plain = subprocess.run([MUSL / "missing", "plain"], env=harness.clean_environment())
        self.assertEqual(plain.returncode, 0)
        run = self.record(MUSL / "missing")
        self.assertEqual(run.stdout, "all found\n", run.stderr)
        report = self.report(run.trace)
        self.assert_sound(report)
        self.assertEqual(report["heap"]["failed"], 1)  # pvalloc of nearly all memory

    def test_glibc_and_musl_in_one_process_tree(self):
        """One library for both: it is named in LD_PRELOAD, which every process inherits."""
        shell = shutil.which("sh")  # of glibc
        folder = self.dir / "traces"
        environment = harness.clean_environment(LD_PRELOAD=harness.LIBRARY, HEAPPROF_CHILDREN=1,
                                                HEAPPROF_OUTPUT=folder / "%e.%p.heapprof")
        result = subprocess.run([shell, "-c", f"{MUSL / 'callers'}; exec {MUSL / 'missing'}"], env=environment,
                                capture_output=True, text=True, timeout=60)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "all found\n", ""))
        programs = [Path(self.report(trace)["program"]).name for trace in folder.iterdir()]
        self.assertEqual(len(programs), 3, programs)
        self.assertLessEqual({"callers", "missing"}, set(programs))

    def test_embedded_allocator(self):
        report = self.report(self.record(MUSL / "embedded_unaligned").trace)
        self.assert_sound(report)
        self.assertEqual((report["heap"]["allocations"], report["heap"]["frees"]), (101, 100))

    def test_refused(self):
        result = subprocess.run([harness.HEAPPROF, "record", "-o", self.dir / "t.heapprof", MUSL / "callers_static"],
                                capture_output=True, text=True, env=harness.clean_environment())
        self.assertEqual(result.returncode, 126)
        self.assertIn("statically linked", result.stderr)

    def test_leaks_and_symbols(self):
        run = self.record(MUSL / "callers", how="record")
        leaks = self.heapprof("leaks", run.trace, "--top", "0", "--no-helpers")
        self.assertIn("by_strdup", leaks)
        self.assertIn("callers.c", leaks)
        # The recording of libc's own module: found by its path, and named by its exported functions.
        self.assertIn("strdup", self.heapprof("flamegraph", run.trace, "--format", "folded"))


if __name__ == "__main__":
    harness.skip_unless(os.path.exists(LOADER) and (MUSL / "callers").exists(), "musl-gcc is not installed")
    harness.main()
