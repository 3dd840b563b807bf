"""Libraries that hook the same functions as the recorder, or that it also contains: allocators, sanitizers, lz4,
libunwind, mimalloc."""

import shutil
import subprocess
from pathlib import Path

import harness

DIRECTORY = Path("/usr/lib/x86_64-linux-gnu")
ALLOCATORS = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
              "mimalloc": "libmimalloc.so.2.0"}


def installed(name):
    path = DIRECTORY / name
    return path if path.exists() else None


class OtherLibraries(harness.Case):
    def program_of(self, text, *options, compiler="gcc", name="program", language="c"):
        source = self.dir / f"{name}.{'c' if language == 'c' else 'cpp'}"
        source.write_text(text)
        built = subprocess.run([compiler, "-g", "-O1", "-fno-builtin", "-o", self.dir / name, source, *options],
                               capture_output=True, text=True)
        if built.returncode != 0:
            self.skipTest(f"{compiler} {' '.join(options)}: {built.stderr.strip()[:200]}")
        return self.dir / name

    def allocator_second(self, library):
        """The recorder is loaded first: its hooks call the allocator, each call of the program is recorded once."""
        run = self.record(harness.program("hosts"), "coroutines", how="plain",
                          _LD_PRELOAD=f"{harness.LIBRARY}:{library}")
        self.assertEqual(run.stderr, "")
        self.assert_sound(self.report(run.trace))
        marked = self.report(run.trace, "--min-size", 777, "--max-size", 777)["heap"]
        self.assertEqual((marked["allocations"], marked["leaked_blocks"]), (int(run.stdout), 10))

    def allocator_first(self, library):
        """The allocator is loaded first: the program calls it directly, its functions are patched, and the recording
        is the same."""
        run = self.record(harness.program("hosts"), "coroutines", how="plain",
                          _LD_PRELOAD=f"{library}:{harness.LIBRARY}")
        self.assertEqual(run.stderr, "")
        self.assert_sound(self.report(run.trace))
        marked = self.report(run.trace, "--min-size", 777, "--max-size", 777)["heap"]
        self.assertEqual((marked["allocations"], marked["leaked_blocks"]), (int(run.stdout), 10))

    def both_orders(self, name):
        library = installed(ALLOCATORS[name])
        if library is None:
            self.skipTest(f"{ALLOCATORS[name]} is not installed")
        self.allocator_first(library)
        self.allocator_second(library)

    def test_jemalloc_in_either_order(self):
        self.both_orders("jemalloc")

    def test_tcmalloc_in_either_order(self):
        self.both_orders("tcmalloc")

    def test_mimalloc_in_either_order(self):
        self.both_orders("mimalloc")

    # Its free_sized calls free, as that of glibc 2.43 does. Its realloc frees the old block at its end, and calls
    # `interrupt` before that, which stands for a signal handler. It refuses invalid alignments.
    ALLOCATOR = """
        #include <errno.h>
        #include <malloc.h>
        #include <stdlib.h>
        #include <string.h>
        extern void* __libc_malloc(size_t);
        extern void __libc_free(void*);
        extern void* __libc_memalign(size_t, size_t);
        void (*interrupt)(void);
        void* malloc(size_t size) { return __libc_malloc(size); }
        void free(void* block) { __libc_free(block); }
        void free_sized(void* block, size_t size) { free(block); }
        void* realloc(void* old, size_t size) {
          void* block = malloc(size);
          memcpy(block, old, malloc_usable_size(old) < size ? malloc_usable_size(old) : size);
          if (interrupt != NULL) interrupt();
          free(old);
          return block;
        }
        void* aligned_alloc(size_t alignment, size_t size) {
          errno = EINVAL;
          return alignment & (alignment - 1) ? NULL : __libc_memalign(alignment, size);
        }"""
    CALLS = """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdlib.h>
        static void (**interrupt)(void);
        static void* volatile other; /* libc's headers say that realloc calls nothing in this file */
        static void handler(void) {
          *interrupt = NULL;
          other = realloc(other, 777);
        }
        int main(void) {
          void (*free_sized)(void*, size_t) = dlsym(RTLD_DEFAULT, "free_sized");
          interrupt = dlsym(RTLD_DEFAULT, "interrupt");
          for (int i = 0; i < 100; ++i) {
            free_sized(malloc(777), 777);
            other = malloc(777);
            void* block = malloc(777);
            *interrupt = handler;
            block = realloc(block, 777);
            if (*interrupt != NULL || aligned_alloc(3, 777) != NULL) return 1;
            free(block);
            free(other);
          }
          return 0;
        }"""

    def test_allocator_that_calls_itself(self):
        """Each call of the program is recorded once."""
        allocator = self.program_of(self.ALLOCATOR, "-shared", "-fPIC", name="allocator.so")
        program = self.program_of(self.CALLS, "-ldl")
        run = self.record(program, how="plain", _LD_PRELOAD=f"{harness.LIBRARY}:{allocator}")
        self.assertEqual(run.stderr, "")
        whole = self.report(run.trace)
        self.assert_sound(whole)
        self.assertEqual((whole["heap"]["unmatched_frees"], whole["heap"]["failed"]), (0, 0))
        marked = self.report(run.trace, "--min-size", 777, "--max-size", 777)["heap"]
        self.assertEqual((marked["allocations"], marked["frees"], marked["leaked_blocks"]), (500, 500, 0))

    def test_private_lz4_libunwind_and_mimalloc(self):
        paths = [installed(name) or "-" for name in ("liblz4.so.1", "libunwind.so.8", ALLOCATORS["mimalloc"])]
        if paths == ["-"] * 3:
            self.skipTest("none of them is installed")
        for how in harness.WAYS:
            run = self.record(harness.program("private_libraries"), *paths, how=how)
            self.assertEqual(run.stdout, "reached\n")
            self.assertTrue(self.report(run.trace)["integrity"]["complete"])

    def test_runpath_of_the_caller(self):
        """A plugin that is found by the RUNPATH of its caller is found with the recorder too."""
        for how in harness.WAYS:
            run = self.record(harness.program("ledger_plugins"), 20, how=how)
            self.assert_ledger_clean(run.ledger())
            self.assert_sound(self.report(run.trace))

    # --- sanitizers -----------------------------------------------------------------------------------

    HELLO = ("#include <stdio.h>\n#include <stdlib.h>\n"
             "int main(void) { free(malloc(10)); puts(\"done\"); return 0; }\n")

    def refused(self, program):
        run = self.record(program, how="record", status=126)
        self.assertEqual(run.stdout, "")
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertIn("AddressSanitizer", run.stderr)
        self.assertFalse(run.trace.exists())

    def test_address_sanitizer_of_gcc(self):
        """Its run-time library must be loaded first: `record` rejects the program with the reason."""
        self.refused(self.program_of(self.HELLO, "-fsanitize=address"))

    def test_address_sanitizer_inside_the_executable(self):
        """The executable contains malloc, which the recorder cannot record."""
        self.refused(self.program_of(self.HELLO, "-fsanitize=address", "-static-libasan", name="inside"))
        if shutil.which("clang") is not None:
            self.refused(self.program_of(self.HELLO, "-fsanitize=address", compiler="clang", name="clang_inside"))

    def test_address_sanitizer_with_ld_preload(self):
        """Without the launcher, nothing rejects the program: the sanitizer prints a message, or the recorder does."""
        program = self.program_of(self.HELLO, "-fsanitize=address")
        run = self.record(program, status=None)
        self.assertIn("ASan runtime does not come first", run.stderr)
        inside = self.program_of(self.HELLO, "-fsanitize=address", "-static-libasan", name="inside")
        run = self.record(inside, status=None)
        self.assertEqual((run.status, run.stdout), (0, "done\n"), run.stderr)
        self.assertIn("its allocations are not recorded", run.stderr)


if __name__ == "__main__":
    harness.main()
