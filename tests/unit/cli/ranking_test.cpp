// Stacks ranked by cost.
#include <catch2/catch.hpp>

#include "analyzer/cli/text/ranking.h"

using namespace heapprof::cli;
using heapprof::model::Profile;

namespace {

std::vector<std::uint32_t> order(const Profile& profile, Cost cost) {
  std::vector<std::uint32_t> nodes;
  for (const RankedStack& stack : rank_stacks(profile, cost)) nodes.push_back(stack.node);
  return nodes;
}

}  // namespace

TEST_CASE("each cost has two figures, and stacks are ranked by one of them") {
  heapprof::model::Costs costs;
  costs.allocations = 1;
  costs.allocated_bytes = 2;
  costs.temporary = 3;
  costs.temporary_bytes = 4;
  costs.leaked_bytes = 5;
  costs.leaked_blocks = 6;
  costs.peak_bytes = 7;
  costs.peak_blocks = 8;
  const auto figures = [&](Cost cost) {
    const RankedStack stack = figures_of(costs, cost);
    return std::pair(stack.bytes, stack.blocks);
  };
  using Figures = std::pair<std::uint64_t, std::uint64_t>;
  CHECK(figures(Cost::kPeak) == Figures(7, 8));
  CHECK(figures(Cost::kLeaked) == Figures(5, 6));
  CHECK(figures(Cost::kAllocated) == Figures(2, 1));
  CHECK(figures(Cost::kAllocations) == Figures(2, 1));
  CHECK(figures(Cost::kTemporary) == Figures(4, 3));
  CHECK_FALSE(ranks_by_blocks(Cost::kPeak));
  CHECK_FALSE(ranks_by_blocks(Cost::kLeaked));
  CHECK_FALSE(ranks_by_blocks(Cost::kAllocated));
  CHECK(ranks_by_blocks(Cost::kAllocations));
  CHECK(ranks_by_blocks(Cost::kTemporary));
}

TEST_CASE("stacks are ranked by bytes or blocks, equal ones by node, and those without a block are left out") {
  Profile profile;
  profile.nodes.resize(6);
  const auto set = [&](std::size_t node, std::uint64_t bytes, std::uint64_t blocks) {
    profile.nodes[node].costs.allocated_bytes = bytes;
    profile.nodes[node].costs.allocations = blocks;
  };
  set(1, 100, 1);
  set(2, 300, 3);
  set(3, 200, 9);
  set(5, 300, 3);
  CHECK(order(profile, Cost::kAllocated) == std::vector<std::uint32_t>{2, 5, 3, 1});
  CHECK(order(profile, Cost::kAllocations) == std::vector<std::uint32_t>{3, 2, 5, 1});
  CHECK(order(profile, Cost::kPeak).empty());
  set(4, 0, 9);  // blocks of 0 bytes
  CHECK(order(profile, Cost::kAllocated) == std::vector<std::uint32_t>{2, 5, 3, 1, 4});
  CHECK(order(profile, Cost::kAllocations) == std::vector<std::uint32_t>{3, 4, 2, 5, 1});
}

TEST_CASE("every cost has a name") {
  std::vector<std::string> names;
  for (const auto& [name, cost] : cost_names()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"peak", "leaked", "allocated", "allocations", "temporary", "live"});
}
