// What `pins`, `flamegraph --cost pinned` and `check --max-pinned` have in common.
#pragma once

#include "analyzer/cli/options/trace_options.h"
#include "analyzer/pins/pinned_memory.h"
#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::cli {

/// Replays the trace again, with a progress line. Throws trace::TraceError with what to do when the trace has no
/// addresses.
pins::PinnedMemory read_pinned_memory(const TraceOptions& options, const replay::Analysis& analysis);

/// Throws replay::SelectionError when the moment of --at, which is in options.texts.to, is after the recording's end.
void refuse_moment_after_end(const TraceOptions& options, const model::Profile& profile);

}  // namespace heapprof::cli
