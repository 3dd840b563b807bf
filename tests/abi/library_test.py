#!/usr/bin/env python3
"""The rules for the built recorder (docs/concepts/recorder.md), checked on the file.

usage: library_test.py LIBRARY EXPORTS_MAP STACK_USAGE_DIRECTORY...
"""
import functools
import glob
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import case_runner  # noqa: E402

LIBRARY, EXPORTS_MAP, STACK_USAGE = None, None, []

HEAP = """malloc calloc realloc reallocarray free free_sized free_aligned_sized cfree posix_memalign aligned_alloc
          memalign valloc pvalloc""".split()
MAPPINGS = "mmap mmap64 munmap mremap brk sbrk".split()
KERNEL = "prctl syscall".split()
EXECUTABLE_PATH = """readlink __readlink_chk readlinkat __readlinkat_chk realpath __realpath_chk
              canonicalize_file_name""".split()
ENDINGS = "_exit _Exit quick_exit execve execv execvp execvpe execl execlp execle fexecve".split()
FRAMES = """__register_frame __register_frame_info __register_frame_info_bases __register_frame_table
            __register_frame_info_table __register_frame_info_table_bases
            __deregister_frame __deregister_frame_info __deregister_frame_info_bases""".split()
HOST_CALLS = ["heapprof_recorder_" + name
              for name in "pause resume mark is_recording report_alloc report_free".split()]
# What runs for a call of a patched function, and when objects are loaded.
PATCHED = {"heapprof_intercept_entry", "_ZN8heapprof9intercept12_GLOBAL__N_112loader_eventEv"}
HOOKS = set(HEAP + MAPPINGS + KERNEL + EXECUTABLE_PATH + ENDINGS + FRAMES + HOST_CALLS)

# The functions that the recorder may use of libc. None allocates, locks, sets errno or is a cancellation point.
FROM_LIBC = set("environ clock_gettime getauxval __stack_chk_fail".split())
if os.uname().machine != "x86_64":
    FROM_LIBC |= set("memcmp memcpy memmove memset strlen".split())
# Weak references without a version, which are null where libc or the loader does not define them.
WEAK = set("__libc_single_threaded __register_atfork __libc_stack_end _dl_find_object _r_debug".split())
# The same of musl.
WEAK |= set("_dl_debug_addr pthread_atfork".split())
# Of glibc or its libpthread, and of musl: for Python frames.
WEAK.add("pthread_getspecific")

OLDEST_GLIBC = (2, 17)  # RHEL 7

MAX_STACK = 4096


