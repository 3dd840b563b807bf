"""Checks the traces of one program: whether they are complete, and the quality of stacks and totals.

Shares of stacks are shares of allocations.
"""

import functools
import json
import struct
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Stacks are read in the largest traces only, since a build runs the same compiler hundreds of times; and only the
# stacks with most allocations, since a recursive program has hundreds of thousands.
MAX_DETAILED_TRACES = 5
STACKS = "2000"
MAX_WITNESSES = 2


def report(heapprof, trace, *options):
    result = subprocess.run([heapprof, "report", trace, "--json", *options], capture_output=True, text=True,
                            timeout=900)
    try:
        return result.returncode, json.loads(result.stdout), result.stderr
    except json.JSONDecodeError:
        return result.returncode, None, result.stderr


def of(program, traces, heapprof):
    """The row of `program`; row["problems"] has a sentence for each problem."""
    problems = []
    files = sorted(traces.glob("*.heapprof*"), key=lambda path: -path.stat().st_size)
    row = {"name": program.name, "traces": len(files), "trace_bytes": sum(path.stat().st_size for path in files)}
    log = traces / "log"
    if log.exists():
        messages = Counter(line.split(": ", 2)[-1] for line in log.read_text(errors="replace").splitlines())
        problems += [f"logged {count} times: {line}" for line, count in messages.items() if line]
    counted = [path for path in files if program.main is None or name_of(path) in program.main]
    detailed = set(counted[:MAX_DETAILED_TRACES])
    with ThreadPoolExecutor(2) as pool:
        read = list(pool.map(lambda path: report(heapprof, path, "--cost", "allocations", *(
            ("--top", STACKS, "--no-inlines") if path in detailed else ("--top", "1", "--no-symbols"))), files))
    totals = Counter()
    main = []
    for path, (status, result, errors) in zip(files, read):
        if result is None:
            problems.append(f"{path.name}: unreadable ({status}): {errors.strip()[-300:]}")
            continue
        integrity, heap = result["integrity"], result["heap"]
        totals["events"] += result["events"]
        for key in ("unmatched_frees", "implied_frees"):
            totals[key] += heap[key]
            # A forked child frees blocks of its parent; constructors of libraries allocate before the functions of
            # an embedded allocator can be patched (docs/embedded-allocators.md).
            if heap[key] > program.tolerated * heap["frees"] and not forked(path):
                problems.append(f"{path.name}: {heap[key]} {key} of {heap['frees']} frees")
        if not integrity["complete"]:
            problems.append(f"{path.name}: not complete: {integrity}")
        # Processes that were killed, also by a signal's default action, have the end "unknown".
        ended = integrity["ended_by"]
        totals[f"ended by {ended}"] += 1
        if path in counted:
            main.append((path, result))
    stacks, considered, truncated, frames, unnamed, unnamed_with_symbols, lost, guessed = 0, 0, 0, 0, 0, 0, 0, 0
    reasons, missing = Counter(), Counter()
    for path, detail in main:
        if path not in detailed:
            continue
        considered += detail["heap"]["allocations"]
        for entry in detail["top"]:
            blocks = entry["blocks"]
            stacks += blocks
            if any("libheapprof" in frame["module"] for frame in entry["stack"]):
                problems.append(f"{path.name}: a stack contains a frame of the recorder: "
                                f"{[frame['function'] for frame in entry['stack'][:4]]}")
            if entry["truncated"]:
                truncated += blocks
                outermost = entry["stack"][-1]["module"].rsplit("/", 1)[-1] if entry["stack"] else "nothing"
                reasons[f"{entry['truncated']} above {outermost}"] += blocks
            for frame in entry["stack"]:
                frames += blocks
                if not frame["module"]:
                    lost += blocks
                elif not frame["function"] or frame["function"].startswith("0x"):
                    unnamed += blocks
                    missing[frame["module"].rsplit("/", 1)[-1]] += blocks
                    if has_symbols(frame["module"]):
                        unnamed_with_symbols += blocks
                guessed += blocks if frame.get("guessed") else 0
    witness, checked = [], 0
    for path, result in main:
        witness_file = traces / "witness" / process_of(path)
        if (checked == MAX_WITNESSES or not witness_file.exists() or forked(path)
                or last_of_process(path, files) != path):
            continue
        problem = witnessed(heapprof, path, witness_file)
        checked += 1
        if problem:
            witness.append(f"{path.name}: {problem}")
    problems = problems[:20] + witness[:5]
    row.update(
        events=totals["events"], unmatched=totals["unmatched_frees"], implied=totals["implied_frees"],
        ended={key[9:]: value for key, value in totals.items() if key.startswith("ended by ")},
        main=len(main), allocations=sum(result["heap"]["allocations"] for _, result in main),
        peak=max((result["heap"]["peak_bytes"] for _, result in main), default=0),
        by_stack=stacks / considered if considered else None, truncated=truncated / stacks if stacks else None,
        reasons=reasons.most_common(4),
        unnamed=unnamed / frames if frames else None,
        unnamed_with_symbols=unnamed_with_symbols / frames if frames else None,
        guessed=guessed / frames if frames else None, no_module=lost / frames if frames else None,
        unnamed_in=missing.most_common(4), witnesses=checked, agree=checked - len(witness), problems=problems)
    if not files:
        problems.append("no trace was written")
    return row


