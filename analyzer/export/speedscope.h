// For speedscope (speedscope.app, or its npm package): one file with a profile for each cost, to be chosen in the
// viewer's title bar; bytes live at the peak come first.
//
// A frame is a function; its line is given when all calls in it come from one.
#pragma once

#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

void write_speedscope(const StackTable& table, Sink& output);

}  // namespace heapprof::exporter
