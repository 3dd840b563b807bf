#!/usr/bin/env python3
"""Damage traces at random and run heapprof on each: it must print a result or an error message, within limits of
memory and time.

usage: tools/damaged-traces.py [--build DIR] [--count N] [--first N] [--seed N] [--jobs N] [--keep DIR] [TRACE...]

--build DIR  build directory with heapprof and the recorder; default build/
--count N    number of damaged traces; default 10000
--first N    number of the first one, to resume a campaign or to repeat a single trace; default 0
--seed N     seed of the random damage; default HEAPPROF_TEST_SEED or 1
--jobs N     number of parallel jobs; default 1
--keep DIR   directory for damaged traces that caused a failure; default the current directory
TRACE        traces to damage; default: recordings of the tests' programs, one of them bundled, three compacted

Damage: flipped bits; bytes overwritten with random values, zeros, ones, or a large number; a part removed,
duplicated, exchanged with another, or truncated at the end; a part of another trace inserted; often several of
these. Half of the traces get correct checksums again, so that the code after the checks is tested. One in eight has
an index, which is damaged too, or is that of the undamaged trace.

Half of the runs are `heapprof report`, the others one of all commands that read traces. heapprof must exit with 0, or
with 1 and an error message (`check` may exit with 3), within 20 seconds of processor time and 512 MiB. Its output
must be complete: JSON, XML and gzip are parsed. The last line counts the outcomes. Exit status 1: a failure.
"""

import argparse
import ctypes
import gzip
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

XXHASH = ctypes.CDLL("libxxhash.so.0")
XXHASH.XXH3_64bits.restype = ctypes.c_uint64
XXHASH.XXH3_64bits.argtypes = (ctypes.c_char_p, ctypes.c_size_t)

ROOT = Path(__file__).resolve().parents[1]
MEMORY = 512 << 20
SECONDS = 20
TIMEOUT = 600  # seconds of wall time
EXTENT_MAGIC = b"HPFEXNT1"  # common/trace_format.h
FRAME_MAGIC = b"HFRM"
SECTION_MAGIC = b"HSEC"  # analyzer/trace/compact/section.h
NAMES_MAGIC = b"HPFNAME"  # analyzer/symbols/module_symbols.h: HPFNAME1 or HPFNAME2

SLICE = ("--from", "10%", "--to", "90%")
# Commands, and the formats of their outputs.
COMMANDS = (
    (("report", "--json"), "json"),
    (("report", "--json", *SLICE, "--min-lifetime", "1us"), "json"),
    (("report", "--live-at", "50%"), "text"),
    (("report", "--kind", "all"), "text"),
    (("report", "--cost", "allocations"), "text"),
    (("leaks", "--json"), "json"),
    (("leaks",), "text"),
    (("timeline", "--format", "json"), "json"),
    (("top", "--once", "--json"), "json"),
    (("top", "--batch", "--by", "function"), "text"),
    (("timeline", "--format", "svg"), "xml"),
    (("timeline", *SLICE), "text"),
    (("flamegraph", "--format", "svg"), "xml"),
    (("flamegraph", "--format", "folded", "--cost", "leaked"), "lines"),
    (("info", "--json"), "json"),
    (("pins", "--json", "--by", "stack"), "json"),
    (("pins", "--at", "50%"), "text"),
    (("rss", "--json"), "json"),
    (("rss", "--at", "50%"), "text"),
    (("timeline", "--resident", "--format", "json"), "json"),
    (("flamegraph", "--cost", "pinned", "--format", "folded"), "lines"),
    (("histogram", "--json"), "json"),
    (("churn", "--json"), "json"),
    (("reallocs", "--json"), "json"),
    (("threads", "--json"), "json"),
    (("frees", "--json"), "json"),
    (("check", "--json", "--max-peak", "1K"), "json"),
    (("diff", "--json", "OTHER"), "json"),
    (("diff", "--format", "svg", "OTHER"), "xml"),
    (("bundle", "-o", "OUTPUT"), "file"),
    (("index", "-o", "OUTPUT"), "file"),
    (("compact", "-o", "OUTPUT"), "file"),
    (("export", "heaptrack", "-o", "-"), "text"),
    (("export", "pprof", "-o", "-"), "gzip"),
    (("export", "speedscope", "-o", "-"), "json"),
    (("export", "massif", "-o", "-"), "text"),
    (("export", "dhat", "-o", "-"), "json"),
    (("export", "callgrind", "-o", "-"), "text"),
    (("export", "firefox", "-o", "-"), "json"),
    (("export", "perfetto", "-o", "OUTPUT"), "file"),
    (("export", "ndjson", "-o", "-"), "ndjson"),
    (("export", "ndjson", "--rows", "blocks", "-o", "-"), "ndjson"),
    (("export", "csv", "--rows", "stacks", "-o", "-"), "text"),
)


