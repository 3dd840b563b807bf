"""Every output that contains costs, read by a small parser of its format: each figure equals the report's, for every
trace and every selection. Two outputs of one trace are equal byte by byte, also with another time zone, language,
current folder and path. No consumer is needed, so nothing is skipped."""

import collections
import csv
import gzip
import io
import json
import re
import subprocess

import consumers
import harness
import heaptrack_file

BYTES = {"peak": "peak_bytes", "leaked": "leaked_bytes", "allocated": "allocated_bytes",
         "temporary": "temporary_bytes"}
IN_PICTURES = {"peak": "peak_bytes", "leaked": "leaked_bytes", "allocated": "allocated_bytes",
               "allocations": "allocations",
               "temporary": "temporary"}
# Several selections at once, by names of functions: one block of ledger_names matches.
MIXED = ("--to", "100%", "--module", "ledger_nam*", "--function", "^company::storage::", "--not-function", "make_row",
         "--min-size", "1000")


def read_heaptrack(data):
    path = read_heaptrack.folder / "reading"
    path.write_bytes(data)
    totals = heaptrack_file.HeaptrackFile(path).totals()
    return {"allocations": totals.calls, "peak_bytes": totals.peak, "leaked_bytes": totals.leaked,
            "allocated_bytes": sum(size * count for size, count in totals.sizes.items())}


