// Writes the file that heaptrack_print and heaptrack_gui load (interpreted format, version 3).
//
// The format is a stream of events in which every table entry precedes its first use. A trace of ours knows
// its call tree only at the end, and symbols are resolved after that. So an export takes two replays:
//
//   1. replay once: link the call tree, note which nodes are used; resolve all their symbols, in parallel;
//   2. replay again, streaming: each event goes to this writer, which asks for names as they are first needed.
//
//   Sink output("profile.zst");
//   HeaptrackWriter writer(output, {.command = "redis-server --port 6379"});
//   HeaptrackStacks stacks(writer, tree, resolve);
//   ...
//   writer.set_time(event.time_ns);
//   block.heaptrack_class = writer.allocation(event.size, stacks.trace(event.node));
//   writer.set_time(event.time_ns);
//   writer.deallocation(block.heaptrack_class);
//   ...
//   writer.finish(duration_ns, last_rss);
//   if (!output.close()) report(output.error());
//
// What a reader does with the file, and what follows for us:
//
// - There are no addresses: the caller matches a free with its allocation and hands back the class. A
//   reallocation is deallocation(old) then allocation(new). A deallocation of what was not allocated would
//   crash readers; deallocation() refuses it.
// - heaptrack_gui crashes on classes that are not numbered by their first use, so a class is declared in the
//   moment of its first allocation.
// - heaptrack counts an allocation as temporary when the deallocation right after it names the same class;
//   after any deallocation it takes class 0 for the latest, so a deallocation of class 0 then counts too.
//   Class 0 here is an ordinary class, because a dummy would add a call and every other total is exact. The
//   count therefore is heaptrack's, and differs from ours, which goes by pointer and thread.
//   HeaptrackTotals has the exact figures that readers print.
// - Readers drop an instruction whose innermost function is `operator new(unsigned long)` or one of its three
//   kin, with everything inlined there, and end printed backtraces at `main`. Names are written as they are.
// - Indices have 32 bits and wrap silently in readers; beyond that the export fails.
//
// Errors stay in the Sink: nothing here has to be checked before output.close().
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/export/sink.h"

namespace heapprof::exporter {

/// What heaptrack_print shows as totals for the file. Exact.
struct HeaptrackTotals {
  std::uint64_t calls = 0;
  std::uint64_t temporary = 0;  ///< by heaptrack's definition, its rule for class 0 included
  std::uint64_t leaked_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak_time_ms = 0;
  std::uint64_t peak_rss_bytes = 0;   ///< in whole pages
  std::uint64_t last_time_ms = 0;     ///< the run time that is printed is one millisecond more
};

/// Numbers in the file. 0 of the first three means "none"; classes count from 0.
enum class HeaptrackString : std::uint32_t { kNone = 0 };
enum class HeaptrackIp : std::uint32_t { kNone = 0 };
enum class HeaptrackTrace : std::uint32_t { kNone = 0 };
enum class HeaptrackClass : std::uint32_t {};

/// One function at an address. `file` may be empty: unknown.
struct HeaptrackFrame {
  std::string_view function;
  std::string_view file;
  std::uint32_t line = 0;
};

class HeaptrackWriter {
 public:
  struct Header {
    std::string command;                   ///< program and arguments, joined by spaces
    std::uint64_t page_bytes = 4096;       ///< the unit in which resident memory is written
    std::uint64_t physical_pages = 0;      ///< memory of the machine, for the GUI; 0: unknown
  };

  /// Writes the header at once. `output` must outlive the writer. `index_limit` is what 32 bits hold;
  /// tests pass less.
  HeaptrackWriter(Sink& output, const Header& header, std::uint64_t index_limit = UINT32_MAX);

  // Tables. Each gives the number of an equal entry if there is one. Names may hold any bytes: line feeds
  // and carriage returns become spaces.

  /// kNone for an empty text.
  HeaptrackString string(std::string_view text);

  /// `address` is absolute, of the call. `frames` are innermost first: inlined functions, then the one that
  /// has the symbol; none when the address has no symbol. Not deduplicated: ask once an address.
  HeaptrackIp instruction(std::uint64_t address, std::string_view module, std::span<const HeaptrackFrame> frames);

  /// A frame called from `parent`, kNone for the outermost.
  HeaptrackTrace trace(HeaptrackIp ip, HeaptrackTrace parent);

  // Events, in the order in which they happened.

