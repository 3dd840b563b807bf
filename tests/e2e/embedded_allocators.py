"""Programs with an embedded allocator: the recording equals the program's ledger, call by call, although the program
calls no allocation function of libc. Functions that cannot be patched are named, with the reason and the effect."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import figures_single_thread
import figures_threads
import harness

ALLOCATORS = [name for name in ("jemalloc", "tcmalloc", "mimalloc")
              if os.path.exists(harness.program(f"embedded_{name}"))]
harness.skip_unless(os.uname().machine == "x86_64", "functions are patched on x86-64 only")


def notes_of(report):
    return [note for note in report["integrity"]["notes"] if note.startswith("embedded allocator")]


class SingleThread(figures_single_thread.SingleThread):
    """The programs are run with PLAIN 1, because jemalloc lacks some functions: calls of these would reach libc's."""

    allocator = None

    def recorded(self, seed, work=12_000, **variables):
        return self.record(harness.program(self.allocator), work, seed, 1, **variables)

    def each(self, check):
        for name in ALLOCATORS:
            for variant in ("", "_plain", "_fixed"):
                self.allocator = f"embedded_{name}{variant}"
                with self.subTest(self.allocator):
                    check()

    def test_figures(self):
        def check():
            run = self.recorded(1)
            truth, report = self.check_figures(run, self.recorded(1, work=0))
            self.check_sites(run, truth)
            (note,) = notes_of(report)
            self.assertIn(self.allocator.split("_")[1], note)
        self.each(check)

    def test_without_shadow_stack(self):
        self.allocator = f"embedded_{ALLOCATORS[0]}"
        super().test_without_shadow_stack()

    def test_complete_stacks(self):
        self.each(super().test_complete_stacks)

    def test_events_one_by_one(self):
        self.each(super().test_events_one_by_one)

    def test_heaptrack_agrees(self):
        self.allocator = f"embedded_{ALLOCATORS[-1]}"
        super().test_heaptrack_agrees()

    def test_off(self):
        """Also by the option's old name, which is deprecated."""
        self.allocator = f"embedded_{ALLOCATORS[0]}"
        for option in ("--embedded-allocators", "--own-allocators"):
            with self.subTest(option):
                run = self.record(harness.program(self.allocator), 1000, 1, 1, how="record", options=[option, "off"])
                self.assert_ledger_clean(run.ledger())
                report = self.report(run.trace)
                self.assertEqual(notes_of(report), [])
                self.assertLess(report["heap"]["allocations"], 10)


class Threads(figures_threads.Threads):
    """Blocks of an embedded allocator that other threads free."""

    def test_blocks_freed_by_other_threads(self):
        for name in ALLOCATORS:
            with self.subTest(name):
                run, ledger, report = self.check(f"embedded_{name}_threads", 3_000, 1, 4, 3)
                self.check_live_set(run, ledger, report)

    test_many_short_threads = test_small_blocks_of_events = test_many_events = test_contended_realloc = \
        test_without_shadow_stack = None


class Preloaded(figures_threads.Threads):
    """Shared allocators, preloaded beside the recorder in either order."""

    def record(self, *command, **options):
        return super().record(*command, how="plain", _LD_PRELOAD=self.preload, **options)

    def test_blocks_freed_by_other_threads(self):
        directory = Path("/usr/lib/x86_64-linux-gnu")
        for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2.0"):
            for self.preload in (f"{harness.LIBRARY}:{directory / name}", f"{directory / name}:{harness.LIBRARY}"):
                with self.subTest(self.preload):
                    if not (directory / name).exists():
                        self.skipTest(f"{name} is not installed")
                    run, ledger, report = self.check("ledger_threads", 3_000, 1, 4, 3)
                    self.assertEqual(run.stderr, "")
                    self.check_live_set(run, ledger, report)

    test_many_short_threads = test_small_blocks_of_events = test_many_events = test_contended_realloc = \
        test_without_shadow_stack = None


