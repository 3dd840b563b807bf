// Granules of a few blocks, computed by hand.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "analyzer/pins/holder_sets.h"
#include "tests/support/seed.h"

using namespace heapprof;
using namespace heapprof::pins;
using allocators::ProcessAllocators;

namespace {

using Holders = std::vector<std::uint32_t>;
using Found = std::vector<std::pair<Holders, std::uint64_t>>;

ProcessAllocators allocators_of(const std::string& library) {
  model::Profile profile;
  profile.modules.emplace_back().path = library;
  return ProcessAllocators(profile);
}

Found found(const HolderSets& sets) {
  Found result;
  for (std::size_t set = 0; set < sets.size(); ++set)
    result.emplace_back(Holders(sets.holders(set).begin(), sets.holders(set).end()), sets.bytes(set));
  std::sort(result.begin(), result.end());
  return result;
}

constexpr std::uint64_t kPage = 4096;

}  // namespace

TEST_CASE("glibc: pages by the stacks that have blocks on them") {
  const KeptMemory kept = find_kept_memory({{0x10010, 24, 1},         // page 0x10
                                            {0x10050, 100, 2},        // page 0x10
                                            {0x12010, 3 * kPage, 3},  // 0x12 to 0x15: 16 + 12,304 + 48 bytes
                                            {0x15400, 24, 1},         // 0x15
                                            {0x20010, 24, 1}},        // 0x20
                                           allocators_of("/lib/libc.so.6"), 4);
  CHECK(found(kept.sets) == Found{{{1}, kPage}, {{1, 2}, kPage}, {{1, 3}, kPage}, {{3}, 3 * kPage}});
  CHECK(kept.ranges == PageRanges{{0x10000, 0x11000}, {0x12000, 0x16000}, {0x20000, 0x21000}});
  CHECK(kept.by_node[1].blocks == 3);
  CHECK(kept.by_node[1].requested_bytes == 72);
  CHECK(kept.by_node[2].usable_bytes == 104);
}

TEST_CASE("jemalloc: slabs by the stacks that have blocks in them") {
  // Blocks of 80 bytes: slabs of five pages.
  const KeptMemory kept = find_kept_memory({{0x40000 + 3 * 80, 80, 1}, {0x40000 + 250 * 80, 80, 2}, {0x45000, 80, 2}},
                                           allocators_of("/lib/libjemalloc.so.2"), 3);
  CHECK(found(kept.sets) == Found{{{1, 2}, 5 * kPage}, {{2}, 5 * kPage}});
}

TEST_CASE("holders are grouped before anything is computed") {
  HolderSets sets;
  sets.add(Holders{1, 2}, 100);
  sets.add(Holders{2, 3}, 10);
  sets.add(Holders{1, 2}, 5);
  sets.add(Holders{3}, 1);
  CHECK(found(sets) == Found{{{1, 2}, 105}, {{2, 3}, 10}, {{3}, 1}});
  CHECK(found(sets.grouped({0, 7, 7, 4})) == Found{{{4}, 1}, {{4, 7}, 10}, {{7}, 105}});
}

TEST_CASE("sizes and addresses of a damaged trace neither overflow nor keep everything") {
  const KeptMemory kept = find_kept_memory({{0x10010, ~std::uint64_t{0}, 1},
                                            {0x11010, 24, 2},
                                            {~std::uint64_t{0} - 8, 100, 3},
                                            {allocators::kMaxAddress - 64, ~std::uint64_t{0}, 4}},
                                           allocators_of("/lib/libc.so.6"), 5);
  // The first block ends where the second begins; the third is outside of the address space.
  CHECK(kept.by_node[1].requested_bytes == 0x1000);
  CHECK(kept.by_node[3].blocks == 0);
  CHECK(kept.by_node[4].requested_bytes == 64);
  CHECK(bytes_of(kept.ranges) < 10 * kPage);
}

TEST_CASE("the sweep agrees with a count of single pages") {
  std::mt19937_64 random(test::given_seed());
  const ProcessAllocators allocators = allocators_of("/lib/libc.so.6");
  std::vector<PinningBlock> blocks;
  std::uint64_t address = 0x100010;
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t size = random() % 40 == 0 ? random() % 20'000 : random() % 300;
    blocks.push_back({address, size, static_cast<std::uint32_t>(1 + random() % 5)});
    address += (size + 47) / 16 * 16 + random() % 4 * 1024;
  }
  std::map<std::uint64_t, std::set<std::uint32_t>> holders_of_page;
  for (const PinningBlock& block : blocks) {
    const AddressRange range = allocators.of(block.address).kept_range(block.address, block.size);
    for (std::uint64_t page = range.begin; page < range.end; page += kPage) holders_of_page[page].insert(block.node);
  }
  std::map<Holders, std::uint64_t> expected;
  for (const auto& [page, holders] : holders_of_page) expected[Holders(holders.begin(), holders.end())] += kPage;
  std::shuffle(blocks.begin(), blocks.end(), random);
  CHECK(found(find_kept_memory(blocks, allocators, 6).sets) == Found(expected.begin(), expected.end()));
}
