// How much of pinned and of returnable memory is resident, where the recording shows it.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/cli/options/trace_options.h"
#include "analyzer/pins/pinned_memory.h"
#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::cli {

/// Bytes; times are nanoseconds since the start of the recording.
struct PinnedResidency {
  bool measured = false;        ///< by a snapshot of the resident pages; else estimated by a sample of their number
  std::uint64_t at_ns = 0;      ///< of the snapshot or sample
  std::uint64_t rss_bytes = 0;  ///< of the process
  std::uint64_t pinned_bytes = 0;      ///< of PinnedMemory::pinned_bytes
  std::uint64_t returnable_bytes = 0;  ///< of PinnedMemory::returnable_bytes
};

/// Reads the trace for the snapshot at the end of the analysis's slice, else for the last sample before it. nullopt:
/// there is neither, events are missing, or `memory` was read from a compacted trace, which has no addresses.
std::optional<PinnedResidency> read_pinned_residency(const TraceOptions& options, const replay::Analysis& analysis,
                                                     const pins::PinnedMemory& memory);

}  // namespace heapprof::cli
