// For databases (DuckDB, ClickHouse, Spark, pandas): one row a line, as ndjson or csv with a head line.
//
//   events   time_ns, event, address, size, tid, thread, stack, temporary
//            `event` is "alloc" or "free"; a realloc is a free and an alloc. `temporary`, on frees: the block was
//            freed by its thread before that allocated again. All sizes of allocs add up to what was allocated.
//   blocks   time_ns, address, size, tid, thread, stack, frames
//            live at the end of the trace, in order of allocation
//   stacks   stack, the costs by the names of `report --json`'s fields, truncated, frames
//
// `stack` is a number that joins the three, for one trace. `frames` is a list, innermost first, of {function,
// module, file, line, inlined}; in csv the same as JSON text.
#pragma once

#include "analyzer/export/events.h"
#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

enum class Rows { kEvents, kBlocks, kStacks };
enum class RowFormat { kNdjson, kCsv };

void write_rows(const StackTable& table, const EventSource& events, Rows rows, RowFormat format, Sink& output);

}  // namespace heapprof::exporter
