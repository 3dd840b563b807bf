"""Scripts that download packages, without access to any: their tests are skipped, with the reason."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import case_runner

TOOLS = Path(__file__).resolve().parents[2] / "tools"
SKIPPED = 77
REASON = "E: Failed to fetch http://deb.debian.org/debian/dists/bookworm/InRelease"
TRIPLET = "aarch64-linux-gnu"


class WithoutPackages(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = Path(directory.name)
        (self.dir / "bin").mkdir()

    def fake(self, name, script):
        path = self.dir / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run_script(self, *command, **variables):
        environment = {key: value for key, value in os.environ.items() if key != "HEAPPROF_SOURCES"}
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, env={
            **environment, "PATH": f"{self.dir}/bin:{os.environ['PATH']}", **variables})

    def prepare_aarch64(self):
        for tool in ("gcc", "g++", "objcopy", "objdump", "ar", "nm", "ranlib", "strip"):
            self.fake(f"{TRIPLET}-{tool}", f"echo {TRIPLET}")
        for tool in ("qemu-aarch64", "dpkg-deb"):
            self.fake(tool, "exit 0")
        self.fake("apt-get", f"echo '{REASON}' >&2; exit 100")
        result = self.run_script(TOOLS / "aarch64-setup.sh", "--no-install", self.dir / "build",
                                 HEAPPROF_DEPS=str(self.dir / "deps"))
        self.assertEqual(result.returncode, SKIPPED, result.stdout + result.stderr)
        return result.stdout.splitlines()[-1]

    def test_aarch64(self):
        self.assertEqual(self.prepare_aarch64(), f"skipped: cannot download Debian's packages for aarch64: {REASON}")

    def test_aarch64_without_sources(self):
        """The packages are there from an earlier run."""
        (self.dir / "build" / "root").mkdir(parents=True)
        (self.dir / "build" / "root" / "complete").touch()
        self.assertEqual(self.prepare_aarch64(), f"skipped: cannot download the source of mimalloc: {REASON}")

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_minimal_systems(self):
        """Two runs at the same time write different files, of which none is left."""
        self.fake("mmdebstrap", f"echo \"$6\" >>{self.dir}/written; echo '{REASON}' >&2; exit 1")
        self.fake("apt-get", '. /etc/os-release; echo "http://deb.debian.org/debian/ $VERSION_CODENAME main"')
        (self.dir / "dist").mkdir()
        (self.dir / "dist" / "heapprof-1.0-x86_64.tar.gz").touch()
        for _ in range(2):
            result = self.run_script(sys.executable, TOOLS / "try-packages.py", "--no-install", "--systems",
                                     "bookworm", "--packages", "tarball", "--dist", self.dir / "dist",
                                     HEAPPROF_ROOTS=str(self.dir / "roots"))
            self.assertEqual(result.returncode, SKIPPED, result.stdout + result.stderr)
            self.assertRegex(result.stdout, "^skipped: cannot make a system of Debian 12\n")
            self.assertIn(REASON, result.stdout)
        first, second = (self.dir / "written").read_text().split()
        self.assertTrue(first.startswith(str(self.dir / "roots")) and first.endswith(".tar"), first)
        self.assertNotEqual(first, second)
        self.assertEqual(list((self.dir / "roots").iterdir()), [])


if __name__ == "__main__":
    case_runner.main()
