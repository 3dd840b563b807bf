#!/usr/bin/env python3
"""Compare heapprof's totals of real programs with those of valgrind, heaptrack, redis and tracemalloc.

usage: tools/real-programs/independent.py [--build DIR] [--json FILE] [NAME...]

Each program is one deterministic process. It runs four times: plain, recorded, with valgrind's memcheck ("total heap
usage", "in use at exit") and with heaptrack. All of them count a realloc as an allocation; memcheck and heapprof also
as a free. heaptrack's peak is compared with the three digits that it prints, less the block of 72,704 bytes that its
own libstdc++ allocates. Prints a Markdown table with heapprof's figures and the differences of the others.

  redis     used_memory of INFO, and the sum of the usable sizes of blocks from zmalloc that were live at that moment
  python3   growth between two points of a script with PYTHONMALLOC=malloc, by tracemalloc and by heapprof

Exit status 1: a figure differs by more than one percent, or the recorded program behaved differently.
"""

import argparse
import csv
import json
import os
import re
import shutil
import socket as unix_socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATH = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
TIMEOUT = 400
ALLOWED = 0.01  # allowed difference as a share, or 300 if that is more: environments differ by one or two variables
HEAPTRACK_ITSELF = 72704  # bytes of one block: the emergency pool of the libstdc++ that heaptrack loads
COMPARED = (("valgrind", "allocations"), ("valgrind", "frees"), ("valgrind", "allocated_bytes"),
            ("valgrind", "leaked_bytes"),
            ("heaptrack", "allocations"))

CC1PLUS = next(iter(sorted(Path("/usr/lib/gcc/x86_64-linux-gnu").glob("*/cc1plus"))), Path("/none"))

# name: (files, command)
PROGRAMS = {
    "perl": ({}, ["perl", "-e", "my %h; $h{$_ % 997} .= chr(65 + $_ % 26) x 30 for 1..20000; print length(join ',', "
                                "map { $h{$_} } sort keys %h)"]),
    "sqlite3": ({"in.sql": "create table t(a integer primary key, b); with recursive n(x) as (select 1 union all "
                           "select x + 1 from n where x < 3000) "
                 "insert into t select x, hex(x * x) from n; create index i on t(b); select count(*), max(b) from t "
                 "where b like '%7%';"},
                ["sqlite3", ":memory:", ".read in.sql"]),
    "bash": ({}, ["bash", "--norc", "-c", "declare -A s; for i in {1..3000}; do s[$((i % 501))]+=x; done; echo "
                                          "${#s[@]} ${s[7]//x/y}"]),
    "lua": ({}, ["lua5.4", "-e", "local t = {} for i = 1, 50000 do t[i % 997] = (t[i % 997] or '') .. i % "
                                 "10 end print(#t)"]),
    "git": ({}, ["git", "--no-pager", "-C", "repository", "log", "-p", "--no-color", "-n", "30"]),
    "cc1plus": ({"a.cpp": "#include <string>\n#include <map>\nstd::map<std::string, int> m; int main() { m[\"a\"] = "
                          "1; return m.size(); }\n"},
                [str(CC1PLUS), "-quiet", "-D_GNU_SOURCE", "-imultiarch", "x86_64-linux-gnu", "a.cpp", "-O1",
                 "-std=c++17", "-o", "a.s"]),
    "python3": ({}, ["/usr/bin/python3", "-s", "-S", "-c", "d = {i: str(i) * 3 for i in range(20000)}; "
                                                           "print(sum(map(len, d.values())))"]),
    "php": ({}, ["php", "-n", "-r", "for ($i = 0; $i < 20000; $i++) $a['k' . $i % 997][] = $i; echo count($a), "
                                    "strlen(serialize($a));"]),
    "ruby": ({}, ["ruby", "--disable=gems", "-e", "h = Hash.new(0); 20_000.times { |i| h[\"k#{i % 997}\"] += "
                                                  "i }; puts h.size"]),
    "convert": ({}, ["/usr/bin/convert-im6.q16", "-size", "80x60", "gradient:red-blue", "-resize", "50%", "a.png"]),
    "xz": ({"f": "text of many words\n" * 20000}, ["xz", "-T1", "-k", "-6", "-f", "f"]),
    "sort": ({"f": "".join(f"{i * 7919 % 10007} line\n" for i in range(20000))},
             ["sort", "--parallel=1", "-S", "1M", "f"]),
    "vim": ({"t": "".join(f"line {i * 7919 % 1009} alpha\n" for i in range(2000))},
            ["vim.basic", "-u", "NONE", "-i", "NONE", "-es", "-N", "-c", "%s/alpha/ALPHA/g", "-c", "sort n", "-c",
             "w! out", "-c", "q!", "t"]),
    "ripgrep": ({f"f{i}.txt": "line needle1\n" * 200 for i in range(20)},
                ["rg", "-j1", "--sort", "path", "-c", "needle1", "."]),
    "make": ({"Makefile": "all: a b\n%: %.in\n\t@cp $< $@\na b: common\ncommon:\n\t@echo > common\n", "a.in": "1",
              "b.in": "2"}, ["make", "-n"]),
    "ffprobe": ({}, ["ffprobe", "-v", "error", "-f", "lavfi", "-show_format", "-i", "sine=duration=1"]),
}


