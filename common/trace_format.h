// The trace file, byte by byte. docs/concepts/trace-format.md describes it in words and pictures.
//
//   file   = header extent*
//   header = one unit (4096 bytes): identity and settings, the end mark, the mailbox
//   extent = staging | frames, a whole number of units long, at a multiple of the unit
//   staging = extent header, commit word, slots            one per stream, rewritten in place
//   frames  = extent header, frame*, zeros                 append only
//   frame   = frame header, payload, padding to 8 bytes
//
// Numbers are little-endian. A process that may be killed at any instruction writes the file through shared mappings.
// So each part becomes valid by one store after its content: `magic` of an extent or a frame, `commit` of a staging
// block. A stream's events are its frames by `sequence`, then the committed slots of its staging block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/ids.h"

namespace heapprof {

inline constexpr std::uint32_t kUnitBytes = 4096;

/// The magic number changes if a transfer converts line ends or drops the eighth bit, so readers detect this.
inline constexpr unsigned char kFileMagic[8] = {0x89, 'H', 'P', 'R', 'F', '\r', '\n', 0x1a};
inline constexpr std::uint64_t kExtentMagic = 0x31544e5845465048;  // "HPFEXNT1"
inline constexpr std::uint32_t kFrameMagic = 0x4d524648;           // "HFRM"

/// A reader refuses a higher major version; a higher minor version only adds what a reader may skip.
inline constexpr std::uint16_t kVersionMajor = 3;
inline constexpr std::uint16_t kVersionMinor = 0;
/// The major version of a compacted trace (`heapprof compact`), in which sections follow the header instead of
/// extents (analyzer/trace/compact/section.h).
inline constexpr std::uint16_t kCompactedVersionMajor = 2;
/// The major version of older recordings, whose frames have other columns (FrameCodec).
inline constexpr std::uint16_t kOldVersionMajor = 1;
/// Whether it is a major version of recordings that this reader supports.
constexpr bool is_recording_version(std::uint16_t version_major) noexcept {
  return version_major == kVersionMajor || version_major == kOldVersionMajor;
}

/// What `ticks` count.
enum class Clock : std::uint32_t {
  kTsc = 1,        ///< x86-64 time-stamp counter, invariant
  kMonotonic = 2,  ///< CLOCK_MONOTONIC, nanoseconds
  kCntvct = 3,     ///< aarch64 virtual counter
};

/// How the recording ended, as far as the recorder or `heapprof record` can know.
enum class EndKind : std::uint32_t {
  kNone = 0,     ///< not known: still running, killed, or ended by _exit
  kExit = 1,     ///< exit() was reached; events may still follow; end_status: exit status if known
  kExec = 2,     ///< the process executed another program
  kSignal = 3,   ///< written by the launcher; end_status: signal number
  kStopped = 4,  ///< the recorder stopped; see stop_reason
};

/// end_status of an exit that only the recorder saw: destructors do not get the status.
inline constexpr std::int32_t kEndStatusUnknown = -1;

/// The header page. Offsets are fixed within a major version; unused bytes are zero.
struct FileHeader {
  unsigned char magic[8];
  std::uint16_t version_major;
  std::uint16_t version_minor;
  std::uint32_t header_bytes;  ///< offset of the first extent
  std::uint64_t file_id;       ///< random; repeated in every extent and frame
  std::uint32_t unit_bytes;    ///< extents start at multiples of this
  std::uint32_t slot_bytes;    ///< sizeof(Slot)
  std::uint32_t machine;       ///< ELF e_machine
  Clock clock;
  std::uint64_t ticks_per_second;    ///< an estimate; 0: unknown. Samples give the exact rate
  std::uint64_t start_ticks;         ///< the clock at time 0, read together with the next two
  std::uint64_t start_monotonic_ns;  ///< CLOCK_MONOTONIC
  std::uint64_t start_realtime_ns;   ///< CLOCK_REALTIME, since 1970
  // pid, process_start, boot_id and pid_namespace together identify the process, which may still be running.
  std::uint32_t pid;
  std::uint32_t parent_pid;
  std::uint64_t process_start;  ///< field 22 of /proc/PID/stat, clock ticks since boot; 0: unknown
  std::uint64_t pid_namespace;  ///< inode of /proc/self/ns/pid; 0: unknown
  unsigned char boot_id[16];
  std::uint32_t flags;  ///< kHeader...
  std::uint32_t reserved;
  std::uint64_t checksum;  ///< of all bytes before it
  unsigned char zero_1[512 - 128];

