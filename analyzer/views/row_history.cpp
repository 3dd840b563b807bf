#include "analyzer/views/row_history.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace heapprof::views {
namespace {

std::vector<std::uint64_t> highest_of_parts(const std::vector<std::uint64_t>& live, std::size_t parts) {
  std::vector<std::uint64_t> highest(std::min(parts, live.size()), 0);
  for (std::size_t i = 0; i < live.size(); ++i) {
    std::uint64_t& one = highest[i * highest.size() / live.size()];
    one = std::max(one, live[i]);
  }
  return highest;
}

/// For each node of the profile, the position of its row.
std::vector<std::uint32_t> row_of_stack(std::span<const Row> rows, const StackGroups& groups) {
  std::unordered_map<std::uint32_t, std::uint32_t> row_of_group;
  for (std::uint32_t row = 0; row < rows.size(); ++row) row_of_group.emplace(rows[row].group, row);
  std::vector<std::uint32_t> result;
  result.reserve(groups.size());
  for (const std::uint32_t group : groups) {
    const auto found = row_of_group.find(group);
    result.push_back(found == row_of_group.end() ? model::kNoIndex : found->second);
  }
  return result;
}

}  // namespace

std::vector<std::vector<std::uint64_t>> live_over_time(const replay::Analysis& analysis, std::span<const Row> rows,
                                                       const StackGroups* groups, std::size_t parts,
                                                       const replay::Progress& progress) {
  std::vector<std::vector<std::uint64_t>> live;
  if (groups != nullptr) {
    live = analysis.live_by_group(row_of_stack(rows, *groups), static_cast<std::uint32_t>(rows.size()), progress);
  } else {
    std::vector<std::vector<std::uint64_t>> by_thread = analysis.live_by_thread(progress);
    for (const Row& row : rows) live.push_back(std::move(by_thread[row.thread]));
  }
  for (std::vector<std::uint64_t>& one : live) one = highest_of_parts(one, parts);
  return live;
}

}  // namespace heapprof::views
