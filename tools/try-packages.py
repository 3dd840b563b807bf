#!/usr/bin/env python3
"""Try the packages of dist/ in minimal Debian systems, as a user would.

usage: tools/try-packages.py [--no-install] [--systems NAME,...] [--packages KIND,...] [--dist DIR] [--ledger]

Each package is installed in a copy of a minimal system (mmdebstrap, without a compiler). An ordinary user records
that system's perl and prints the report, the leaks and a flame graph. The table has the seconds from unpacking the
package to the first report, and what was recorded. A result that is not as expected ends the run with status 1.

--systems   of bullseye (Debian 11), bookworm (12), trixie (13); default: all
--packages  of tarball, deb, wheel, image; default: all
--dist DIR  the folder with the packages; default: dist
--ledger    also record programs that the system's gcc and clang compile, and compare every figure with what they know
            of themselves (tests/e2e/figures_*.py)

Needs root, for chroot. The systems are downloaded once, and kept in $HEAPPROF_ROOTS (default:
~/.cache/heapprof-roots). Exit status 77: not root, or mmdebstrap is not installed; with --no-install, also when a
system cannot be made, because there is no access to packages.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
SYSTEMS = {"bullseye": "Debian 11", "bookworm": "Debian 12", "trixie": "Debian 13"}
PACKAGES = {"tarball": "heapprof-*-x86_64.tar.gz", "deb": "heapprof_*_amd64.deb", "wheel": "heapprof-*_x86_64.whl",
            "image": "heapprof-*-x86_64.oci.tar"}
# What a package needs beyond the minimal system.
INCLUDED = {"wheel": ["python3-venv"]}
COMPILERS = ["g++", "clang", "libc6-dev"]
LEDGER_TESTS = ("figures_single_thread", "figures_threads")
USER = 1000
SKIPPED = 77

# Half of the strings are freed, and perl leaves its global variables at exit: a leak.
PERL = '$h{$_} = "x" x 200 for 1..20000; delete $h{$_} for 1..10000; print scalar(keys %h), "\\n"'


class NoSystem(Exception):
    """A minimal system cannot be downloaded."""


def cache():
    return Path(os.environ.get("HEAPPROF_ROOTS") or
                Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heapprof-roots")


def mirror():
    """The address of this system's Debian archive, from apt's configuration."""
    release = dict(line.strip().split("=", 1) for line in open("/etc/os-release") if "=" in line)
    codename = release.get("VERSION_CODENAME", "").strip('"')
    lines = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)",
                            "Created-By: Packages"], check=True, capture_output=True, text=True).stdout.splitlines()
    for line in lines:
        address, suite, component = line.split()
        if (suite, component) == (codename, "main") and address.rstrip("/").endswith("/debian"):
            return address.rstrip("/")
    raise NoSystem("apt's configuration has no archive of Debian")


def system_archive(system, included):
    """A tar archive of the minimal system with these packages."""
    archive = cache() / ("-".join([system, *included]) + ".tar")
    if not archive.exists():
        cache().mkdir(parents=True, exist_ok=True)
        print(f"downloading {SYSTEMS[system]}", file=sys.stderr)
        command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--components=main"]
        if included:
            command.append("--include=" + ",".join(included))
        # Another run may make the same one.
        with tempfile.TemporaryDirectory(prefix="new-", dir=cache()) as folder:
            fresh = Path(folder) / archive.name
            result = subprocess.run([*command, system, str(fresh), mirror()], capture_output=True, text=True)
            if result.returncode:
                raise NoSystem(f"cannot make a system of {SYSTEMS[system]}\n{result.stderr[-3000:]}")
            fresh.rename(archive)
    return archive


class System:
    """A copy of a minimal system, in which commands run."""

    def __init__(self, folder, system, included=()):
        self.root = Path(folder)
        subprocess.run(["tar", "-xf", system_archive(system, list(included)), "-C", folder], check=True)
        self.home = self.root / "home" / "alice"
        self.home.mkdir(parents=True)
        os.chown(self.home, USER, USER)
        with open(self.root / "etc" / "passwd", "a") as file:
            file.write(f"alice:x:{USER}:{USER}::/home/alice:/bin/sh\n")

    def run(self, script, user=USER, binds=(), **variables):
        """The output of a shell script. In a mount and pid namespace of its own, which ends with it."""
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
                       "HOME": "/home/alice" if user else "/root", **variables}
        mounts = [f"mount -t proc proc {shlex.quote(str(self.root))}/proc"]
        for folder in binds:
            target = self.root / str(folder).lstrip("/")
            target.mkdir(parents=True, exist_ok=True)
            mounts.append(f"mount --rbind {shlex.quote(str(folder))} {shlex.quote(str(target))}")
        enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec",
                 "; ".join([*mounts, 'exec chroot --userspec="$0:$0" "$@"']), str(user), str(self.root)]
        result = subprocess.run([*enter, "sh", "-ec", "cd; " + script], env=environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        expect(result.returncode == 0, f"exit status {result.returncode} of: {script}", result.stdout)
        return result.stdout


def install(system, kind, package):
    """Installs as the documents say. (command of heapprof, recorder)"""
    inside = f"/packages/{package.name}"
    (system.root / "packages").mkdir()
    shutil.copy(package, system.root / inside.lstrip("/"))
    if kind == "tarball":
        system.run(f"tar -xf {inside}")
        folder = "/home/alice/" + package.name.removesuffix(".tar.gz")
        return f"{folder}/bin/heapprof", f"{folder}/lib/libheapprof.so"
    if kind == "deb":
        system.run(f"dpkg -i {inside}", user=0)
        return "heapprof", "libheapprof.so"
    if kind == "wheel":
        system.run(f"python3 -m venv venv && venv/bin/pip --quiet install --no-index {inside}")
        return "venv/bin/heapprof", "/home/alice/venv/lib/libheapprof.so"
    # What a container runtime does: the layers are unpacked, and the entry point runs in them. Its directory is then
    # mounted into another container.
    image = system.root / "image"
    with tarfile.open(package) as archive:
        manifest = json.load(archive.extractfile("manifest.json"))[0]
        entry = json.load(archive.extractfile(manifest["Config"]))["config"]["Entrypoint"]
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=archive.extractfile(layer)) as files:
                files.extractall(image)
    (image / "volume").mkdir()
    subprocess.run(["chroot", str(image), *entry, "/volume"], check=True, stdout=subprocess.DEVNULL)
    return "/image/volume/bin/heapprof", "/image/volume/lib/libheapprof.so"


def expect(condition, what, output):
    if not condition:
        sys.exit(f"error: {what}\n{output[-3000:]}")


def attempt(name, kind, package):
    """A row of the table."""
    with tempfile.TemporaryDirectory(prefix="heapprof-system-") as folder:
        system = System(folder, name, INCLUDED.get(kind, ()))
        os.chmod(folder, 0o755)
        expect("gcc" not in os.listdir(system.root / "usr/bin"), "the system has a compiler", "")
        begin = time.monotonic()
        heapprof, recorder = install(system, kind, package)
        perl = f"perl -e {shlex.quote(PERL)}"
        if kind == "image":
            output = system.run(f"LD_PRELOAD={recorder} HEAPPROF_OUTPUT=$HOME/perl.heapprof {perl}")
        else:
            output = system.run(f"{heapprof} record -o perl.heapprof -- {perl}")
        expect("10000" in output.split(), "perl printed something else", output)
        report = system.run(f"{heapprof} report perl.heapprof")
        first_report = time.monotonic() - begin
        figures = json.loads(system.run(f"{heapprof} report perl.heapprof --json"))
        expect(figures["integrity"]["complete"], "the recording is not complete", report)
        expect(figures["events"] > 50_000 and figures["heap"]["peak_bytes"] > 4_000_000, "too little was recorded",
               report)
        # perl exports the names of its functions.
        leaks = system.run(f"{heapprof} leaks perl.heapprof --no-suppressions")
        expect("Perl_" in report and "Perl_" in leaks, "functions of perl have no names", report + leaks)
        picture = system.run(f"{heapprof} flamegraph perl.heapprof -o perl.svg; cat perl.svg")
        expect(re.search(r"<svg.*Perl_.*</svg>", picture, re.S), "the flame graph is none", picture)
        seconds = time.monotonic() - begin
        return SYSTEMS[name], kind, first_report, seconds, figures


def compare_ledgers(name, package):
    """Compiles programs with the compilers of the system, and runs the tests that compare recordings with what the
    programs know. They run the programs with the command line of an emulator, which here enters the system."""
    with tempfile.TemporaryDirectory(prefix="heapprof-system-") as folder, \
            tempfile.TemporaryDirectory(prefix="heapprof-programs-") as programs:
        system = System(folder, name, COMPILERS)
        os.chmod(folder, 0o755)
        target = Path(programs)
        os.chmod(programs, 0o777)
        with tarfile.open(package) as archive:
            archive.extractall(target)
        tree = target / package.name.removesuffix(".tar.gz")
        (target / "analyzer").mkdir()
        (target / "preload").mkdir()
        shutil.copy(tree / "bin/heapprof", target / "analyzer")
        shutil.copy(tree / "lib/libheapprof.so", target / "preload")
        enter = target / "enter"
        enter.write_text(f"""#!/usr/bin/env python3
