// The table of live blocks, compared with std::unordered_map.
#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/replay/block_table.h"
#include "tests/support/chosen_addresses.h"
#include "tests/support/require_each.h"
#include "tests/support/seed.h"

using heapprof::replay::Block;
using heapprof::replay::BlockTable;
using heapprof::test::addresses_with_upper_bits;
using heapprof::test::require_each;

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
      require_each(fresh == (expected.count(address) == 0));
      require_each(block.address == address);
      block.size = static_cast<std::uint64_t>(step);
      expected[address] = block.size;
    } else {
      Block* const block = table.find(address);
      require_each((block != nullptr) == (expected.count(address) != 0));
      if (block == nullptr) continue;
      require_each(block->size == expected[address]);
      table.erase(block);
      expected.erase(address);
    }
    require_each(table.size() == expected.size());
  }
  std::size_t seen = 0;
  table.for_each([&](const Block& block) {
    ++seen;
    require_each(expected.at(block.address) == block.size);
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

TEST_CASE("Blocks are found in few groups, also if their addresses were chosen for the hash") {
  constexpr std::size_t kBlocks = 20'000;
  const std::vector<std::uint64_t> addresses = addresses_with_upper_bits(0x123456, kBlocks);
  BlockTable table;
  std::size_t loaded = 0;  // for the inserted block
  for (const std::uint64_t address : addresses) {
    bool fresh;
    table.insert(address, fresh).size = address;
    require_each(fresh);
    require_each(BlockTable::hash_of(address) >> 40 == 0x123456);
    loaded += table.groups_probed(address);
    table.insert(address + 16, fresh).size = address + 16;  // the entry is a cluster from now on
  }
  CHECK(loaded < 6 * kBlocks);  // up to 128 for each of the first thousand
  std::size_t probed = 0;
  for (const std::uint64_t address : addresses) {
    const Block* const block = table.find(address);
    require_each(block != nullptr);
    require_each(block->address == address);
    require_each(block->size == address);
    const Block* const beside = table.find(address + 16);
    require_each(beside != nullptr);
    require_each(beside->size == address + 16);
    probed += table.groups_probed(address);
  }
  CHECK(probed < 2 * kBlocks);
  // Blocks with a hash, of which callers have a copy from before, are found and erased as before.
  for (const std::uint64_t address : addresses) {
    const std::uint64_t hash = BlockTable::hash_of(address);
    table.prefetch_group(hash);
    const std::size_t entry = table.prefetch_entry(hash);
    table.prefetch_block(address, entry);
    Block* const block = table.find(address, hash);
    require_each(block != nullptr);
    table.erase(block, hash);
    require_each(!table.contains(address));
  }
  CHECK(table.size() == kBlocks);
  CHECK(table.entries() == kBlocks);
}

TEST_CASE("That there is no block is found in few groups, also if many groups are full on purpose") {
  // Eight entries in each of the first groups: no entry is in another group than its own.
  BlockTable table;
  const std::size_t groups = table.entry_capacity() / 8;
  const std::size_t full = groups / 2;
  std::vector<std::uint64_t> addresses;
  for (std::size_t group = 0; group < full; ++group)
    for (const std::uint64_t address : addresses_with_upper_bits(((group << 24) + (1 << 23)) / groups, 8))
      addresses.push_back(address);
  bool fresh;
  for (const std::uint64_t address : addresses) table.insert(address, fresh).size = address;
  REQUIRE(table.entry_capacity() == groups * 8);  // it has not grown
  const std::uint64_t missing = addresses_with_upper_bits(0, 20).back();
  CHECK(table.find(missing) == nullptr);
  CHECK(table.groups_probed(missing) < 20);
  std::size_t wrong = 0;
  for (const std::uint64_t address : addresses) {
    const Block* const block = table.find(address);
    wrong += block == nullptr || block->size != address;
  }
  CHECK(wrong == 0);
  CHECK(table.size() == addresses.size());
}

TEST_CASE("Blocks that a compacted trace numbers consecutively share entries") {
  BlockTable table;
  bool fresh;
  for (std::uint64_t number = 1024; number < 2048; ++number) table.insert(number, fresh);
  CHECK(table.size() == 1024);
  CHECK(table.entries() == 16);
  for (std::uint64_t number = 1024; number < 2048; ++number) CHECK(table.groups_probed(number) == 1);
}

TEST_CASE("A table that grows in place keeps all blocks") {
  std::mt19937_64 random(heapprof::test::seed(4));
  // Dense addresses, addresses with an entry each, and such ones whose hashes have equal upper bits: their groups are
  // full, also the last ones, so entries are far from where they belong when the table grows.
  // So many that the table spreads them, and as many as it leaves there.
  const auto equal = static_cast<std::uint64_t>(GENERATE(4'000, 600));
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t i = 0; i < 400'000; ++i) addresses.push_back(0x7f0000000000 + 16 * i);
  for (std::uint64_t i = 0; i < 400'000; ++i) addresses.push_back(0x200000000000 + 1024 * i);
  for (std::uint64_t i = 0, found = 0; found < equal; ++i) {
    const std::uint64_t address = 0x100000000 + 1024 * i;
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
    require_each(fresh);
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
    require_each(block->size == i);
    require_each(block->node == i);
  }
  CHECK(found == left);
}

TEST_CASE("An emptied table has room for what is announced") {
  BlockTable table;
  for (const std::uint64_t blocks : {5'000'000, 1'000, 200'000, 0, 70'000}) {
    table.reset(blocks);
    const std::size_t room = table.entry_capacity();
    CHECK(table.size() == 0);
    CHECK(table.find(16) == nullptr);
    bool fresh;
    table.insert(16, fresh);
    CHECK(fresh);
    for (std::uint64_t i = 1; i < blocks; ++i) table.insert(16 + 64 * i, fresh);
    CHECK(table.entry_capacity() == room);  // it did not grow
    CHECK(table.size() == (blocks == 0 ? 1 : blocks));
  }
}

TEST_CASE("A table with room for close blocks grows when they are not") {
  BlockTable table;
  constexpr std::uint64_t kBlocks = 200'000;
  table.reset(kBlocks);
  bool fresh;
  for (std::uint64_t i = 0; i < kBlocks; ++i) table.insert(16 + 4096 * i, fresh).size = i;
  CHECK(table.entries() == kBlocks);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < kBlocks; ++i) wrong += table.find(16 + 4096 * i)->size != i;
  CHECK(wrong == 0);
}

TEST_CASE("Close blocks have the contents of a map, however many are live") {
  // Clusters fill and empty, so their arrays have each capacity. Those of addresses that differ by 8 are beside them.
  std::mt19937_64 random(heapprof::test::seed(5));
  BlockTable table;
  std::unordered_map<std::uint64_t, Block> expected;
  constexpr std::uint64_t kClusters = 40;
  for (int step = 0; step < 300'000; ++step) {
    const std::uint64_t cell = random() % (64 * kClusters);
    const std::uint64_t address = 0x7ffff0000000 + 16 * cell + (random() % 8 == 0 ? 8 : 0);
    const unsigned percent = step / 30'000 % 2 == 0 ? 80 : 3;  // of insertions
    if (random() % 100 < percent) {
      bool fresh;
      Block& block = table.insert(address, fresh);
      const auto known = expected.find(address);
      require_each(fresh == (known == expected.end()));
      if (!fresh) require_each(block == known->second);
      require_each(block.address == address);
      const std::uint64_t both = random();
      block = {address, random(), random(), static_cast<std::uint32_t>(both), static_cast<std::uint32_t>(both >> 32)};
      expected[address] = block;
    } else {
      Block* const block = table.find(address);
      const auto known = expected.find(address);
      require_each((block == nullptr) == (known == expected.end()));
      if (block == nullptr) continue;
      require_each(*block == known->second);
      table.erase(block);
      expected.erase(known);
    }
    require_each(table.size() == expected.size());
    if (step % 10'000 != 0) continue;
    std::size_t seen = 0;
    table.for_each_entry([&](Block& block) {
      ++seen;
      require_each(block == expected.at(block.address));
      block.time = expected.at(block.address).time = random();
    });
    require_each(seen == expected.size());
  }
  BlockTable moved(std::move(table));
  CHECK(moved.size() == expected.size());
  for (const auto& [address, block] : expected) {
    require_each(*moved.find(address) == block);
    moved.erase(moved.find(address));
  }
  CHECK(moved.size() == 0);
  CHECK(moved.entries() == 0);
  CHECK(moved.arrays().all_blocks() == moved.arrays().unused_blocks());
}

TEST_CASE("Blocks at both ends of the address space, at any byte, are different ones") {
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t i = 0; i < 2048; ++i) {
    addresses.push_back(i);
    addresses.push_back(~i);
  }
  for (unsigned bit = 11; bit < 64; ++bit) addresses.push_back(std::uint64_t{1} << bit);
  BlockTable table;
  for (const std::uint64_t address : addresses) {
    bool fresh;
    table.insert(address, fresh).size = ~address;
    require_each(fresh);
  }
  CHECK(table.size() == addresses.size());
  for (std::size_t i = 0; i < addresses.size(); i += 3) table.erase(table.find(addresses[i]));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Block* const block = table.find(addresses[i]);
    const bool is_live = block != nullptr && block->address == addresses[i] && block->size == ~addresses[i];
    wrong += i % 3 == 0 ? block != nullptr : !is_live;
  }
  CHECK(wrong == 0);
}

TEST_CASE("Arrays that grow together, or shrink together, leave little memory unused") {
  BlockTable table;
  constexpr std::uint64_t kClusters = 4'000;
  constexpr std::uint64_t kBlocks = 32;  // in each
  const auto address_of = [](std::uint64_t area, std::uint64_t cluster, std::uint64_t block) {
    return area + 1024 * cluster + 32 * block;
  };
  const auto insert = [&](std::uint64_t area, std::uint64_t from) {
    bool fresh;
    for (std::uint64_t block = from; block < kBlocks; ++block)
      for (std::uint64_t cluster = 0; cluster < kClusters; ++cluster) {
        const std::uint64_t address = address_of(area, cluster, block);
        table.insert(address, fresh).size = address;
        require_each(fresh);
      }
  };
  constexpr std::uint64_t kArea = 0x10000000, kOtherArea = 0x20000000;
  insert(kArea, 0);
  CHECK(table.arrays().all_blocks() < kClusters * kBlocks * 3 / 2);
  for (std::uint64_t block = kBlocks; block-- != 3;)
    for (std::uint64_t cluster = 0; cluster < kClusters; ++cluster)
      table.erase(table.find(address_of(kArea, cluster, block)));
  CHECK(table.arrays().all_blocks() - table.arrays().unused_blocks() == kClusters * 4);
  insert(kOtherArea, 0);
  CHECK(table.arrays().all_blocks() < (kClusters * (kBlocks + 4)) * 3 / 2);
  insert(kArea, 3);
  CHECK(table.arrays().all_blocks() < kClusters * kBlocks * 2 * 3 / 2);
  CHECK(table.size() == 2 * kClusters * kBlocks);
  std::size_t wrong = 0;
  for (const std::uint64_t area : {kArea, kOtherArea})
    for (std::uint64_t cluster = 0; cluster < kClusters; ++cluster)
      for (std::uint64_t block = 0; block < kBlocks; ++block) {
        const std::uint64_t address = address_of(area, cluster, block);
        const Block* const found = table.find(address);
        wrong += found == nullptr || found->address != address || found->size != address;
      }
  CHECK(wrong == 0);
}

TEST_CASE("The node of a block is known before its event, nearly always") {
  BlockTable table;
  constexpr std::uint64_t kBlocks = 100'000;
  for (const std::uint64_t distance : {16, 64, 1024}) {
    table.reset(0);
    bool fresh;
    for (std::uint64_t i = 0; i < kBlocks; ++i)
      table.insert(distance * i, fresh).node = static_cast<std::uint32_t>(i + 1);
    std::uint64_t known = 0;
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      const std::size_t entry = table.prefetch_entry(BlockTable::hash_of(distance * i));
      table.prefetch_block(distance * i, entry);
      known += table.peek_node(distance * i, entry) == i + 1;
    }
    INFO(distance);
    CHECK(known > kBlocks * 8 / 10);
  }
}
