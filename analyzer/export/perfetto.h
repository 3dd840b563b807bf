// Export for Perfetto's UI and trace_processor: a Trace of TracePackets
// (github.com/google/perfetto/tree/main/protos/perfetto/trace).
//
//   clock_snapshot     the trace clock is the time since the start of the recording, in ns; beside it the time of day
//   track_descriptor   the process, its counters, and its marks
//   track_event        values of the counters: live heap, live blocks, mappings, resident memory; marks
//   interned_data      names, files, modules, frames and stacks of all samples
//   profile_packet     two native heaps: "malloc" has what each stack allocated and freed; "malloc, live at the peak"
//                      what of it was live then
//
// Perfetto's other kind of profile, heap_graph, has objects that refer to each other, which a recording does not
// contain.
#pragma once

#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

void write_perfetto(const StackTable& table, Sink& output);

}  // namespace heapprof::exporter
