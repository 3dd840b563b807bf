// Writes the file that heaptrack_print and heaptrack_gui load: heaptrack's interpreted format, version 3.
//
// Every table entry must precede its first use, but the call tree of a trace is complete only at its end, and symbols
// are resolved after that. So an export takes two replays: the first for the profile and the symbols of its stacks,
// the second passes each event to this writer, which resolves names at their first use (HeaptrackStacks).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/export/sink.h"

namespace heapprof::exporter {

/// The totals that heaptrack_print prints for the file.
struct HeaptrackTotals {
  std::uint64_t calls = 0;
  std::uint64_t temporary = 0;  ///< by heaptrack's definition, its rule for class 0 included
  std::uint64_t leaked_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak_time_ms = 0;
  std::uint64_t peak_rss_bytes = 0;  ///< in whole pages
  std::uint64_t last_time_ms = 0;    ///< the run time that is printed is one millisecond more
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

/// Readers of the file determine some of the rules:
/// - There are no addresses: a free names the class (size and stack) of its block. Readers crash on a free of what
///   was not allocated, so deallocation() refuses it.
/// - heaptrack_gui crashes on classes that are not numbered in order of their first use, so allocation() declares
///   them.
/// - Readers count an allocation as temporary when the next deallocation is of the same class. After a deallocation
///   they take class 0 for the latest, so a deallocation of class 0 counts too. HeaptrackTotals counts the same way.
/// - Readers drop an instruction whose innermost function is `operator new(unsigned long)` or one of its variants,
///   with everything inlined there, and end printed backtraces at `main`.
/// - Indices have 32 bits and overflow silently in readers, so the export fails beyond that.
///
/// Errors are kept by the Sink; callers check only the result of its close().
class HeaptrackWriter {
 public:
  struct Header {
    std::string command;               ///< program and arguments, joined by spaces
    std::uint64_t page_bytes = 4096;   ///< the unit in which resident memory is written
    std::uint64_t physical_pages = 0;  ///< memory of the machine, for the GUI; 0: unknown
  };

  /// Writes the header. `output` must outlive the writer. `index_limit`: the greatest index; tests pass a smaller
  /// one.
  HeaptrackWriter(Sink& output, const Header& header, std::uint64_t index_limit = UINT32_MAX);

  // Tables. Line feeds and carriage returns in names become spaces.

  /// The number of the text, which is written once; kNone for an empty text.
  HeaptrackString string(std::string_view text);

  /// Adds an instruction. `address`: of the call, in memory. `frames`: innermost first, inlined functions, then the
  /// one with the symbol; empty when the address has no symbol. Call it once for each address.
  HeaptrackIp instruction(std::uint64_t address, std::string_view module, std::span<const HeaptrackFrame> frames);

  /// The number of the frame `ip` with the caller `parent` (kNone: outermost), which is written once.
  HeaptrackTrace trace(HeaptrackIp ip, HeaptrackTrace parent);

  // Events, in order of time.

  /// Sets the time of the following events. Writes only every 10 ms. Earlier times are ignored.
  void set_time(std::uint64_t time_ns) {
    if (time_ns >= next_time_ns_) [[unlikely]]
      write_time(time_ns);
  }

  /// Resident memory at this time. Readers keep the maximum.
  void resident(std::uint64_t bytes);

  /// Cost: one lookup in a hash table and a line of a few bytes.
  HeaptrackClass allocation(std::uint64_t size_bytes, HeaptrackTrace trace);

  /// Frees a block of a class that allocation() returned. False, and nothing is written, when no block of the class
  /// is live.
  bool deallocation(HeaptrackClass of);
  /// The same, by size and stack of the block.
  bool deallocation(std::uint64_t size_bytes, HeaptrackTrace trace);

  /// Writes the last time and resident memory (0: unknown). Does not close the output.
  void finish(std::uint64_t time_ns, std::uint64_t resident_bytes);

  const HeaptrackTotals& totals() const noexcept { return totals_; }

  /// The sums of one class, for tests.
  struct ClassFigures {
    std::uint64_t size_bytes = 0;
    HeaptrackTrace trace{};
    std::uint64_t calls = 0;
    std::uint64_t temporary = 0;
    std::uint64_t live = 0;  ///< blocks; those live at the end are leaked
  };
  std::span<const ClassFigures> classes() const noexcept { return classes_; }

 private:
  static constexpr std::uint32_t kNoClass = UINT32_MAX;

  std::uint32_t find_class(std::uint64_t size_bytes, HeaptrackTrace trace) const noexcept;
  std::uint32_t new_class(std::uint64_t size_bytes, HeaptrackTrace trace);
  void grow_classes();
  std::size_t slot_of(std::uint64_t size_bytes, HeaptrackTrace trace) const noexcept;
  void write_time(std::uint64_t time_ns);
  void write_event(char type, std::uint64_t number);
  bool within_limit(std::size_t count, const char* what);

  Sink& output_;
  const std::uint64_t index_limit_;
  const std::uint64_t page_bytes_;

  std::unordered_map<std::string, HeaptrackString, ChosenTextHash> strings_;
  std::unordered_map<std::uint64_t, HeaptrackTrace, ChosenKeyHash> traces_;  // ip << 32 | parent
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

/// Maps the nodes of a linked call tree to the file's traces. Each trace is written at its first use.
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

  /// `tree` must outlive this. `resolve` is called once for each instruction that is used.
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
