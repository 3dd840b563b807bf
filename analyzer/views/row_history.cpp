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

/// What the rows had at the peak is known exactly, and can be more than at the end of its bucket.
void add_peak(const model::Profile& profile, std::span<const Row> rows,
              std::vector<std::vector<std::uint64_t>>& live) {
  if (profile.is_moment()) return;
  const auto after = std::ranges::upper_bound(profile.timeline.buckets, profile.peak_time_ns, {},
                                              &model::Timeline::Bucket::start_ns);
  if (after == profile.timeline.buckets.begin()) return;
  const auto bucket = static_cast<std::size_t>(after - profile.timeline.buckets.begin()) - 1;
  for (std::size_t row = 0; row < rows.size(); ++row)
    if (bucket < live[row].size()) live[row][bucket] = std::max(live[row][bucket], rows[row].self.peak_bytes);
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
  add_peak(analysis.profile(), rows, live);
  for (std::vector<std::uint64_t>& one : live) one = highest_of_parts(one, parts);
  return live;
}

}  // namespace heapprof::views
