"""A second reader of trace files, written only from common/trace_format.h and common/event_codec.h.
Columns are decoded by trace_columns.c, which is built with the tests (HEAPPROF_TEST_BUILD), LZ4 by liblz4.

Tests compare it with the first one (analyzer/trace): what both read the same way is probably correct. It reads traces
of programs that ended or were killed, and raises Malformed for each violation of the format, except wrong checksums.
Damaged traces are not supported.

    trace = Trace("x.heapprof")
    for thread in trace.threads():        # one per thread; a stream that several threads used is split
        for event in thread.events: ...   # Event, in the thread's order
    trace.merged()                        # all heap events of all threads, by time
"""

import bisect
import ctypes
import functools
import itertools
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path

UNIT = 4096
FILE_MAGIC = b"\x89HPRF\r\n\x1a"
EXTENT_MAGIC = 0x31544E5845465048
FRAME_MAGIC = 0x4D524648

ALLOC, FREE, FREE_STACK, REALLOC_BEGIN, REALLOC_END, REALLOC_FAILED, ALLOC_FAILED = 1, 2, 3, 4, 5, 6, 7
MAP, UNMAP_BEGIN, UNMAP_END, UNMAP_FAILED, REMAP_BEGIN, REMAP_END, REMAP_FAILED, BRK = 8, 9, 10, 11, 12, 13, 14, 15
NODE, SAMPLE, TEXT, BLOCK_START, PAUSE, RESUME = 16, 17, 18, 19, 20, 21
HEAP_OPS = range(ALLOC, ALLOC_FAILED + 1)
ADDRESS_OPS = frozenset((FREE, FREE_STACK, REALLOC_BEGIN))  # a heap event with an address and no size
FAILED_OPS = frozenset((REALLOC_FAILED, ALLOC_FAILED))

(TEXT_PROGRAM, TEXT_COMMAND_LINE, TEXT_DIRECTORY, TEXT_HOST, TEXT_THREAD, TEXT_THREAD_NAME, TEXT_MODULE, TEXT_MARK,
 TEXT_NOTE, TEXT_SHARED_MEMORY, TEXT_RESIDENCY, TEXT_PYTHON, TEXT_PYTHON_CODE) = range(1, 14)

MODULE_TRUNCATION_ROOT, MODULE_ANONYMOUS, MODULE_PYTHON = 0, 1, 0xFFFF
TRUNCATED_NO_UNWIND_INFO = 2  # the offset of a truncation root
PYTHON_INSTRUCTION_BITS = 22

END_KINDS = {0: None, 1: "exit", 2: "exec", 3: "signal", 4: "stopped"}

NAMES = {ALLOC: "alloc", FREE: "free", FREE_STACK: "free", REALLOC_BEGIN: "realloc_begin",
         REALLOC_END: "realloc_end", REALLOC_FAILED: "realloc_failed", ALLOC_FAILED: "alloc_failed"}


class Malformed(Exception):
    """The file violates the format; the message has the position."""


@dataclass(slots=True)
class Event:
    op: int
    time: int
    address: int
    size: int
    node: int
    aux: int
    text: bytes = b""

    def tuple(self):
        """In the form of ledger.expected_events."""
        if self.op in ADDRESS_OPS:
            return (NAMES[self.op], self.address)
        if self.op in FAILED_OPS:
            return (NAMES[self.op], self.size)
        return (NAMES[self.op], self.address, self.size)


@dataclass
class TraceThread:
    tid: int
    name: str
    stream: int
    nested: bool  # written by a signal handler that interrupted the recorder in the same thread
    events: list = field(default_factory=list)


@dataclass
class Module:
    number: int
    begin: int
    size: int
    bias: int
    build_id: str
    path: str
    main: bool


@dataclass
class PythonCode:
    file: str
    name: str
    first_line: int
    lines: int  # PythonLines
    table: bytes


@functools.cache
def decoders():
    """LZ4's library, and that of trace_columns.c."""
    lz4 = ctypes.CDLL("liblz4.so.1")
    build = Path(os.environ.get("HEAPPROF_TEST_BUILD", "build")).resolve()
    columns = ctypes.CDLL(str(build / "tests" / "libtrace_columns.so"))
    columns.decode_columns.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32,
                                       ctypes.c_int, ctypes.c_void_p]
    columns.decode_columns.restype = ctypes.c_char_p
    return lz4.LZ4_decompress_safe, columns.decode_columns


