// A profile: everything one replay of a trace found out, in plain structs. Reports, exports and pictures
// are made from this and know neither the trace nor the replay.
//
// Units: sizes in bytes, times in nanoseconds since the start of the recording. Indices are positions in
// the vectors of the profile. Node 0 is the root of the call tree; parents stand before their children, so
// one loop backwards adds up a tree and one loop forwards hands things down.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heapprof::symbols {
struct ModuleNames;
}

namespace heapprof::model {

inline constexpr std::uint32_t kNoIndex = std::numeric_limits<std::uint32_t>::max();

/// How far the trace can be believed (the report's "integrity").
struct Integrity {
  bool complete = true;                     ///< nothing that was committed is missing
  std::string ended_by = "unknown";         ///< exit exec signal stopped running unknown
  std::optional<int> end_status;            ///< exit status or signal number, where known
  std::optional<std::string> stop_reason;   ///< why the recorder stopped itself
  std::optional<std::uint64_t> events_lost = 0;  ///< none: cannot be known
  std::uint64_t bytes_damaged = 0;
  std::vector<std::string> notes;           ///< sentences for people
};

/// What was recorded, and how.
struct Recording {
  std::string program;                      ///< absolute path of the executable
  std::vector<std::string> command_line;
  bool command_line_cut = false;
  std::string working_directory;
  std::string host;
  std::uint32_t pid = 0;
  std::uint32_t parent_pid = 0;
  std::uint32_t live_pid = 0;               ///< as /proc here names it, while it runs here; else 0
  std::uint64_t start_realtime_ns = 0;      ///< since 1970
  std::uint64_t duration_ns = 0;            ///< to the last thing known of the program
  std::uint64_t trace_bytes = 0;            ///< size of the file
  bool compacted = false;                   ///< by heapprof compact
  bool rounded = false;                     ///< then: times are whole microseconds, addresses numbers of blocks
  std::uint64_t original_bytes = 0;         ///< then: size of the file it was made from
  std::string trace_version;                ///< "1.0"
  std::string clock;                        ///< tsc, monotonic, cntvct
  bool forked_child = false;
  bool tail_not_kill_safe = false;
  std::vector<std::pair<std::string, std::string>> settings;  ///< in force, by name
};

/// A loaded object. Loads of one file at different places are one module; load_bias is the first load's.
/// Module 0 stands for code of no object (JIT, trampolines): empty path, bias 0.
struct Module {
  std::string path;
  std::string build_id;                     ///< hex, empty: none
  std::uint64_t first_address = 0;
  std::uint64_t map_bytes = 0;
  std::uint64_t load_bias = 0;
  std::uint32_t loads = 1;
  bool is_main = false;
  bool lost = false;                        ///< its definition was in a damaged part: path is empty
};

/// A place in code; each appears once in Profile::addresses.
struct CodeAddress {
  std::uint32_t module = 0;                 ///< in Profile::modules
  std::uint64_t offset = 0;                 ///< address in the ELF file; of module 0: absolute
  friend bool operator==(const CodeAddress&, const CodeAddress&) = default;
};

/// What a set of blocks costs.
struct Costs {
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t temporary = 0;              ///< freed by their thread before its next allocation
  std::uint64_t temporary_bytes = 0;
  std::uint64_t leaked_bytes = 0;
  std::uint64_t leaked_blocks = 0;
  std::uint64_t peak_bytes = 0;             ///< live at the moment of the program's peak
  std::uint64_t peak_blocks = 0;

