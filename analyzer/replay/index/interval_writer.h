// Writes an index's snapshots and the sums of the intervals between them, while the trace is replayed.
//
// A snapshot stores the live blocks by what changed since the one before, and all of them only where the changes
// since the last such snapshot are larger: so snapshots can be close together however many blocks are live.
// Together they take at most 5 % of the trace, and what is known of the whole recording a little more. How large the
// next one would be is known from the blocks that left the table of live blocks since the last one, so the snapshots
// that there is room for are spread over the rest of the trace. At its end, sums that come without a snapshot of the
// blocks serve the whole recording, and so do the history of live bytes (live_history.h) and the lives of blocks
// (stack_lives.h).
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/base/atomic_file.h"
#include "analyzer/replay/interval_sums.h"
#include "analyzer/replay/live_history.h"
#include "analyzer/replay/replay.h"
#include "analyzer/trace/compact/section.h"
#include "analyzer/trace/events/merged_event.h"
#include "analyzer/trace/files/byte_stream.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::replay {

/// Records between two snapshots of an index, at least. Pass it to MergedReader::give_positions().
inline constexpr std::uint64_t kIntervalRecords = 1 << 20;

/// SectionHeader::events of a snapshot.
inline constexpr std::uint64_t kWholeSnapshot = 1;  ///< it has all live blocks
inline constexpr std::uint64_t kEndOfTrace = 2;     ///< after the last event: it has no position
inline constexpr std::uint64_t kWithoutBlocks = 4;  ///< with kEndOfTrace: the changes of the live blocks are left out

class IntervalWriter {
 public:
  /// Sections get the id of `trace`. `file` and `replay` must outlive this. Precondition: nothing was replayed yet.
  IntervalWriter(AtomicFile& file, const trace::TraceFile& trace, Replay& replay);
  IntervalWriter(const IntervalWriter&) = delete;
  IntervalWriter& operator=(const IntervalWriter&) = delete;
  /// Call it after each batch was replayed. Writes a snapshot and sums when the batch has a position and there is
  /// room for them. Throws FileError.
  void after(const trace::Batch& batch);
  /// Writes the sums of the last interval, if there is room for them. Call it after the last batch, before
  /// Replay::finish(). `records`: of the trace. Throws FileError.
  void end_of_trace(std::uint64_t records);
  /// Write what is known of the whole recording, if there is room for it. Call them after Replay::finish(). Throw
  /// FileError.
  void write_history(std::uint64_t records);
  void write_lives(std::uint64_t records);

 private:
  std::uint64_t changed_blocks() const noexcept;
  std::uint64_t history_budget() const noexcept;
  std::uint64_t max_history() const noexcept;
  std::uint64_t available() const noexcept;
  bool is_due(std::uint64_t frame_bytes_read, std::uint64_t bytes) const noexcept;
  std::vector<std::uint8_t> section(trace::SectionKind kind, std::uint64_t records, std::uint64_t flags = 0) const;
  bool append_if_fits(trace::SectionKind kind, std::uint64_t records, std::uint64_t max_bytes);
  std::uint64_t append(const std::vector<std::uint8_t>& section);

  AtomicFile& file_;
  Replay& replay_;
  const std::uint64_t file_id_;
  const std::uint64_t trace_bytes_;
  IntervalLog log_;
  trace::ByteWriter contents_;  // of the next section
  const std::uint64_t budget_;  // bytes of all sections
  LiveHistoryLog history_log_;
  std::uint64_t written_bytes_ = 0;  // all sections
  std::uint64_t bytes_per_change_;   // of the last snapshot by changes
  std::uint64_t other_bytes_ = 0;    // of the last snapshot by changes, and of its sums
  std::uint64_t last_position_ = 0;  // of the last snapshot: bytes of frames before it
  std::uint64_t live_at_last_ = 0;   // live blocks at the last snapshot
  std::uint64_t whole_bytes_ = 0;    // the last whole snapshot; 0: there is none
  std::uint64_t changes_bytes_ = 0;  // snapshots by changes since then
  bool stopped_ = false;             // a section was too large
};

}  // namespace heapprof::replay
