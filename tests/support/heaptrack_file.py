"""Reads heaptrack's interpreted data file (version 3) and replays it with heaptrack's definitions.

It rejects what heaptrack's readers tolerate: indices that are not declared yet, double spaces,
upper-case digits, wrong string lengths, classes out of order, decreasing times. `Totals` are the figures that
`heaptrack_print` must print for the same file.
"""

import gzip
import os
import re
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass, field

NUMBER = re.compile(r"(0|[1-9a-f][0-9a-f]*)\Z")
OPERATOR_NEW = {"operator new(unsigned long)", "operator new[](unsigned long)", "operator new(unsigned int)",
                "operator new[](unsigned int)"}

# The programs of heaptrack reserve 100 MB at their start. Huge pages halve their processor time for small files.
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


class Malformed(Exception):
    pass


@dataclass
class Totals:
    calls: int = 0
    temporary: int = 0
    leaked: int = 0
    peak: int = 0
    last_time_ms: int = 0
    peak_pages: int = 0
    sizes: Counter = field(default_factory=Counter)            # size -> calls
    calls_by_trace: Counter = field(default_factory=Counter)   # trace index -> calls
    leaked_by_trace: Counter = field(default_factory=Counter)
    peak_by_trace: Counter = field(default_factory=Counter)    # live size at the global peak
    allocated_by_trace: Counter = field(default_factory=Counter)


def number(text, where):
    if not NUMBER.match(text):
        raise Malformed(f"{where}: {text!r} is not a lower-case hexadecimal number")
    return int(text, 16)


class HeaptrackFile:
    def __init__(self, path):
        opener = gzip.open if str(path).endswith(".gz") else open
        with opener(path, "rb") as file:
            text = file.read()
        if text and not text.endswith(b"\n"):
            raise Malformed("the last line has no line feed")
        if b"\r" in text:
            raise Malformed("carriage return")
        self.command = None
        self.strings, self.ips, self.traces = [None], [None], [None]
        self.classes = []   # (size, trace)
        self.events = []    # ("+", class) ("-", class) ("c", ms) ("R", pages)
        lines = text.split(b"\n")
        for position, raw in enumerate(lines[:-1], 1):
            self._line(raw, f"line {position}")
        self._check()

    def _line(self, raw, where):
        if not raw or raw[:1] == b"#":
            return
        letter = raw[:1].decode()
        if raw[1:2] != b" ":
            raise Malformed(f"{where}: no space after the record type")
        if letter == "s":
            length, _, body = raw[2:].partition(b" ")
            if number(length.decode(), where) != len(body):
                raise Malformed(f"{where}: string of {len(body)} bytes, but its length is {length.decode()}")
            self.strings.append(body.decode("utf-8", "surrogateescape"))
            return
        if letter in "XS":
            if letter == "X":
                if self.command is not None:
                    raise Malformed(f"{where}: a second X")
                self.command = raw[2:].decode("utf-8", "surrogateescape")
            return
        fields = [number(field, where) for field in raw[2:].decode().split(" ")]
        if letter == "v":
            if fields[1] != 3 or self.events or len(self.strings) > 1:
                raise Malformed(f"{where}: version {fields[1]}, or not the first record")
        elif letter == "I":
            self.page_size, self.pages = fields
        elif letter == "i":
            if len(fields) < 2 or (len(fields) > 3 and (len(fields) - 2) % 3):
                raise Malformed(f"{where}: an ip of {len(fields)} fields")
            for string in [fields[1]] + [f for i, f in enumerate(fields[2:]) if i % 3 != 2]:
                if string >= len(self.strings):
                    raise Malformed(f"{where}: string {string} is not declared yet")
            self.ips.append(fields)
        elif letter == "t":
            ip, parent = fields
            if not 0 < ip < len(self.ips) or parent >= len(self.traces):
                raise Malformed(f"{where}: ip {ip} or parent {parent} is not declared yet")
            self.traces.append((ip, parent))
        elif letter == "a":
            size, trace = fields
            if trace >= len(self.traces):
                raise Malformed(f"{where}: trace {trace} is not declared yet")
            self.classes.append((size, trace))
        elif letter in "+-cR":
            if letter in "+-" and fields[0] >= len(self.classes):
                raise Malformed(f"{where}: class {fields[0]} is not declared yet")
            self.events.append((letter, fields[0]))
        else:
            raise Malformed(f"{where}: unknown record type {letter!r}")

    def _check(self):
        if len(set(self.strings[1:])) != len(self.strings) - 1:
            raise Malformed("duplicate string")
        if len(set(self.classes)) != len(self.classes):
            raise Malformed("duplicate class")
        first_uses = []
        seen = set()
        live = Counter()
        last_time = 0
        for letter, value in self.events:
            if letter == "+":
                live[value] += 1
                if value not in seen:
                    seen.add(value)
                    first_uses.append(value)
            elif letter == "-":
                live[value] -= 1
                if live[value] < 0:
                    raise Malformed(f"more - than + of class {value}")
            elif letter == "c":
                if value < last_time:
                    raise Malformed(f"time goes back from {last_time} to {value}")
                last_time = value
        if first_uses != list(range(len(self.classes))):
            raise Malformed("classes are not used in the order of their numbers, or one is unused")

    def totals(self):
        result = Totals()
        live = 0
        live_by_trace = Counter()
        peak_position = None
        latest = 0
        for position, (letter, value) in enumerate(self.events):
            if letter == "+":
                size, trace = self.classes[value]
                result.calls += 1
                result.sizes[size] += 1
                result.calls_by_trace[trace] += 1
                result.allocated_by_trace[trace] += size
                live += size
                live_by_trace[trace] += size
                latest = value
                if live > result.peak:
                    result.peak = live
                    peak_position = position
            elif letter == "-":
                size, trace = self.classes[value]
                live -= size
                live_by_trace[trace] -= size
                if value == latest:
                    result.temporary += 1
                latest = 0
            elif letter == "c":
                result.last_time_ms = value
            else:
                result.peak_pages = max(result.peak_pages, value)
        result.leaked = live
        result.leaked_by_trace = live_by_trace
        if peak_position is not None:
            for letter, value in self.events[:peak_position + 1]:
                if letter in "+-":
                    size, trace = self.classes[value]
                    result.peak_by_trace[trace] += size if letter == "+" else -size
        return result

    def frames(self, trace):
        """Frames with the innermost first, including inlined ones: (function or None, file, line, module)."""
        found = []
        while trace:
            ip, parent = self.traces[trace]
            fields = self.ips[ip]
            module = self.strings[fields[1]]
            if len(fields) == 2:
                found.append((None, None, 0, module))
            elif len(fields) == 3:
                found.append((self.strings[fields[2]], None, 0, module))
            for i in range(2, len(fields) - 2, 3):
                found.append((self.strings[fields[i]], self.strings[fields[i + 1]], fields[i + 2], module))
            trace = parent
        return found

    def by_function(self, per_trace, prefix):
        """Sums of a per-trace counter by the innermost function whose name begins with `prefix`."""
        sums = defaultdict(int)
        for trace, value in per_trace.items():
            for function, _, _, _ in self.frames(trace):
                if function and function.startswith(prefix):
                    sums[function.split("(")[0]] += value
                    break
        return dict(sums)