  Costs& operator+=(const Costs& other) noexcept {
    allocations += other.allocations;
    allocated_bytes += other.allocated_bytes;
    temporary += other.temporary;
    temporary_bytes += other.temporary_bytes;
    leaked_bytes += other.leaked_bytes;
    leaked_blocks += other.leaked_blocks;
    peak_bytes += other.peak_bytes;
    peak_blocks += other.peak_blocks;
    return *this;
  }
  bool empty() const noexcept { return (allocations | leaked_blocks | peak_blocks) == 0; }
};

/// A node of the call tree: one frame, reached by its parents. `costs` are those of the stack that ends
/// here, not of its children.
struct CallNode {
  std::uint32_t parent = 0;
  std::uint32_t address = kNoIndex;         ///< in Profile::addresses; kNoIndex: no frame (see `truncated`)
  const char* truncated = nullptr;          ///< why the stack goes on beyond what is known, else null
  bool guessed = false;                     ///< found by frame pointers, without unwind information
  Costs costs;
};

/// What the costs of a profile's nodes are costs of.
enum class Kind { kHeap, kMmap, kAll };

struct HeapTotals {
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t frees = 0;                  ///< unmatched ones too: events = allocations + frees + failed
  std::uint64_t failed = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak_time_ns = 0;
  std::uint64_t peak_blocks = 0;
  std::uint64_t leaked_bytes = 0;
  std::uint64_t leaked_blocks = 0;          ///< allocations - (frees - unmatched_frees) - implied_frees
  std::uint64_t temporary_allocations = 0;
  std::uint64_t unmatched_frees = 0;        ///< of blocks whose allocation the trace does not have
  std::uint64_t implied_frees = 0;          ///< unseen ones, known because the address was given out again
  std::uint64_t events() const noexcept { return allocations + frees + failed; }
};

/// Mappings (mmap, mremap, brk) as the program made them. Address space without access (PROT_NONE) is
/// counted apart, in reserved_bytes.
struct MmapTotals {
  std::uint64_t mappings = 0;
  std::uint64_t mapped_bytes = 0;           ///< sum over all mappings ever made
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak_time_ns = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t reserved_bytes = 0;         ///< sum over all PROT_NONE mappings ever made
  std::uint64_t from_allocator_bytes = 0;   ///< of mapped_bytes: made inside malloc, so blocks as well
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
    std::uint64_t min_bytes = 0;            ///< of live bytes of Profile::kind in the bucket
    std::uint64_t max_bytes = 0;
    std::uint64_t last_bytes = 0;           ///< at its end
    std::uint64_t last_blocks = 0;
    std::uint64_t allocations = 0;          ///< made in it, of Profile::kind as the bytes
    std::uint64_t allocated_bytes = 0;
    std::uint64_t mapped_bytes = 0;         ///< live mappings at its end
    std::uint64_t rss_bytes = 0;            ///< highest sample in it; 0: no sample
    bool idle = false;                      ///< no event in it, selected or not
  };
  std::vector<Bucket> buckets;
  std::uint64_t samples = 0;                ///< how many RSS samples the trace has
  std::uint64_t peak_rss_bytes = 0;

  struct Mark {
    enum class Kind { kUser, kPaused, kResumed };
    std::uint64_t time_ns = 0;
    Kind kind = Kind::kUser;
    std::string text;                       ///< the user's
  };
  std::vector<Mark> marks;                  ///< by time
};

/// How many allocations asked for exactly `size` bytes, ascending. Sizes beyond the first million
/// different ones are counted at the next power of two (`exact` false).
struct SizeCount {
  std::uint64_t size = 0;
  std::uint64_t allocations = 0;
  bool exact = true;
};

/// A part of the recording's time; both moments belong to it.
struct Slice {
  std::uint64_t from_ns = 0;
  std::uint64_t to_ns = 0;
};

/// Resident memory of the process at a moment: the last sample up to it.
struct ResidentAt {
  std::uint64_t time_ns = 0;
  std::uint64_t bytes = 0;                  ///< 0: there is no sample up to the moment
};

struct Profile {
  Recording recording;
  std::optional<Slice> slice;               ///< none: all of it. How figures of a slice count: replay.h
  std::string selected;                     ///< which blocks count besides, as the user put it; empty: all
  std::optional<std::uint64_t> live_at_ns;  ///< of these only those live at this moment
  ResidentAt resident;                      ///< at live_at_ns
  Integrity integrity;
  Kind kind = Kind::kHeap;                  ///< of the nodes' costs
  HeapTotals heap;
  MmapTotals mmap;
  Costs totals;                             ///< of the nodes' costs
  std::uint64_t peak_time_ns = 0;           ///< of the nodes' peak costs
  std::vector<Module> modules;
  std::vector<CodeAddress> addresses;
  std::vector<CallNode> nodes;
  std::vector<Thread> threads;              ///< in order of appearance
  Timeline timeline;
  std::vector<SizeCount> sizes;
  std::shared_ptr<const std::vector<symbols::ModuleNames>> bundle;  ///< names that the trace carries; null: none

  std::uint64_t runtime_address(const CodeAddress& at) const { return modules[at.module].load_bias + at.offset; }
  std::uint64_t events() const noexcept { return heap.events(); }
  /// The figures are those of the blocks live at live_at_ns: their peak is that moment, with all of them. Not
  /// in a slice, which begins with those of them that are left.
  bool is_moment() const noexcept { return live_at_ns.has_value() && !slice; }
  /// Where the time begins and ends that the figures are of: the recording's, or the slice's.
  std::uint64_t begin_ns() const noexcept { return slice ? slice->from_ns : 0; }
  std::uint64_t end_ns() const noexcept {
    return slice ? std::min(slice->to_ns, recording.duration_ns) : recording.duration_ns;
  }
};

}  // namespace heapprof::model