def record(build, folder):
    """Records small traces: with one thread, with several, with mappings, of a killed process."""
    traces = []
    for name, arguments in (("ledger_single", ("200",)), ("ledger_threads", ()), ("ledger_mmap", ()),
                            ("ledger_realloc", ())):
        trace = folder / f"{name}.heapprof"
        environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(build / "preload" / "libheapprof.so"),
                       "HEAPPROF_OUTPUT": str(trace),
                       "LEDGER_FILE": str(folder / "ledger"), "HEAPPROF_BLOCK_BYTES": "4096"}
        process = subprocess.Popen([build / "tests" / "programs" / name, *arguments], env=environment,
                                   stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        if name == "ledger_mmap":
            while process.poll() is None and not (trace.exists() and trace.stat().st_size > 64 << 10):
                time.sleep(0.01)
            time.sleep(0.05)
            process.kill()
        process.wait(60)
        if trace.exists() and trace.stat().st_size <= 4 << 20:
            traces.append(trace)
    if traces:
        bundled = folder / "bundled.heapprof"
        subprocess.run([build / "analyzer" / "heapprof", "bundle", traces[0], "-o", bundled], check=True,
                       stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        compacted = []
        for name, options, of in (("compacted", (), traces[1 % len(traces)]),
                                  ("exact", ("--exact",), traces[2 % len(traces)]),
                                  ("compacted_bundled", (), bundled)):
            compacted.append(folder / f"{name}.heapprof")
            subprocess.run([build / "analyzer" / "heapprof", "compact", *options, of, "-o", compacted[-1]],
                           check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        traces += [bundled, *compacted]
    return traces


def random_position(rng, size):
    """A random position, more often near the front, where the headers are."""
    return rng.randrange(min(size, rng.choice((4096, 8192, 70000, size)))) if size else 0


def damage(rng, data, others):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8, 30))):
        at = random_position(rng, len(data))
        kind = rng.randrange(11)
        length = rng.choice((1, 4, 8, 64, 512, 4096))
        if kind <= 2:
            for _ in range(rng.choice((1, 2, 20))):
                if data:
                    data[random_position(rng, len(data))] ^= 1 << rng.randrange(8)
        elif kind == 3:
            data[at:at + length] = rng.randbytes(length)
        elif kind == 4:
            data[at:at + length] = bytes((rng.choice((0, 0xff)),)) * length
        elif kind == 5:
            value = rng.choice((0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 63, (1 << 64) - 1,
                                 rng.getrandbits(64), len(data)))
            at &= ~7
            data[at:at + 8] = struct.pack("<Q", value & (1 << 64) - 1)
        elif kind == 6:
            del data[at:at + length]
        elif kind == 7:
            data[at:at] = data[at:at + length]
        elif kind == 8:
            del data[at:]
        elif kind == 9:
            one, other = sorted(random_position(rng, len(data)) & ~rng.choice((7, 4095)) for _ in range(2))
            length = min(length, other - one)
            data[one:one + length], data[other:other + length] = data[other:other + length], data[one:one + length]
        else:
            other = rng.choice(others)
            start = random_position(rng, len(other)) & ~7
            data[at & ~7:(at & ~7) + length] = other[start:start + length]
    return data


def checksum(data):
    return XXHASH.XXH3_64bits(data, len(data))


