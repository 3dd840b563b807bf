#include <catch2/catch.hpp>

#include "analyzer/pins/pin_groups.h"

using namespace heapprof;
using namespace heapprof::pins;

namespace {

using Holders = std::vector<std::uint32_t>;
using Companions = std::vector<Companion>;

/// Three granules: one of group 0 alone, one of 0 and 1, one of all three.
HolderSets three_groups() {
  HolderSets sets;
  sets.add(Holders{0}, 4096);
  sets.add(Holders{0, 1}, 8192);
  sets.add(Holders{0, 1, 2}, 12288);
  return sets;
}

std::vector<LiveSum> live_of_three() { return {{100, 104, 1}, {200, 200, 2}, {8000, 8000, 3}}; }

const std::vector<std::uint32_t> kSame = {0, 1, 2};

}  // namespace

TEST_CASE("alone, shared and overhead of groups") {
  const std::vector<PinGroup> groups = rank_groups(three_groups(), live_of_three(), kSame, 3);
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].group == 0);
  CHECK(groups[0].alone_bytes == 4096);
  CHECK(groups[0].shared_bytes == 8192 / 2 + 12288 / 3);
  CHECK(groups[0].overhead_bytes == 4096 + 8192 - 104);
  CHECK(groups[1].group == 1);
  CHECK(groups[1].alone_bytes == 0);
  CHECK(groups[1].shared_bytes == 8192);
  // Its blocks are longer than its third of the granule.
  CHECK(groups[2].group == 2);
  CHECK(groups[2].overhead_bytes == 4096 - 8000);
  std::uint64_t sum = 0;
  for (const PinGroup& group : groups) sum += group.alone_bytes + group.shared_bytes;
  CHECK(sum == pinned_bytes(three_groups()));
}

TEST_CASE("stacks of one group that share a granule keep it alone") {
  HolderSets stacks;
  stacks.add(Holders{1, 2}, 4096);
  const std::vector<LiveSum> live = {{}, {10, 24, 1}, {10, 24, 1}};
  const std::vector<PinGroup> one = rank_groups(stacks.grouped({0, 0, 0}), live, {0, 0, 0}, 1);
  REQUIRE(one.size() == 1);
  CHECK(one[0].alone_bytes == 4096);
  CHECK(one[0].live.blocks == 2);
}

TEST_CASE("groups without live blocks are left out") {
  HolderSets sets;
  sets.add(Holders{1}, 4096);
  const std::vector<PinGroup> groups = rank_groups(sets, {{}, {10, 24, 1}}, {0, 1}, 2);
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].group == 1);
}

TEST_CASE("companions are chosen by what is completed, then by their part") {
  std::vector<PinGroup> groups = rank_groups(three_groups(), live_of_three(), kSame, 3);
  add_companions(three_groups(), groups, 3, 2);
  CHECK(groups[0].with == Companions{{1, 8192}, {2, 12288}});
  CHECK(groups[1].with == Companions{{0, 8192}, {2, 12288}});
  // No single group completes the granule of group 2; 0 and 1 have equal parts.
  CHECK(groups[2].with == Companions{{0, 0}, {1, 12288}});
  add_companions(three_groups(), groups, 1, 1);
  CHECK(groups[0].with == Companions{{1, 8192}});
}

TEST_CASE("bytes at the lowest common caller sum up for every subtree") {
  //   0 - 1 - 2 - 3
  //         |   ` 4
  //         ` 5
  model::Profile profile;
  for (const std::uint32_t parent : {0u, 0u, 1u, 2u, 2u, 1u}) profile.nodes.emplace_back().parent = parent;
  HolderSets sets;
  sets.add(Holders{3}, 1);
  sets.add(Holders{3, 4}, 10);
  sets.add(Holders{3, 4, 5}, 100);
  sets.add(Holders{2, 3}, 1000);
  sets.add(Holders{5}, 10000);
  sets.add(Holders{4, 5}, 100000);
  CHECK(bytes_at_common_callers(profile, sets) == std::vector<std::uint64_t>{0, 100100, 1010, 1, 0, 10000});
}