class PatchedFunctions(harness.Case):
    def test_entries_that_are_hard_to_patch(self):
        """Registers are preserved. All functions are patched, except those that are named with the reason."""
        run = self.record(harness.program("embedded_entries"), LOG="warn")
        self.assertIn("registers 1", run.stdout)
        by_line = {}
        for row in self.all_stacks(run.trace, "allocations"):
            key = row["bytes"] // max(1, row["blocks"])
            by_line[key] = by_line.get(key, 0) + row["blocks"]
        self.assertEqual((by_line.pop(4096, 0) >= 50, by_line), (True, {15: 10, 70: 10, 90: 10, 170: 10}))
        self.assertRegex(run.stderr, r"je_pvalloc of embedded_entries is not recorded: it branches into its own")
        self.assertRegex(run.stderr, r"je_valloc of embedded_entries is not recorded: ")
        for branched in ("_rjem_calloc", "_rjem_valloc", "_rjem_mallocx", "_rjem_memalign"):
            self.assertRegex(run.stderr, f"{branched} of embedded_entries is not recorded: other code ")
        self.assertEqual(len(re.findall("is not recorded", run.stderr)), 6, run.stderr)

    # Executes a command with a recorder, and with a filter that refuses process_vm_readv, as a container's policy may.
    WITH_POLICY = """
import ctypes, os, struct, sys
instructions = [(0x20, 0, 0, 0), (0x15, 0, 1, 310), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000)]
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in instructions))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(text)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
    sys.exit(3)
os.environ["LD_PRELOAD"] = sys.argv[1]
os.execv(sys.argv[2], sys.argv[2:])
"""

    def test_without_reading_memory_by_system_calls(self):
        """Where process_vm_readv is refused, the same functions are patched."""
        program = harness.program("embedded_entries")
        run = self.record("python3", "-c", self.WITH_POLICY, harness.LIBRARY, program, how="plain", status=None)
        if run.status == 3:
            self.skipTest("filters are not permitted here")
        self.assertEqual(run.status, 0)
        notes, expected = (self.report(trace)["integrity"]["notes"] for trace in (run.trace, self.record(program).trace))
        self.assertRegex(expected[0], "functions patched")
        self.assertEqual(notes, expected)

    def test_functions_that_cannot_be_patched(self):
        """The report names the functions, the reason, and what is missing in its figures; nothing else is missing."""
        runs = [self.record(harness.program("embedded_refused"), calls) for calls in (1, 0)]
        reports = [self.report(run.trace) for run in runs]
        heap = {figure: count - reports[1]["heap"][figure] for figure, count in reports[0]["heap"].items()}
        # 18 calls of je_malloc. Unmatched frees: 7 blocks of je_calloc and one of je_rallocx. Allocated again: the
        # address of the block that je_rallocx moved, and 2 of the 5 that je_sdallocx freed.
        self.assertEqual((heap["allocations"], heap["frees"], heap["unmatched_frees"], heap["implied_frees"]),
                         (18, 8, 8, 3))
        self.assertEqual((heap["leaked_blocks"], heap["leaked_bytes"]), (15, 10 * 100 + 3 * 300 + 2 * 310))
        self.assertTrue(reports[0]["integrity"]["complete"])
        self.assertEqual(sorted(kind for kind, _ in runs[0].read().notes), [1, 2, 2, 2, 2])
        program = harness.program("embedded_refused")
        reason = "it branches into its own first instructions"
        self.assertEqual(set(reports[0]["integrity"]["notes"]), {
            f"embedded allocator: jemalloc in {program}, 2 functions patched (je_dallocx, je_malloc), 4 not patched",
            "je_memalign of embedded_refused is not recorded: its symbol's size exceeds the code segment. Blocks "
            "allocated by it are missing, and their frees count as unmatched frees",
            f"je_calloc of embedded_refused is not recorded: {reason}. Blocks allocated by it are missing, and their "
            "frees count as unmatched frees",
            f"je_sdallocx of embedded_refused is not recorded: {reason}. Blocks freed by it count as live, and as "
            "leaked at the end",
            f"je_rallocx of embedded_refused is not recorded: {reason}. Blocks reallocated by it keep their old "
            "address and size in the figures",
            "8 frees of blocks whose allocation is not in the trace, perhaps because some calls were not recorded",
            "3 frees are not in the trace: the address was allocated again, perhaps because some calls were not "
            "recorded"})

    def test_inlined_allocations(self):
        """mimalloc's strdup and some other functions allocate without a call of another function of mimalloc."""
        program = harness.program("embedded_inlined")
        self.assertTrue("mimalloc" not in ALLOCATORS or os.path.exists(program))
        if not os.path.exists(program):
            self.skipTest("no static mimalloc is installed")
        runs = [self.record(program, calls) for calls in (1, 0)]
        reports = [self.report(run.trace) for run in runs]
        # Blocks of each size. Those of 14 bytes: libc's realpath allocates one, which mi_realpath copies and frees.
        sizes = {10: 10, 11: 10, 13: 10, 15: 20, 18: 10, 14: 20, 33: 10, 45: 10}
        heap = {figure: count - reports[1]["heap"][figure] for figure, count in reports[0]["heap"].items()}
        self.assertEqual((heap["failed"], heap["unmatched_frees"], heap["implied_frees"]), (0, 0, 0))
        self.assertEqual(heap["leaked_blocks"], 80)
        self.assertEqual(heap["leaked_bytes"], sum(size * count for size, count in sizes.items()) - 10 * 18 - 10 * 14)
        made = {}
        for row in self.all_stacks(runs[0].trace, "allocations"):
            if any(harness.plain_name(frame["function"]) == "main" for frame in row["stack"]):
                size = row["bytes"] // row["blocks"]
                made[size] = made.get(size, 0) + row["blocks"]
        self.assertEqual({size: made.get(size) for size in sizes}, sizes)

    def test_refused_alignments(self):
        """A call whose alignment the allocator refuses is no failed allocation. One that finds no memory is."""
        reports = [self.report(self.record(harness.program("embedded_alignments"), calls).trace) for calls in (1, 0)]
        for report in reports:
            self.assert_sound(report)
        for figure, wanted in (("allocations", 20), ("failed", 20)):
            self.assertEqual(reports[0]["heap"][figure] - reports[1]["heap"][figure], wanted, figure)

    def test_one_function_with_several_names(self):
        """The program defines cfree as an alias of free. libc has no cfree any more: the hook must not call the
        program's."""
        runs = [self.record(harness.program("embedded_aliases"), count) for count in (1000, 0)]
        reports = [self.report(run.trace) for run in runs]
        for run, report in zip(runs, reports):
            self.assert_sound(report)
            self.assertEqual(run.stderr, "")
        for figure, wanted in (("allocations", 1000), ("frees", 900), ("leaked_blocks", 100)):
            self.assertEqual(reports[0]["heap"][figure] - reports[1]["heap"][figure], wanted, figure)

    def test_off_warns_that_hooks_are_not_reached(self):
        """Also by the variable's old name, which is deprecated."""
        for variable in ("EMBEDDED_ALLOCATORS", "OWN_ALLOCATORS"):
            with self.subTest(variable):
                run = self.record(harness.program("embedded_aliases"), 10, **{variable: 0})
                self.assertIn("the program defines malloc itself", run.stderr)
                self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)

    def test_stripped(self):
        """Without a symbol table, the exported functions are found."""
        program = self.dir / "stripped"
        shutil.copy(harness.program("embedded_jemalloc"), program)
        subprocess.run(["strip", program], check=True)
        run = self.record(program, 500, 1, 1)
        self.assert_ledger_clean(run.ledger())
        # The linker exports what shared libraries need, which is most of the allocator.
        self.assertTrue(notes_of(self.report(run.trace)))

    def test_mimalloc_of_python(self):
        """Interpreters of Python contain mimalloc, and use it without the global interpreter lock, or if PYTHONMALLOC
        says so: only then a message says that its blocks are missing."""
        program = self.dir / "contained_mimalloc"
        subprocess.run(["strip", "-o", program, harness.program("contained_mimalloc")], check=True)
        image = program.read_bytes()
        unlocked = bytearray(image)
        unlocked[image.index(b"xdebugpy") + 16] = 1
        other = image.replace(b"_PyRuntime", b"_PxRuntime")
        for name, content, chosen, warns in (("default", image, None, False), ("pymalloc", image, "pymalloc", False),
                                             ("mimalloc", image, "mimalloc", True),
                                             ("debug", image, "mimalloc_debug", True),
                                             ("no lock", unlocked, None, True), ("no Python", other, None, True)):
            with self.subTest(name):
                program.write_bytes(content)
                run = self.record(program, _PYTHONMALLOC=chosen)
                self.assertEqual("the program seems to contain mimalloc" in run.stderr, warns, run.stderr)

    def test_partly_stripped(self):
        """A few symbols that were kept are no list of the program's functions."""
        program = self.dir / "contained_mimalloc"
        for options, warns in ((["--strip-debug"], False), (["--strip-all", "--keep-symbol=main"], True)):
            with self.subTest(options):
                subprocess.run(["strip", *options, "-o", program, harness.program("contained_mimalloc")], check=True)
                run = self.record(program, _PYTHONMALLOC="mimalloc")
                self.assertEqual("the program seems to contain mimalloc" in run.stderr, warns, run.stderr)

    def test_started_by_the_loader(self):
        """AT_BASE is 0 then, as is the load bias of a program at a fixed address, which is not the loader."""
        for variant in ("", "_fixed"):
            with self.subTest(variant):
                run = self.record(harness.program(f"embedded_{ALLOCATORS[0]}{variant}"), 500, 1, 1, how="loader")
                self.assert_ledger_clean(run.ledger())
                self.assertTrue(notes_of(self.report(run.trace)))

    def test_other_threads_were_already_running(self):
        """Nothing is patched while other threads run: one message says so, and everything else is recorded."""
        run = self.record(harness.program("embedded_early"), LOG="warn")
        self.assertEqual(run.stdout, "1 1\n")
        reason = ("the allocator in embedded_early is not recorded: other threads were already running when it was "
                  "found")
        self.assertEqual(run.stderr, f"heapprof: warning: {reason}\n")
        report = self.report(run.trace)
        self.assert_sound(report)
        self.assertEqual(report["integrity"]["notes"], [reason])
        self.assertIn(777, [row["bytes"] for row in self.all_stacks(run.trace, "allocated")])


