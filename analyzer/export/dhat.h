// For DHAT's viewer, dh_view.html of valgrind: for each stack what it allocated, how long its blocks lived, what it
// held at most, at the peak and at the end. Times are in microseconds. Reads and writes of blocks, which only
// valgrind sees, are not in the file.
#pragma once

#include "analyzer/export/events.h"
#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

void write_dhat(const StackTable& table, const EventSource& events, Sink& output);

}  // namespace heapprof::exporter