  /// Moves time on. Cheap: writes when a step of 10 ms has passed. Time that runs backwards is ignored.
  void set_time(std::uint64_t time_ns) {
    if (time_ns >= next_time_ns_) [[unlikely]] write_time(time_ns);
  }

  /// Resident memory at this moment. Readers keep the highest of the run.
  void resident(std::uint64_t bytes);

  /// One look-up in a hash table and a line of a few bytes.
  HeaptrackClass allocation(std::uint64_t size_bytes, HeaptrackTrace trace);

  /// Of a block of a class that allocation() gave. False, and nothing written, when no block of that class
  /// is live.
  bool deallocation(HeaptrackClass of);
  /// The same for a caller that keeps size and stack of a block anyway.
  bool deallocation(std::uint64_t size_bytes, HeaptrackTrace trace);

  /// Last time and resident memory (0: unknown). The output is still to be closed.
  void finish(std::uint64_t time_ns, std::uint64_t resident_bytes);

  const HeaptrackTotals& totals() const noexcept { return totals_; }

  /// What was counted for one class, for comparisons per stack and per size.
  struct ClassFigures {
    std::uint64_t size_bytes = 0;
    HeaptrackTrace trace{};
    std::uint64_t calls = 0;
    std::uint64_t temporary = 0;
    std::uint64_t live = 0;  ///< blocks, in the end: leaked
  };
  std::span<const ClassFigures> classes() const noexcept { return classes_; }

 private:
  static constexpr std::uint32_t kNoClass = UINT32_MAX;

  std::uint32_t find_class(std::uint64_t size_bytes, HeaptrackTrace trace) const noexcept;
  std::uint32_t new_class(std::uint64_t size_bytes, HeaptrackTrace trace);
  void grow_classes();
  std::size_t slot_of(std::uint64_t size_bytes, HeaptrackTrace trace) const noexcept;
  void write_time(std::uint64_t time_ns);
  void write_event(char letter, std::uint64_t number);
  bool within_limit(std::size_t count, const char* what);

  Sink& output_;
  const std::uint64_t index_limit_;
  const std::uint64_t page_bytes_;

  std::unordered_map<std::string, HeaptrackString> strings_;
  std::unordered_map<std::uint64_t, HeaptrackTrace> traces_;  // ip << 32 | parent
  std::uint64_t ip_count_ = 0;

  std::vector<ClassFigures> classes_;
  std::vector<std::uint32_t> class_slots_;  // open addressing, a power of two, at most half full

  // As a reader keeps them.
  HeaptrackTotals totals_;
  std::uint64_t live_bytes_ = 0;
  std::uint32_t latest_ = 0;  // class of the latest `+`; 0 after a `-`

  std::uint64_t next_time_ns_ = 0;
  std::string line_;
};

/// Maps the nodes of a linked call tree to the file's traces, each written when first asked for.
class HeaptrackStacks {
 public:
  /// A node of the tree. Parents may have any number, but there must be no cycle.
  struct Node {
    std::uint32_t parent = kNoParent;  ///< index into the tree
    std::uint32_t ip = 0;              ///< the caller's number of an instruction, small and dense; kNoIp: no frame
  };
  static constexpr std::uint32_t kNoParent = UINT32_MAX;
  static constexpr std::uint32_t kNoIp = UINT32_MAX;

  /// What is known of an instruction. The views must hold until the next call.
  struct Instruction {
    std::uint64_t address = 0;
    std::string_view module;
    std::span<const HeaptrackFrame> frames;  ///< innermost first
  };
  using Resolve = std::function<Instruction(std::uint32_t ip)>;

  /// `tree` must outlive this. `resolve` is asked once for each instruction that is used.
  HeaptrackStacks(HeaptrackWriter& writer, std::span<const Node> tree, Resolve resolve);

  /// The trace of the stack that ends in `node`; kNone (unknown stack) for kNoParent.
  HeaptrackTrace trace(std::uint32_t node) {
    if (node == kNoParent) return HeaptrackTrace::kNone;
    return known_[node] ? traces_[node] : write(node);
  }

 private:
  HeaptrackTrace write(std::uint32_t node);

  HeaptrackWriter& writer_;
  std::span<const Node> tree_;
  Resolve resolve_;
  std::vector<HeaptrackTrace> traces_;
  std::vector<bool> known_;
  std::unordered_map<std::uint32_t, HeaptrackIp> ips_;
  std::vector<std::uint32_t> path_;
};

}  // namespace heapprof::exporter