def fields_of(data):
    """(number, value) of each field of a protocol buffer: an integer, or bytes."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        else:
            assert key & 7 == 2, key
            size = number()
            yield key >> 3, data[at:at + size]
            at += size


def read_pprof(data):
    sums, types, strings = None, [], []
    for number, value in fields_of(gzip.decompress(data)):
        if number == 1:
            types.append(dict(fields_of(value))[1])
        elif number == 2:
            packed = dict(fields_of(value))[2]
            values = [value for _, value in fields_of(b"".join(b"\x08" + piece
                                                               for piece in re.findall(rb"[\x80-\xff]*[\0-\x7f]",
                                                                                       packed, re.S)))]
            sums = values if sums is None else [a + b for a, b in zip(sums, values, strict=True)]
        elif number == 6:
            strings.append(value.decode())
    names = [strings[i] for i in types]
    costs = {"alloc_objects": "allocations", "alloc_space": "allocated_bytes", "inuse_objects": "leaked_blocks",
             "inuse_space": "leaked_bytes", "peak_objects": "peak_blocks", "peak_space": "peak_bytes",
             "temporary_objects": "temporary", "temporary_space": "temporary_bytes"}
    assert names == list(costs), names
    return dict(zip(costs.values(), sums or [0] * len(costs)))


def read_speedscope(data):
    costs = {"bytes live at the peak": "peak_bytes", "blocks live at the peak": "peak_blocks",
             "bytes live at the end": "leaked_bytes", "blocks live at the end": "leaked_blocks",
             "bytes allocated": "allocated_bytes", "allocations": "allocations", "temporary allocations": "temporary",
             "bytes of temporary allocations": "temporary_bytes"}
    # With --live-at, the time replaces the peak.
    return {costs[re.sub(r"live at \d.*", "live at the peak", profile["name"])]: sum(profile["weights"])
            for profile in json.loads(data)["profiles"]}


def read_perfetto(data):
    """Sums over the samples of both heaps. Each stack that they name is defined."""
    packets = [(number, value) for _, packet in fields_of(data) for number, value in fields_of(packet)]
    stacks = {dict(fields_of(stack))[1] for number, value in packets if number == 12
              for kind, stack in fields_of(value) if kind == 7}
    sums = collections.Counter()
    for number, value in packets:
        if number != 37:
            continue
        dump = list(fields_of(dict(fields_of(value))[5]))
        heap = dict(dump)[11].decode()
        for kind, sample in dump:
            if kind == 2:
                sample = {1: 0, 2: 0, 3: 0, 5: 0, 6: 0} | dict(fields_of(sample))
                assert sample[1] in stacks, sample
                sums[heap, "bytes"] += sample[2]
                sums[heap, "blocks"] += sample[5]
                sums[heap, "left bytes"] += sample[2] - sample[3]
                sums[heap, "left blocks"] += sample[5] - sample[6]
    moment = next((heap for heap, _ in sums if heap != "malloc"), "")
    return {"allocated_bytes": sums["malloc", "bytes"], "allocations": sums["malloc", "blocks"],
            "leaked_bytes": sums["malloc", "left bytes"], "leaked_blocks": sums["malloc", "left blocks"],
            "peak_bytes": sums[moment, "bytes"], "peak_blocks": sums[moment, "blocks"]}


def read_massif(data):
    snapshots = re.findall(r"^mem_heap_B=(\d+)\n.*\n.*\nheap_tree=(\w+)$", data.decode(), re.M)
    return {"peak_bytes": next(int(size) for size, tree in snapshots if tree == "peak"),
            "leaked_bytes": int(snapshots[-1][0])}


def read_dhat(data):
    points = json.loads(data)["pps"]
    costs = {"tb": "allocated_bytes", "tbk": "allocations", "gb": "peak_bytes", "gbk": "peak_blocks",
             "eb": "leaked_bytes",
             "ebk": "leaked_blocks"}
    return {cost: sum(point[key] for point in points) for key, cost in costs.items()}


def read_callgrind(data):
    """The self cost of each function: lines of figures that do not follow a call."""
    lines = data.decode().split("\n")
    costs = {"PeakBytes": "peak_bytes", "PeakBlocks": "peak_blocks", "LeakedBytes": "leaked_bytes",
             "LeakedBlocks": "leaked_blocks", "AllocatedBytes": "allocated_bytes", "Allocations": "allocations",
             "Temporary": "temporary"}
    events = next(line for line in lines if line.startswith("events:")).split()[1:]
    sums = [0] * len(events)
    for before, line in zip([""] + lines, lines):
        if re.match(r"\d", line) and not before.startswith("calls="):
            sums = [a + int(b) for a, b in zip(sums, line.split()[1:], strict=True)]
    for head in ("summary:", "totals:"):
        assert [int(word) for word in next(line for line in lines if line.startswith(head)).split()[1:]] == sums, head
    return dict(zip((costs[event] for event in events), sums))


def figures_of_changes(changes):
    """Figures of a list of allocations (positive) and frees (negative)."""
    live = peak = allocated = allocations = 0
    for change, is_allocation in changes:
        live += change
        peak = max(peak, live)
        if is_allocation:
            allocated += change
            allocations += 1
    return {"peak_bytes": peak, "leaked_bytes": live, "allocated_bytes": allocated, "allocations": allocations}


def read_firefox(data):
    (thread,) = json.loads(data)["threads"]
    events = thread["nativeAllocations"]
    live, changes = {}, []
    for weight, address in zip(events["weight"], events["memoryAddress"]):
        # For a block of 0 bytes, the address distinguishes allocation and free.
        was_live = live.pop(address, None) is not None
        if not was_live:
            live[address] = weight
        changes.append((weight, not was_live))
    return {**figures_of_changes(changes), "leaked_blocks": len(live)}


def rows_of(data, form):
    if form == "ndjson":
        return [json.loads(line) for line in data.decode().split("\n")[:-1]]
    csv.field_size_limit(1 << 30)
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def read_event_rows(form):
    def read(data):
        rows = rows_of(data, form)
        temporary = [row for row in rows if row["temporary"] in (True, "true")]
        changes = [(int(row["size"]) * (1 if row["event"] == "alloc" else -1), row["event"] == "alloc")
                   for row in rows]
        return {**figures_of_changes(changes), "temporary": len(temporary),
                "temporary_bytes": sum(int(row["size"]) for row in temporary)}
    return read


def read_block_rows(form):
    def read(data):
        rows = rows_of(data, form)
        return {"leaked_blocks": len(rows), "leaked_bytes": sum(int(row["size"]) for row in rows)}
    return read


def read_stack_rows(form):
    def read(data):
        rows = rows_of(data, form)
        costs = {"temporary_allocations": "temporary",
                 **{cost: cost for cost in consumers.COSTS if cost != "temporary"}}
        return {cost: sum(int(row[name]) for row in rows) for name, cost in costs.items()}
    return read


def read_folded(cost):
    return lambda data: {cost: sum(int(line.rpartition(b" ")[2]) for line in data.split(b"\n")[:-1])}


def read_folded_pair(cost):
    """Two values per line: before, which is 0 here, and after."""
    def read(data):
        values = [[int(word) for word in line.rsplit(b" ", 2)[1:]] for line in data.split(b"\n")[:-1]]
        assert sum(before for before, _ in values) == 0
        return {cost: sum(after for _, after in values)}
    return read


def data_in(svg):
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', svg.decode(), re.S).group(1))


def read_picture(cost):
    return lambda data: {cost: data_in(data)["total"]}


def read_timeline_json(data):
    data = json.loads(data)
    return {"peak_bytes": data["peak"]["bytes"], "leaked_bytes": ([0] + data["samples"]["live_bytes"])[-1]}


def read_timeline_csv(data):
    rows = rows_of(data, "csv")
    return {"peak_bytes": max([int(row["highest_bytes"]) for row in rows], default=0),
            "leaked_bytes": int(rows[-1]["live_bytes"]) if rows else 0}


def read_timeline_svg(data):
    picture = data_in(data)
    return {"peak_bytes": picture["peak"][1], "leaked_bytes": ([0] + picture["live"])[-1]}


def read_openmetrics(data):
    last = {}
    for line in data.decode().split("\n"):
        if line and line[0] != "#" and 'site="' not in line:
            name, value = re.match(r"(\w+)\{.*\} (\d+)(?: [\d.]+)?$", line).groups()
            last[name] = int(value)
    costs = {"heapprof_live_bytes": "leaked_bytes", "heapprof_live_blocks": "leaked_blocks",
             "heapprof_peak_bytes": "peak_bytes",
             "heapprof_allocations_total": "allocations", "heapprof_allocated_bytes_total": "allocated_bytes"}
    return {cost: last.get(name, 0) for name, cost in costs.items()}


Output = collections.namedtuple("Output", "command read events compared", defaults=(False, False))


def outputs():
    """{name: Output}. `read` computes figures from the output. `events`: the output contains single events or blocks.
    `compared`: the trace is compared with an empty one."""
    table = {
        "heaptrack": Output(("export", "heaptrack"), read_heaptrack, events=True),
        "pprof": Output(("export", "pprof"), read_pprof),
        "speedscope": Output(("export", "speedscope"), read_speedscope),
        "massif": Output(("export", "massif"), read_massif),
        "dhat": Output(("export", "dhat"), read_dhat, events=True),
        "callgrind": Output(("export", "callgrind"), read_callgrind),
        "firefox": Output(("export", "firefox"), read_firefox, events=True),
        "perfetto": Output(("export", "perfetto"), read_perfetto),
        "timeline json": Output(("timeline", "--json"), read_timeline_json),
        "timeline csv": Output(("timeline", "--format", "csv"), read_timeline_csv),
        "timeline svg": Output(("timeline", "--format", "svg"), read_timeline_svg),
        "openmetrics": Output(("timeline", "--format", "openmetrics"), read_openmetrics),
    }
    for form in ("ndjson", "csv"):
        table[form] = Output(("export", form), read_event_rows(form), events=True)
        table[f"{form} blocks"] = Output(("export", form, "--rows", "blocks"), read_block_rows(form), events=True)
        table[f"{form} stacks"] = Output(("export", form, "--rows", "stacks"), read_stack_rows(form))
    for cost, figure in IN_PICTURES.items():
        for order in ((), ("--bottom-up",)):
            name = " ".join((cost, *order))
            table[f"folded {name}"] = Output(("flamegraph", "--format", "folded", "--cost", cost, *order),
                                             read_folded(figure))
            table[f"svg {name}"] = Output(("flamegraph", "--format", "svg", "--cost", cost, *order),
                                          read_picture(figure))
        table[f"diff folded {cost}"] = Output(("diff", "--format", "folded", "--cost", cost),
                                              read_folded_pair(figure), compared=True)
        table[f"diff svg {cost}"] = Output(("diff", "--format", "svg", "--cost", cost), read_picture(figure),
                                           compared=True)
    return table


OUTPUTS = outputs()


class Exports(consumers.Case):
    many_stacks = 20_000  # Python reads the outputs of all formats

    def setUp(self):
        super().setUp()
        read_heaptrack.folder = self.dir

    def arguments(self, output, trace):
        traces = (self.folder / "empty.heapprof", trace) if output.compared else (trace,)
        # `export FORMAT` comes first, then the traces.
        words = 2 if output.command[0] == "export" else 1
        return (*output.command[:words], *traces, *output.command[words:], *self.options)

    def output_bytes(self, output, trace):
        """The output. Checks that the whole recording's does not depend on the environment."""
        path = self.dir / "output"
        self.heapprof(*self.arguments(output, trace), "-o", path)
        # The outputs of many stacks differ from the others by their length only.
        if self.options or trace.stem == "many":
            return path.read_bytes()
        elsewhere = self.dir / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        again = subprocess.run([harness.HEAPPROF, *map(str, self.arguments(output, trace)), "-o", "-"],
                               stdin=subprocess.DEVNULL,
                               capture_output=True, check=True, timeout=100, cwd=elsewhere,
                               env=harness.clean_environment(TZ="Pacific/Chatham", LC_ALL="C", HOME=elsewhere,
                                                             XDG_CACHE_HOME=elsewhere)).stdout
        self.assertEqual(path.read_bytes() == again, True, "two outputs differ")
        return again

    def sums_of_rows(self, trace):
        """Each cost's sum over the rows of `report --by stack`, which has all costs."""
        report = self.heapprof("report", trace, "--by", "stack", "--top", "0", "--json", *self.options)
        sums = collections.Counter()
        for row in json.loads(report)["rows"]:
            sums.update(row["self"])
        return {cost: sums["temporary_allocations" if cost == "temporary" else cost] for cost in consumers.COSTS}

    def check(self, name, trace):
        totals = self.totals(trace)
        # `report --cost` prints the total of one cost: one command for each is enough for whole recordings.
        self.assertEqual(totals, self.sums_of_rows(trace) if self.options else self.sums_over_stacks(trace))
        for what, output in OUTPUTS.items():
            if (name == "many" or self.options) and output.command[0] in ("flamegraph",
                                                                          "diff") and "leaked" not in output.command:
                continue  # one cost of these is enough
            with self.subTest(output=what):
                found = output.read(self.output_bytes(output, trace))
                wanted = {cost: totals[cost] for cost in found}
                if "--from" in self.options:
                    # In a time slice, formats with live memory include older blocks; in formats with events, the peak
                    # is computed from the slice's events.
                    moments = "timeline" in output.command or what == "massif"
                    for cost in ("leaked_bytes", "leaked_blocks") if moments else ("peak_bytes",
                                                                                   ) if output.events else ():
                        if cost in found and what != "dhat":
                            (self.assertGreaterEqual if moments else self.assertLessEqual)(found.pop(cost),
                                                                                           wanted.pop(cost), cost)
                self.assertEqual(found, wanted)

    def test_totals(self):
        self.each_sample(self.check)

    def test_selections(self):
        self.each_selection(self.check, of_mappings=False)

    def test_selections_by_name(self):
        for name, trace, options, allocations in (("real", self.real(), MIXED, 1),
                                                  ("plain", self.folder / "plain.heapprof",
                                                   ("--thread", 'worker "2", busy'), 2)):
            self.options = options
            self.assertEqual(self.totals(trace)["allocations"], allocations)
            self.check(name, trace)

    def test_compressed(self):
        """Compressed outputs contain no time of day and no file name."""
        for suffix in (".gz", ".zst"):
            files = [self.dir / f"{name}{suffix}" for name in ("one", "other")]
            for file in files:
                self.heapprof("export", "ndjson", self.folder / "plain.heapprof", "-o", file)
            self.assertEqual(files[0].read_bytes(), files[1].read_bytes())

    def test_every_format_is_tested(self):
        """outputs() has every format that heapprof writes."""
        listed = re.findall(r"^  (\w+) {4,}\S", self.heapprof("export", "--help").partition("Formats:")[2], re.M)
        self.assertGreaterEqual(len(listed), 9)
        # Compared in tests/e2e: the database of SQLite, table by table, in query.py; rows of stacks in stack_rows.py.
        self.assertEqual(set(listed) - {"sqlite", "rows"},
                         {output.command[1] for output in OUTPUTS.values() if output.command[0] == "export"})
        for command in ("timeline", "flamegraph", "diff"):
            listed = re.search(r"--format ([\w|]+)", self.heapprof(command, "--help")).group(1).split("|")
            tested = {output.command[output.command.index("--format") + 1] for output in OUTPUTS.values()
                      if output.command[0] == command and "--format" in output.command}
            self.assertEqual(set(listed) - {"text", "json"}, tested)


if __name__ == "__main__":
    harness.main()
