// For pprof: profile.proto (github.com/google/pprof/blob/main/proto/profile.proto), to be gzipped by the Sink.
//
// Sample types are cost_columns() in its order; in use means live at the end of the trace, which is also the
// default. Every mapping says that it has its symbols, so pprof neither looks for files nor symbolises again.
#pragma once

#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

void write_pprof(const StackTable& table, Sink& output);

}  // namespace heapprof::exporter
