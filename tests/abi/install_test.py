#!/usr/bin/env python3
"""`meson install` installs recorder, header and program at their documented paths, where recorder and header work.

usage: install_test.py BUILD_FOLDER
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = None


class Install(unittest.TestCase):
    def test_recorder_and_header(self):
        with tempfile.TemporaryDirectory() as prefix:
            subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", prefix], check=True,
                           stdout=subprocess.DEVNULL)
            found = {os.path.relpath(os.path.join(folder, file), prefix)
                     for folder, _, files in os.walk(prefix) for file in files}
            library = self.only(found, "lib/libheapprof.so")
            header = self.only(found, "include/heapprof.h")
            self.only(found, "bin/heapprof")
            program = os.path.join(prefix, "program.c")
            with open(program, "w") as file:
                file.write("#include <heapprof.h>\nint main(void) { return heapprof_is_recording() ? 5 : 6; }\n")
            binary = os.path.join(prefix, "program")
            include = os.path.join(prefix, os.path.dirname(header))
            subprocess.run([shutil.which("cc"), "-I", include, program, "-o", binary], check=True)
            self.assertEqual(subprocess.run([binary]).returncode, 6)
            environment = dict(os.environ, LD_PRELOAD=os.path.join(prefix, library),
                               HEAPPROF_OUTPUT=os.path.join(prefix, "trace.hprof"))
            self.assertEqual(subprocess.run([binary], env=environment).returncode, 5)
            self.assertTrue(os.path.exists(os.path.join(prefix, "trace.hprof")))

    def only(self, found, end):
        matching = [path for path in found if path.endswith("/" + end)]
        self.assertEqual(len(matching), 1, found)
        return matching[0]


if __name__ == "__main__":
    BUILD = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
