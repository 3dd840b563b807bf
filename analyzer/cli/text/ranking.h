// Stacks in order of what they cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/profile.h"

namespace heapprof::cli {

enum class Cost { kPeak, kLeaked, kAllocated, kAllocations, kTemporary };

/// --cost's values, by name.
const std::vector<std::pair<std::string, Cost>>& cost_names();

struct RankedStack {
  std::uint32_t node = 0;
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
};

/// What one set of costs comes to under `cost`: for kAllocated and kAllocations all blocks ever made, for
/// kTemporary the temporary ones.
RankedStack figures_of(const model::Costs& costs, Cost cost) noexcept;

/// By which of the two figures `cost` ranks.
constexpr bool ranks_by_blocks(Cost cost) noexcept { return cost == Cost::kAllocations || cost == Cost::kTemporary; }

/// The stacks with a cost, largest first; equal ones in order of node, so that the order is always the same.
std::vector<RankedStack> rank_stacks(const model::Profile& profile, Cost cost);

}  // namespace heapprof::cli
