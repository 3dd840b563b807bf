// A profile: everything that one replay of a trace found, in plain structs. Reports, exports and pictures are made
// from it; they depend neither on the trace nor on the replay.
//
// Sizes are in bytes, times in nanoseconds since the start of the recording. Indices are into the vectors of the
// profile. Node 0 is the root of the call tree. Parents come before their children, so one backward loop sums a tree
// and one forward loop passes values down.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/base/labels.h"
namespace heapprof::symbols {
struct ModuleSymbols;
}

namespace heapprof::model {

inline constexpr std::uint32_t kNoIndex = std::numeric_limits<std::uint32_t>::max();

/// What is damaged or missing in the trace (the report's "integrity").
struct Integrity {
  bool complete = true;                          ///< no committed record is missing
  std::string ended_by = "unknown";              ///< exit exec signal stopped running unknown
  std::optional<int> end_status;                 ///< exit status or signal number, where known
  std::optional<std::string> stop_reason;        ///< why the recorder stopped itself
  std::optional<std::uint64_t> events_lost = 0;  ///< nullopt: cannot be known
  std::uint64_t bytes_damaged = 0;
  std::vector<std::string> notes;  ///< sentences for people
};

/// What was recorded, and how.
struct Recording {
  std::string program;                        ///< absolute path of the executable; of several recordings: empty
  std::vector<std::string> other_programs{};  ///< of several recordings: their executables
  std::vector<std::string> command_line;
  bool command_line_cut = false;
  bool command_line_omitted = false;  ///< its arguments, when the recording was bundled
  std::string working_directory;
  std::string host;
  std::uint32_t pid = 0;
  std::uint32_t parent_pid = 0;
  std::uint32_t live_pid = 0;           ///< in this pid namespace, while it runs; else 0
  std::uint64_t start_realtime_ns = 0;  ///< since 1970
  std::uint64_t ended_realtime_ns = 0;  ///< the latest time of its end, since 1970; 0: unknown, or it runs
  std::uint64_t duration_ns = 0;        ///< to the last known time of the program
  std::uint64_t trace_bytes = 0;        ///< size of the file
  bool compacted = false;               ///< by heapprof compact
  bool rounded = false;                 ///< if compacted: times are whole microseconds, addresses are block numbers
  std::uint64_t original_bytes = 0;     ///< if compacted: size of the original file
  std::string trace_version;            ///< "1.0"; "unknown": the header is damaged
  std::string clock;                    ///< tsc, monotonic, cntvct
  bool forked_child = false;
  bool tail_not_kill_safe = false;
  std::vector<std::pair<std::string, std::string>> settings;  ///< in force, by name
  Labels labels;

  struct PythonInterpreter {
    std::string version;  ///< "3.11.7"; empty: unknown
    std::string why_off;  ///< why its frames are not recorded; empty: they are
  };
  std::vector<PythonInterpreter> python_interpreters;
};

/// A loaded object. Loads of one file at several addresses are one module, with the load_bias of the first load.
/// Module 0 is code outside every object (JIT, trampolines): empty path, bias 0.
struct Module {
  std::string path;
  std::string build_id;  ///< hex, empty: none
  std::uint64_t first_address = 0;
  std::uint64_t map_bytes = 0;
  std::uint64_t load_bias = 0;
  std::uint32_t loads = 1;
  bool is_main = false;
  bool lost = false;  ///< its definition is lost to damage: path is empty
  /// The lines of Python programs. The path is "Python 3.11"; offsets have no order.
  bool is_python = false;
  /// Functions of it evaluate lines of Python: they stand directly outside of one. Known only where the call tree was
  /// linked with folding.
  bool evaluates_python = false;
};

/// An address of code; each is once in Profile::addresses.
struct CodeAddress {
  std::uint32_t module = 0;  ///< in Profile::modules
  std::uint64_t offset = 0;  ///< address in the ELF file; of module 0: absolute
  friend bool operator==(const CodeAddress&, const CodeAddress&) = default;
};

/// The sums of a set of blocks.
struct Costs {
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t temporary = 0;  ///< freed by their thread before its next allocation
  std::uint64_t temporary_bytes = 0;
  std::uint64_t leaked_bytes = 0;
  std::uint64_t leaked_blocks = 0;
  std::uint64_t peak_bytes = 0;  ///< live at the time of the program's peak
  std::uint64_t peak_blocks = 0;
  /// Live at the moment of --live-at, else at the end of the slice, blocks that are older than the slice included. In
  /// a slice that does not contain the moment, at the one of its ends that is nearer.
  std::uint64_t live_bytes = 0;
  std::uint64_t live_blocks = 0;
  std::uint64_t moved_bytes =
      0;  ///< of heap blocks that a realloc replaced by another block: freed, but still in use
  std::uint64_t moved_blocks = 0;

