#!/usr/bin/env python3
"""The packages of tools/package.sh: what they need of glibc, what is in each, that two runs write the same bytes, and
a recording in a minimal Debian 12.

PACKAGE_BUILD_DIR is the folder in which they are built; tools/test.sh does that before the tests run. Its folder dist
has the packages, which the tests make again if their files are not those of the build.
PACKAGE_ARCHITECTURE=aarch64 tests the packages for aarch64, whose programs run with qemu-user.
"""

import base64
import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import case_runner  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["PACKAGE_BUILD_DIR"]).resolve()
ARCHITECTURE = os.environ.get("PACKAGE_ARCHITECTURE", "x86_64")
DEBIAN_NAME = {"x86_64": "amd64", "aarch64": "arm64"}[ARCHITECTURE]
EMULATOR = [] if ARCHITECTURE == "x86_64" else [f"qemu-{ARCHITECTURE}", "-L", f"/usr/{ARCHITECTURE}-linux-gnu"]
PACKAGE = ["tools/package.sh", "--no-install", "--arch", ARCHITECTURE]
LIBRARIES = Path(subprocess.run([ROOT / "tools/package/libraries.sh", "--path", ARCHITECTURE], check=True,
                                capture_output=True, text=True).stdout.strip())
# Every package has these, in one folder or another.
FILES = ("heapprof", "libheapprof.so", "heapprof.h", "heapprof.pc", "heapprof-report.1", "heapprof.fish")


