#!/usr/bin/env python3
"""Damages traces at random and asks heapprof for each: a report or a clear refusal, within bounded memory and time.

usage: tools/damaged-traces.py [--build DIR] [--count N] [--seed N] [--keep DIR] [TRACE...]

--build DIR  build folder with heapprof and the recorder; default build/
--count N    damaged traces; default 10000
--seed N     each seed gives other damage, the same seed the same; default 1
--keep DIR   where a damaged trace goes that heapprof did not stand; default the current folder
TRACE        what is damaged; default: traces of the tests' programs, recorded now

Each is one of: bits flipped, bytes overwritten (by noise, zeros, ones, or a large number), a piece cut out, doubled, moved or cut off at
the end, a second trace grafted on; some of them several times over. Half have their checksums made right again afterwards, so that
the damage reaches what checks behind them. heapprof must exit with 0 or 1 within 20 seconds and 512 MiB; with 1 it must have said why in
whole sentences, and what it printed must be whole JSON. The last line counts the outcomes. Exit status 1: a trace that did not stand.
"""

import argparse
import ctypes
import json
import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

XXHASH = ctypes.CDLL("libxxhash.so.0")
XXHASH.XXH3_64bits.restype = ctypes.c_uint64
XXHASH.XXH3_64bits.argtypes = (ctypes.c_char_p, ctypes.c_size_t)

ROOT = Path(__file__).resolve().parents[1]
MEMORY = 512 << 20
SECONDS = 20
EXTENT_MAGIC = b"HPFEXNT1"  # common/trace_format.h
FRAME_MAGIC = b"HFRM"


def record(build, folder):
    """Some small traces: one thread, several, mappings, a killed process."""
    traces = []
    for name, arguments in (("ledger_single", ("200",)), ("ledger_threads", ()), ("ledger_mmap", ()), ("ledger_realloc", ())):
        trace = folder / f"{name}.hprof"
        environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(build / "preload" / "libheapprof.so"), "HEAPPROF_OUTPUT": str(trace),
                       "LEDGER_FILE": str(folder / "ledger"), "HEAPPROF_BLOCK_BYTES": "4096"}
        process = subprocess.Popen([build / "tests" / "programs" / name, *arguments], env=environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        if name == "ledger_mmap":
            time.sleep(0.05)
            process.kill()
        process.wait(60)
        if trace.exists() and trace.stat().st_size <= 4 << 20:
            traces.append(trace)
    return traces


def number(dice, size):
    """A place, more often near the front, where what is written decides most."""
    return dice.randrange(min(size, dice.choice((4096, 8192, 70000, size)))) if size else 0


def damage(dice, data, others):
    data = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 3, 8, 30))):
        at = number(dice, len(data))
        kind = dice.randrange(10)
        length = dice.choice((1, 4, 8, 64, 512, 4096))
        if kind <= 2:
            for _ in range(dice.choice((1, 2, 20))):
                if data:
                    data[number(dice, len(data))] ^= 1 << dice.randrange(8)
        elif kind == 3:
            data[at:at + length] = dice.randbytes(length)
        elif kind == 4:
            data[at:at + length] = bytes((dice.choice((0, 0xff)),)) * length
        elif kind == 5:
            value = dice.choice((0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 63, (1 << 64) - 1, dice.getrandbits(64), len(data)))
            at &= ~7
            data[at:at + 8] = struct.pack("<Q", value & (1 << 64) - 1)
        elif kind == 6:
            del data[at:at + length]
        elif kind == 7:
            data[at:at] = data[at:at + length]
        elif kind == 8:
            del data[at:]
        else:
            other = dice.choice(others)
            start = number(dice, len(other)) & ~7
            data[at & ~7:(at & ~7) + length] = other[start:start + length]
    return data


def checksum(data):
    return XXHASH.XXH3_64bits(data, len(data))


def repair(data):
    """Makes checksums fit what stands there (docs/trace-format.md)."""
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


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def ask(heapprof, path, command):
    """None, or what is wrong; and the outcome."""
    try:
        result = subprocess.run([heapprof, *command, path], capture_output=True, timeout=SECONDS, preexec_fn=limit, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"took more than {SECONDS} s", "hung"
    said = result.stderr.decode(errors="replace").strip()
    if result.returncode not in (0, 1):
        return f"exit status {result.returncode}: {said[-500:]}", "crashed"
    if result.stdout:
        try:
            json.loads(result.stdout)
        except json.JSONDecodeError as problem:
            return f"the JSON is broken: {problem}", "broken"
    elif result.returncode == 0:
        return "exit status 0 and nothing printed", "broken"
    if result.returncode == 1 and not said:
        return "exit status 1 and nothing said", "broken"
    if "bad_alloc" in said or "what()" in said:
        return f"no clear refusal: {said[-500:]}", "crashed"
    return None, "refused" if not result.stdout else "partial report" if result.returncode == 1 else "report"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("."))
    options = parser.parse_args()
    heapprof = (options.build / "analyzer" / "heapprof").resolve()
    folder = Path(tempfile.mkdtemp(prefix="heapprof-damaged-"))
    traces = options.traces or record(options.build.resolve(), folder)
    originals = [path.read_bytes() for path in traces]
    if not originals:
        print("no traces to damage")
        return 1
    # The undamaged ones must be good, else all that follows proves nothing.
    bad = 0
    for path in traces:
        problem, outcome = ask(heapprof, path, ["report", "--json", "--no-symbols"])
        if problem or outcome == "refused":
            print(f"{path} undamaged: {problem or outcome}")
            bad += 1
    commands = (["report", "--json", "--no-symbols"], ["report", "--json", "--no-symbols", "--from", "10%", "--min-lifetime", "1us"],
                ["leaks", "--json", "--no-symbols"], ["timeline", "--format", "json", "--no-symbols"], ["info", "--json"])
    outcomes = Counter()
    path = folder / "damaged.hprof"
    slowest = 0.0
    for index in range(options.count):
        dice = random.Random(f"{options.seed}:{index}")
        data = damage(dice, dice.choice(originals), originals)
        if index % 2:
            repair(data)
        path.write_bytes(data)
        began = time.monotonic()
        problem, outcome = ask(heapprof, path, commands[0] if index % 4 < 2 else dice.choice(commands))
        slowest = max(slowest, time.monotonic() - began)
        outcomes[outcome] += 1
        if problem:
            bad += 1
            kept = options.keep / f"damaged-{options.seed}-{index}.hprof"
            shutil.copy(path, kept)
            print(f"{kept}: {problem}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{options.count} damaged traces: " + ", ".join(f"{count} {name}" for name, count in outcomes.most_common()) +
          f"; slowest {slowest:.1f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