def repair(data):
    """Corrects all checksums."""
    def put(at, value):
        data[at:at + 8] = struct.pack("<Q", value)
    if len(data) >= 4096:
        put(120, checksum(bytes(data[:120])))
    for at in range(4096, len(data) - 48, 4096):
        if data[at:at + 8] == EXTENT_MAGIC:
            put(at + 40, checksum(bytes(data[at:at + 40])))
    at = data.find(FRAME_MAGIC)
    while 0 <= at <= len(data) - 80:
        if at % 8 == 0:
            payload, = struct.unpack_from("<I", data, at + 60)
            if payload <= len(data) - at - 80:
                put(at + 64, checksum(bytes(data[at + 80:at + 80 + payload])))
            put(at + 72, checksum(bytes(data[at:at + 72])))
        at = data.find(FRAME_MAGIC, at + 1)
    repair_sections(data)
    at = data.find(NAMES_MAGIC)
    while 0 <= at <= len(data) - 32:
        packed, = struct.unpack_from("<Q", data, at + 16)
        if packed <= len(data) - at - 32:
            put(at + 24, checksum(bytes(data[at + 32:at + 32 + packed])))
        at = data.find(NAMES_MAGIC, at + 1)


def repair_index(data, trace):
    """Corrects all checksums of an index, and sets the length of its trace to that of `trace`."""
    def put(at, value):
        data[at:at + 8] = struct.pack("<Q", value)
    if len(data) >= 48:
        put(24, len(trace))
        put(40, checksum(bytes(data[:40])))
    repair_sections(data)


def repair_sections(data):
    """Corrects the checksums of the sections in indexes and compacted traces."""
    def put(at, value):
        data[at:at + 8] = struct.pack("<Q", value)
    at = data.find(SECTION_MAGIC)
    while 0 <= at <= len(data) - 72:
        payload, = struct.unpack_from("<Q", data, at + 48)
        if payload <= len(data) - at - 72:
            put(at + 56, checksum(bytes(data[at + 72:at + 72 + payload])))
        put(at + 64, checksum(bytes(data[at:at + 64])))
        at = data.find(SECTION_MAGIC, at + 1)


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))


def output_problem(text, kind):
    """The problem with an output; None: it is complete."""
    try:
        if kind == "json":
            json.loads(text)
        elif kind == "ndjson":
            for line in text.splitlines():
                json.loads(line)
        elif kind == "xml":
            xml.etree.ElementTree.fromstring(text)
        elif kind == "gzip":
            gzip.decompress(text)
        elif not text.endswith(b"\n"):
            return "ends within a line"
        return None
    except (ValueError, EOFError, OSError, zlib.error, xml.etree.ElementTree.ParseError) as problem:
        return str(problem)


