// For callgrind_annotate and KCachegrind: each function with the lines that allocate and the calls that lead there,
// all costs at once.
//
// The format counts calls, not stacks: a function's inclusive cost is what it allocates itself plus the cost of its
// calls. So in each stack a call counts once, and a function that calls itself directly is one frame. Functions that
// call each other in a circle can come to more than the whole, as with callgrind itself; readers detect cycles.
#pragma once

#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

void write_callgrind(const StackTable& table, Sink& output);

}  // namespace heapprof::exporter
