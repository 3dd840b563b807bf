// Export for ms_print and massif-visualizer: the live bytes over time, with the tree of call sites at every tenth
// snapshot, at the peak and at the end. The trees in between come from a second replay; a slice of time has none.
//
// A tree begins at the allocation: the children of a node are its callers. Callers with less than one percent are
// summed in one line, as massif does by default, which limits the size of the file. ms_print reads `#` as the start
// of a comment anywhere, so names have U+FF03 instead.
#pragma once

#include "analyzer/export/events.h"
#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

/// `source`: the events of what the profile's kind counts (EventFilter::of_kind).
void write_massif(const StackTable& table, const EventSource& source, Sink& output);

}  // namespace heapprof::exporter
