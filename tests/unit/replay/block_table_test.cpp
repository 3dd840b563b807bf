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
