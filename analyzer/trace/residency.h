// Snapshots of the resident pages of a recorded process: which pages of which mappings were resident or swapped
// (common/residency_codec.h; docs/concepts/trace-format.md, "Snapshots of resident pages").
//
//   ResidencyReader snapshots(file);
//   for each text of TextKind::kResidency, in the order of MergedReader:
//     if (std::optional<ResidencySnapshot> snapshot = snapshots.add(text)) ...
//   if (std::optional<ResidencySnapshot> snapshot = snapshots.finish()) ...
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/base/address_range.h"
#include "analyzer/trace/events/merged_event.h"
#include "analyzer/trace/trace_file.h"
#include "common/residency_codec.h"

namespace heapprof::trace {

/// A line of /proc/PID/maps.
struct ResidentMapping : AddressRange {
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;          ///< MAP_SHARED
  bool name_truncated = false;  ///< the name is longer than kMaxMappingNameBytes
  std::uint64_t device = 0;     ///< major << 32 | minor
  std::uint64_t inode = 0;      ///< 0: no file
  std::uint64_t offset = 0;     ///< in the file, bytes
  std::string name;             ///< a path, "[heap]", "[stack]", ...; empty: anonymous
};

/// The state of a page.
struct PageState {
  bool present = false;  ///< mapped by the process's page tables; of a file, too, if the process has touched the page
  bool swapped = false;
  bool zero = false;  ///< present, but the kernel's page of zeros, which is not in RSS
  bool huge = false;  ///< present, as part of a huge page
  bool operator==(const PageState&) const = default;
  bool resident() const noexcept { return present && !zero; }
};

/// The states of all pages of a process. Memory: 16 bytes for each 512 pages, and 64 bytes more for each property in
/// which these differ.
class PageStates {
 public:
  std::uint64_t page_bytes() const noexcept { return page_bytes_; }

  PageState at(std::uint64_t address) const;

  /// Calls visit(range, state) for the ranges of equal state that [begin, end) consists of, in order. A page counts
  /// if it begins in the range. The ranges of pages that are neither present nor swapped are visited, too.
  void for_each_range(std::uint64_t begin, std::uint64_t end,
                      const std::function<void(const AddressRange&, const PageState&)>& visit) const;

  /// Bytes of resident pages in [begin, end): without the kernel's page of zeros.
  std::uint64_t resident_bytes(std::uint64_t begin, std::uint64_t end) const;

 private:
  friend class ResidencyReader;
  struct Group {
    std::uint64_t number;
    std::uint32_t bits;   ///< index in bits_ of the first plane that has bits
    std::uint8_t layout;  ///< as in the trace
  };
  using Bits = std::array<std::uint64_t, kGroupPages / 64>;

  const Group* find(std::uint64_t number) const;
  PageState state_in(const Group& group, std::uint32_t page) const;

  std::uint64_t page_bytes_ = 4096;
  std::vector<Group> groups_;  ///< by number
  std::vector<Bits> bits_;
};

struct ThreadStack {
  std::uint64_t thread = 0;         ///< kernel thread id
  std::uint64_t stack_pointer = 0;  ///< at one of its latest events before the snapshot
  std::uint64_t end = 0;            ///< the address after the stack's highest byte, or close below; 0: unknown
};

struct ResidencySnapshot {
  std::uint64_t number = 0;  ///< from 1
  SnapshotReason reason = SnapshotReason::kMark;
  SnapshotMethod method = SnapshotMethod::kPagemapScan;
  std::uint64_t begin_ns = 0;  ///< since the start of the recording
  std::uint64_t end_ns = 0;
  std::uint64_t spent_ns = 0;        ///< processor time that it took
  std::uint64_t resident_bytes = 0;  ///< by statm, at its begin; 0: unknown
  std::uint64_t shared_bytes = 0;
  std::vector<ResidentMapping> mappings;  ///< by address, without overlap
  PageStates pages;
  /// Memory of the recorder, in no order. The kernel may have merged its mappings with neighbours.
  std::vector<AddressRange> recorder_ranges;
  std::vector<ThreadStack> stacks;
  /// False: the snapshot was given up before its end, or pieces of it are damaged or missing.
  bool complete = false;
};

/// Assembles snapshots from their pieces. Memory is limited to what a file of this size can hold
/// (max_residency_bytes); a snapshot that exceeds it is incomplete.
class ResidencyReader {
 public:
  explicit ResidencyReader(const TraceFile& file);

  /// Adds a text of TextKind::kResidency. Returns a snapshot if the text is its last piece, or the first piece of
  /// another one.
  std::optional<ResidencySnapshot> add(const EventText& text);
  /// Call this after the last text: returns the snapshot whose end is missing.
  std::optional<ResidencySnapshot> finish();

 private:
  struct Visitor;
  std::optional<ResidencySnapshot> take();

  std::uint64_t start_ns_;
  std::uint64_t max_bytes_;
  ResidencySnapshot current_;
  bool begun_ = false;  ///< current_ has its begin
  bool ended_ = false;
  std::uint64_t next_piece_ = 0;
  bool damaged_ = false;
  std::uint64_t bytes_ = 0;  ///< memory of current_
};

/// When a snapshot began, in nanoseconds since the start of the recording, if `text` is its first piece.
std::optional<std::uint64_t> snapshot_begin_ns(const TraceFile& file, const EventText& text);

/// Reads the whole trace and calls visit() for each snapshot, in order. Throws TraceError.
void for_each_snapshot(const TraceFile& file, const std::function<void(ResidencySnapshot&&)>& visit);

}  // namespace heapprof::trace
