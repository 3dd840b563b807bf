// For ms_print and massif-visualizer: what was live over time, with the tree of call sites at every tenth moment, at
// the peak and at the end. The moments between come from a second replay; in a slice of time there are none.
//
// Massif's tree begins at the allocation: a node's children are its callers. Callers that hold less than one
// percent are summed up in one line, as massif does by default, so a file stays small however many stacks there
// are. `#` begins a comment wherever ms_print sees it, so names have U+FF03 instead.
#pragma once

#include "analyzer/export/events.h"
#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

/// `source`: events of what the profile's kind counts, mappings too (of single blocks where that is the heap).
void write_massif(const StackTable& table, const EventSource& source, Sink& output);

}  // namespace heapprof::exporter