def lz4_block(data, raw_size):
    raw = ctypes.create_string_buffer(raw_size)
    size = decoders()[0](data, raw, len(data), raw_size)
    if size != raw_size:
        raise Malformed(f"LZ4: {size} bytes instead of {raw_size}")
    return raw.raw


def decode_columns(raw, first_time, record_count, old):
    """The records of a frame; `old`: of a recording of version 1."""
    records = (ctypes.c_uint64 * (7 * record_count))()
    wrong = decoders()[1](raw, len(raw), first_time, record_count, old, records)
    if wrong:
        raise Malformed(wrong.decode())
    return [Event(op, time, address, size, node, aux, raw[text:text + aux] if op == TEXT else b"")
            for op, time, address, size, node, aux, text in struct.iter_unpack("<7Q", records)]


def decode_slots(data, count):
    """The records in a staging block."""
    events = []
    at = 0
    while at < count:
        time, address, op_size, node, aux = struct.unpack_from("<QQQII", data, 32 * at)
        op = op_size & 0xFF
        if not ALLOC <= op <= RESUME:
            raise Malformed(f"staging slot {at}: unknown op {op}")
        at += 1
        text = b""
        if op == TEXT:
            text = bytes(data[32 * at:32 * at + aux])
            at += (aux + 31) // 32
            if at > count:
                raise Malformed("staging: text beyond the commit")
        events.append(Event(op, time, address, op_size >> 8, node, aux, text))
    return events


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


PLANES = ("present", "swapped", "zero", "huge")