class Forks(harness.Case):
    CHILDREN = 150

    def test_a_child_scans_for_itself(self):
        """A thread of the parent that is scanning new libraries at the fork does not exist in the child, which scans
        for itself."""
        traces = self.dir / "traces"
        run = self.record(harness.program("embedded_forks"), self.CHILDREN, harness.program("embedded_plugin.so"),
                          CHILDREN=1, OUTPUT=traces / "%p.heapprof")
        self.assertEqual(run.stdout, "0\n")
        reports = [self.report(path) for path in traces.iterdir()]
        blocks = [report["heap"]["allocations"] for report in reports if notes_of(report)]
        self.assertEqual((len(reports), len(blocks)), (self.CHILDREN + 1, self.CHILDREN))
        self.assertGreaterEqual(min(blocks), 101)


    def test_a_child_of_a_thread_without_events(self):
        """The child, which is not recorded, notices that at its first call of a patched function."""
        run = self.record(harness.program("embedded_forks"), "first", harness.program("embedded_plugin.so"))
        self.assertLess(int(run.stdout), 100)
        self.assert_sound(self.report(run.trace))


class LoadedInOnePlace(harness.Case):
    def test_two_libraries_in_the_place_of_one(self):
        """Each has stubs of its own."""
        small = [self.dir / f"small{i}.so" for i in range(2)]
        for library in small:
            shutil.copy(harness.program("embedded_small_pool.so"), library)
        run = self.record(harness.program("embedded_places"), harness.program("embedded_large_pool.so"), *small)
        self.assertEqual(run.stdout, "inside, own\n" * 2)
        self.assertEqual(len(notes_of(self.report(run.trace))), 3)
        self.assertEqual(sum(row["blocks"] for row in self.all_stacks(run.trace, "allocations")
                             if any(frame["function"] == "pool_allocate" for frame in row["stack"])), 3)


