// Export for databases (DuckDB, ClickHouse, Spark, pandas): one row a line, as ndjson, or csv with a header line.
//
//   events   time_ns, event, address, size, tid, thread, stack, temporary
//            `event` is "alloc" or "free"; a realloc is a free and an alloc. `temporary`, of a free: the thread that
//            allocated the block freed it before its next allocation
//   blocks   time_ns, address, size, tid, thread, stack, frames
//            blocks live at the end of the trace, in order of allocation
//   stacks   stack, the costs by the names of `report --json`, truncated, frames
//
// `stack` is a number that joins the three tables of one trace. `frames` is a list of {function, module, file, line,
// inlined}, innermost first; in csv it is JSON text.
#pragma once

#include "analyzer/export/events.h"
#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

enum class Rows { kEvents, kBlocks, kStacks };
enum class RowFormat { kNdjson, kCsv };

void write_rows(const StackTable& table, const EventSource& events, Rows rows, RowFormat format, Sink& output);

}  // namespace heapprof::exporter
