"""Reads a ledger (ledger.h) and computes what a recorder must have recorded.

A ledger is a program's list of its own calls: one list of entries for each thread, each begun and, unless the program
was killed during the call, done. `Figures` are the expected figures by process, thread and site; expected_events()
gives the events that the trace must contain, in the order of each thread.

A block is identified by the identity in Entry.block, or, in programs whose threads do not exchange blocks, by its
address in the order of the thread's entries.
"""

import functools
import mmap
import struct
from collections import defaultdict
from dataclasses import dataclass, field

MALLOC, CALLOC, REALLOC, REALLOCARRAY, FREE = 1, 2, 3, 4, 5
NEW, DELETE, OPAQUE = 11, 12, 13
MAP, UNMAP, REMAP, BREAK = 20, 21, 22, 23
ALLOCATIONS = frozenset((MALLOC, CALLOC, 6, 7, 8, 9, 10, NEW))
REALLOCATIONS = frozenset((REALLOC, REALLOCARRAY))
FREES = frozenset((FREE, DELETE))

BEGUN, DONE = 1, 2
FLAG_SIZE_UNKNOWN, FLAG_FAILED, FLAG_RESERVE = 1, 2, 4

MAP_FAILED = (1 << 64) - 1
PHASES = {0: "starting", 1: "working", 2: "finished"}


@dataclass(slots=True)
class Entry:
    old: int
    size: int
    result: int
    block: int
    flags: int
    site: int
    kind: int
    done: bool


@dataclass
class Thread:
    index: int
    tid: int
    name: str
    entries: list


@dataclass
class Cost:
    allocations: int = 0
    allocated_bytes: int = 0
    leaked_bytes: int = 0
    leaked_blocks: int = 0
    temporary: int = 0
    peak_bytes: int = 0   # live at the moment of the whole program's peak; single thread only
    peak_blocks: int = 0


@dataclass
class Figures:
    allocations: int = 0
    allocated_bytes: int = 0
    frees: int = 0
    failed: int = 0
    leaked_bytes: int = 0
    leaked_blocks: int = 0
    temporary: int = 0
    peak_bytes: int = 0   # single thread only
    peak_blocks: int = 0
    sites: dict = field(default_factory=lambda: defaultdict(Cost))
    threads: dict = field(default_factory=lambda: defaultdict(Cost))  # by Thread.index

    @property
    def events(self):
        return self.allocations + self.frees + self.failed