  Costs& operator+=(const Costs& other) noexcept {
    allocations += other.allocations;
    allocated_bytes += other.allocated_bytes;
    temporary += other.temporary;
    temporary_bytes += other.temporary_bytes;
    leaked_bytes += other.leaked_bytes;
    leaked_blocks += other.leaked_blocks;
    peak_bytes += other.peak_bytes;
    peak_blocks += other.peak_blocks;
    live_bytes += other.live_bytes;
    live_blocks += other.live_blocks;
    moved_bytes += other.moved_bytes;
    moved_blocks += other.moved_blocks;
    return *this;
  }
  bool empty() const noexcept { return (allocations | leaked_blocks | peak_blocks | live_blocks) == 0; }
};

/// What the whole recording allocated at one stack, whatever is selected: the helpers are found from it
/// (findings/helpers.h).
struct StackTotals {
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t moved_blocks = 0;
  std::uint64_t left_blocks = 0;  ///< live at the end of the recording

  StackTotals& operator+=(const StackTotals& other) noexcept {
    allocations += other.allocations;
    allocated_bytes += other.allocated_bytes;
    moved_blocks += other.moved_blocks;
    left_blocks += other.left_blocks;
    return *this;
  }
  bool empty() const noexcept { return (allocations | left_blocks) == 0; }
  friend bool operator==(const StackTotals&, const StackTotals&) = default;
};

/// What one recording of several says about its process.
struct ProcessFigures {
  std::string trace;  ///< path
  std::string program;
  std::string command;  ///< quoted for a shell, clean
  std::string end;      ///< "exited with status 0"; clean
  bool ended_well = true;
  std::uint32_t pid = 0;
  std::uint32_t parent_pid = 0;
  std::uint64_t start_ns = 0;  ///< since the first recording began
  std::uint64_t end_ns = 0;    ///< likewise
  std::uint64_t events = 0;
  std::uint64_t peak_bytes = 0;      ///< of the selection; at a moment, what is live then
  std::uint64_t peak_rss_bytes = 0;  ///< Profile::highest_resident_bytes()
  std::uint64_t leaked_bytes = 0;
  Costs costs;  ///< of everything that is selected
  bool complete = true;
  std::string began;  ///< "forked", "started", "executed", or "root"
  int from = -1;      ///< position of the process that it comes from; -1: it is not among them
  std::size_t depth = 0;
};

/// Several recordings that one profile adds up (merged_profile.h). Its times are on the one clock of all: nanoseconds
/// since the first recording began.
struct Together {
  std::string name;                       ///< "build/", or "3 recordings"
  std::vector<ProcessFigures> processes;  ///< each after the one that it comes from
  std::size_t unread = 0;                 ///< recordings that could not be read
  std::size_t copies = 0;                 ///< files left out, because they are copies of others
  std::size_t outside = 0;                ///< recordings that have no part in the selected time
  std::vector<std::string> notes{};       ///< sentences about their clocks and versions
};

/// A node of the call tree: a frame and, by its parents, its call stack. `costs` are those of this stack, without its
/// children's.
struct CallNode {
  std::uint32_t parent = 0;
  std::uint32_t address = kNoIndex;  ///< in Profile::addresses; kNoIndex: a truncation root
  const char* truncated = nullptr;   ///< why the stack is truncated, else null
  bool guessed = false;              ///< found by frame pointers, without unwind information
  Costs costs;
};

/// Which allocations the costs of the nodes count.
enum class Kind { kHeap, kMmap, kAll };

struct HeapTotals {
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t frees = 0;  ///< unmatched ones included: events = allocations + frees + failed
  std::uint64_t failed = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak_time_ns = 0;
  std::uint64_t peak_blocks = 0;
  std::uint64_t leaked_bytes = 0;
  std::uint64_t leaked_blocks = 0;  ///< allocations - (frees - unmatched_frees) - implied_frees
  std::uint64_t temporary_allocations = 0;
  std::uint64_t unmatched_frees = 0;  ///< of blocks whose allocation is not in the trace
  std::uint64_t implied_frees = 0;    ///< not in the trace: the address was reused
  std::uint64_t events() const noexcept { return allocations + frees + failed; }
};

/// Mappings (mmap, mremap, brk) of the program. Address space without access (PROT_NONE) counts only in
/// reserved_bytes.
struct MmapTotals {
  std::uint64_t mappings = 0;
  std::uint64_t mapped_bytes = 0;  ///< sum over all mappings
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak_time_ns = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t reserved_bytes = 0;        ///< sum over all PROT_NONE mappings
  std::uint64_t from_allocator_bytes = 0;  ///< part of mapped_bytes that an allocator requested: it is also in blocks
};

struct Thread {
  std::uint32_t tid = 0;
  std::string name;
  std::uint64_t start_ns = 0;
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
};

/// The program over time, in buckets of equal width that cover [0, duration], or the slice; at most kMaxBuckets.
struct Timeline {
  static constexpr std::size_t kMaxBuckets = 1024;
  struct Bucket {
    std::uint64_t start_ns = 0;
    std::uint64_t min_bytes = 0;  ///< of live bytes of Profile::kind in the bucket
    std::uint64_t max_bytes = 0;
    std::uint64_t last_bytes = 0;  ///< at its end
    std::uint64_t last_blocks = 0;
    std::uint64_t allocations = 0;  ///< in the bucket, of Profile::kind
    std::uint64_t allocated_bytes = 0;
    std::uint64_t mapped_bytes = 0;  ///< live mappings at its end
    std::uint64_t rss_bytes = 0;     ///< highest sample in it; 0: no sample
    bool idle = false;               ///< without any event of the program, selected or not
  };
  std::vector<Bucket> buckets;
  std::uint64_t samples = 0;  ///< number of RSS samples
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t snapshots = 0;  ///< number of snapshots of resident pages