@dataclass
class Snapshot:
    """A snapshot of resident pages (common/residency_codec.h)."""
    number: int
    reason: str = ""
    method: int = 0
    begin_ns: int = 0  # CLOCK_MONOTONIC
    end_ns: int = 0
    spent_ns: int = 0
    resident: int = 0
    shared: int = 0
    page: int = 4096
    complete: bool = False
    mappings: list = field(default_factory=list)  # (begin, end, flags, device, inode, offset, name)
    groups: dict = field(default_factory=dict)  # number: one integer of 512 bits for each plane
    recorder: list = field(default_factory=list)  # (begin, end)
    stacks: list = field(default_factory=list)  # (thread, stack pointer, end)
    pieces: int = 0
    bytes: int = 0

    REASONS = {1: "mark", 2: "request", 3: "exit", 4: "residency"}

    @property
    def had_too_little_time(self):
        """Whether one that has 50 ms by the clock (the last one of a program, or one on request) is incomplete after
        most of them: then it shows nothing. The process has waited for the processor, or the processor stood still,
        which many virtual machines count as processor time of the process."""
        return not self.complete and self.end_ns - self.begin_ns > 25_000_000

    def add(self, data):
        at = last_page = last_group = 0
        self.pieces += 1
        self.bytes += len(data)

        def numbers(count):
            nonlocal at
            values = []
            for _ in range(count):
                value, at = read_varint(data, at)
                values.append(value)
            return values

        while at < len(data):
            tag = data[at]
            at += 1
            if tag == 1:
                reason, self.method, self.begin_ns, self.resident, self.shared, self.page = numbers(6)
                self.reason = self.REASONS[reason]
            elif tag == 2:
                distance, pages, flags, device, inode, offset, length = numbers(7)
                name = data[at:at + length].decode()
                at += length
                begin = last_page + distance
                last_page = begin + pages
                self.mappings.append((begin * self.page, last_page * self.page, flags, device, inode,
                                      offset * self.page, name))
            elif tag == 3:
                distance, layout = numbers(2)
                last_group += distance
                planes = []
                for plane in range(4):
                    kind = layout >> 2 * plane & 3
                    if kind == 2:
                        planes.append(int.from_bytes(data[at:at + 64], "little"))
                        at += 64
                    elif kind < 2:
                        planes.append((1 << 512) - 1 if kind else 0)
                    else:
                        raise Malformed("a plane of an unknown layout")
                if last_group in self.groups:
                    raise Malformed("a group twice")
                self.groups[last_group] = planes
            elif tag == 4:
                begin, size = numbers(2)
                self.recorder.append((begin, begin + size))
            elif tag == 5:
                self.stacks.append(tuple(numbers(3)))
            elif tag == 6:
                self.end_ns, self.spent_ns, complete = numbers(3)
                self.complete = complete == 1
            else:
                raise Malformed(f"residency: tag {tag}")

    def state(self, address):
        """The names of the planes in which the page's bit is set."""
        page = address // self.page
        planes = self.groups.get(page // 512, (0, 0, 0, 0))
        return {name for name, plane in zip(PLANES, planes) if plane >> page % 512 & 1}

    def resident_bytes(self):
        return sum((present & ~zero).bit_count() for present, _, zero, _ in self.groups.values()) * self.page


def count_events(block):
    """The count of events as a frame has it: a realloc that failed or freed its block is counted as its begin only."""
    ops = bytes(event.op for event in block)
    count = sum(map(ops.count, (ALLOC, FREE, FREE_STACK, REALLOC_BEGIN, REALLOC_END, ALLOC_FAILED)))
    if REALLOC_END in ops:
        count -= sum(event.op == REALLOC_END and event.address == 0 for event in block)
    return count


def while_written(path):
    """Reads the trace of a program that runs. Its parts do not fit together if it was written meanwhile: then it is
    read again."""
    while True:
        try:
            return Trace(path)
        except Malformed as error:
            before = error
        try:
            return Trace(path)
        except Malformed as error:
            if str(error) == str(before):
                raise


class Trace:
    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        self._header(data)
        frames, staging = self._extents(data)
        self.frame_bytes = sum(80 + frame[-1] for frame in frames.values())
        self.streams = self._streams(data, frames, staging)
        self.nodes = {}
        self.modules = {}
        self.interpreters = []  # of Python: (PY_VERSION_HEX, why its frames are not recorded)
        code_pieces = {}  # of code objects: by number, by number of the piece
        self.program = self.command_line = self.directory = self.host = None
        self.notes = []  # (kind, text)
        self.marks = []
        pieces = {}  # of snapshots: by snapshot, by number
        for stream in self.streams.values():
            for event in stream:
                if event.op == NODE:
                    self.nodes[event.node] = (event.size & 0xFFFFFFFF, event.size >> 32, event.address, event.aux)
                elif event.op == TEXT:
                    self._read_text(event)
                    if event.node == TEXT_RESIDENCY:
                        pieces.setdefault(event.size, {})[event.address] = event.text
                    elif event.node == TEXT_PYTHON_CODE:
                        code_pieces.setdefault(event.size, {})[event.address] = event.text
        self.python_code = {number: self._python_code(number, texts) for number, texts in code_pieces.items()}
        self.snapshots = []
        for number, texts in sorted(pieces.items()):
            snapshot = Snapshot(number)
            if sorted(texts) != list(range(len(texts))):
                raise Malformed(f"pieces of snapshot {number}: {sorted(texts)}")
            for _, text in sorted(texts.items()):
                snapshot.add(text)
            self.snapshots.append(snapshot)

    def _header(self, data):
        if len(data) < UNIT or data[:8] != FILE_MAGIC:
            raise Malformed("not a trace")
        (self.major, self.minor, self.header_bytes, self.file_id, unit, slot, self.machine, self.clock,
         self.ticks_per_second, self.start_ticks, self.start_monotonic_ns, self.start_realtime_ns, self.pid,
         self.parent_pid) = struct.unpack_from("<HHIQIIIIQQQQII", data, 8)
        if self.major not in (1, 3) or slot != 32 or unit % UNIT:
            raise Malformed(f"version {self.major}, unit {unit}, slot {slot}")
        self.unit = unit
        self.flags = struct.unpack_from("<I", data, 112)[0]
        end_kind, self.end_status, self.end_ticks, self.end_monotonic_ns = struct.unpack_from("<IiQQ", data, 512)
        self.ended_by = END_KINDS[end_kind]
        self.stop_reason = data[536:768].split(b"\0")[0].decode()
        file_bytes = struct.unpack_from("<Q", data, 768)[0]
        if len(data) < file_bytes:
            raise Malformed(f"cut: {len(data)} bytes of {file_bytes}")
        self.settings = dict(line.split("=", 1) for line in data[2048:4096].split(b"\0")[0].decode().splitlines())

    def _extents(self, data):
        frames, staging = {}, {}
        at = self.header_bytes
        while at < len(data):
            if at + 48 > len(data):
                break
            magic, file_id, offset, size, kind, stream, ordinal = struct.unpack_from("<QQQIIII", data, at)
            if magic != EXTENT_MAGIC or file_id != self.file_id:
                at += self.unit  # reserved space without an extent
                continue
            if offset != at or size == 0 or size % self.unit or kind not in (1, 2):
                raise Malformed(f"extent at {at}: offset {offset}, {size} bytes, kind {kind}")
            if kind == 1:
                if stream in staging:
                    raise Malformed(f"stream {stream} has two staging extents")
                staging[stream] = (at, size)
            else:
                self._frames(data, at, size, stream, frames)
            at += size
        return frames, staging

    def _frames(self, data, extent, size, stream, frames):
        at = extent + 48
        while at + 80 <= extent + size:
            (magic, header_bytes, codec, file_id, frame_stream, sequence, records, events, before, first, last, raw,
             payload) = struct.unpack_from("<IHHQIIIIQQQII", data, at)
            if magic != FRAME_MAGIC:
                break
            if file_id != self.file_id or frame_stream != stream or header_bytes < 80:
                raise Malformed(f"frame at {at}: stream {frame_stream} in an extent of stream {stream}")
            if at + header_bytes + payload > extent + size:
                raise Malformed(f"frame at {at} exceeds its extent")
            key = (stream, sequence)
            if key in frames:
                raise Malformed(f"stream {stream} has two frames {sequence}")
            frames[key] = (at + header_bytes, codec, records, events, before, first, last, raw, payload)
            at += (header_bytes + payload + 7) // 8 * 8

    def _streams(self, data, frames, staging):
        streams = {}
        numbers = sorted({stream for stream, _ in frames} | set(staging))
        for number in numbers:
            records = []
            sequence = 0
            count = 0
            while (number, sequence) in frames:
                frame = frames.pop((number, sequence))
                at, codec, record_count, event_count, before, first, last, raw, payload = frame
                body = data[at:at + payload]
                if codec in (2, 3):
                    body = lz4_block(body, raw)
                elif codec != 1:
                    raise Malformed(f"frame codec {codec}")
                if (codec == 3) != (self.major == 3):
                    raise Malformed(f"frame codec {codec} in version {self.major}")
                block = decode_columns(body, first, record_count, codec != 3)
                self._check_block(number, sequence, block, count, event_count, before, first, last)
                count += event_count
                records += block
                sequence += 1
            if number in staging:
                at, size = staging[number]
                commit = struct.unpack_from("<Q", data, at + 48)[0]
                staged_sequence, slots = commit >> 32, commit & 0xFFFFFFFF
                if 64 + 32 * slots > size:
                    raise Malformed(f"stream {number}: staging holds {slots} slots in {size} bytes")
                # The process was killed after it wrote the frame, before it updated the block.
                if staged_sequence == sequence:
                    block = decode_slots(data[at + 64:at + 64 + 32 * slots], slots)
                    if block:
                        self._check_block(number, sequence, block, count, None, None, block[0].time, block[-1].time)
                    records += block
                elif slots and staged_sequence != sequence - 1:
                    raise Malformed(f"stream {number}: staging is block {staged_sequence}, frames end at {sequence}")
            times = [record.time for record in records]
            for earlier, later in itertools.pairwise(times) if times != sorted(times) else ():
                if later < earlier:
                    raise Malformed(f"stream {number}: time goes back from {earlier} to {later}")
            streams[number] = records
        if frames:
            raise Malformed(f"frames after a gap: {sorted(frames)[:5]}")
        return streams

    @staticmethod
    def _check_block(stream, sequence, block, count, event_count, before, first, last):
        where = f"stream {stream} block {sequence}"
        if not block or block[0].op != BLOCK_START or block[0].address != count:
            raise Malformed(f"{where} does not begin with the count of events before it ({count}): {block[:1]}")
        if event_count is not None and count_events(block) != event_count:
            raise Malformed(f"{where}: event_count {event_count}")
        if before is not None and before != count:
            raise Malformed(f"{where}: events_before {before}, not {count}")
        if (block[0].time, block[-1].time) != (first, last):
            raise Malformed(f"{where}: first and last time")

    def _read_text(self, event):
        text = event.text.decode("utf-8", "replace")
        if event.node == TEXT_PROGRAM:
            self.program = text
        elif event.node == TEXT_COMMAND_LINE:
            self.command_line = text.rstrip("\0").split("\0")
        elif event.node == TEXT_DIRECTORY:
            self.directory = text
        elif event.node == TEXT_HOST:
            self.host = text
        elif event.node == TEXT_MARK:
            self.marks.append(text)
        elif event.node == TEXT_NOTE:
            self.notes.append((event.size, text))
        elif event.node == TEXT_PYTHON:
            self.interpreters.append((event.size, text))
        elif event.node == TEXT_MODULE:
            size, bias, id_bytes, flags = struct.unpack_from("<QQII", event.text)
            body = event.text[24:]
            self.modules[event.size] = Module(event.size, event.address, size, bias, body[:id_bytes].hex(),
                                              body[id_bytes:].decode("utf-8", "replace"), bool(flags & 1))

    @staticmethod
    def _python_code(number, pieces):
        if sorted(pieces) != list(range(len(pieces))):
            raise Malformed(f"pieces of Python code {number}: {sorted(pieces)}")
        data = b"".join(pieces[piece] for piece in range(len(pieces)))
        first_line, lines, file_bytes, name_bytes, table_bytes, _ = struct.unpack_from("<6I", data)
        file_end = 24 + file_bytes
        name_end = file_end + name_bytes
        if name_end + table_bytes != len(data):
            raise Malformed(f"Python code {number}: {len(data)} bytes instead of {name_end + table_bytes}")
        return PythonCode(data[24:file_end].decode(), data[file_end:name_end].decode(), first_line, lines,
                          data[name_end:])

    def python_frame(self, offset):
        """(PythonCode, instruction) of a node of MODULE_PYTHON."""
        number = offset >> PYTHON_INSTRUCTION_BITS
        if number not in self.python_code:
            raise Malformed(f"Python code {number} was never defined")
        return self.python_code[number], offset & ((1 << PYTHON_INSTRUCTION_BITS) - 1)

    def threads(self):
        """Heap and mapping events by thread, in each thread's order."""
        result = []
        for number, stream in self.streams.items():
            current = None
            for event in stream:
                op = event.op
                if op <= BRK:
                    if current is None:
                        raise Malformed(f"stream {number}: an event before it has a thread")
                    add(event)
                elif op == TEXT and event.node == TEXT_THREAD:
                    current = TraceThread(event.size, event.text.decode("utf-8", "replace"), number,
                                          bool(event.address))
                    add = current.events.append
                    result.append(current)
                elif op == TEXT and event.node == TEXT_THREAD_NAME:
                    if current is None or current.tid != event.size:
                        raise Malformed(f"stream {number}: a name for thread {event.size}, which does not own it")
                    current.name = event.text.decode("utf-8", "replace")
        return result

    def stack(self, node):
        """[(module number, offset)], innermost first; a truncated stack ends with a truncation root (module 0)."""
        frames = []
        while node:
            if node not in self.nodes:
                raise Malformed(f"node {node} was never defined")
            parent, module, offset, _ = self.nodes[node]
            frames.append((module, offset))
            node = parent
            if len(frames) > 100_000:
                raise Malformed("the call tree has a cycle")
        return frames

    def functions(self, symbols):
        """{node: whether its stack contains a ledger site}, by the main module's symbol table (`Symbols`)."""
        main = {number for number, module in self.modules.items() if module.main}
        cache = {0: None}

        def site_of(node):
            chain = []
            while node not in cache:
                parent, module, offset, _ = self.nodes[node]
                name = symbols.name(offset) if module in main else None
                if name and name.startswith("site_"):
                    cache[node] = name
                    break
                chain.append(node)
                node = parent
            for passed in chain:
                cache[passed] = cache[node]
            return cache[node]

        return site_of


def replay(events):
    """Figures from heap events in order, with the keys of `heap` in report --json.

    Temporary allocations need threads and are not counted here. The block of a realloc is live until the realloc
    ends, or until its address is allocated again: then the realloc has freed it.
    """
    live = {}
    figures = dict(allocations=0, allocated_bytes=0, frees=0, failed=0, peak_bytes=0, peak_blocks=0,
                   unmatched_frees=0,
                   implied_frees=0)
    current = 0
    # thread -> [[address, size]] of reallocs in progress: an end belongs to the latest begin. None: the block is
    # unknown; `freed`: its address was allocated again
    begun = {}
    freed = object()

    def free(address):
        nonlocal current
        size = live.pop(address, None)
        if size is None:
            figures["unmatched_frees"] += 1
        else:
            current -= size

    def allocate(address, size):
        nonlocal current
        if address in live:
            figures["implied_frees"] += 1
            current -= live[address]
        for blocks in begun.values():
            for block in blocks:
                if block[0] == address and block[1] not in (None, freed):
                    current -= block[1]
                    figures["frees"] += 1
                    block[1] = freed
        live[address] = size
        current += size
        figures["allocations"] += 1
        figures["allocated_bytes"] += size
        if current > figures["peak_bytes"]:
            in_realloc = sum(block[1] not in (None, freed) for blocks in begun.values() for block in blocks)
            figures["peak_bytes"], figures["peak_blocks"] = current, len(live) + in_realloc

    for thread, event in events:
        if event.op == ALLOC:
            allocate(event.address, event.size)
        elif event.op in (FREE, FREE_STACK):
            figures["frees"] += 1
            free(event.address)
        elif event.op == REALLOC_BEGIN:
            begun.setdefault(thread, []).append([event.address, live.pop(event.address, None)])
        elif event.op in (REALLOC_END, REALLOC_FAILED):
            address, size = begun[thread].pop()
            if event.op == REALLOC_FAILED:
                figures["failed"] += event.size != 0
                if size not in (None, freed):
                    live[address] = size
                continue
            figures["frees"] += size is not freed
            if size is None:
                figures["unmatched_frees"] += 1
            elif size is not freed:
                current -= size
            if event.address:
                allocate(event.address, event.size)
        elif event.op == ALLOC_FAILED:
            figures["failed"] += 1
    unfinished = [block for blocks in begun.values() for block in blocks]
    live.update((address, size) for address, size in unfinished if size not in (None, freed))
    figures["unfinished"] = len(unfinished)
    figures["leaked_bytes"] = sum(live.values())
    figures["leaked_blocks"] = len(live)
    figures["live"] = live
    figures["events"] = figures["allocations"] + figures["frees"] + figures["failed"]
    return figures


def merged(trace):
    """(thread, event) of all heap events by time, and in order within a thread. At equal times, frees precede
    allocations, and an allocation waits until its address is free."""
    result = [(index, event) for index, thread in enumerate(trace.threads()) for event in thread.events
              if event.op in HEAP_OPS]
    result.sort(key=lambda item: item[1].time)  # The order within a thread takes precedence over the rank.
    times = [event.time for _, event in result]
    end = 0
    for i in range(1, len(result)):
        if times[i] == times[i - 1] and i >= end and result[i][0] != result[i - 1][0]:
            begin, end = bisect.bisect_left(times, times[i]), bisect.bisect_right(times, times[i])
            result[begin:end] = _interleave(result[begin:end])
    return result


def _interleave(group):
    """Events with equal times, in order within each thread, with frees as early as possible."""
    queues = {}
    for item in reversed(group):
        queues.setdefault(item[0], []).append(item)
    queues = dict(sorted(queues.items()))
    result = []
    while queues:
        index = next((i for i, queue in queues.items() if queue[-1][1].op not in (ALLOC, REALLOC_END)),
                     next(iter(queues)))
        result.append(queues[index].pop())
        if not queues[index]:
            del queues[index]
    return result


class Symbols:
    """Functions of an executable by address in the file, from `nm`."""

    def __init__(self, path):
        import subprocess
        lines = subprocess.run(["nm", "-C", "--defined-only", "-S", path], capture_output=True, text=True,
                               check=True).stdout.splitlines()
        found = []
        for line in lines:
            parts = line.split(maxsplit=3)
            if len(parts) == 4 and parts[2] in "tTwWuV":
                found.append((int(parts[0], 16), int(parts[1], 16), parts[3]))
        found.sort()
        self._found = found
        self._begins = [begin for begin, _, _ in found]

    def name(self, address):
        i = bisect.bisect_right(self._begins, address) - 1
        if i < 0:
            return None
        begin, size, name = self._found[i]
        return name if address < begin + size else None