  // The recorder rewrites the following in place, and `heapprof record` does after the program has ended.
  EndKind end_kind;  // at 512
  std::int32_t end_status;
  std::uint64_t end_ticks;
  std::uint64_t end_monotonic_ns;
  char stop_reason[232];  ///< NUL-terminated, in English; for kStopped

  /// Where the last extent ends. A shorter file was truncated.
  std::uint64_t file_bytes;  // at 768
  /// CLOCK_REALTIME at the end that end_kind names, since 1970; 0: unknown. The other clocks stand still while the
  /// machine is suspended.
  std::uint64_t end_realtime_ns;
  unsigned char zero_2[1024 - 784];

  /// Control requests of the analyzer to the recorder. The analyzer fills command and text, then increments
  /// `request`; the recorder handles it and copies the number to `acknowledged`. The recorder checks every value that
  /// it reads here.
  struct Mailbox {
    std::uint32_t request;
    std::uint32_t acknowledged;
    std::uint32_t command;  ///< MailboxCommand
    std::uint32_t text_bytes;
    char text[256];
    std::uint32_t paused;  ///< written by the recorder: 1 while paused
  } mailbox;               // at 1024
  unsigned char zero_3[2048 - 1024 - sizeof(Mailbox)];

  char settings[2048];  ///< at 2048: the recorder's settings, "NAME=value\n"..., NUL-terminated
};
static_assert(offsetof(FileHeader, checksum) == 120);
static_assert(offsetof(FileHeader, end_kind) == 512);
static_assert(offsetof(FileHeader, file_bytes) == 768);
static_assert(offsetof(FileHeader, end_realtime_ns) == 776);
static_assert(offsetof(FileHeader, mailbox) == 1024);
static_assert(offsetof(FileHeader, settings) == 2048);
static_assert(sizeof(FileHeader) == kUnitBytes);

enum class MailboxCommand : std::uint32_t { kNone = 0, kPause = 1, kResume = 2, kMark = 3, kSnapshot = 4 };

inline constexpr std::uint32_t kHeaderTailNotKillSafe = 1;  ///< events since the last frame may be lost
inline constexpr std::uint32_t kHeaderForkedChild = 2;      ///< recorded in a forked child: older blocks are unknown
inline constexpr std::uint32_t kHeaderFreeStacks = 4;       ///< frees have stacks (HEAPPROF_FREE_STACKS)
inline constexpr std::uint32_t kHeaderRounded = 8;          ///< compacted: times are rounded, blocks are numbered

enum class ExtentKind : std::uint32_t {
  kStaging = 1,
  kFrames = 2,
  kSymbols = 3,  ///< names for the trace's addresses, added by the analyzer; see SymbolsEnd
};

/// First bytes of every extent.
struct ExtentHeader {
  std::uint64_t magic;  ///< kExtentMagic, stored last
  std::uint64_t file_id;
  std::uint64_t offset;  ///< of this extent in the file
  std::uint32_t bytes;   ///< length, a multiple of unit_bytes
  ExtentKind kind;
  StreamId stream;
  std::uint32_t ordinal;   ///< of this extent in its stream, from 0
  std::uint64_t checksum;  ///< of all bytes before it, magic taken as kExtentMagic
};
static_assert(sizeof(ExtentHeader) == 48);

/// The last bytes of a file with symbols, at the end of its last extent of kSymbols. These extents are the last ones
/// of the file, adjacent and in order of `ordinal`.
inline constexpr std::uint64_t kSymbolsEndMagic = 0x31444e4553465048;  // "HPFSEND1"
struct SymbolsEnd {
  std::uint64_t magic;  ///< kSymbolsEndMagic
  std::uint64_t file_id;
  std::uint64_t offset;        ///< of the first of those extents
  std::uint64_t symbol_bytes;  ///< size of the extents' contents, without their headers
  std::uint64_t checksum;      ///< of all bytes before it
};
static_assert(sizeof(SymbolsEnd) == 40);

/// A staging extent: header, commit word, slots from byte 64.
struct StagingHeader {
  ExtentHeader extent;
  /// Sequence in the upper 32 bits, number of valid slots in the lower: one 8-byte store. A full block is first
  /// written as a frame with the same sequence; then the commit word of the next block is stored. If a process is
  /// killed in between, the file contains both, and readers use the frame, because slot 0 may already contain the
  /// start of the next block.
  std::uint64_t commit;
  std::uint64_t reserved;
};
static_assert(sizeof(StagingHeader) == 64);

constexpr std::uint64_t commit_word(std::uint32_t sequence, std::uint32_t slots) noexcept {
  return std::uint64_t{sequence} << 32 | slots;
}
constexpr std::uint32_t commit_sequence(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 32);
}
constexpr std::uint32_t commit_slots(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word); }