@functools.cache
def has_symbols(module):
    """Whether the module's own file has the names of all functions."""
    if not Path(module).exists():
        return False
    sections = subprocess.run(["readelf", "-SW", module], capture_output=True, text=True).stdout
    return any(f" {name} " in sections for name in (".symtab", ".debug_info", ".gnu_debugdata"))


def forked(trace):
    """Whether the recording started in a forked child, by the flags of the trace header."""
    with trace.open("rb") as file:
        header = file.read(116)
    return len(header) == 116 and struct.unpack_from("<I", header, 112)[0] & 2 != 0


def name_of(path):
    return path.name.split(".heapprof")[0].rsplit(".", 1)[0]


def last_of_process(trace, files):
    """The last trace of a process, which starts a new one at each exec."""
    return max((path for path in files if process_of(path) == process_of(trace)),
               key=lambda path: path.stat().st_mtime_ns)


def process_of(path):
    return path.name.split(".heapprof")[0].rsplit(".", 1)[1]


def witnessed(heapprof, trace, witness_file):
    """Compares mallinfo2 at exit with the blocks that are live then in the trace. None: they agree."""
    used, mapped = map(int, witness_file.read_text().split())
    seconds = witness_time(heapprof, trace)
    if seconds is None:
        return "the witness's mark is not in the trace"
    _, result, errors = report(heapprof, trace, "--to", f"{seconds}ns", "--no-symbols", "--top", "1")
    if result is None:
        return errors.strip()
    live, blocks = result["heap"]["leaked_bytes"], result["heap"]["leaked_blocks"]
    # A chunk has 8 to 24 bytes more than its block, for header and rounding, and at least 32; a mapped chunk up to a
    # page more. Blocks that the loader allocated before the program started are not in the trace.
    low, high = live + 8 * blocks, live + 32 * blocks + 65536 + mapped // 16
    if low - 4096 <= used + mapped <= high:
        return None
    return (f"mallinfo2: {used + mapped} bytes in use at exit; expected {low} to {high}, as the trace has "
            f"{live} bytes in {blocks} blocks")


def witness_time(heapprof, trace):
    result = subprocess.run([heapprof, "timeline", trace, "--format", "json"], capture_output=True, text=True,
                            timeout=900)
    try:
        marks = json.loads(result.stdout).get("marks", [])
    except json.JSONDecodeError:
        return None
    times = [mark["time_ns"] for mark in marks if mark.get("text") == "witness"]
    return times[-1] if times else None


def percent(share):
    return "-" if share is None else f"{share * 100:.2f} %"


def line(row):
    return (f"{row['name']}: {row['facts']} facts, {row['differences']} differ; {row['traces']} traces, "
            f"{row['events']:,} events; truncated {percent(row['truncated'])}, unresolved "
            f"{percent(row['unnamed'])}, "
            f"outside modules {percent(row['no_module'])}; mallinfo2 compared {row['witnesses']} times; "
            f"{row['plain_seconds']} s plain, {row['recorded_seconds']} s recorded; reasons of truncation: "
            f"{row['reasons'][:2]}; unresolved in: {row['unnamed_in'][:2]}")


def table(path):
    """The newest row of each program in a --json file, as Markdown. Raises ValueError at a malformed line."""
    lines = {}
    for number, text in enumerate(path.read_text().splitlines(), 1):
        try:
            row = json.loads(text)
            lines[row["name"]] = table_line(row)
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path}: line {number} is not a row of --json") from None
    return "\n".join(["| program | facts | verdicts | differ | processes | events | peak | truncated | unresolved | "
                      "unresolved, with symbols | mallinfo2 agrees |",
                      "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|", *lines.values()])


def table_line(row):
    agreed = f"{row['agree']} of {row['witnesses']}" if row["witnesses"] else ""
    return (f"| {row['name']} | {row['facts']} | {row['verdicts'] or ''} | {row['differences']} | {row['traces']} | "
            f"{row['events']:,} | {row['peak'] / 1048576:.1f} MiB | {percent(row['truncated'])} | "
            f"{percent(row['unnamed'])} | {percent(row['unnamed_with_symbols'])} | {agreed} |")
