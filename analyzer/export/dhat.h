// Export for DHAT's viewer, valgrind's dh_view.html: for each stack what it allocated, the lifetimes of its blocks,
// and what it held at its own maximum, at the peak and at the end. Times are in microseconds. The file has no reads
// and writes of blocks, which only valgrind observes.
#pragma once

#include "analyzer/export/events.h"
#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

void write_dhat(const StackTable& table, const EventSource& events, Sink& output);

}  // namespace heapprof::exporter
