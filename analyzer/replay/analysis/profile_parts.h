// The parts of a profile that are made from a finished replay: recording, costs, threads, timeline.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyzer/model/live_timeline.h"
#include "analyzer/model/profile.h"
#include "analyzer/replay/replay.h"
#include "analyzer/replay/resolved_filter.h"
#include "analyzer/replay/selection.h"
#include "analyzer/trace/compact/trace_summary.h"
#include "analyzer/trace/events/definitions.h"
#include "analyzer/trace/events/tick_clock.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::replay {

/// What the header and the definitions say of the recorded process. The rest of the fields is not set.
model::Recording describe_process(const FileHeader& header, const trace::Definitions& definitions);
/// What a recording shows of its end.
struct RecordingEnd {
  EndKind kind = EndKind::kNone;  ///< of the header
  std::string ended_by;           ///< TraceFile::ended_by()
  std::uint64_t duration_ns = 0;
  std::uint64_t realtime_ns = 0;  ///< since 1970, of the header; 0: unknown
  std::uint64_t modified_ns = 0;  ///< when the file was changed last, since 1970; 0: unknown
};
/// When the recorded program had ended at the latest, since 1970: it cannot have written files after that. 0: it may
/// still run, or this is not known.
std::uint64_t latest_end_ns(const model::Recording& recording, const RecordingEnd& end);
/// Everything but duration_ns and ended_realtime_ns.
model::Recording describe_recording(const trace::TraceFile& file, const trace::Definitions& definitions);

/// How a replay is mapped to a profile.
struct ProfileMapping {
  const Selection& selection;
  const ResolvedFilter& filter;
  const trace::TickClock& clock;
  const std::vector<std::uint32_t>& node_of_index;  ///< by dense index: the node of the profile
};

/// Fills heap, mmap, totals, the peak and the costs of the nodes. Precondition: the call tree is linked, and
/// live_at_ns and slice are set.
void fill_costs(const Replay& replay, const ProfileMapping& mapping, model::Profile& profile);
/// Replaces all costs by those of the blocks that are live, as if nothing else had been allocated: a replay that
/// began at a snapshot knows no others. Precondition: fill_costs() was called.
void keep_live_costs(model::Profile& profile);
void fill_threads(const Replay& replay, const trace::TickClock& clock, model::Profile& profile);
/// `only_times`: without marks, and of the buckets only the times.
model::Timeline timeline_of(const Replay& replay, const ProfileMapping& mapping, bool only_times);
/// `width_ticks`: of a bucket. `start_ticks`: of the first one.
std::vector<model::Timeline::Bucket> buckets_of(std::span<const model::LiveTimeline::Bucket> live,
                                                std::uint64_t width_ticks, std::uint64_t start_ticks,
                                                const trace::TickClock& clock);
std::vector<model::Timeline::Mark> marks_of(const trace::Overview& overview, const trace::TickClock& clock);

}  // namespace heapprof::replay