def calls_made(path):
    """The number of calls that a running program has begun; 0 if its ledger does not exist yet."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:8] != b"LEDGER01":
                return 0
            header_bytes, _, slot_bytes, _, max_slots, slots_used = struct.unpack_from("<IIQIII", data, 8)
            return sum(struct.unpack_from("<Q", data, header_bytes + i * slot_bytes + 32)[0]
                       for i in range(min(slots_used, max_slots)))
    except (FileNotFoundError, ValueError):  # no file yet, or an empty one
        return 0


class Ledger:
    """Reads the entries when they are first used, because some ledgers have millions."""

    def __init__(self, path):
        self.path = path
        self.live = None  # figures() finds it
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:8] != b"LEDGER01":
                raise ValueError(f"{path}: not a ledger")
            (header_bytes, entry_bytes, slot_bytes, self.slot_entries, max_slots, slots_used, site_count, phase,
             self.pid, self.errors) = struct.unpack_from("<IIQIIIIIII", data, 8)
            assert header_bytes == 8192 and entry_bytes == 40
            self.phase = PHASES[phase]
            self.error_text = _text(data[52:252])
            self.sites = [_text(data[4096 + 64 * i:4096 + 64 * (i + 1)]) for i in range(site_count)]
            self.slots = [header_bytes + i * slot_bytes for i in range(min(slots_used, max_slots))]

    @functools.cached_property
    def threads(self):
        with open(self.path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return [self._thread(data, slot) for slot in self.slots]

    def _thread(self, data, offset):
        tid, index = struct.unpack_from("<II", data, offset)
        name = _text(data[offset + 8:offset + 32])
        begin = offset + 64
        # The entries end at the first one that was not begun; all bytes after it are zero.
        count = data[begin + 39:begin + 40 * self.slot_entries:40].find(0)
        end = begin + 40 * (count if count >= 0 else self.slot_entries)
        entries = [Entry(old, size, result, block, flags, site, kind, state == DONE)
                   for old, size, result, block, flags, site, kind, state in struct.iter_unpack(
                       "<QQQQIHBB", data[begin:end])]
        return Thread(index, tid, name, entries)

    def unfinished(self):
        """Entries that are begun but not done, by thread: at most the last one of each."""
        found = {}
        for thread in self.threads:
            open_entries = [i for i, entry in enumerate(thread.entries) if not entry.done]
            if open_entries:
                assert open_entries == [len(thread.entries) - 1], "an entry was left open in the middle"
                found[thread.index] = thread.entries[-1]
        return found

    def figures(self):
        """Figures of the heap. An opaque block is one allocation; entries that are not done are ignored."""
        total = Figures()
        live = {}      # key -> (size, site, thread index)
        current = current_blocks = 0
        peak_snapshot = None
        one_thread = sum(1 for thread in self.threads if thread.entries) <= 1
        stamped = self._stamped

        # A block with an identity may be freed, in another thread's list, before its allocation is read.
        freed_early = {}

        for thread in self.threads:
            last_key = None  # of this thread's latest allocation, if it is not yet freed
            for position, entry in enumerate(thread.entries):
                kind = entry.kind
                if not entry.done or kind >= MAP:
                    continue
                freed = allocated = False
                if kind in FREES:
                    freed = entry.old != 0
                elif kind in REALLOCATIONS and entry.old != 0:
                    if entry.result != 0:
                        freed = allocated = True
                    elif entry.size == 0 and not entry.flags & FLAG_SIZE_UNKNOWN:
                        freed = True
                    else:
                        total.failed += 1
                elif entry.result != 0:
                    allocated = True
                else:
                    total.failed += 1

                if freed:
                    key = entry.block if entry.block else entry.old
                    total.frees += 1
                    if key == last_key:
                        total.temporary += 1
                        total.threads[thread.index].temporary += 1
                        total.sites[self.sites[live[key][1]]].temporary += 1
                    if key == last_key:
                        last_key = None
                    if key in live:
                        size, _, _ = live.pop(key)
                        current -= size
                        current_blocks -= 1
                    else:
                        assert entry.block, f"thread {thread.index} freed {entry.old:#x}, which it had not allocated"
                        freed_early[key] = freed_early.get(key, 0) + 1
                if allocated:
                    key = (thread.index + 1) << 32 | position if stamped else entry.result
                    last_key = key
                    size = entry.size
                    for cost in (total.sites[self.sites[entry.site]], total.threads[thread.index], total):
                        cost.allocations += 1
                        cost.allocated_bytes += size
                    if freed_early.pop(key, 0):
                        continue
                    assert key not in live, f"block {key:#x} was allocated twice"
                    live[key] = (size, entry.site, thread.index)
                    current += size
                    current_blocks += 1
                    if one_thread and current > total.peak_bytes:
                        total.peak_bytes = current
                        total.peak_blocks = current_blocks
                        peak_snapshot = None
                    # The composition at the peak is copied later, before the next decrease.
                if one_thread and peak_snapshot is None and current == total.peak_bytes:
                    peak_snapshot = (thread.index, position)
        assert not freed_early, "a block was freed whose allocation is not in the ledger"

        for size, site, thread_index in live.values():
            total.leaked_bytes += size
            total.leaked_blocks += 1
            for cost in (total.sites[self.sites[site]], total.threads[thread_index]):
                cost.leaked_bytes += size
                cost.leaked_blocks += 1
        self.live = live
        if one_thread and peak_snapshot is not None:
            self._peak_by_site(total, *peak_snapshot)
        return total

    @functools.cached_property
    def _stamped(self):
        return any(entry.block for thread in self.threads for entry in thread.entries if entry.kind < MAP)

    def _peak_by_site(self, total, thread_index, last_position):
        live = {}
        for entry in self.threads[thread_index].entries[:last_position + 1]:
            if not entry.done or entry.kind >= MAP:
                continue
            if entry.old and (entry.kind in FREES or
                              (entry.kind in REALLOCATIONS and (entry.result or entry.size == 0))):
                live.pop(entry.old, None)
            if entry.result and entry.kind not in FREES:
                live[entry.result] = (entry.size, entry.site)
        for size, site in live.values():
            cost = total.sites[self.sites[site]]
            cost.peak_bytes += size
            cost.peak_blocks += 1

    def live_addresses(self):
        """{address: size} of blocks that are live at the end; unknown sizes are None."""
        if self.live is None:
            self.figures()
        stamped = self._stamped
        result = {}
        for thread in self.threads:
            for position, entry in enumerate(thread.entries):
                if stamped:
                    if (thread.index + 1) << 32 | position in self.live:
                        result[entry.result] = None if entry.flags & FLAG_SIZE_UNKNOWN else entry.size
                elif entry.done and entry.kind < MAP:
                    if entry.old:
                        if entry.kind in FREES or entry.result or entry.size == 0:
                            result.pop(entry.old, None)
                    if entry.result:
                        result[entry.result] = None if entry.flags & FLAG_SIZE_UNKNOWN else entry.size
        return result


def expected_events(entry):
    """The trace events of one entry, as tuples with the name of the event first; a size of None matches any.

    ("alloc", address, size) ("free", address) ("realloc_begin", address) ("realloc_end", address, size)
    ("realloc_failed", size) ("alloc_failed", size). For an entry that is not done, addresses that are
    not known yet are None too; of its events, any number from the start of this list may exist. A product that
    overflows never reaches realloc: the old block is not touched, and only the failure is an event.
    """
    size = None if entry.flags & FLAG_SIZE_UNKNOWN else min(entry.size, (1 << 56) - 1)
    if entry.kind in FREES:
        return [("free", entry.old)] if entry.old else []
    if entry.kind in REALLOCATIONS and entry.old and not (size is None and entry.done and not entry.result):
        begin = ("realloc_begin", entry.old)
        if not entry.done:
            return [begin, ("realloc_end", None, size)]
        if entry.result:
            return [begin, ("realloc_end", entry.result, size)]
        if entry.size == 0 and not entry.flags & FLAG_SIZE_UNKNOWN:
            return [begin, ("realloc_end", 0, 0)]
        return [begin, ("realloc_failed", size)]
    if not entry.done:
        return [("alloc", None, size)]
    return [("alloc", entry.result, size)] if entry.result else [("alloc_failed", size)]


def matches(expected, event):
    """Whether an event of a trace is the expected one; None matches anything."""
    return expected == event or (len(expected) == len(event) and
                                 all(e is None or e == a for e, a in zip(expected, event)))


@dataclass
class Mappings:
    """Figures of a single-threaded ledger of mappings. Reserved address space has no bytes."""
    mapped_bytes: int = 0
    peak_bytes: int = 0
    live_bytes: int = 0
    break_bytes: int = 0


def mappings(ledger, page=4096):
    def whole_pages(size):
        return (size + page - 1) // page * page

    live = set()
    result = Mappings()
    for entry in ledger.threads[0].entries:
        if entry.kind < MAP:
            continue
        if entry.kind == MAP and entry.result != MAP_FAILED:
            pages = range(entry.result // page, (entry.result + whole_pages(entry.size)) // page)
            live.difference_update(pages)
            if not entry.flags & FLAG_RESERVE:
                result.mapped_bytes += whole_pages(entry.size)
                live.update(pages)
        elif entry.kind == UNMAP and not entry.flags & FLAG_FAILED:
            live.difference_update(range(entry.old // page, (entry.old + whole_pages(entry.size)) // page))
        elif entry.kind == REMAP and entry.result != MAP_FAILED:
            live.difference_update(range(entry.old // page, (entry.old + whole_pages(entry.block)) // page))
            live.update(range(entry.result // page, (entry.result + whole_pages(entry.size)) // page))
            result.mapped_bytes += whole_pages(entry.size)  # like realloc: one free, one allocation
        elif entry.kind == BREAK:
            result.break_bytes += entry.result - entry.old
            result.mapped_bytes += max(0, entry.result - entry.old)
        result.live_bytes = len(live) * page + result.break_bytes
        result.peak_bytes = max(result.peak_bytes, result.live_bytes)
    return result


def _text(raw):
    return bytes(raw).split(b"\0", 1)[0].decode("utf-8", "replace")
