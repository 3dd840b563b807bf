// The moment "peak": when most bytes were live, of the whole recording.
#pragma once

#include <optional>
#include <string>

#include "analyzer/cli/options/trace_options.h"
#include "analyzer/replay/selection.h"

namespace heapprof::cli {

/// Replaces "peak" by its time in the moments of options.texts, and sets texts.peak. Reads the trace first if it is
/// one of them. Throws trace::TraceError when the trace cannot be read, replay::SelectionError when no byte was live.
void resolve_peak(TraceOptions& options);

/// With options.at_own_peak: replaces the slice by the moment of the selection's peak, which is before a pass that
/// lists blocks. Reads the trace. Nothing, if the moment is selected already (--live-at, --survivors).
/// Throws as above, and std::invalid_argument as resolve_selection().
void resolve_own_peak(TraceOptions& options);

/// The time of a moment of the trace that is not in options.texts, if it is "peak". Others are returned as they are.
std::string resolve_peak(const TraceOptions& options, const std::string& moment);
/// Replaces "peak" by its time and position.
void resolve_peak(const TraceOptions& options, std::optional<replay::Moment>& moment);

}  // namespace heapprof::cli