enum class FrameCodec : std::uint16_t {
  kOldColumnsStored = 1,  ///< payload is columns as in version 1 (ColumnFormat::kOld of event_codec.h)
  kOldColumnsLz4 = 2,     ///< payload is one LZ4 block of these, which are raw_bytes
  kColumnsLz4 = 3,        ///< the same of columns as encode_columns() writes them. Since 3.0
};

struct FrameHeader {
  std::uint32_t magic;  ///< kFrameMagic, stored last
  std::uint16_t header_bytes;
  FrameCodec codec;
  std::uint64_t file_id;
  StreamId stream;
  std::uint32_t sequence;       ///< of the block, from 0
  std::uint32_t record_count;   ///< records in this frame
  std::uint32_t event_count;    ///< those of them that are events (is_event)
  std::uint64_t events_before;  ///< events of the stream in earlier blocks; shows how many a gap lacks
  std::uint64_t first_time;     ///< ticks since start_ticks
  std::uint64_t last_time;
  std::uint32_t raw_bytes;  ///< columns, before compression
  std::uint32_t payload_bytes;
  std::uint64_t payload_checksum;
  std::uint64_t header_checksum;  ///< of all bytes before it, magic taken as kFrameMagic
};
static_assert(sizeof(FrameHeader) == 80);

/// Limits that no writer exceeds. Readers check them, so that a damaged count does not make them allocate memory.
inline constexpr std::uint32_t kMaxExtentBytes = 16u << 20;
inline constexpr std::uint32_t kMaxTextBytes = 16u << 10;
/// A frame has at least this many bytes for each node that is encoded as differences; if it needs fewer, zeros follow
/// its header. Otherwise a small file could define any number of nodes: those of a recursion are equal records.
inline constexpr std::uint32_t kMinNodeBytes = 2;

// ---- records ---------------------------------------------------------------------------------------

// In a staging block a record is one Slot; the bytes of a text record follow in further slots. A frame contains the
// records as columns (common/event_codec.h).

enum class Op : std::uint8_t {
  kNone = 0,
  // Heap. A begin is committed before the allocator is called, and its end after the allocator has returned. Other
  // events of the thread may come in between (of a signal handler, or of an allocator that calls hooks), including
  // complete begin-end pairs: an end belongs to the latest begin of its kind that has no end yet.
  kAlloc = 1,          ///< address, size, node
  kFree = 2,           ///< address
  kFreeStack = 3,      ///< address, node: with HEAPPROF_FREE_STACKS
  kReallocBegin = 4,   ///< address: old block
  kReallocEnd = 5,     ///< address: new block, or 0 if there is none; size, node
  kReallocFailed = 6,  ///< size: the requested one, or 0 in a pause; node. The old block is still live
  kAllocFailed = 7,    ///< size, node
  // Mappings. Sizes are the requested ones, rounded up to pages.
  kMap = 8,         ///< address, size, node, aux: kMap...
  kUnmapBegin = 9,  ///< address, size
  kUnmapEnd = 10,
  kUnmapFailed = 11,
  kRemapBegin = 12,  ///< address, size: the old range
  kRemapEnd = 13,    ///< address, size: the new range, or 0, 0 if it is not recorded (in a pause); node
  kRemapFailed = 14,
  kBrk = 15,  ///< address: new break; size: old break; node
  // Definitions, samples and control.
  kNode = 16,        ///< node; size: parent | module << 32 (24 bits); address: offset; aux: kNode...
  kSample = 17,      ///< address: CLOCK_MONOTONIC ns at `time`; size: resident bytes
  kText = 18,        ///< node: TextKind; size: a number; address: another; aux: byte length
  kBlockStart = 19,  ///< first record of every block; address: events of the stream before it
  kPause = 20,       ///< until kResume no allocations and new mappings are recorded; frees and unmappings are
  kResume = 21,
  kLast = 21,
};