def run(*command, status=0, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT, **options)
    if status is not None and result.returncode != status:
        raise AssertionError(f"{command}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
    return result


class Symbols(unittest.TestCase):
    """tools/package.sh fails on newer symbols, with this script."""

    def check(self, source, *flags):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "program"
            run("cc", "-x", "c", "-", "-o", program, *flags, input=source)
            return run("tools/package/symbol_versions.py", "--program", program, status=None)

    def test_old_symbols_are_accepted(self):
        result = run("tools/package/symbol_versions.py", "--program", BUILD / "tree/bin/heapprof", "--recorder",
                     BUILD / "tree/lib/libheapprof.so")
        self.assertRegex(result.stdout, r"heapprof: needs glibc 2\.[0-9]+\n")

    def test_a_newer_symbol_is_refused(self):
        result = self.check("unsigned arc4random(void); int main(void) { return arc4random() == 1; }")
        self.assertEqual(result.returncode, 1)
        self.assertIn("arc4random needs glibc 2.36; at most 2.28", result.stderr)
        # The recorder may need less.
        result = run("tools/package/symbol_versions.py", "--recorder", BUILD / "tree/bin/heapprof", status=1)
        self.assertRegex(result.stderr, r"needs glibc 2\.28; at most 2\.17")

    def test_another_library_is_refused(self):
        result = self.check("int zlibVersion(void); int main(void) { return zlibVersion() == 1; }", "-lz")
        self.assertEqual(result.returncode, 1)
        self.assertIn("needs libz.so.1, which is not part of glibc", result.stderr)

    def test_no_path_of_the_build(self):
        check_paths(BUILD / "tree")


def check_paths(folder):
    """The folder of the build, which is inside that of the sources or has a similar name, is in no file, nor is that
    of the libraries."""
    for path in folder.rglob("*"):
        if path.is_file():
            contents = path.read_bytes()
            for text in (BUILD, ROOT, LIBRARIES.parent):
                if str(text).encode() in contents:
                    raise AssertionError(f"{path} contains {text}")


def has_the_files_of_the_build(tarball):
    with tarfile.open(tarball) as archive:
        packed = {member.name.partition("/")[2]: archive.extractfile(member).read() for member in archive
                  if member.isfile()}
    built = {str(path.relative_to(BUILD / "tree")): path.read_bytes() for path in (BUILD / "tree").rglob("*")
             if path.is_file()}
    return packed == built


class Packages(unittest.TestCase):
    dist = BUILD / "dist"

    @classmethod
    def setUpClass(cls):
        tarballs = list(cls.dist.glob("*.tar.gz"))
        if len(tarballs) != 1 or not has_the_files_of_the_build(tarballs[0]):
            shutil.rmtree(cls.dist, ignore_errors=True)
            run(*PACKAGE, "--output", cls.dist)

    def package(self, pattern):
        (path,) = self.dist.glob(pattern)
        self.assertLess(path.stat().st_size, 15_000_000)
        return path

    def check_names(self, names):
        base_names = {re.sub(r"\.gz$", "", name.rpartition("/")[2]) for name in names}
        for name in FILES:
            self.assertIn(name, base_names)

    def check_tar(self, archive):
        """Sorted names, owned by root, one time; the program can be executed."""
        members = archive.getmembers()
        names = [member.name for member in members]
        self.assertEqual(names, sorted(names))
        self.assertEqual({(member.uid, member.gid, member.uname, member.gname) for member in members},
                         {(0, 0, "root", "root")})
        self.assertEqual(len({member.mtime for member in members}), 1)
        modes = {"/".join(member.name.split("/")[-2:]): member.mode for member in members if member.isfile()}
        self.assertEqual(modes["bin/heapprof"], 0o755)
        self.assertEqual({mode for name, mode in modes.items() if name.endswith("/libheapprof.so")}, {0o644})
        self.check_names(names)

    def test_tarball(self):
        path = self.package(f"heapprof-*-{ARCHITECTURE}.tar.gz")
        with tarfile.open(path) as archive:
            self.check_tar(archive)
            top = path.name.removesuffix(".tar.gz")
            self.assertEqual({name.split("/")[0] for name in archive.getnames()}, {top})
            for name in ("LICENSE", "NOTICE", "licenses/LGPL-3"):
                self.assertIn(f"{top}/share/doc/heapprof/{name}", archive.getnames())
            with tempfile.TemporaryDirectory() as folder:
                archive.extractall(folder)
                version = run(*EMULATOR, f"{folder}/{top}/bin/heapprof", "--version").stdout
        commit = run("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*", status=None)
        if commit.returncode == 0:
            self.assertEqual(version, f"{top.split('-')[1]} (commit {commit.stdout.strip()})\n")

    @unittest.skipUnless(shutil.which("dpkg-deb"), "dpkg is not installed")
    def test_deb(self):
        path = self.package(f"heapprof_*_{DEBIAN_NAME}.deb")
        data = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], check=True, stdout=subprocess.PIPE).stdout
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            self.check_tar(archive)
            sums = run("dpkg-deb", "--info", path, "md5sums").stdout.splitlines()
            for digest, name in (line.split("  ") for line in sums):
                contents = archive.extractfile("./" + name).read()
                self.assertEqual(hashlib.md5(contents).hexdigest(), digest, name)
            self.assertEqual(len(sums), sum(member.isfile() for member in archive.getmembers()))
        self.assertEqual(run("dpkg-deb", "--field", path, "Depends").stdout, "libc6 (>= 2.28)\n")

    @unittest.skipUnless(shutil.which("lintian"), "lintian is not installed")
    def test_lintian_finds_no_error(self):
        # Spelling is no error for lintian, and takes a fifth of its time.
        run("lintian", "--allow-root", "--fail-on", "error", "--dont-check-part", "binaries/spelling",
            self.package(f"heapprof_*_{DEBIAN_NAME}.deb"))

    def test_wheel(self):
        path = self.package(f"heapprof-*-py3-none-manylinux_2_28_{ARCHITECTURE}.whl")
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            self.check_names(names)
            (record,) = (name for name in names if name.endswith(".dist-info/RECORD"))
            rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
            self.assertEqual({row[0] for row in rows}, set(names))
            for name, digest, size in rows:
                if name != record:
                    contents = archive.read(name)
                    wanted = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
                    self.assertEqual((digest, int(size)), (f"sha256={wanted}", len(contents)), name)

    def test_image(self):
        path = self.package(f"heapprof-*-{ARCHITECTURE}.oci.tar")
        with tarfile.open(path) as archive:
            def blob(descriptor):
                contents = archive.extractfile("blobs/" + descriptor["digest"].replace(":", "/")).read()
                self.assertEqual("sha256:" + hashlib.sha256(contents).hexdigest(), descriptor["digest"])
                self.assertEqual(len(contents), descriptor["size"])
                return contents
            (manifest,) = json.load(archive.extractfile("index.json"))["manifests"]
            manifest = json.loads(blob(manifest))
            config = json.loads(blob(manifest["config"]))
            (layer,) = manifest["layers"]
            with tarfile.open(fileobj=io.BytesIO(blob(layer))) as files:
                self.check_tar(files)
                # The image has no shell and no libc: its entry point must be static.
                entry = files.extractfile(config["config"]["Entrypoint"][0].lstrip("/")).read()
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "entry"
            program.write_bytes(entry)
            program.chmod(0o755)
            self.assertNotIn("INTERP", run("readelf", "-lW", program).stdout)
            usage = run(*EMULATOR, program, "relative", status=2)
            self.assertIn("absolute path", usage.stderr)
        if shutil.which("skopeo"):
            inspected = json.loads(run("skopeo", "inspect", f"oci-archive:{path}").stdout)
            self.assertEqual(inspected["Architecture"], DEBIAN_NAME)

    def test_relink(self):
        """The object files and archives that are published (LGPL) give the program again."""
        with tempfile.TemporaryDirectory() as folder:
            kit = Path(folder) / "kit"
            run("tools/package/relink_kit.py", "--build", BUILD / "analyzer", "--libraries", LIBRARIES, "--output", kit)
            self.assertTrue(list(kit.glob("sources/elfutils_*")))
            check_paths(kit)
            # link.sh calls the compiler that is installed by pip; this is the same.
            (zig,) = LIBRARIES.parent.glob("zig-*/ziglang/zig")
            cache = str(LIBRARIES.parent / "zig-cache")
            run(kit / "link.sh", env={**os.environ, "ZIG": str(zig), "ZIG_GLOBAL_CACHE_DIR": cache,
                                      "ZIG_LOCAL_CACHE_DIR": cache})
            self.assertEqual((kit / "heapprof-relinked").read_bytes(), (BUILD / "tree/bin/heapprof").read_bytes())

    def test_the_same_bytes_again(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        again = Path(folder.name) / "again"
        run(*PACKAGE, "--output", again)
        files = sorted(path.name for path in self.dist.iterdir())
        self.assertEqual(files, sorted(path.name for path in again.iterdir()))
        self.assertEqual(len(files), 5)
        for name in files:
            self.assertEqual((again / name).read_bytes(), (self.dist / name).read_bytes(), name)

    @unittest.skipIf(EMULATOR, "needs a system of another architecture")
    def test_debian_12(self):
        """A recording by the tarball in a minimal system."""
        result = run("tools/try-packages.py", "--no-install", "--systems", "bookworm", "--packages", "tarball",
                     "--dist", self.dist, status=None)
        if result.returncode == case_runner.SKIPPED:
            self.skipTest(result.stdout.strip())
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        row = result.stdout.splitlines()[-1]
        self.assertIn("Debian 12", row)
        print(row, file=sys.stderr)
        self.assertLess(float(row.split("|")[3]), 60)


if __name__ == "__main__":
    first = run(*PACKAGE, "--only-build", status=None)
    if first.returncode:
        print(first.stdout + first.stderr)
        sys.exit(case_runner.SKIPPED if first.returncode == case_runner.SKIPPED else 1)
    case_runner.main()
