#include "analyzer/cli/text/ranking.h"

#include <algorithm>

namespace heapprof::cli {

const std::vector<std::pair<std::string, Cost>>& cost_names() {
  static const std::vector<std::pair<std::string, Cost>> names = {
      {"peak", Cost::kPeak},           {"leaked", Cost::kLeaked},
      {"allocated", Cost::kAllocated}, {"allocations", Cost::kAllocations},
      {"temporary", Cost::kTemporary}, {"live", Cost::kLive}};
  return names;
}

RankedStack figures_of(const model::Costs& costs, Cost cost) noexcept {
  switch (cost) {
    case Cost::kPeak: return {0, costs.peak_bytes, costs.peak_blocks};
    case Cost::kLeaked: return {0, costs.leaked_bytes, costs.leaked_blocks};
    case Cost::kAllocated:
    case Cost::kAllocations: return {0, costs.allocated_bytes, costs.allocations};
    case Cost::kTemporary: return {0, costs.temporary_bytes, costs.temporary};
    case Cost::kLive: return {0, costs.live_bytes, costs.live_blocks};
  }
  return {};
}

std::vector<RankedStack> rank_stacks(const model::Profile& profile, Cost cost) {
  std::vector<RankedStack> ranked;
  for (std::uint32_t node = 0; node < profile.nodes.size(); ++node) {
    RankedStack stack = figures_of(profile.nodes[node].costs, cost);
    if (stack.blocks == 0) continue;
    stack.node = node;
    ranked.push_back(stack);
  }
  const bool by_blocks = ranks_by_blocks(cost);
  std::sort(ranked.begin(), ranked.end(), [by_blocks](const RankedStack& a, const RankedStack& b) {
    const auto key = [by_blocks](const RankedStack& stack) {
      return by_blocks ? std::pair(stack.blocks, stack.bytes) : std::pair(stack.bytes, stack.blocks);
    };
    if (key(a) != key(b)) return key(a) > key(b);
    return a.node < b.node;
  });
  return ranked;
}

std::vector<std::uint32_t> nodes_of(const std::vector<RankedStack>& stacks) {
  std::vector<std::uint32_t> nodes;
  for (const RankedStack& stack : stacks) nodes.push_back(stack.node);
  return nodes;
}

}  // namespace heapprof::cli
