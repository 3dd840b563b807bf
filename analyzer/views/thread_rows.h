// What each thread allocated, by a second reading of the trace. The profile has costs by stack only.
#pragma once

#include <vector>

#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/progress.h"
#include "analyzer/views/rows.h"

namespace heapprof::views {

/// A row for each thread with costs, in order of the threads' first events. `self` and `total` add up to the
/// profile's totals, except moved_bytes and moved_blocks, which are 0. Precondition: the profile's kind is heap.
std::vector<Row> rows_by_thread(const replay::Analysis& analysis, const replay::Progress& progress = {});

}  // namespace heapprof::views
