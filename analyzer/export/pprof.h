// Export for pprof: profile.proto (github.com/google/pprof/blob/main/proto/profile.proto). The Sink compresses it
// with gzip.
//
// Sample types are cost_columns() in order. "inuse" means live at the end of the trace, and is the default. Every
// mapping is marked as symbolized, so pprof neither looks for files nor symbolizes again. The times are those of the
// slice, or of the whole recording.
#pragma once

#include <span>

#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

void write_pprof(const StackTable& table, Sink& output, std::span<const CostColumn> columns = cost_columns());

}  // namespace heapprof::exporter
