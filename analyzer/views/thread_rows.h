// What each thread, or each process of several recordings, allocated, as rows.
#pragma once

#include <vector>

#include "analyzer/model/profile.h"
#include "analyzer/views/rows.h"

namespace heapprof::views {

/// A row for each thread with costs, in order of the threads' first events. `self` and `total` add up to the
/// profile's totals, except moved_bytes and moved_blocks, which are 0. Precondition: the profile has costs by thread.
std::vector<Row> rows_by_thread(const model::Profile& profile);
/// A row for each process with costs, in the order of Together::processes; they add up to the profile's totals.
/// Precondition: the profile is of several recordings.
std::vector<Row> rows_by_process(const model::Profile& profile);

}  // namespace heapprof::views