class LoadedDuringPause(harness.Case):
    def test_recorded_after_the_pause_and_not_patched_again(self):
        plugins = [self.dir / f"plugin{i}.so" for i in range(2)]
        for plugin in plugins:
            shutil.copy(harness.program("embedded_plugin.so"), plugin)
        run = self.record(harness.program("embedded_paused"), *plugins)
        self.assertEqual(run.stdout, "same\n")
        self.assertEqual(len(notes_of(self.report(run.trace))), 2)
        blocks = sum(row["blocks"] for row in self.all_stacks(run.trace, "allocations")
                     if any(harness.plain_name(frame["function"]) == "site_plugin" for frame in row["stack"]))
        self.assertEqual(blocks, 20 + 1)  # the other plugin's constructor allocates one


class LoadedDuringScan(harness.Case):
    def test_not_patched_at_the_next_load(self):
        plugins = [self.dir / f"plugin{i}.so" for i in range(2)]
        for plugin in plugins:
            shutil.copy(harness.program("embedded_plugin.so"), plugin)
        run = self.record(harness.program("embedded_missed_scan"), *plugins, harness.program("thread_storage.so"))
        self.assertEqual(run.stdout, "same\n")
        notes = self.report(run.trace)["integrity"]["notes"]
        self.assertIn("other threads were already running", notes[0])
        self.assertEqual([note for note in notes if "plugin0" in note], notes[:1])
        patched = [note for note in notes if note.startswith("embedded allocator")]
        self.assertEqual([Path(note.split(" in ")[1].split(",")[0]).name for note in patched], ["plugin1.so"])


