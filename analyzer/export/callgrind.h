// Export for callgrind_annotate and KCachegrind: each function with the lines that allocate and the calls that lead
// there, with all costs.
//
// The format has calls, not stacks: the inclusive cost of a function is its own cost plus the cost of its calls.
// Therefore a call counts once in each stack, and direct recursion is one frame. Functions that call each other in a
// cycle can exceed the total, as with callgrind itself; readers detect cycles.
#pragma once

#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

void write_callgrind(const StackTable& table, Sink& output);

}  // namespace heapprof::exporter
