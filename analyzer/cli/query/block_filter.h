// What the tables of single blocks have in common: conditions that select blocks before their rows are made, and
// columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/cli/query/indexed_table.h"
#include "analyzer/cli/query/recordings.h"

namespace heapprof::cli {

inline constexpr query::Column kThreadId = {"thread_id", "INTEGER",
                                            "id of the thread that allocated it; NULL: unknown"};
inline constexpr query::Column kStackOfBlock = {"stack_id", "INTEGER", "id of the stack that allocated it"};

/// Which blocks of one process a query asks for.
struct BlockFilter {
  query::Range size;
  std::optional<std::vector<std::uint32_t>> threads;  ///< sorted; nullopt: all
  std::optional<std::vector<std::uint32_t>> nodes;    ///< likewise
  bool heap = true;
  bool mappings = true;

  bool selects(std::uint64_t bytes, std::uint32_t thread, std::uint32_t node, bool is_mapping) const {
    if (!(is_mapping ? mappings : heap) || !size.contains(bytes)) return false;
    if (threads && !std::binary_search(threads->begin(), threads->end(), thread)) return false;
    return !nodes || std::binary_search(nodes->begin(), nodes->end(), node);
  }
};

/// The positions of the columns by which blocks are selected.
struct BlockColumns {
  int size, thread, stack, kind;
};

inline BlockFilter filter_of(std::span<const query::Constraint> constraints, const BlockColumns& columns,
                             const RecordedProcess& process) {
  BlockFilter filter;
  filter.size = query::range_of(constraints, columns.size);
  filter.threads = indexes_asked(constraints, columns.thread, process);
  filter.nodes = indexes_asked(constraints, columns.stack, process);
  filter.heap = query::can_be(constraints, columns.kind, "heap");
  filter.mappings = query::can_be(constraints, columns.kind, "mmap");
  return filter;
}

}  // namespace heapprof::cli