def run_heapprof(heapprof, path, command, kind, cache):
    """The problem or None, and the outcome."""
    output = path.with_suffix(".output")
    output.unlink(missing_ok=True)
    words = [str(output) if word == "OUTPUT" else word for word in command]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen([heapprof, *words, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               stdin=subprocess.DEVNULL,
                               preexec_fn=limit, env=environment)
    try:
        printed, errors = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"took more than {TIMEOUT} s", "hung"
    errors = errors.decode(errors="replace").strip()
    status = process.returncode
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"took more than {SECONDS} s of processor time", "hung"
    if kind == "file":
        printed = output.read_bytes() if output.exists() else b""
        if status == 0 and not printed:
            return "exit status 0 without output file", "broken"
    if status not in (0, 1) and (command[0], status) != ("check", 3):
        return f"exit status {status}: {errors[-500:]}", "crashed"
    if status == 1 and not errors:
        return "exit status 1 without error message", "broken"
    if "bad_alloc" in errors or "what()" in errors:
        return f"not a proper error message: {errors[-500:]}", "crashed"
    # Folded stacks and rows may be empty.
    if status != 1 and not printed and kind not in ("lines", "ndjson"):
        return f"exit status {status} without output", "broken"
    if printed and kind != "file":
        problem = output_problem(printed, kind)
        if problem:
            return f"malformed {kind}: {problem}", "broken"
    return None, "rejected" if status == 1 and not printed else "partial" if status == 1 else "complete"


class Campaign:
    def __init__(self, heapprof, folder, traces, options):
        self.heapprof, self.folder, self.options = heapprof, folder, options
        self.others = [path.read_bytes() for path in traces]
        self.names = traces
        self.indexes = []
        for number, path in enumerate(traces):
            index = folder / f"{number}.idx"
            # A compacted trace contains its index.
            made = subprocess.run([heapprof, "index", path, "-o", index], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL).returncode == 0
            self.indexes.append(index.read_bytes() if made else self.indexes[0])

    def choose_command(self, rng, number):
        """Chooses a command; few runs resolve symbols, because that reads the system's files."""
        command, kind = COMMANDS[0] if number % 4 < 2 else rng.choice(COMMANDS)
        if command[0] not in ("index", "compact") and rng.randrange(16):
            command = (*command, "--no-symbols")
        return tuple(str(self.names[0]) if word == "OTHER" else word for word in command), kind

    def run_one(self, number):
        """The problem or None, the name of the trace, the command, the outcome, seconds."""
        rng = random.Random(f"{self.options.seed}:{number}")
        which = rng.randrange(len(self.others))
        trace = self.others[which]
        index = None
        command, kind = self.choose_command(rng, number)
        if number % 8 == 5:  # a damaged index of an undamaged trace, or an index of the undamaged trace
            without_slice = ("index", "bundle", "compact", "info", "diff", "pins", "rss")
            if command[0] not in without_slice and not {"pinned", "--resident"} & set(command):
                command = (*command, *SLICE) if "--from" not in command and "--live-at" not in command else command
            index = bytearray(self.indexes[which])
            if rng.randrange(4):
                index = damage(rng, index, [*self.indexes, self.others[0]])
                if rng.randrange(2):
                    repair_index(index, trace)
            if not rng.randrange(4):
                trace = damage(rng, trace, self.others)
        else:
            trace = damage(rng, trace, self.others)
            if number % 2:
                repair(trace)
        path = self.folder / f"{number}.heapprof"
        index_path = Path(f"{path}.idx")
        path.write_bytes(trace)
        if index is not None:
            index_path.write_bytes(index)
        began = time.monotonic()
        problem, outcome = run_heapprof(self.heapprof, path, command, kind, self.folder / "cache")
        seconds = time.monotonic() - began
        if problem:
            kept = self.options.keep / f"damaged-{self.options.seed}-{number}.heapprof"
            shutil.copy(path, kept)
            if index is not None:
                shutil.copy(index_path, f"{kept}.idx")
            problem = f"{kept}: heapprof {' '.join(command)}: {problem}"
        for left in (path, index_path, path.with_suffix(".output")):
            left.unlink(missing_ok=True)
        return problem, self.names[which].stem, command[0], outcome, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("HEAPPROF_TEST_SEED") or 1))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("."))
    options = parser.parse_args()
    heapprof = (options.build / "analyzer" / "heapprof").resolve()
    folder = Path(tempfile.mkdtemp(prefix="heapprof-damaged-"))
    traces = options.traces or record(options.build.resolve(), folder)
    if not traces:
        print("no traces were recorded")
        return 1
    # All commands must succeed with undamaged traces.
    bad = 0
    for path in traces:
        for command, kind in COMMANDS if path == traces[0] else COMMANDS[:1]:
            words = [str(path) if word == "OTHER" else word for word in command]
            problem, outcome = run_heapprof(heapprof, path, words, kind, folder / "cache")
            # `frees` needs stacks of frees (`record --free-stacks`), and reports that there are none.
            if problem or outcome == "rejected" and command[0] != "frees":
                print(f"{path} undamaged: heapprof {' '.join(words)}: {problem or outcome}")
                bad += 1
    campaign = Campaign(heapprof, folder, traces, options)
    outcomes = Counter()
    commands = Counter()
    by_trace = Counter()
    slowest = 0.0
    with ThreadPoolExecutor(options.jobs) as pool:
        for problem, name, command, outcome, seconds in pool.map(campaign.run_one,
                                                                 range(options.first, options.first + options.count)):
            slowest = max(slowest, seconds)
            outcomes[outcome] += 1
            commands[command] += 1
            by_trace[name] += 1
            if problem:
                bad += 1
                print(problem, flush=True)
            if sum(outcomes.values()) % 1000 == 0:
                print(f"{sum(outcomes.values())} done", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"seed {options.seed}")
    print("traces: " + ", ".join(f"{name} {count}" for name, count in by_trace.most_common()))
    print("commands: " + ", ".join(f"{name} {count}" for name, count in commands.most_common()))
    print(f"{options.count} damaged traces: " +
          ", ".join(f"{count} {name}" for name, count in outcomes.most_common()) +
          f"; slowest {slowest:.1f} s of wall time")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