def environment(**more):
    # GLib disables its caches of small blocks under valgrind; G_SLICE disables them everywhere.
    return {"PATH": PATH, "HOME": "/nonexistent", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc",
            "G_SLICE": "always-malloc"} | more


def run(command, folder, **more):
    try:
        return subprocess.run([str(part) for part in command], cwd=folder, env=environment(**more),
                              capture_output=True, text=True,
                              errors="replace", timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return None


def report(options, trace, *more):
    return json.loads(subprocess.run([options.build / "analyzer" / "heapprof", "report", trace, "--json",
                                      "--no-symbols", "--top", "1", *more],
                                     capture_output=True, text=True, check=True).stdout)


def recorder(options):
    return str((options.build / "preload" / "libheapprof.so").resolve())


def number(text):
    return int(text.replace(",", ""))


def heaptrack_bytes(text):
    value, unit = re.match(r"([\d.]+)([BKMG])", text).groups()
    return float(value) * {"B": 1, "K": 1e3, "M": 1e6, "G": 1e9}[unit]


def prepare(name, folder):
    for file, text in PROGRAMS[name][0].items():
        (folder / file).write_text(text)
    if name == "git":
        who = {"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org", "GIT_COMMITTER_NAME": "t",
               "GIT_COMMITTER_EMAIL": "t@example.org"}
        run(["git", "init", "-q", "repository"], folder)
        for i in range(40):
            (folder / "repository" / f"f{i % 7}").write_text("".join(f"line {j * i % 101}\n" for j in range(200)))
            run(["git", "-C", "repository", "add", "."], folder)
            run(["git", "-C", "repository", "commit", "-q", "-m", f"{i}"], folder, **who)


def compare(name, options, folder):
    """A row with the figures of heapprof and of the others, as far as the program works with them."""
    command = PROGRAMS[name][1]
    prepare(name, folder)
    alone = run(command, folder)
    trace = folder / "t.heapprof"
    recorded = run(command, folder, LD_PRELOAD=recorder(options), HEAPPROF_OUTPUT=str(trace), HEAPPROF_LOG="off")
    row = {"name": name, "same": alone is not None and recorded is not None and
           (alone.returncode, alone.stdout) == (recorded.returncode, recorded.stdout)}
    heap = report(options, trace)["heap"]
    row["heapprof"] = {key: heap[key]
                       for key in ("allocations", "frees", "allocated_bytes", "peak_bytes", "leaked_bytes",
                                   "leaked_blocks")}
    log = folder / "valgrind.log"
    watched = run(["valgrind", "--tool=memcheck", "--leak-check=no", "--undef-value-errors=no",
                   "--run-libc-freeres=no",
                   "--run-cxx-freeres=no", f"--log-file={log}", *command], folder)
    text = log.read_text() if watched is not None and log.exists() else ""
    usage = re.search(r"total heap usage: ([\d,]+) allocs, ([\d,]+) frees, ([\d,]+) bytes", text)
    left = re.search(r"in use at exit: ([\d,]+) bytes in ([\d,]+) blocks", text)
    if usage and left:
        row["valgrind"] = {"allocations": number(usage[1]), "frees": number(usage[2]),
                           "allocated_bytes": number(usage[3]),
                           "leaked_bytes": number(left[1]), "leaked_blocks": number(left[2])}
    tracked = run(["heaptrack", "-o", folder / "h", *command], folder)
    files = list(folder.glob("h.*"))
    if tracked is not None and files:
        printed = run(["heaptrack_print", "-a", "0", "-p", "0", "-T", "0", "-l", "0", files[0]], folder)
        text = printed.stdout if printed is not None else ""
        calls = re.search(r"calls to allocation functions: (\d+)", text)
        peak = re.search(r"peak heap memory consumption: (\S+)", text)
        if calls and peak:
            row["heaptrack"] = {"allocations": int(calls[1]), "peak_bytes": heaptrack_bytes(peak[1])}
    return row


def difference(row, who, key):
    """The difference to heapprof's figure, for the table."""
    if who not in row:
        return "-"
    away = row[who][key] - row["heapprof"][key]
    if away == 0:
        return "same"
    share = f" ({away / row['heapprof'][key] * 100:+.2g} %)" if row["heapprof"][key] else ""
    return f"{away:+,.0f}{share}"


def peak_difference(row):
    """heaptrack prints three digits."""
    if "heaptrack" not in row:
        return "-"
    ours, theirs = row["heapprof"]["peak_bytes"], row["heaptrack"]["peak_bytes"]
    exact = 10 ** max(0, len(str(int(theirs))) - 3)
    if abs(theirs - ours) <= exact:
        return "same"
    if abs(theirs - HEAPTRACK_ITSELF - ours) <= exact:
        return "same but for heaptrack's block"
    return f"{theirs - ours:+,.0f} ({(theirs - ours) / ours * 100:+.2g} %)"


def table(rows):
    lines = ["| program | allocations | valgrind | heaptrack | bytes | valgrind | live at exit | valgrind | "
             "peak | heaptrack |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        ours = row["heapprof"]
        lines.append(f"| {row['name']} | {ours['allocations']:,} | {difference(row, 'valgrind', 'allocations')} | "
                     f"{difference(row, 'heaptrack', 'allocations')} | {ours['allocated_bytes']:,} | "
                     f"{difference(row, 'valgrind', 'allocated_bytes')} | {ours['leaked_bytes']:,} | "
                     f"{difference(row, 'valgrind', 'leaked_bytes')} | {ours['peak_bytes']:,} | "
                     f"{peak_difference(row)} |")
    return "\n".join(lines)


def mark_times(options, trace):
    process = subprocess.run([options.build / "analyzer" / "heapprof", "timeline", trace, "--format", "json"],
                             capture_output=True, text=True, check=True)
    timeline = json.loads(process.stdout)
    return {item["text"]: item["time_ns"] for item in timeline["marks"]}


def jemalloc_class(size):
    """The size class that serves `size` bytes (jemalloc 5, "size classes"): 8, to 128 by 16, then four to each
    doubling."""
    if size <= 8:
        return 8
    step = 16 if size <= 128 else 1 << ((size - 1).bit_length() - 3)
    return (size + step - 1) // step * step


def redis(options, folder):
    """(redis' used_memory, the same from the trace). Redis adds up malloc_usable_size of the blocks that
    zmalloc and related functions returned."""
    trace, socket = folder / "r.heapprof", folder / "s"
    def ask(*command):
        return run(["redis-cli", "-s", socket, *command], folder).stdout
    server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--hz", "1"],
                              cwd=folder, stdout=subprocess.DEVNULL,
                              env=environment(LD_PRELOAD=recorder(options), HEAPPROF_OUTPUT=str(trace)))
    try:
        while "PONG" not in ask("ping"):
            time.sleep(0.1)
        run(["redis-benchmark", "-s", socket, "-q", "-n", "3000", "-r", "1000", "-t", "set,lpush,sadd,zadd,hset"],
            folder)
        time.sleep(2)
        # The mark is set while the client is connected, whose buffers count. A script keeps the reply short, so that
        # it needs no buffer; its second call does not compile it.
        with unix_socket.socket(unix_socket.AF_UNIX) as client:
            client.connect(str(socket))
            script = "return string.match(redis.call('info','memory'), 'used_memory:(%d+)')"
            for _ in range(2):
                client.sendall(f'EVAL "{script}" 0\r\n'.encode())
                used = int(re.search(rb"(\d{5,})", client.recv(65536))[1])
            subprocess.run([options.build / "analyzer" / "heapprof", "control", trace, "mark", "asked"], check=True,
                           capture_output=True,
                           timeout=60)
        ask("shutdown", "nosave")
    finally:
        server.terminate()
        server.wait(60)
    when = mark_times(options, trace)["asked"]
    rows = folder / "r.csv"
    subprocess.run([options.build / "analyzer" / "heapprof", "export", "csv", trace, "--function",
                    "^z(try)?(malloc|calloc|realloc)", "--no-inlines",
                    "-o", rows], check=True, capture_output=True)
    live = {}
    for row in csv.DictReader(rows.open()):
        if int(row["time_ns"]) > when:
            break
        if row["event"] == "alloc":
            live[row["address"]] = int(row["size"])
        elif row["event"] == "free":
            live.pop(row["address"], None)
    return used, sum(map(jemalloc_class, live.values()))


GROWTH = """
import ctypes, sys
if sys.argv[1] == 'tracemalloc':
    import tracemalloc
    tracemalloc.start()
    read = tracemalloc.get_traced_memory
else:
    read = ctypes.CDLL(None).heapprof_recorder_mark
one = read() if sys.argv[1] == 'tracemalloc' else read(b'one')
keep = {i: (str(i) * 3, [i, i + 1], {'a': i}, i * 10 ** 20) for i in range(20000)}
two = read() if sys.argv[1] == 'tracemalloc' else read(b'two')
if sys.argv[1] == 'tracemalloc':
    print(two[0] - one[0])
"""


def python_growth(options, folder):
    """(tracemalloc's growth between two points, heapprof's between the same). Two runs, because
    tracemalloc allocates its own data with malloc, too."""
    command = ["/usr/bin/python3", "-s", "-S", "-c", GROWTH]
    growth = int(run([*command, "tracemalloc"], folder).stdout)
    trace = folder / "p.heapprof"
    run([*command, "marks"], folder, LD_PRELOAD=recorder(options), HEAPPROF_OUTPUT=str(trace))
    times = mark_times(options, trace)
    one, two = (report(options, trace, "--to", f"{times[name]}ns")["heap"]["leaked_bytes"] for name in ("one", "two"))
    return growth, two - one


def print_comparison(name, what, theirs, ours, allowed):
    """Prints a statistic of the program itself; returns whether heapprof agrees."""
    away = (theirs - ours) / ours
    print(f"{name}: {what} {theirs:,}, from the trace {ours:,} ({away * 100:+.3f} %)")
    return abs(away) <= allowed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows, good = [], True
    for name in options.names or [*PROGRAMS, "redis", "tracemalloc"]:
        with tempfile.TemporaryDirectory(prefix="heapprof-independent-") as folder:
            folder = Path(folder)
            if name == "redis":
                good &= print_comparison(name, "used_memory", *redis(options, folder), 0.005)
            elif name == "tracemalloc":
                good &= print_comparison(name, "python3 grew by", *python_growth(options, folder), 0.005)
            elif shutil.which(PROGRAMS[name][1][0], path=PATH) is None:
                print(f"{name}: skipped, not installed", file=sys.stderr)
            else:
                row = compare(name, options, folder)
                rows.append(row)
                good &= row["same"] and peak_difference(row)[0] in "s-" and all(abs(row[who][key] -
                                                                                    row["heapprof"][key]) <=
                                                                                max(300, ALLOWED *
                                                                                    row["heapprof"][key])
                                            for who, key in COMPARED if who in row)
                if options.json:
                    options.json.write_text(json.dumps(rows))
    print(table(rows))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
