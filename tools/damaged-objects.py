#!/usr/bin/env python3
"""Record programs whose ELF files are damaged at random, and check that they behave as without the recorder.

usage: tools/damaged-objects.py [--build DIR] [--count N] [--first N] [--seed N] [--keep DIR]

--build DIR  build directory with heapprof, the recorder and the tests' programs; default build/
--count N    number of damaged programs; default 2000
--first N    number of the first one, to resume a campaign or to repeat a single program; default 0
--seed N     seed of the random damage; default HEAPPROF_TEST_SEED or 1
--keep DIR   directory for damaged files that caused a failure; default the current directory

Copies of programs and of a library are damaged: unwind information, symbols, notes, debug information, section
headers, and the program headers that refer to these. The code and the loader's data are not damaged. Some programs
have an embedded allocator, whose functions the recorder finds by their symbols and patches.

Each copy runs without the recorder. If it works as the undamaged program does, it is recorded: exit status and output
must be the same, the trace complete, and the number of allocations that of the undamaged program, unless it has an
embedded allocator. Then heapprof must print a report with symbols from the damaged file, or an error message, within
20 seconds of processor time and 1 GiB. The last line has the counts. Exit status 1: a failure.
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 20
MEMORY = 1 << 30
TIMEOUT = 300  # seconds of wall time

PT_NOTE, PT_GNU_EH_FRAME = 4, 0x6474e550
LOADED = (".eh_frame", ".eh_frame_hdr", ".note.gnu.build-id", ".note.ABI-tag", ".gcc_except_table")
NOT_LOADED = (".symtab", ".strtab", ".shstrtab", ".gnu_debuglink", ".debug_info", ".debug_abbrev", ".debug_line",
              ".debug_str", ".debug_line_str", ".debug_aranges", ".debug_rnglists", ".debug_loclists")


class Subject:
    """A program, and its file to damage: the executable, or a library."""

    def __init__(self, command, has_allocator=False, library=None):
        self.command, self.has_allocator, self.library = command, has_allocator, library
        self.file = Path(library or command[0])
        self.name = self.file.name


def subjects(build):
    programs = build / "tests" / "programs"
    found = [Subject([programs / "ledger_single", "50"]), Subject([programs / "deep_recursion"]),
             Subject([programs / "ledger_names"])]
    for name in ("embedded_jemalloc", "embedded_mimalloc", "embedded_tcmalloc_plain"):
        found.append(Subject([programs / name, "20"], has_allocator=True))
    for path, *arguments in (("/usr/bin/lua5.4", "-e", "t = {} for i = 1, 300 do t[i] = ('x'):rep(i) end print(#t)"),
                             ("/usr/bin/xz", "--version")):
        found.append(Subject([Path(path), *arguments]))
    library = Path("/usr/lib/x86_64-linux-gnu/libsqlite3.so.0")
    if library.exists():
        found.append(Subject([Path("/usr/bin/sqlite3"), ":memory:", "select count(*), hex(zeroblob(99));"],
                             library=library.resolve()))
    return [subject for subject in found if Path(subject.command[0]).exists()]


def damageable_parts(data):
    """[(name, begin, end)]: parts of the file that may be damaged."""
    result = []
    phoff, shoff = struct.unpack_from("<QQ", data, 0x20)
    phnum, = struct.unpack_from("<H", data, 0x38)
    shnum, names = struct.unpack_from("<HH", data, 0x3c)
    for i in range(phnum):
        kind, = struct.unpack_from("<I", data, phoff + 56 * i)
        if kind in (PT_NOTE, PT_GNU_EH_FRAME):
            result.append(("program header", phoff + 56 * i + 4, phoff + 56 * (i + 1)))
    result += [("section headers", shoff, shoff + 64 * shnum), ("ELF header", 0x28, 0x30), ("ELF header", 0x3a, 0x40)]
    sections = [struct.unpack_from("<IIQQQQI", data, shoff + 64 * i) for i in range(shnum)]
    for text, _, _, _, begin, size, link in sections:
        name = text_at(data, sections[names][4] + text)
        if name in LOADED + NOT_LOADED and size:
            result.append((name, begin, begin + size))
        if name in (".symtab", ".dynsym"):  # symbols that the recorder needs; the loader does not use their sizes
            for at in range(begin, begin + size, 24):
                symbol, = struct.unpack_from("<I", data, at)
                if re.search("alloc|free|_Zn|_Zd", text_at(data, sections[link][4] + symbol)):
                    result.append(("allocator's symbol", at + (4 if name == ".symtab" else 16), at + 24))
    return result


def text_at(data, at):
    return data[at:data.index(b"\0", at)].decode(errors="replace")


def damage(rng, data, where):
    _, begin, end = where
    for _ in range(rng.choice((1, 1, 2, 5, 20, 200))):
        at = rng.randrange(begin, end)
        kind = rng.randrange(6)
        length = min(rng.choice((1, 4, 8, 64, 1024)), end - at)
        if kind <= 1:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            data[at:at + length] = rng.randbytes(length)
        elif kind == 3:
            data[at:at + length] = bytes((rng.choice((0, 0xff)),)) * length
        elif kind == 4:
            width = rng.choice((4, 8))
            at = begin + (at - begin) // width * width
            value = rng.choice((0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 30, 1 << 63, (1 << 64) - 1, len(data),
                                 rng.getrandbits(64)))
            if at + width <= end:
                data[at:at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
        else:
            other = rng.randrange(begin, end)
            data[at:at + length] = data[other:other + length].ljust(length, b"\0")[:length]


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))


def same(one, other):
    return (one.returncode, one.stdout) == (other.returncode, other.stdout)


class Campaign:
    def __init__(self, build, folder):
        self.heapprof = build / "analyzer" / "heapprof"
        self.recorder = build / "preload" / "libheapprof.so"
        self.folder = folder
        self.trace = folder / "trace.heapprof"
        self.known = {}

    def run(self, subject, damaged, recorded):
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "LEDGER_FILE": str(self.folder / "ledger")}
        command = [str(word) for word in subject.command]
        if subject.library:
            environment["LD_LIBRARY_PATH"] = str(damaged.parent)
        else:
            command[0] = str(damaged)
        if recorded:
            self.trace.unlink(missing_ok=True)
            environment |= {"LD_PRELOAD": str(self.recorder), "HEAPPROF_OUTPUT": str(self.trace)}
        return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=TIMEOUT)

    def report(self, *options):
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache"), "LC_ALL": "C.UTF-8"}
        return subprocess.run([self.heapprof, "report", "--json", "--top", "0", *options, self.trace],
                              env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT,
                              preexec_fn=limit)

    def figures(self):
        """The number of allocations, and the problem with the trace or None."""
        answer = self.report("--no-symbols")
        if answer.returncode != 0:
            return 0, f"exit status {answer.returncode}: {answer.stderr[-300:]}"
        report = json.loads(answer.stdout)
        if not report["integrity"]["complete"] or report["integrity"]["bytes_damaged"]:
            return 0, f"the trace is not complete: {report['integrity']}"
        return report["heap"]["allocations"], None

    def run_undamaged(self, subject):
        """Stores the behaviour of the undamaged program; returns the problem or None."""
        copy = self.place(subject)
        shutil.copy(subject.file, copy)
        plain, recorded = self.run(subject, copy, False), self.run(subject, copy, True)
        allocations, problem = self.figures()
        if not same(plain, recorded):
            problem = f"{plain} but {recorded}"
        self.known[subject] = (plain, allocations)
        return problem and f"{subject.name} undamaged: {problem}"

    def place(self, subject):
        # The name by which the loader finds the library.
        name = "libsqlite3.so.0" if subject.library else subject.name
        return self.folder / name

    def run_damaged(self, subject, data, rng, where):
        """The problem or None, and the outcome."""
        damaged = bytearray(data)
        damage(rng, damaged, where)
        copy = self.place(subject)
        copy.unlink(missing_ok=True)
        copy.write_bytes(damaged)
        copy.chmod(0o755)
        wanted, allocations = self.known[subject]
        if not same(self.run(subject, copy, False), wanted):
            return None, "does not run without the recorder"
        recorded = self.run(subject, copy, True)
        if not same(recorded, wanted):
            return (f"exit status {recorded.returncode}, not {wanted.returncode}: {recorded.stderr[-500:]}", "broken")
        counted, problem = self.figures()
        if problem:
            return problem, "broken"
        if not subject.has_allocator and counted != allocations:
            return f"{counted} allocations, not {allocations}", "broken"
        answer = self.report("--no-symbol-cache")
        errors = answer.stderr.decode(errors="replace")
        if answer.returncode not in (0, 1) or answer.returncode == 1 and not errors.strip() or "what()" in errors:
            return f"heapprof report: exit status {answer.returncode}: {errors[-500:]}", "broken"
        if answer.stdout:
            json.loads(answer.stdout)
        return None, "as undamaged" if counted == allocations else "less recorded"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("HEAPPROF_TEST_SEED") or 1))
    parser.add_argument("--keep", type=Path, default=Path("."))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="heapprof-damaged-"))
    campaign = Campaign(options.build.resolve(), folder)
    chosen = subjects(options.build.resolve())
    problems = [problem for problem in map(campaign.run_undamaged, chosen) if problem]
    outcomes, parts = Counter(), Counter()
    contents = {subject: subject.file.read_bytes() for subject in chosen}
    for number in range(options.first, options.first + options.count) if not problems else ():
        rng = random.Random(f"{options.seed}:{number}")
        subject = rng.choice(chosen)
        data = contents[subject]
        candidates = damageable_parts(data)
        kind = rng.choice(sorted({name for name, _, _ in candidates}))
        where = rng.choice([place for place in candidates if place[0] == kind])
        try:
            problem, outcome = campaign.run_damaged(subject, data, rng, where)
        except (subprocess.TimeoutExpired, ValueError) as failure:
            problem, outcome = str(failure), "broken"
        outcomes[outcome] += 1
        parts[kind] += 1
        if problem:
            kept = options.keep / f"damaged-{options.seed}-{number}-{subject.name}"
            shutil.copy(campaign.place(subject), kept)
            problems.append(problem)
            print(f"{kept} ({kind}): {problem}", flush=True)
        if sum(outcomes.values()) % 500 == 0:
            print(f"{sum(outcomes.values())} done", flush=True)
    for problem in problems if not outcomes else ():
        print(problem)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"seed {options.seed}")
    print("damaged: " + ", ".join(f"{name} {count}" for name, count in parts.most_common()))
    print(f"{sum(outcomes.values())} damaged objects: " +
          ", ".join(f"{count} {name}" for name, count in outcomes.most_common()))
    return 1 if problems or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
