#include "analyzer/views/thread_rows.h"

namespace heapprof::views {

std::vector<Row> rows_by_thread(const model::Profile& profile) {
  std::vector<Row> rows;
  for (std::uint32_t thread = 0; thread < profile.thread_costs.size(); ++thread) {
    const model::Costs& costs = profile.thread_costs[thread];
    if (costs.empty()) continue;
    Row& row = rows.emplace_back();
    row.thread = thread;
    row.self = row.total = costs;
  }
  return rows;
}

}  // namespace heapprof::views
