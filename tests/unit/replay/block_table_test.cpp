// The table of live blocks, compared with std::unordered_map.
#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <unordered_map>
#include <vector>

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

TEST_CASE("A table that grows in place keeps all blocks") {
  std::mt19937_64 random(heapprof::test::seed(4));
  // Dense addresses, and addresses whose hashes have equal upper bits: their groups are full, also the last ones, so
  // blocks are far from where they belong when the table grows.
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t i = 0; i < 400'000; ++i) addresses.push_back(0x7f0000000000 + 16 * i);
  for (std::uint64_t i = 0, found = 0; found < 4'000; ++i) {
    const std::uint64_t address = 0x100000000 + 8 * i;
    const std::uint64_t part = BlockTable::hash_of(address) >> 48;
    if (part != 0 && part != 0xffff && part != 0x8000) continue;
    addresses.push_back(address);
    ++found;
  }
  std::shuffle(addresses.begin(), addresses.end(), random);
  BlockTable table;
  std::size_t left = 0;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    bool fresh;
    Block& block = table.insert(addresses[i], fresh);
    REQUIRE(fresh);
    block.size = i;
    block.node = static_cast<std::uint32_t>(i);
    ++left;
    // Some leave, so that there are tombstones.
    if (i % 5 == 4) {
      const std::size_t gone = i - random() % 5;
      if (Block* const found = table.find(addresses[gone])) {
        table.erase(found);
        --left;
      }
    }
  }
  REQUIRE(table.size() == left);
  std::size_t found = 0;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Block* const block = table.find(addresses[i]);
    if (block == nullptr) continue;
    ++found;
    REQUIRE(block->size == i);
    REQUIRE(block->node == i);
  }
  CHECK(found == left);
}

TEST_CASE("An emptied table has room for what is announced") {
  BlockTable table;
  for (const std::uint64_t blocks : {5'000'000, 1'000, 200'000, 0, 70'000}) {
    table.reset(blocks);
    CHECK(table.size() == 0);
    CHECK(table.find(16) == nullptr);
    bool fresh;
    Block* const first = &table.insert(16, fresh);
    CHECK(fresh);
    for (std::uint64_t i = 1; i < blocks; ++i) table.insert(16 + 16 * i, fresh);
    CHECK(table.find(16) == first);  // the table did not move, so it did not grow
    CHECK(table.size() == (blocks == 0 ? 1 : blocks));
  }
}
