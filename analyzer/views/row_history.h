// The live bytes of rows over time, from an index or by another reading of the trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/progress.h"
#include "analyzer/views/rows.h"

namespace heapprof::views {

/// For each row, the live bytes of its own stacks in each of `parts` equal parts of the profile's timeline: the
/// highest of those at the ends of its buckets and at the peak; of a timeline with fewer buckets, of each bucket.
/// `groups` are those of the rows' view; without them the rows are threads.
std::vector<std::vector<std::uint64_t>> live_over_time(const replay::Analysis& analysis, std::span<const Row> rows,
                                                       const StackGroups* groups, std::size_t parts,
                                                       const replay::Progress& progress = {});

}  // namespace heapprof::views