class Soak(harness.Case):
    ROUNDS = int(os.environ.get("HEAPPROF_SOAK_ROUNDS", "15"))

    def test_libraries_are_loaded_and_unloaded(self):
        plugins = [self.dir / f"plugin{i}.so" for i in range(4)]
        for plugin in plugins:
            shutil.copy(harness.program("embedded_plugin.so"), plugin)
        for name in ("embedded_soak", *(f"embedded_{allocator}_soak" for allocator in ALLOCATORS)):
            with self.subTest(name):
                run = self.record(harness.program(name), self.ROUNDS, 8, *plugins, timeout=3600)
                truth = dict(line.split() for line in run.stdout.splitlines())
                report = self.report(run.trace)
                self.assert_sound(report)
                found = {"site_plugin": 0, "site_program": 0}
                for row in self.all_stacks(run.trace, "allocations"):
                    self.assertIsNone(row["truncated"], row)
                    for frame in row["stack"]:
                        function = harness.plain_name(frame["function"])
                        if function in found:
                            found[function] += row["blocks"]
                            break
                self.assertEqual(found, {"site_plugin": int(truth["plugin"]),
                                         "site_program": int(truth["program"])})


class Unaligned(harness.Case):
    def test_calls_with_a_stack_that_is_not_aligned(self):
        run = self.record(harness.program("embedded_unaligned"))
        self.assertEqual(run.stdout, "done\n")
        report = self.report(run.trace)
        self.assert_sound(report)
        own = [row for row in self.all_stacks(run.trace, "allocations") if row["stack"][0]["module"].endswith("unaligned")]
        self.assertEqual(sum(row["blocks"] for row in own), 101)


if __name__ == "__main__":
    harness.main()
