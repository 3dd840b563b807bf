// The index of a trace: its trace summary, and the sums of intervals with the state of the replay at their ends. With
// them the analysis of a slice of time replays only what is between its ends and the intervals, with the same result
// (docs/concepts/analysis.md, "Index"). The history (live_history.h) has the live bytes over time of the whole
// recording, the totals (recording_totals.h) what it allocated, and the lives (stack_lives.h) how long; a list of the
// frames lets other processes open the trace without reading all frame headers.
//
// A compacted trace contains its index, which has snapshots instead of intervals (snapshot_writer.h). Other traces
// have one in a file: TRACE.idx, or in the user's cache directory (index_cache.h).
//
//   index file = header (state sums [blocks])* [history] [lives] [frames] totals [python] summary    header:
//   index.cpp; sections: analyzer/trace/compact/section.h
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/base/atomic_file.h"
#include "analyzer/replay/index/interval_state.h"
#include "analyzer/replay/index/interval_writer.h"
#include "analyzer/replay/interval_sums.h"
#include "analyzer/replay/live_history.h"
#include "analyzer/replay/recording_totals.h"
#include "analyzer/replay/stack_lives.h"
#include "analyzer/replay/stored_blocks.h"
#include "analyzer/trace/compact/section.h"
#include "analyzer/trace/compact/trace_summary.h"
#include "analyzer/trace/files/input_file.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::replay {

/// Writes the header of an index file for the trace `file`. Throws FileError.
void write_index_header(AtomicFile& out, const trace::TraceFile& file);
/// Writes the section with the list of the trace's frames, if the trace has one. Throws FileError.
void write_frames(AtomicFile& out, const trace::TraceFile& file);
/// The list of frames in the index file `path` of the trace with this id and TraceFile::bytes(); nullopt: there is
/// none that can be used.
std::optional<trace::FrameList> frames_in_index(const std::string& path, std::uint64_t file_id,
                                                std::uint64_t trace_bytes);
/// Writes the sections with the trace summary. Throws FileError.
void write_summary(AtomicFile& out, std::uint64_t file_id, const trace::TraceSummary& summary);

/// Writes the section with what the recording allocated. Throws FileError.
void write_totals(AtomicFile& out, std::uint64_t file_id, const RecordingTotals& totals, std::uint64_t records);

/// Replays the trace once and writes intervals of at least `interval` records, and the summary, which is returned.
/// `each`, if given, is called after each batch was replayed. Throws trace::TraceError or FileError.
trace::TraceSummary add_index(AtomicFile& out, const trace::TraceFile& file, std::uint64_t interval,
                              const std::function<void(const trace::Batch&)>& each = {});

/// A snapshot that was read: where the reader continues, and the state of the replay with its live blocks.
class Snapshot {
 public:
  Snapshot() = default;
  /// Of a compacted trace, for Replay::restore(): one piece. Throws trace::FormatError, as the next.
  explicit Snapshot(std::vector<std::uint8_t> whole);
  /// Of an interval that ends at `ticks`. `later_blocks`: live at the end of a later interval, or of this one;
  /// `left`: blocks that left the table of live blocks from then to that moment.
  Snapshot(std::uint64_t ticks, std::shared_ptr<const IntervalState> state, std::vector<std::uint8_t> later_blocks,
           std::vector<Block> left);

  bool empty() const noexcept { return whole_.empty() && state_ == nullptr; }
  /// For MergedReader. Precondition: not empty, as for the others.
  trace::ByteReader position() const;
  /// As Replay::restore(). Throws trace::FormatError.
  bool restore(Replay& replay, std::uint32_t node_count) const;
  /// Precondition: not of a compacted trace. Throws trace::FormatError.
  BlockTable blocks() const;

 private:
  std::vector<std::uint8_t> whole_;
  std::uint64_t ticks_ = 0;
  std::shared_ptr<const IntervalState> state_;
  std::vector<std::uint8_t> later_blocks_;
  std::vector<Block> left_;
};

