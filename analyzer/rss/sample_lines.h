// The lines of resident memory where there is no snapshot: estimated from a sample (docs/concepts/resident-memory.md,
// "Between snapshots").
#pragma once

#include "analyzer/rss/process_memory.h"
#include "analyzer/rss/recorded_residency.h"
#include "analyzer/rss/resident_lines.h"

namespace heapprof::rss {

/// What live blocks and mappings take, if all their pages are resident: as much of it as the sample's private memory
/// allows, in the order of the lines. The sum is the sample's resident memory.
ResidentMemory estimate(const ResidentSample& sample, const ProcessMemory& process);

}  // namespace heapprof::rss
