// For ms_print and massif-visualizer: the live heap over time, with the tree of call sites at the peak and at the
// end.
//
// Massif's tree begins at the allocation: a node's children are its callers. Callers that hold less than one
// percent are summed up in one line, as massif does by default, so a file stays small however many stacks there
// are. `#` begins a comment wherever ms_print sees it, so names have U+FF03 instead.
#pragma once

#include "analyzer/export/output.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

void write_massif(const StackTable& table, Output& output);

}  // namespace heapprof::exporter
