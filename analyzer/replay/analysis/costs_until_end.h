// What becomes of the blocks that are live at a moment until the end of the trace, from the sums of an index instead
// of a replay.
#pragma once

#include <cstdint>

#include "analyzer/replay/index/index.h"
#include "analyzer/replay/replay.h"

namespace heapprof::replay {

/// Adds costs to `at_end`, a finished replay that has the blocks of the moment that are live at the end of the trace:
/// their allocations, frees and reallocs. `at_moment` has these of the blocks that were live at the moment, up to the
/// end of the interval before `later`, which ends with the trace. The blocks are those allocated before
/// `ticks_after`; nothing else is selected. Returns false if it is not known of which blocks the costs
/// are: an interval has implied frees, or a realloc that has not returned yet has a block that was not live at the
/// moment any more. Throws trace::FormatError.
bool add_costs_until_end(const Replay& at_moment, const Index& index, const SliceIntervals& later,
                         std::uint64_t ticks_after, Replay& at_end);

}  // namespace heapprof::replay