  struct Mark {
    enum class Kind { kUser, kPaused, kResumed };
    std::uint64_t time_ns = 0;
    Kind kind = Kind::kUser;
    std::string text;  ///< the user's
  };
  std::vector<Mark> marks;  ///< by time
};

/// The number of allocations of `size` bytes. Sizes beyond the first million different ones are counted at the next
/// power of two (`exact` false).
struct SizeCount {
  std::uint64_t size = 0;
  std::uint64_t allocations = 0;
  bool exact = true;
};

/// A part of the recording's time, both ends included.
struct Slice {
  std::uint64_t from_ns = 0;
  std::uint64_t to_ns = 0;
};

/// Resident memory of the process at a moment: the last sample before or at it.
struct ResidentAt {
  std::uint64_t time_ns = 0;
  std::uint64_t bytes = 0;  ///< 0: there is no such sample
};

struct Profile {
  Recording recording;
  std::optional<Together> together;  ///< nullopt: one recording
  std::optional<Slice> slice;        ///< nullopt: the whole recording. Figures of a slice: docs/concepts/analysis.md
  std::string selection_text;        ///< the selecting options but --from, --to and --kind; empty: none
  std::optional<std::uint64_t> live_at_ns;  ///< only the blocks live at this moment are selected
  /// The blocks of the slice were followed until this moment, at or after its end: costs of peak, leaked and live are
  /// those of the blocks that are still live there. Only with a slice.
  std::optional<std::uint64_t> survivors_ns;
  ResidentAt resident;  ///< at live_at_ns
  Integrity integrity;
  Kind kind = Kind::kHeap;  ///< of the nodes' costs
  HeapTotals heap;
  MmapTotals mmap;
  Costs totals;                    ///< of the nodes' costs
  std::uint64_t peak_time_ns = 0;  ///< of the nodes' peak
  std::vector<Module> modules;
  std::vector<CodeAddress> addresses;
  std::vector<CallNode> nodes;
  /// By node, of `kind`. Empty: everything is selected, so `nodes` has them.
  std::vector<StackTotals> whole;
  std::vector<Thread> threads;  ///< in order of their first event
  Timeline timeline;
  std::vector<SizeCount> sizes;
  std::shared_ptr<const std::vector<symbols::ModuleSymbols>> embedded_symbols;  ///< of a bundled trace; null: none
  std::shared_ptr<const symbols::ModuleSymbols> python_symbols;  ///< of the module with is_python; null: none
  /// Of what each thread allocated, by index in `threads`, without moved blocks. Empty: not asked for.
  std::vector<Costs> thread_costs;

  StackTotals whole_of(std::uint32_t node) const {
    if (!whole.empty()) return whole[node];
    const Costs& costs = nodes[node].costs;
    return {costs.allocations, costs.allocated_bytes, costs.moved_blocks, costs.leaked_blocks};
  }
  std::uint64_t runtime_address(const CodeAddress& at) const { return modules[at.module].load_bias + at.offset; }
  std::uint64_t events() const noexcept { return heap.events(); }
  /// The moment that takes the place of the peak: survivors_ns, or live_at_ns without a slice.
  std::optional<std::uint64_t> moment_ns() const noexcept {
    return survivors_ns ? survivors_ns : slice ? std::nullopt : live_at_ns;
  }
  bool is_moment() const noexcept { return moment_ns().has_value(); }
  /// The highest resident memory in the selected time, or that at the selected moment; 0: unknown. It is that of the
  /// process, so it is unknown if anything but the time is selected.
  std::uint64_t highest_resident_bytes() const noexcept {
    return is_moment() ? resident.bytes : selection_text.empty() ? timeline.peak_rss_bytes : 0;
  }
  /// The time to which the figures apply: the slice, until survivors_ns if its blocks were followed; or the whole
  /// recording.
  std::uint64_t begin_ns() const noexcept { return slice ? slice->from_ns : 0; }
  std::uint64_t end_ns() const noexcept {
    if (survivors_ns) return *survivors_ns;
    return slice ? std::min(slice->to_ns, recording.duration_ns) : recording.duration_ns;
  }
};

}  // namespace heapprof::model