import os, sys
words = sys.argv[1:]
while words[0] == "-E":
    key, value = words[1].split("=", 1)
    words = ["env", key + "=" + value, *words[2:]] if words[2] != "-E" else sys.exit("one variable")
os.execvp("unshare", ["unshare", "--mount", "--fork", "--kill-child", "sh", "-ec",
    "mount -t proc proc {folder}/proc; mount --rbind /tmp {folder}/tmp; cd /; exec chroot {folder} \\"$@\\"",
    "sh", *words])
""")
        enter.chmod(0o755)
        for compiler in ("g++", "clang++"):
            shutil.rmtree(target / "tests", ignore_errors=True)
            (target / "tests/programs").mkdir(parents=True)
            # As tests/programs/meson.build.
            flags = "-std=c++20 -O2 -g -fno-builtin -fno-optimize-sibling-calls -U_FORTIFY_SOURCE -w -pthread"
            if compiler == "g++":
                flags += " -fno-ipa-icf"
            # The programs that these tests name.
            names = set()
            for test in LEDGER_TESTS:
                names |= set(re.findall(r'"(\w+)"', (TREE / f"tests/e2e/{test}.py").read_text()))
            for program in sorted(name for name in names if (TREE / f"tests/programs/{name}.cpp").exists()):
                system.run(f"{compiler} {flags} -I {TREE} {TREE}/tests/programs/{program}.cpp "
                           f"-o {target}/tests/programs/{program} -ldl", user=0, binds=(TREE, "/tmp"))
            for test in LEDGER_TESTS:
                result = subprocess.run(
                    [sys.executable, f"tests/e2e/{test}.py"], cwd=TREE, capture_output=True, text=True,
                    env={**os.environ, "HEAPPROF_TEST_BUILD": str(target), "HEAPPROF_TEST_EMULATOR": str(enter),
                         "PYTHONPATH": "tests/support", "PYTHONDONTWRITEBYTECODE": "1"})
                expect(result.returncode == 0, f"{test} with {compiler} of {SYSTEMS[name]}",
                       result.stdout + result.stderr)
                cases = re.search(r"Ran (\d+) tests", result.stdout)[1]
                print(f"{SYSTEMS[name]}, {compiler}, {test}: {cases} tests passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-install", action="store_true")
    parser.add_argument("--ledger", action="store_true")
    parser.add_argument("--dist", default=TREE / "dist", type=Path)
    for name, choices in (("systems", SYSTEMS), ("packages", PACKAGES)):
        parser.add_argument("--" + name, default=list(choices), type=lambda text: text.split(","))
    options = parser.parse_args()
    for name, choices in (("systems", SYSTEMS), ("packages", PACKAGES)):
        for value in getattr(options, name):
            if value not in choices:
                parser.error(f"invalid value '{value}' for --{name}; expected one of {', '.join(choices)}")
    if os.geteuid() != 0:
        print("skipped: needs root, for chroot")
        return SKIPPED
    if not options.no_install:
        subprocess.run([TREE / "tools/packages.sh", "roots"], check=True)
    if shutil.which("mmdebstrap") is None:
        print("skipped: mmdebstrap is not installed; run tools/packages.sh roots")
        return SKIPPED

    packages = {}
    for kind in options.packages:
        found = sorted(options.dist.glob(PACKAGES[kind]))
        if len(found) != 1:
            sys.exit(f"error: {options.dist} has {len(found)} files {PACKAGES[kind]}; expected one: "
                     "run tools/package.sh")
        packages[kind] = found[0]
    # Downloads are no part of the measured time.
    try:
        for name in options.systems:
            for included in [INCLUDED.get(kind, []) for kind in packages] + [COMPILERS] * options.ledger:
                system_archive(name, included)
    except NoSystem as error:
        if not options.no_install:
            sys.exit(f"error: {error}")
        print(f"skipped: {error}")
        return SKIPPED
    print("| system | package | seconds to the first report | with leaks and flame graph | events recorded | peak |")
    print("|---|---|---|---|---|---|")
    for name in options.systems:
        for kind, package in packages.items():
            system, kind, first, seconds, figures = attempt(name, kind, package)
            print(f"| {system} | {kind} | {first:.1f} | {seconds:.1f} | {figures['events']:,} | "
                  f"{figures['heap']['peak_bytes'] / 1e6:.1f} MB |", flush=True)
    if options.ledger:
        for name in options.systems:
            compare_ledgers(name, packages.get("tarball") or next(iter(options.dist.glob(PACKAGES["tarball"]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
