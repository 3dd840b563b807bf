// The tables that SQL can read of recordings. docs/query.md describes them; their columns and sentences are here.
#pragma once

#include <memory>
#include <vector>

#include "analyzer/cli/query/recordings.h"
#include "analyzer/query/table.h"

namespace heapprof::cli {

using Tables = std::vector<std::unique_ptr<query::Table>>;

/// All tables, in the order of their documentation. `recordings` must outlive them.
Tables make_tables(Recordings& recordings);

/// What a query of these tables needs of the recordings.
NeededParts parts_needed(const std::vector<const query::Table*>& tables);

// Their parts: processes, labels, threads, modules, timeline, marks; stacks, call_sites, frames; allocations;
// live_blocks; mappings, samples, residency.
void add_process_tables(Recordings& recordings, Tables& tables);
void add_stack_tables(Recordings& recordings, Tables& tables);
void add_allocations_table(Recordings& recordings, Tables& tables);
void add_live_blocks_table(Recordings& recordings, Tables& tables);
void add_memory_tables(Recordings& recordings, Tables& tables);

}  // namespace heapprof::cli
