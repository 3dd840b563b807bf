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

std::vector<Row> rows_by_process(const model::Profile& profile) {
  std::vector<Row> rows;
  const std::vector<model::ProcessFigures>& processes = profile.together->processes;
  for (std::uint32_t process = 0; process < processes.size(); ++process) {
    if (processes[process].costs.empty()) continue;
    Row& row = rows.emplace_back();
    row.thread = process;
    row.self = row.total = processes[process].costs;
  }
  return rows;
}

}  // namespace heapprof::views
