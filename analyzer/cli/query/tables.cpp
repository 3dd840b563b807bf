#include "analyzer/cli/query/tables.h"

#include <algorithm>
#include <string_view>

namespace heapprof::cli {

Tables make_tables(Recordings& recordings) {
  Tables tables;
  add_process_tables(recordings, tables);
  add_stack_tables(recordings, tables);
  add_allocations_table(recordings, tables);
  add_live_blocks_table(recordings, tables);
  add_memory_tables(recordings, tables);
  return tables;
}

NeededParts parts_needed(const std::vector<const query::Table*>& tables) {
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(tables, [&](const query::Table* table) { return table->name() == name; });
  };
  NeededParts parts;
  parts.timeline = has("timeline") || has("marks");
  parts.threads = has("threads");
  parts.events = has("allocations") || has("live_blocks");
  parts.live = has("live_blocks") || has("mappings");
  return parts;
}

}  // namespace heapprof::cli
