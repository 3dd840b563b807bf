#include "analyzer/replay/summarize.h"

namespace heapprof::replay {

trace::TraceSummary summary_of(const trace::MergedReader& reader, const Replay& replay) {
  trace::TraceSummary summary;
  summary.definitions = reader.definitions();
  summary.node_ids = reader.node_ids();
  summary.damage = reader.damage();
  summary.clock = replay.clock();
  summary.last_time = replay.last_time();
  summary.records = reader.records();
  summary.events = replay.heap().events();
  summary.bad_events = replay.bad_events();
  summary.unfinished = replay.unfinished();
  summary.paused_once = replay.paused_once();
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
