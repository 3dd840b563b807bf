// Export for profiler.firefox.com: its processed format, version 48, with native allocations. Later versions of the
// viewer upgrade older files when they load them.
//
// One thread has all allocations and frees of the heap with their addresses, so the views "retained memory",
// "allocations" and "deallocations" work for any range of time; a memory track shows the live heap. A free has the
// stack of its allocation, because its own stack need not be recorded.
//
// The viewer keeps everything in memory: browsers can load about ten million events.
#pragma once

#include "analyzer/export/events.h"
#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

void write_firefox(const StackTable& table, const EventSource& events, Sink& output);

}  // namespace heapprof::exporter
