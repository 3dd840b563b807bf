// Writes the intervals of an index while the trace is replayed: of each its sums (interval_sums.h), and its state
// with the older blocks that left in it (interval_state.h), and of some all live blocks at their end
// (stored_blocks.h).
//
// A slice needs no live blocks, however many there are, so intervals can be short; what needs them gets them from a
// later interval that has them. Together they take at most 5 % of the trace, and what is known of the whole recording
// a little more. How large the next interval would be is known from the blocks that left the table of live blocks
// since the last one, so the intervals that there is room for are spread over the rest of the trace. At its end, an
// interval without its older blocks serves the whole recording, and so do the history of live bytes (live_history.h)
// and the lives of blocks (stack_lives.h).
#pragma once

#include <cstdint>
#include <span>
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

/// Records of an interval, at least. Pass it to MergedReader::give_positions().
inline constexpr std::uint64_t kIntervalRecords = 1 << 18;

/// SectionHeader::events of a state.
inline constexpr std::uint64_t kEndOfTrace = 2;    ///< after the last event: it has no position
inline constexpr std::uint64_t kWithoutOlder = 4;  ///< with kEndOfTrace: its older blocks are left out

class IntervalWriter {
 public:
  /// Sections get the id of `trace`. `file` and `replay` must outlive this. Precondition: nothing was replayed yet.
  IntervalWriter(AtomicFile& file, const trace::TraceFile& trace, Replay& replay);
  IntervalWriter(const IntervalWriter&) = delete;
  IntervalWriter& operator=(const IntervalWriter&) = delete;
  /// Call it after each batch was replayed. Ends an interval when the batch has a position and there is room for it.
  /// Throws FileError.
  void after(const trace::Batch& batch);
  /// Ends the last interval, if there is room for it. Call it after the last batch, before
  /// Replay::finish(). `records`: of the trace. Throws FileError.
  void end_of_trace(std::uint64_t records);
  /// Write what is known of the whole recording, if there is room for it. Call them after Replay::finish(). Throw
  /// FileError.
  void write_history(std::uint64_t records);
  void write_lives(std::uint64_t records);

 private:
  std::uint64_t older_blocks() const noexcept;
  std::uint64_t bytes_of_blocks() const noexcept;
  std::uint64_t reserved() const noexcept;
  std::uint64_t history_budget() const noexcept;
  std::uint64_t max_history() const noexcept;
  std::uint64_t available() const noexcept;
  bool is_due(std::uint64_t frame_bytes_read, std::uint64_t bytes) const noexcept;
  std::vector<std::uint8_t> section(trace::SectionKind kind, std::uint64_t records, std::uint64_t flags = 0) const;
  std::vector<std::uint8_t> state_section(std::span<const std::uint8_t> position, std::uint64_t records,
                                          std::uint64_t flags, OlderBlocks older);
  std::vector<std::uint8_t> blocks_section(std::uint64_t records);
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
  std::uint64_t bytes_per_older_;    // of the last interval's state
  std::uint64_t other_bytes_ = 0;    // of the last interval without its older blocks
  std::uint64_t last_position_ = 0;  // of the last interval: bytes of frames before its end
  std::uint64_t bytes_per_block_;    // of the last section with all live blocks
  std::uint64_t since_blocks_ = 0;   // bytes of the intervals since then
  bool stopped_ = false;             // a section was too large
};

}  // namespace heapprof::replay
