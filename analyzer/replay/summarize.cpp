#include "analyzer/replay/summarize.h"

namespace heapprof::replay {
namespace {

trace::Overview::MarkKind kind_of(const Replay::Mark& mark) {
  using Kind = model::Timeline::Mark::Kind;
  switch (mark.kind) {
    case Kind::kPaused: return trace::Overview::MarkKind::kPaused;
    case Kind::kResumed: return trace::Overview::MarkKind::kResumed;
    case Kind::kUser: break;
  }
  return trace::Overview::MarkKind::kUser;
}

trace::Overview overview_of(const Replay& replay) {
  const model::HeapTotals& heap = replay.heap();
  trace::Overview overview;
  overview.allocations = heap.allocations;
  overview.allocated_bytes = heap.allocated_bytes;
  overview.frees = heap.frees;
  overview.failed = heap.failed;
  overview.unmatched_frees = heap.unmatched_frees;
  overview.implied_frees = heap.implied_frees;
  overview.snapshots = replay.snapshots();
  for (const Replay::Thread& thread : replay.threads())
    overview.threads.push_back({thread.tid, thread.name, thread.start_ticks, thread.allocations,
                                thread.allocated_bytes, thread.is_others, thread.name_left_out});
  for (const Replay::Mark& mark : replay.marks()) overview.marks.push_back({mark.ticks, kind_of(mark), mark.text});
  overview.all_marks = overview.marks.size() < Replay::kMaxMarks;
  return overview;
}

/// What a summary has of the replay.
trace::TraceSummary summary_of(const Replay& replay) {
  trace::TraceSummary summary;
  summary.clock = replay.clock();
  summary.last_time = replay.last_time();
  summary.events = replay.heap().events();
  summary.bad_events = replay.bad_events();
  summary.unfinished = replay.unfinished();
  summary.paused_once = replay.paused_once();
  summary.overview = overview_of(replay);
  return summary;
}

}  // namespace

trace::TraceSummary summary_of(const trace::MergedReader& reader, const Replay& replay) {
  trace::TraceSummary summary = summary_of(replay);
  summary.definitions = reader.definitions();
  summary.node_ids = reader.node_ids();
  summary.damage = reader.damage();
  replay.note_losses(summary.damage);
  summary.records = reader.records();
  return summary;
}

trace::TraceSummary summary_of(const trace::FollowedBatches& batches, const Replay& replay) {
  trace::TraceSummary summary = summary_of(replay);
  summary.definitions = batches.follower().definitions();
  summary.damage = batches.follower().damage();
  replay.note_losses(summary.damage);
  summary.records = batches.records();
  return summary;
}

std::uint64_t end_ticks(const trace::TraceFile& file, const trace::TickClock& clock) {
  if (file.cut_ticks() != trace::kNoCut) return file.cut_ticks();
  const FileHeader& header = file.header();
  if (header.end_kind == EndKind::kNone) return 0;
  // The header's checksum does not cover the end time. No recording is longer than a year.
  constexpr std::uint64_t kYearNs = std::uint64_t{366} * 86400 * 1'000'000'000;
  return clock.to_ns(trace::Ticks{header.end_ticks}) < kYearNs ? header.end_ticks : 0;
}

}  // namespace heapprof::replay