def run_heaptrack_print(path, *options):
    """The output of heaptrack_print. Fails if it prints anything to standard error."""
    result = subprocess.run(["heaptrack_print", "--disable-builtin-suppressions", "--disable-embedded-suppressions",
                             "-f", str(path), *options],
                            capture_output=True, text=True, timeout=300, env={**os.environ, **HUGE_PAGES})
    if result.returncode != 0 or result.stderr.strip():
        raise Malformed(f"heaptrack_print: status {result.returncode}, standard error: {result.stderr[:2000]}")
    return result.stdout


def printed_totals(path):
    """Figures printed by heaptrack_print: calls, temporary, leaked and peak, rounded as printed."""
    text = run_heaptrack_print(path, "-p0", "-a0", "-T0", "-l0")
    found = {}
    for key, pattern in (("calls", r"calls to allocation functions: (\d+)"),
                         ("temporary", r"temporary memory allocations: (\d+)"),
                         ("peak", r"peak heap memory consumption: (\S+)"),
                         ("leaked", r"total memory leaked: (\S+)")):
        match = re.search(pattern, text)
        if match is None:
            raise Malformed(f"heaptrack_print did not print {key}: {text[-500:]}")
        found[key] = int(match.group(1)) if match.group(1).isdigit() else match.group(1)
    return found


def rounded(size):
    """A size as heaptrack_print writes it."""
    sign = "-" if size < 0 else ""
    size = abs(size)
    if size < 1000:
        return f"{sign}{size}B"
    value = float(size)
    for unit in ("K", "M", "G", "T"):
        value /= 1000
        if value < 1000:
            return f"{sign}{value:.2f}{unit}"
    return f"{sign}{value:.2f}P"


def printed_histogram(path, output):
    run_heaptrack_print(path, "-H", str(output))
    histogram = {}
    with open(output, encoding="utf-8") as file:
        for line in file:
            parts = line.split()
            if len(parts) == 2 and parts[0].isdigit():
                histogram[int(parts[0])] = int(parts[1])
    return histogram


def printed_flamegraph(path, output, cost):
    """heaptrack_print's flame graph lines as {stack text: sum}; cost: allocations, leaked, peak, temporary."""
    run_heaptrack_print(path, "-F", str(output), "--flamegraph-cost-type", cost)
    sums = defaultdict(int)
    with open(output, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            stack, _, value = line.rstrip("\n").rpartition(" ")
            sums[stack] += int(value)
    return dict(sums)
