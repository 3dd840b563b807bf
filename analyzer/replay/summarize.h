// The trace summary of a finished replay, and the end of a recording.
#pragma once

#include <cstdint>

#include "analyzer/replay/replay.h"
#include "analyzer/trace/compact/trace_summary.h"
#include "analyzer/trace/followed_batches.h"
#include "analyzer/trace/merged_reader.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::replay {

/// Precondition: `reader` read the trace from its start to its end, and `replay` is finished.
trace::TraceSummary summary_of(const trace::MergedReader& reader, const Replay& replay);

/// The same of a replay of a recording that is followed, without what a later reader needs to resume.
trace::TraceSummary summary_of(const trace::FollowedBatches& batches, const Replay& replay);

/// The last known time of the recording apart from its events, in ticks; 0: unknown. `clock`: with all samples of the
/// recording.
std::uint64_t end_ticks(const trace::TraceFile& file, const trace::TickClock& clock);

}  // namespace heapprof::replay