def read(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def dynamic_symbols():
    """(name without version, version or '', defined, binding)"""
    result = []
    for line in read("readelf", "-W", "--dyn-syms", LIBRARY).splitlines():
        field = line.split()
        if len(field) >= 8 and field[0].rstrip(":").isdigit():
            name, _, version = field[7].partition("@")
            result.append((name, version.lstrip("@"), field[6] != "UND", field[4]))
    return result


class Exports(unittest.TestCase):
    def test_exactly_the_hooks(self):
        self.assertEqual({name for name, _, defined, _ in dynamic_symbols() if defined}, HOOKS)

    def test_the_map_lists_exactly_the_hooks(self):
        with open(EXPORTS_MAP) as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        self.assertEqual(set(re.findall(r"(\w+);", text.split("local:")[0])), HOOKS)

    def test_without_versions(self):
        # Another version would not satisfy a reference to malloc@GLIBC_2.2.5.
        self.assertNotIn("VERDEF", read("readelf", "-dW", LIBRARY))


class Dependencies(unittest.TestCase):
    def test_libc_alone(self):
        dynamic = read("readelf", "-dW", LIBRARY)
        self.assertEqual(re.findall(r"NEEDED.*\[(.*)\]", dynamic), ["libc.so.6"])
        for tag in ("RPATH", "RUNPATH"):
            self.assertNotIn(tag, dynamic)

    def test_only_harmless_functions(self):
        for name, _, defined, binding in dynamic_symbols():
            if name and not defined:
                self.assertIn(name, WEAK if binding == "WEAK" else FROM_LIBC)

    def test_no_newer_libc(self):
        versions = re.findall(r"Name: GLIBC_([0-9.]+)", read("readelf", "-VW", LIBRARY))
        self.assertTrue(versions)
        for version in versions:
            self.assertLessEqual(tuple(map(int, version.split("."))), OLDEST_GLIBC)
        print("required glibc versions: " + " ".join(sorted(set(versions))), file=sys.stderr)

    def test_weak_references_have_no_version(self):
        for name, version, defined, binding in dynamic_symbols():
            if not defined and binding == "WEAK":
                self.assertEqual(version, "", name)


class Layout(unittest.TestCase):
    def test_bound_at_load_and_read_only_then(self):
        dynamic = read("readelf", "-dW", LIBRARY)
        self.assertIn("BIND_NOW", dynamic)
        self.assertIn("NODELETE", dynamic)
        self.assertNotIn("TEXTREL", dynamic)
        segments = read("readelf", "-lW", LIBRARY)
        self.assertIn("GNU_RELRO", segments)
        self.assertRegex(segments, r"GNU_STACK\s.*\sRW\s")
        self.assertNotIn("RWE", segments)

    def test_build_id(self):
        self.assertRegex(read("readelf", "-nW", LIBRARY), r"Build ID: [0-9a-f]{40}")

    def test_one_constructor_one_destructor(self):
        dynamic = read("readelf", "-dW", LIBRARY)
        self.assertRegex(dynamic, r"INIT_ARRAYSZ\)\s+8 ")
        self.assertRegex(dynamic, r"FINI_ARRAYSZ\)\s+8 ")
        for tag in ("(INIT)", "(FINI)", "PREINIT_ARRAY"):
            self.assertNotIn(tag, dynamic)

    def test_thread_local_storage_needs_no_loader(self):
        relocations = read("readelf", "-rW", LIBRARY)
        for kind in ("DTPMOD", "DTPOFF", "TLSDESC", "TLS_DTPREL"):
            self.assertNotIn(kind, relocations)
        # Static TLS is limited (glibc, elf/dl-tls.c: some 1.6 KB for all libraries that are loaded later).
        size = re.search(r"^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)", read("readelf", "-lW", LIBRARY), re.M)
        self.assertLessEqual(int(size[1], 16), 128)


@functools.cache
def instructions():
    """The instructions of every function, in order."""
    result, function = {}, None
    for line in read("objdump", "-d", "--no-show-raw-insn", LIBRARY).splitlines():
        header = re.match(r"[0-9a-f]+ <(.*)>:$", line)
        if header:
            function = result.setdefault(header[1], [])
        elif function is not None and "\t" in line:
            function.append(line.split("\t", 1)[1].strip())
    return result


class Calls(unittest.TestCase):
    """No code of the recorder calls an exported hook."""

    def test_the_disassembly_is_complete(self):
        self.assertLessEqual(HOOKS, set(instructions()))

    def test_no_relocation_names_a_hook(self):
        for line in read("readelf", "-rW", LIBRARY).splitlines():
            field = line.split()
            if len(field) >= 5:
                self.assertNotIn(field[4].partition("@")[0], HOOKS, line)

    def test_no_instruction_names_a_hook(self):
        for function, code in instructions().items():
            for instruction in code:
                target = re.search(r"<([^>+@]+)(@plt|@@?[A-Z_0-9.]+)?(\+0x[0-9a-f]+)?>", instruction)
                if target and target[1] in HOOKS:
                    # A hook may refer to its own code; nothing refers to a hook's entry.
                    self.assertTrue(function == target[1] and target[3], f"{function}: {instruction}")

    def test_hooks_call_the_recorder(self):
        # The recorder recognises an unfinished event by the return address into a hook
        # (recorder/thread/thread_state.h). A jump would leave the host's return address there.
        jump = re.compile(r"(?:j[a-z]+|b|b\.[a-z]+|cbn?z|tbn?z)\s.*<([^+>]+)(?:\+0x[0-9a-f]+)?>$")
        functions = 0
        for hook in HOOKS | PATCHED:
            visited, pending = {hook}, [(hook,)]
            while pending:
                path = pending.pop()
                functions += 1
                for instruction in instructions().get(path[-1], []):
                    target = jump.match(instruction)
                    if target is None or target[1] in visited:
                        continue
                    visited.add(target[1])
                    pending.append(path + (target[1],))
                    self.assertFalse(target[1].startswith("_ZN8heapprof8recorder"), " > ".join(pending[-1]))
        self.assertGreater(functions, len(HOOKS | PATCHED), "no jump was found, although prctl has one")

    def test_prctl_and_syscall_leave_no_frame(self):
        # A child made by syscall(SYS_clone, ...) may use the stack below its caller before the parent returns.
        for hook in KERNEL:
            calls = [line for line in instructions()[hook] if re.match(r"(call|bl|blr)\b", line)]
            for line in calls:
                self.assertRegex(line, "find_functions|watch_prctl|restrict_system_calls", hook)
            self.assertTrue(any(re.match(r"(jmp\s+\*|br\s)", line) for line in instructions()[hook]), hook)


@unittest.skipUnless(os.uname().machine == "x86_64", "reads x86-64 instructions")
class Registers(unittest.TestCase):
    """A patched function leaves its caller's registers as it does unpatched (intercept/x86_64/trampoline.S)."""

    def test_no_instruction_changes_the_upper_halves_of_vector_registers(self):
        for function, code in instructions().items():
            for instruction in code:
                self.assertNotRegex(instruction, r"^v|%[yz]mm|%k[0-7]\b|^f?xrstor|^em?ms", function)

    def test_vector_registers_are_saved_where_they_are_used(self):
        """No path through the code that runs before the trampoline saves vector registers uses one."""
        pending = ["heapprof_intercept_begin", "heapprof_intercept_end", "memcpy", "memset", "memmove", "memcmp",
                   "strlen"]
        visited = set()
        while pending:
            function = pending.pop()
            visited.add(function)
            for instruction in instructions()[function]:
                self.assertNotIn("%xmm", instruction, function)
                call = re.match(r"(?:call|jmp)\s+[0-9a-f]+ <([^+>]+)>$", instruction)
                if call is None:
                    self.assertNotRegex(instruction, r"^call", function)
                elif call[1] not in visited:
                    pending.append(call[1])
        self.assertNotIn("heapprof_intercept_begin_recorded", visited)


class Stack(unittest.TestCase):
    """At most 4 KB on the slowest path. stack_use.c measures the fast path."""

    def test_frames_are_bounded(self):
        frames = 0
        for path in (path for directory in STACK_USAGE for path in glob.glob(directory + "/**/*.su", recursive=True)):
            with open(path) as file:
                for line in file:
                    where, size, kind = line.rstrip("\n").rsplit("\t", 2)
                    self.assertIn(kind, ("static", "dynamic,bounded"), where)
                    self.assertLessEqual(int(size), MAX_STACK, where)
                    frames += 1
        self.assertGreater(frames, 100)

    @unittest.skipUnless(os.uname().machine == "x86_64", "reads x86-64 instructions")
    def test_the_deepest_path_is_short(self):
        """Sums the frames, read from pushes and subtractions, along direct calls. A jump to another function is a tail
        call, which has no frame of its caller below it; a jump to a part that was split off has. Real functions are
        called through pointers, and use the stack that they use without the recorder."""
        deepest = {}

        def frame(function):
            taken = 0
            for line in instructions()[function]:
                if line.startswith("push"):
                    taken += 8
                elif change := re.match(r"(sub|add)\s+\$0x([0-9a-f]+),%rsp", line):
                    number = int(change[2], 16)
                    number -= 2**64 if number >= 2**63 else 0
                    taken += max(0, number if change[1] == "sub" else -number)
            return taken

        def depth(function, callers):
            self.assertNotIn(function, callers, "recursion has no bound")
            if function not in deepest:
                below = (frame(function), [])
                for line in instructions()[function]:
                    call = re.match(r"(call|j[a-z]+)\s+[0-9a-f]+ <([^+>]+)>$", line)
                    if call and call[2] in instructions() and call[2] != function:
                        bytes_, path = depth(call[2], callers | {function})
                        if call[1] == "call":
                            bytes_ += frame(function) + 8
                        elif call[2].startswith(function):  # function.cold
                            bytes_ += frame(function)
                        below = max(below, (bytes_, path))
                deepest[function] = (below[0], [function] + below[1])
            return deepest[function]

        for hook in HOOKS | PATCHED:
            bytes_, path = depth(hook, frozenset())
            self.assertLessEqual(bytes_, MAX_STACK, " > ".join(path))
        print("deepest path of the heap's hooks: %d bytes" % max(deepest[hook][0] for hook in HEAP), file=sys.stderr)


if __name__ == "__main__":
    LIBRARY, EXPORTS_MAP, *STACK_USAGE = sys.argv[1:]
    case_runner.main(sys.argv[:1])