struct Slot {
  std::uint64_t time;  ///< ticks since start_ticks; never decreases within a stream
  std::uint64_t address;
  std::uint64_t op_size;  ///< op in the low 8 bits, size above
  std::uint32_t node;
  std::uint32_t aux;

  constexpr Op op() const noexcept { return static_cast<Op>(op_size & 0xff); }
  constexpr std::uint64_t size() const noexcept { return op_size >> 8; }
};
static_assert(sizeof(Slot) == 32);

/// Sizes of 2^56 and more, which only failed calls request, are recorded as this.
inline constexpr std::uint64_t kMaxSize = (std::uint64_t{1} << 56) - 1;

constexpr std::uint64_t op_size(Op op, std::uint64_t size) noexcept {
  return static_cast<std::uint64_t>(op) | (size < kMaxSize ? size : kMaxSize) << 8;
}

/// Slots that follow a text record of `bytes` bytes.
constexpr std::uint32_t text_slots(std::uint32_t bytes) noexcept { return (bytes + sizeof(Slot) - 1) / sizeof(Slot); }

/// Whether a frame's `event_count` counts the record. The sum is the `events` of a report: allocations, frees and
/// failures. A realloc counts twice, its begin as the free and its end as the allocation. A failed realloc counts
/// once: its begin, as the failure; in a pause that is one more than a report has. realloc(p, 0) counts once: its
/// begin, as the free.
constexpr bool is_event(const Slot& slot) noexcept {
  const Op op = slot.op();
  if (op == Op::kReallocEnd) return slot.address != 0;
  return op >= Op::kAlloc && op <= Op::kAllocFailed && op != Op::kReallocFailed;
}

enum class TextKind : std::uint32_t {
  kProgram = 1,      ///< absolute path of the executable
  kCommandLine = 2,  ///< arguments, each with its NUL; address: kCommandLine...
  kWorkingDirectory = 3,
  kHost = 4,
  kThread = 5,      ///< from here on the stream belongs to this thread; size: tid; address: kThread...; text: name
  kThreadName = 6,  ///< the same thread has another name; size: tid
  kModule = 7,      ///< size: ModuleId; address: first mapped address; text: ModuleText
  kMark = 8,        ///< text of a mark set by the user
  kNote = 9,        ///< a note about the recording for the user, in English; size: NoteKind
  /// Of the stream's next sample, which has the same time; size: those of its resident bytes that are shared with
  /// files or other processes (statm(5), "shared"); no text.
  kSharedMemory = 10,
  /// A piece of a snapshot of the resident pages (common/residency_codec.h); size: number of the snapshot, from 1;
  /// address: number of the piece in the snapshot, from 0.
  kResidency = 11,
  /// A Python interpreter was found; size: its PY_VERSION_HEX, 0 if unknown; text: why its frames are not recorded,
  /// in English; empty: they are.
  kPythonInterpreter = 12,
  /// A code object of Python, or a further piece of it; size: its number, from 1; address: number of the piece, from
  /// 0; text: the piece. The pieces together are PythonCodeText, the path of the file, the qualified name, and the
  /// line table. Defined before the first node that refers to it.
  kPythonCode = 13,
};

