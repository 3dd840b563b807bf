// Stacks ranked by cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/profile.h"

namespace heapprof::cli {

enum class Cost { kPeak, kLeaked, kAllocated, kAllocations, kTemporary, kLive };

/// The values of --cost and their names.
const std::vector<std::pair<std::string, Cost>>& cost_names();

struct RankedStack {
  std::uint32_t node = 0;
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
};

/// The figures of `costs` that `cost` is about: for kAllocated and kAllocations all allocations, for kTemporary the
/// temporary ones.
RankedStack figures_of(const model::Costs& costs, Cost cost) noexcept;

/// Whether `cost` ranks by blocks, else by bytes.
constexpr bool ranks_by_blocks(Cost cost) noexcept { return cost == Cost::kAllocations || cost == Cost::kTemporary; }

/// The stacks that have this cost, largest first. Equal ones are in the order of their nodes, which is deterministic.
std::vector<RankedStack> rank_stacks(const model::Profile& profile, Cost cost);

/// Their nodes, in the same order; for StackNames::resolve().
std::vector<std::uint32_t> nodes_of(const std::vector<RankedStack>& stacks);

}  // namespace heapprof::cli
