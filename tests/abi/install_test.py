#!/usr/bin/env python3
"""`meson install`: recorder, program, header and pkg-config file are in the configured directories and work there.

usage: install_test.py BUILD_DIRECTORY
"""
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import case_runner  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BUILD = None
PROGRAM = "#include <heapprof.h>\nint main(void) { return heapprof_is_recording() ? 5 : 6; }\n"


def run(*command, **options):
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, capture_output=True, text=True, **options).stdout


def option(build, name):
    return next(entry["value"] for entry in json.loads(run("meson", "introspect", build, "--buildoptions"))
                if entry["name"] == name)


class Install(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = Path(directory.name)

    def install(self, build):
        """The directory that is the prefix, with everything installed below it, and the libdir relative to it."""
        run("meson", "install", "-C", build, "--no-rebuild", "--destdir", self.dir / "root")
        return self.dir / "root" / option(build, "prefix").lstrip("/"), option(build, "libdir")

    def check_header(self, prefix, libdir):
        """A program compiles with the flags of pkg-config, and the recorder records it."""
        environment = dict(os.environ, PKG_CONFIG_PATH=str(prefix / libdir / "pkgconfig"),
                           PKG_CONFIG_SYSROOT_DIR=str(self.dir / "root"), PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1")
        flags = run("pkg-config", "--cflags", "heapprof", env=environment).split()
        self.assertEqual([os.path.realpath(flag.removeprefix("-I")) for flag in flags],
                         [os.path.realpath(prefix / "include")])
        self.assertEqual(run("pkg-config", "--libs", "heapprof", env=environment).split(), [])
        recorder = run("pkg-config", "--variable=recorder", "heapprof", env=environment).strip()
        self.assertTrue(recorder.endswith(f"/{libdir}/libheapprof.so"), recorder)
        source, binary = self.dir / "program.c", self.dir / "program"
        source.write_text(PROGRAM)
        run(shutil.which("cc"), *flags, source, "-o", binary)
        self.assertEqual(subprocess.run([binary]).returncode, 6)
        trace = self.dir / "trace.heapprof"
        environment = dict(os.environ, LD_PRELOAD=str(prefix / libdir / "libheapprof.so"), HEAPPROF_OUTPUT=str(trace))
        self.assertEqual(subprocess.run([binary], env=environment).returncode, 5)
        self.assertTrue(trace.exists())

    def check_launcher(self, prefix):
        """heapprof finds the recorder."""
        trace = self.dir / "launched.heapprof"
        run(prefix / "bin" / "heapprof", "record", "-q", "-o", trace, "--", "true")
        self.assertTrue(trace.exists())
        trace.unlink()

    def test_configured_directories(self):
        prefix, libdir = self.install(BUILD)
        for path in ("bin/heapprof", f"{libdir}/libheapprof.so", "include/heapprof.h",
                     f"{libdir}/pkgconfig/heapprof.pc"):
            self.assertTrue((prefix / path).exists(), path)
        self.check_header(prefix, libdir)
        self.check_launcher(prefix)

    def test_another_libdir(self):
        """A second build directory with the library of the first, which is not compiled again."""
        build = self.dir / "build"
        run("meson", "setup", build, ROOT, "--libdir", "lib/x86_64-linux-gnu", "-Dtests=false", "-Danalyzer=false",
            f"-Ddeps={option(BUILD, 'deps')}")
        (build / "preload").mkdir(exist_ok=True)
        shutil.copy(Path(BUILD) / "preload" / "libheapprof.so", build / "preload")
        prefix, libdir = self.install(build)
        self.assertEqual(libdir, "lib/x86_64-linux-gnu")
        self.check_header(prefix, libdir)
        (prefix / "bin").mkdir(exist_ok=True)
        shutil.copy(Path(BUILD) / "analyzer" / "heapprof", prefix / "bin")
        self.check_launcher(prefix)

    def test_an_installation_that_was_moved(self):
        (self.dir / "bin").mkdir()
        shutil.copy(Path(BUILD) / "analyzer" / "heapprof", self.dir / "bin")
        for directory in ("lib", f"lib/{platform.machine()}-linux-gnu", "lib64"):
            with self.subTest(directory=directory):
                (self.dir / directory).mkdir(parents=True, exist_ok=True)
                library = self.dir / directory / "libheapprof.so"
                shutil.copy(Path(BUILD) / "preload" / "libheapprof.so", library)
                self.check_launcher(self.dir)
                library.unlink()


if __name__ == "__main__":
    BUILD = sys.argv[1]
    case_runner.main(sys.argv[:1])