// The address of a kCommandLine record.
inline constexpr std::uint64_t kCommandLineTruncated = 1;
/// `heapprof bundle` left out the arguments: behind the first one, the program, the text is zeros.
inline constexpr std::uint64_t kCommandLineOmitted = 2;

/// The address of a kThread record: the first stream of a thread, or its further stream for the events of signal
/// handlers that interrupted the recorder.
inline constexpr std::uint64_t kThreadNew = 0;
inline constexpr std::uint64_t kThreadNested = 1;

/// The text of kModule: this, then build_id_bytes bytes of build id, then the path to the end.
struct ModuleText {
  std::uint64_t map_bytes;  ///< size of the mapping, from the first mapped address
  std::uint64_t load_bias;  ///< address in memory minus address in the ELF file
  std::uint32_t build_id_bytes;
  std::uint32_t flags;  ///< kModuleMain
};
static_assert(sizeof(ModuleText) == 24);

inline constexpr std::uint32_t kModuleMain = 1;

/// How the line table of a code object is encoded: cpython's Objects/lnotab_notes.txt (up to 3.10) and
/// Objects/locations.md.
enum class PythonLines : std::uint32_t {
  kNone = 0,       ///< no table: only first_line is known
  kLnotab = 1,     ///< co_lnotab of 3.8 and 3.9
  kLineTable = 2,  ///< co_linetable of 3.10 (PEP 626)
  kLocations = 3,  ///< co_linetable from 3.11 on
};

/// The beginning of a code object's text. Names are UTF-8; a lone surrogate is U+FFFD.
struct PythonCodeText {
  std::uint32_t first_line;
  PythonLines lines;
  std::uint32_t file_bytes;
  std::uint32_t name_bytes;
  std::uint32_t table_bytes;  ///< 0 if the table was too long to be copied
  std::uint32_t reserved;
};
static_assert(sizeof(PythonCodeText) == 24);

// The offset of a node of ModuleId::kPython: the number of the code object, and the instruction that is executed, as
// its distance from the code object's first one in units of 2 bytes.
inline constexpr unsigned kPythonInstructionBits = 22;
/// The instruction of a frame that has not begun its first one, or whose distance is larger: the line is first_line.
inline constexpr std::uint32_t kPythonNoInstruction = (1u << kPythonInstructionBits) - 1;
constexpr std::uint64_t python_offset(std::uint32_t code, std::uint32_t instruction) noexcept {
  return std::uint64_t{code} << kPythonInstructionBits | (instruction & ((1u << kPythonInstructionBits) - 1));
}
constexpr std::uint32_t python_code(std::uint64_t offset) noexcept {
  return static_cast<std::uint32_t>(offset >> kPythonInstructionBits);
}
constexpr std::uint32_t python_instruction(std::uint64_t offset) noexcept {
  return static_cast<std::uint32_t>(offset & ((1u << kPythonInstructionBits) - 1));
}

// A node's offset is relative to its module's load bias, so it is an address of the ELF file. It is within the call
// instruction: the return address minus one; or, in a frame interrupted by a signal, the interrupted address.

inline constexpr std::uint32_t kNodeByFramePointer = 1;  ///< found by frame pointers, without unwind information

inline constexpr std::uint32_t kMapAnonymous = 1;
inline constexpr std::uint32_t kMapFromAllocator = 2;  ///< requested by the allocator: its bytes also count as blocks
inline constexpr std::uint32_t kMapReserve = 4;        ///< PROT_NONE: address space only

/// Why a stack ends before its outermost frame.
enum class Truncation : std::uint32_t {
  kNone = 0,
  kMaxDepth = 1,      ///< HEAPPROF_MAX_DEPTH
  kNoUnwindInfo = 2,  ///< code without CFI, and no valid frame pointer
  kBadRule = 3,       ///< CFI that could not be parsed or evaluated, or an unknown register
  kBadAddress = 4,    ///< a rule gave an address outside the stack, below the previous frame, or unaligned
  kUnknownStack = 5,  ///< not written by this version: the stack's bounds could not be found
  kNested = 6,        ///< captured in a signal handler that interrupted the recorder
  kNoMemory = 7,      ///< no memory for the unwinder's data of the thread
};

}  // namespace heapprof
