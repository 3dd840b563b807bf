// Export for databases (DuckDB, ClickHouse, Spark, pandas): one row a line, as ndjson, or csv with a header line.
//
//   events   time_ns, event, address, size, tid, thread, stack, temporary
//            `event` is "alloc" or "free"; a realloc is a free and an alloc. `temporary`, of a free: the thread that
//            allocated the block freed it before its next allocation
//   blocks   time_ns, address, size, tid, thread, stack, frames
//            blocks live at the end of the trace, in order of allocation
//   stacks   stack, the costs by the names of `report --json`, truncated, frames
//   pinned   stack, alone_bytes, shared_bytes, overhead_bytes, live_bytes, usable_bytes, blocks, frames
//            stacks with live blocks, and what these keep from being returned, by the names of `pins --by stack`
//
// `stack` is a number that joins the tables of one trace. `frames` is a list of {function, module, file, line,
// inlined}, innermost first; in csv it is JSON text.
#pragma once

#include <cstdint>
#include <span>

#include "analyzer/export/events.h"
#include "analyzer/export/row_format.h"
#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

enum class Rows { kEvents, kBlocks, kStacks, kPinned };

struct PinnedRow {
  std::uint32_t stack = 0;  ///< one of StackTable::stacks
  std::uint64_t alone_bytes = 0;
  std::uint64_t shared_bytes = 0;
  std::int64_t overhead_bytes = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t usable_bytes = 0;
  std::uint64_t blocks = 0;
};

void write_pinned_rows(const StackTable& table, std::span<const PinnedRow> rows, RowFormat format, Sink& output);

/// `rows` is not kPinned.
void write_rows(const StackTable& table, const EventSource& events, Rows rows, RowFormat format, Sink& output);

}  // namespace heapprof::exporter
