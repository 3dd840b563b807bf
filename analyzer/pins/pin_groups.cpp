#include "analyzer/pins/pin_groups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/findings/tree_walk.h"

namespace heapprof::pins {
namespace {

/// For each group the positions of the sets that contain it.
class SetsOfGroups {
 public:
  SetsOfGroups(const HolderSets& sets, std::size_t group_count) : first_(group_count + 1, 0) {
    for (std::size_t set = 0; set < sets.size(); ++set)
      for (const std::uint32_t group : sets.holders(set)) ++first_[group + 1];
    for (std::size_t group = 0; group < group_count; ++group) first_[group + 1] += first_[group];
    positions_.resize(first_.back());
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (std::size_t set = 0; set < sets.size(); ++set)
      for (const std::uint32_t group : sets.holders(set)) positions_[next[group]++] = set;
  }
  std::span<const std::size_t> of(std::uint32_t group) const noexcept {
    return {positions_.data() + first_[group], first_[group + 1] - first_[group]};
  }

 private:
  std::vector<std::size_t> first_;
  std::vector<std::size_t> positions_;
};

/// What a further group adds.
struct Gain {
  std::uint64_t completed = 0;  ///< bytes of granules that lack only this group
  double part = 0;              ///< its part of all granules
  bool operator<(const Gain& other) const noexcept {
    return completed != other.completed ? completed < other.completed : part < other.part;
  }
};

std::vector<Companion> companions_of(const HolderSets& sets, std::span<const std::size_t> own_sets,
                                     std::uint32_t group, std::size_t max) {
  std::vector<Companion> chosen;
  const auto is_chosen = [&](std::uint32_t other) {
    return std::ranges::any_of(chosen, [other](const Companion& one) { return one.group == other; });
  };
  std::vector<std::uint32_t> missing;
  while (chosen.size() < max) {
    std::map<std::uint32_t, Gain> gains;  // ordered: equal gains are resolved by the number of the group
    for (const std::size_t set : own_sets) {
      missing.clear();
      for (const std::uint32_t other : sets.holders(set))
        if (other != group && !is_chosen(other)) missing.push_back(other);
      if (missing.size() == 1) gains[missing.front()].completed += sets.bytes(set);
      for (const std::uint32_t other : missing)
        gains[other].part += static_cast<double>(sets.bytes(set)) / static_cast<double>(missing.size());
    }
    if (gains.empty()) break;
    const auto best = std::max_element(gains.begin(), gains.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    chosen.push_back({best->first, best->second.completed});
  }
  return chosen;
}

}  // namespace

std::vector<PinGroup> rank_groups(const HolderSets& sets_of_groups, const std::vector<LiveSum>& live_by_node,
                                  const std::vector<std::uint32_t>& group_of_node, std::size_t group_count) {
  std::vector<PinGroup> groups(group_count);
  for (std::uint32_t group = 0; group < group_count; ++group) groups[group].group = group;
  for (std::size_t node = 0; node < live_by_node.size(); ++node)
    if (live_by_node[node].blocks != 0) groups[group_of_node[node]].live += live_by_node[node];
  std::vector<double> shared(group_count, 0);
  for (std::size_t set = 0; set < sets_of_groups.size(); ++set) {
    const std::span<const std::uint32_t> holders = sets_of_groups.holders(set);
    if (holders.size() == 1) groups[holders.front()].alone_bytes += sets_of_groups.bytes(set);
    else
      for (const std::uint32_t group : holders)
        shared[group] += static_cast<double>(sets_of_groups.bytes(set)) / static_cast<double>(holders.size());
  }
  for (PinGroup& one : groups) {
    one.shared_bytes = static_cast<std::uint64_t>(std::llround(shared[one.group]));
    one.overhead_bytes = static_cast<std::int64_t>(one.alone_bytes + one.shared_bytes) -
                         static_cast<std::int64_t>(one.live.usable_bytes);
  }
  std::erase_if(groups, [](const PinGroup& one) { return one.live.blocks == 0; });
  std::stable_sort(groups.begin(), groups.end(),
                   [](const PinGroup& a, const PinGroup& b) { return a.overhead_bytes > b.overhead_bytes; });
  return groups;
}

void add_companions(const HolderSets& sets_of_groups, std::vector<PinGroup>& groups, std::size_t count,
                    std::size_t max) {
  std::uint32_t group_count = 0;
  for (std::size_t set = 0; set < sets_of_groups.size(); ++set)
    group_count = std::max(group_count, sets_of_groups.holders(set).back() + 1);
  for (const PinGroup& one : groups) group_count = std::max(group_count, one.group + 1);
  const SetsOfGroups sets_of(sets_of_groups, group_count);
  for (std::size_t i = 0; i < std::min(count, groups.size()); ++i)
    groups[i].with = companions_of(sets_of_groups, sets_of.of(groups[i].group), groups[i].group, max);
}

std::uint64_t pinned_bytes(const HolderSets& sets) noexcept {
  std::uint64_t bytes = 0;
  for (std::size_t set = 0; set < sets.size(); ++set) bytes += sets.bytes(set);
  return bytes;
}

/// In preorder, the lowest common ancestor of a set is that of its first and its last member.
std::vector<std::uint64_t> bytes_at_common_callers(const model::Profile& profile, const HolderSets& sets) {
  const std::vector<model::CallNode>& nodes = profile.nodes;
  std::vector<std::uint32_t> preorder(nodes.size(), 0);
  std::vector<std::uint32_t> depth(nodes.size(), 0);
  std::uint32_t next = 0;
  findings::walk_tree(
      nodes,
      [&](std::uint32_t node) {
        preorder[node] = next++;
        if (node != 0) depth[node] = depth[nodes[node].parent] + 1;
      },
      [](std::uint32_t) {});
  const auto common_caller = [&](std::uint32_t a, std::uint32_t b) {
    while (depth[a] > depth[b]) a = nodes[a].parent;
    while (depth[b] > depth[a]) b = nodes[b].parent;
    while (a != b) {
      a = nodes[a].parent;
      b = nodes[b].parent;
    }
    return a;
  };
  std::vector<std::uint64_t> bytes(nodes.size(), 0);
  std::unordered_map<std::uint64_t, std::uint32_t, ChosenKeyHash>
      known;  // many sets have the same first and last member
  for (std::size_t set = 0; set < sets.size(); ++set) {
    const auto [first, last] =
        std::ranges::minmax_element(sets.holders(set), {}, [&](std::uint32_t node) { return preorder[node]; });
    const auto [at, fresh] = known.try_emplace(std::uint64_t{*first} << 32 | *last, 0);
    if (fresh) at->second = common_caller(*first, *last);
    bytes[at->second] += sets.bytes(set);
  }
  return bytes;
}

}  // namespace heapprof::pins
