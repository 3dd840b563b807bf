// The table of live blocks, compared with std::unordered_map.
#include <catch2/catch.hpp>

#include <random>
#include <unordered_map>

#include "analyzer/replay/block_table.h"
#include "tests/support/seed.h"

using heapprof::replay::Block;
using heapprof::replay::BlockTable;

TEST_CASE("The table has the contents of a map") {
  std::mt19937_64 random(heapprof::test::seed(3));
  BlockTable table;
  std::unordered_map<std::uint64_t, std::uint64_t> expected;
  std::vector<std::uint64_t> addresses;
  for (int i = 0; i < 20'000; ++i)
    addresses.push_back(0x7f0000000000 + 16 * (random() % 40'000) + 0x4000000 * (random() % 3));
  for (int step = 0; step < 400'000; ++step) {
    const std::uint64_t address = addresses[random() % addresses.size()];
    // Grows in the first half, shrinks in the second.
    if (random() % 100 < (step < 200'000 ? 60u : 30u)) {
      bool fresh;
      Block& block = table.insert(address, fresh);
      REQUIRE(fresh == (expected.count(address) == 0));
      REQUIRE(block.address == address);
      block.size = static_cast<std::uint64_t>(step);
      expected[address] = block.size;
    } else {
      Block* const block = table.find(address);
      REQUIRE((block != nullptr) == (expected.count(address) != 0));
      if (block == nullptr) continue;
      REQUIRE(block->size == expected[address]);
      table.erase(block);
      expected.erase(address);
    }
    REQUIRE(table.size() == expected.size());
  }
  std::size_t seen = 0;
  table.for_each([&](const Block& block) {
    ++seen;
    REQUIRE(expected.at(block.address) == block.size);
  });
  CHECK(seen == expected.size());
}

TEST_CASE("A lookup loads few groups of the table, at whatever distance blocks are") {
  // Blocks of equal size that were allocated one after the other are at equal distances. A multiplication by the
  // golden ratio alone puts those at the first three distances side by side.
  for (const std::uint64_t distance : {87'568, 370'944, 123'648, 5'712, 16, 32, 48, 4'096, 1 << 20}) {
    BlockTable table;
    constexpr std::uint64_t kBlocks = 20'000;
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      bool fresh;
      table.insert(0x7f1234560010 + i * distance, fresh);
    }
    std::uint64_t probed = 0;
    for (std::uint64_t i = 0; i < kBlocks; ++i) probed += table.groups_probed(0x7f1234560010 + i * distance);
    INFO(distance);
    CHECK(static_cast<double>(probed) / kBlocks < 1.2);
  }
}

TEST_CASE("Blocks that a compacted trace numbers consecutively share groups") {
  BlockTable table;
  bool fresh;
  for (std::uint64_t number = 64; number < 72; ++number) table.insert(number, fresh);
  for (std::uint64_t number = 64; number < 72; ++number) CHECK(table.groups_probed(number) == 1);
}
