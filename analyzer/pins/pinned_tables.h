// Pinned memory in compacted traces, whose blocks have numbers instead of addresses: tables for some moments
// (analyzer/trace/compact/pinned_table.h), made while the trace is compacted and read afterwards.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "analyzer/allocators/process_allocators.h"
#include "analyzer/pins/page_history.h"
#include "analyzer/pins/pinned_memory.h"
#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/trace/compact/section.h"
#include "analyzer/trace/compact/trace_summary.h"
#include "analyzer/trace/events/merged_event.h"

namespace heapprof::replay {
class Replay;
}

namespace heapprof::pins {

/// A moment of which a compacted trace has a table.
struct PinnedMoment {
  std::uint64_t at_ns = 0;     ///< since the start of the recording
  std::uint64_t snapshot = 0;  ///< number of the snapshot of resident pages; 0: the end of the recording
};

/// Makes the tables while the trace is replayed. Calls in order: for each part of the trace up to next_ticks() add(),
/// then, when the replay has handled the same events, make(); at last finish().
class PinnedTableMaker {
 public:
  static constexpr std::uint64_t kNoTicks = std::numeric_limits<std::uint64_t>::max();

  /// `summary`: of the trace with addresses; must outlive this. `snapshots`: moments of its snapshots.
  PinnedTableMaker(const trace::TraceSummary& summary, std::uint64_t file_id,
                   const std::vector<PinnedMoment>& snapshots);

  /// Events before this belong to the next table; kNoTicks: only the end is left.
  std::uint64_t next_ticks() const noexcept { return next_ < moments_.size() ? moments_[next_].ticks : kNoTicks; }
  /// The next events, as the reader gives them.
  void add(std::span<const trace::MergedEvent> events);
  /// Makes the next table. `replay` has handled the events of add(), and nothing is selected in it. `records`: of the
  /// trace so far; `bytes`: of the compacted trace so far. Both limit what the tables may cost (max_blocks and
  /// max_bytes in the .cpp): a snapshot that would exceed a limit gets no table.
  void make(const replay::Replay& replay, std::uint64_t records, std::uint64_t bytes);
  /// Makes the tables that are left, and that of the end. Returns all tables, as sections.
  std::vector<std::vector<std::uint8_t>> finish(const replay::Replay& replay, std::uint64_t records,
                                                std::uint64_t bytes);

 private:
  struct Moment {
    std::uint64_t ticks = 0;  ///< the first time that does not count
    PinnedMoment moment;
  };
  std::vector<std::uint8_t> section_of(const replay::Replay& replay, const PinnedMoment& moment) const;

  const trace::TraceSummary& summary_;
  const std::uint64_t file_id_;
  model::Profile process_;  ///< what ProcessAllocators needs of it: modules and notes
  std::vector<Moment> moments_;
  std::size_t next_ = 0;
  // Which quantum a jemalloc has is decided anew at each moment, so there is a history for either.
  allocators::ProcessAllocators usual_;
  allocators::ProcessAllocators small_quantum_;
  PageHistory usual_history_;
  PageHistory small_quantum_history_;
  std::uint64_t blocks_sorted_ = 0;
  std::uint64_t section_bytes_ = 0;
  std::vector<std::vector<std::uint8_t>> sections_;
};

/// The moments of which a compacted trace has tables, in order of time; the end is the last one. Empty: it was
/// compacted with addresses or by an older version, or the tables are lost.
std::vector<PinnedMoment> pinned_moments(const trace::TraceFile& file);

/// Reads the table of `moment`, one of pinned_moments(). PinnedMemory::kept.ranges stays empty. Throws
/// trace::TraceError when the table is damaged.
PinnedMemory read_pinned_table(const replay::Analysis& analysis, const PinnedMoment& moment);

}  // namespace heapprof::pins
