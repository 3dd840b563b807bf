// What `pins`, `flamegraph --cost pinned` and `check --max-pinned` have in common.
#pragma once

#include <vector>

#include "analyzer/cli/options/trace_options.h"
#include "analyzer/pins/pinned_memory.h"
#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::cli {

/// For run_on_trace(): appends the blocks that were not freed to `blocks`.
replay::LeakVisitor collect_into(std::vector<pins::PinningBlock>& blocks);

/// In a compacted trace, which knows the pinned memory of some moments only: makes the moment in options.texts.to the
/// nearest one of these, unless it is further away than times are rounded (0.5 % of it), or than 10 ms. The blocks
/// are then those of that moment. Throws trace::TraceError when the trace cannot be read.
void choose_known_moment(TraceOptions& options);

/// Reads the trace again, with a progress line. `live`: the blocks that were not freed. A compacted trace without
/// addresses is not read again: it has tables for some moments. Throws trace::TraceError, with the moments that it
/// has, when the end of the slice is none of them.
pins::PinnedMemory read_pinned_memory(const TraceOptions& options, const replay::Analysis& analysis,
                                      std::vector<pins::PinningBlock> live);

/// Throws replay::SelectionError when the moment of --at, which is in options.texts.to, is after the recording's end.
void refuse_moment_after_end(const TraceOptions& options, const model::Profile& profile);

}  // namespace heapprof::cli