/// How a slice of time consists of intervals. The first one begins at the start of the trace, each other where the
/// one before ends; one after the last in the index ends with the trace.
struct SliceIntervals {
  std::size_t first = 0;  ///< the first interval whose events are all in the slice; 0: all before it are, too
  std::size_t end = 0;    ///< the one after the last such interval, so that events of it may be in the slice
  /// Whether the slice begins and ends in the same interval, so that no sums are added.
  bool within_one() const noexcept { return first > end; }
  /// Where the reading begins: at the end of this interval; nullopt: at the start of the trace.
  std::optional<std::size_t> begin() const noexcept { return first < 2 ? std::nullopt : std::optional(first - 2); }
};

class Index {
 public:
  /// Opens the index of `file` in `path`. nullopt: there is none (`why_not` is empty), or it is damaged or of another
  /// trace (`why_not` is a sentence).
  static std::optional<Index> open(const std::string& path, const trace::TraceFile& file, std::string& why_not);
  /// The index that a compacted trace contains.
  static Index inside(const trace::TraceFile& file);

  const std::shared_ptr<const trace::TraceSummary>& summary() const noexcept { return summary_; }
  const std::string& path() const noexcept { return input_->path(); }

  /// The latest snapshot whose events are all before `ticks`. Empty: there is none. Throws trace::FormatError.
  Snapshot snapshot_before(std::uint64_t ticks) const;

  /// Of the slice [from_ticks, end_ticks); 0 as `from_ticks` is the start of the trace. nullopt: there are no sums,
  /// or they are of no use.
  std::optional<SliceIntervals> intervals_of(std::uint64_t from_ticks, std::uint64_t end_ticks) const;
  /// Whether its older blocks are known.
  bool has_older_blocks(std::size_t interval) const noexcept;
  /// Whether the live blocks at the end of the interval are known.
  bool has_snapshot(std::size_t interval) const noexcept { return blocks_after_[interval] != nullptr; }
  /// Whether the trace ends with this interval, so that its state has no position.
  bool ends_trace(std::size_t interval) const noexcept;
  /// Records of the trace before the end of the interval.
  std::uint64_t records_to(std::size_t interval) const noexcept { return table_.states[interval].header.number; }
  /// Throws trace::FormatError, as the others.
  IntervalSums sums_of(std::size_t interval) const;
  std::shared_ptr<const IntervalState> state_of(std::size_t interval) const;
  /// The snapshot at the end of the interval. Precondition: has_snapshot(interval).
  Snapshot snapshot_after(std::size_t interval) const;
  /// How many intervals there are; 0: no index, or one inside a compacted trace.
  std::size_t intervals() const noexcept { return table_.states.size(); }
  /// Whether sums are known of each interval.
  bool has_sums() const noexcept { return table_.sums.size() == table_.states.size(); }
  /// Ticks of the last event of the interval.
  std::uint64_t last_time_of(std::size_t interval) const noexcept { return table_.states[interval].header.last_time; }
  /// Its older blocks: those that a replay of the interval needs. Precondition:
  /// has_older_blocks(interval).
  std::vector<Block> needed_in(std::size_t interval) const;

  /// What the whole recording allocated; nullopt: the trace was compacted before this was written. Throws
  /// trace::FormatError.
  std::optional<RecordingTotals> totals() const;

  /// The live bytes over the whole recording; nullopt: there was no room for their timeline. `first_width_ticks`: of
  /// the timeline of a replay. Throws trace::FormatError.
  std::optional<LiveHistory> history(std::uint64_t first_width_ticks) const;

  /// The lives of the blocks of the whole recording; nullopt: there was no room for them, or the index is of an older
  /// heapprof. Throws trace::FormatError.
  std::optional<std::vector<StackLives>> lives() const;

 private:
  Index() = default;
  void find_blocks();
  std::shared_ptr<const trace::InputFile> input_;
  std::shared_ptr<const trace::TraceSummary> summary_;
  trace::SectionTable table_;
  // By interval: the live blocks at its end, or at the end of the next one that has them; null: they are not known.
  std::vector<const trace::Section*> blocks_after_;
};

/// The path of the index file beside a trace.
std::string index_beside(const trace::TraceFile& file);
std::string index_beside(const trace::InputFile& input);

}  // namespace heapprof::replay
