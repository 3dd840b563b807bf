// Export for speedscope (speedscope.app, or its npm package): one file with a profile for each cost, to be chosen in
// the title bar of the viewer. Bytes live at the peak are first.
//
// A frame is a function; it has a line when all its frames have the same one.
#pragma once

#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

void write_speedscope(const StackTable& table, Sink& output);

}  // namespace heapprof::exporter
