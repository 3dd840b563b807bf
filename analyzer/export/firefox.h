// For profiler.firefox.com: its processed format, version 48, with native allocations.
//
// One thread holds all allocations and frees of the heap with their addresses, so the views "retained memory",
// "allocations" and "deallocations" work over any range of time; a memory track shows the live heap. A free carries
// the stack of its allocation, for a trace need not have one of its own. Later versions of the viewer upgrade older
// files as they load them.
//
// The viewer keeps everything in memory: some ten million events are what a browser bears.
#pragma once

#include "analyzer/export/events.h"
#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

void write_firefox(const StackTable& table, const EventSource& events, Sink& output);

}  // namespace heapprof::exporter
