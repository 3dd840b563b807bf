// The mapping table, compared with an array of pages.
#include <catch2/catch.hpp>

#include <map>
#include <random>

#include "analyzer/replay/mapping_table.h"
#include "tests/support/seed.h"

using heapprof::replay::MappingTable;
using heapprof::replay::Region;

TEST_CASE("After take() and put_back(), the table equals an array of pages") {
  std::mt19937 random(heapprof::test::seed(11));
  constexpr std::uint64_t kPage = 4096;
  constexpr unsigned kPages = 64;
  MappingTable table;
  std::vector<std::uint32_t> page_node(kPages, 0);  // 0: not mapped
  std::map<std::uint32_t, std::int64_t> bytes;      // by node, as the table reports
  std::map<std::uint32_t, std::int64_t> blocks;
  const auto changed = [&](const Region& region, std::int64_t by, std::int64_t parts) {
    bytes[region.node] += by;
    blocks[region.node] += parts;
  };
  std::uint32_t next_node = 0;
  for (int step = 0; step < 20'000; ++step) {
    const unsigned begin = random() % kPages;
    const unsigned end = begin + 1 + random() % (kPages - begin);
    std::vector<std::uint32_t> before(page_node.begin() + begin, page_node.begin() + end);
    const std::vector<Region> taken = table.take(begin * kPage, end * kPage, changed);
    std::uint64_t taken_pages = 0;
    for (const Region& region : taken) taken_pages += (region.end - region.begin) / kPage;
    std::uint64_t mapped_pages = 0;
    for (const std::uint32_t node : before) mapped_pages += node != 0;
    REQUIRE(taken_pages == mapped_pages);
    switch (random() % 3) {
      case 0:  // mmap
        ++next_node;
        table.insert(begin * kPage, end * kPage, next_node, 0);
        bytes[next_node] += static_cast<std::int64_t>((end - begin) * kPage);
        ++blocks[next_node];
        for (unsigned page = begin; page < end; ++page) page_node[page] = next_node;
        break;
      case 1:  // munmap
        for (unsigned page = begin; page < end; ++page) page_node[page] = 0;
        break;
      case 2:  // munmap that failed
        REQUIRE(table.put_back(taken, changed));
        break;
    }
    std::map<std::uint32_t, std::int64_t> expected_bytes;
    std::map<std::uint32_t, std::int64_t> expected_blocks;
    for (unsigned page = 0; page < kPages; ++page) {
      if (page_node[page] == 0) continue;
      expected_bytes[page_node[page]] += kPage;
      if (page == 0 || page_node[page - 1] != page_node[page]) ++expected_blocks[page_node[page]];
    }
    std::erase_if(bytes, [](const auto& entry) { return entry.second == 0; });
    std::erase_if(blocks, [](const auto& entry) { return entry.second == 0; });
    REQUIRE(bytes == expected_bytes);
    REQUIRE(blocks == expected_blocks);
  }
}

TEST_CASE("put_back() keeps mappings that were inserted over a piece since take()") {
  MappingTable table;
  const auto ignore = [](const Region&, std::int64_t, std::int64_t) {};
  table.insert(0, 100, 1, 0);
  const std::vector<Region> taken = table.take(0, 100, ignore);
  table.insert(40, 60, 2, 0);
  std::int64_t bytes = 0;
  std::int64_t blocks = 0;
  CHECK(table.put_back(taken, [&](const Region& region, std::int64_t by, std::int64_t parts) {
    CHECK(region.node == 1);
    bytes += by;
    blocks += parts;
  }));
  CHECK(bytes == 80);
  CHECK(blocks == 2);
  CHECK(table.size() == 3);
}

TEST_CASE("A munmap of all mappings that fails again and again costs no more than the limit") {
  constexpr std::uint64_t kMappings = 4096;
  constexpr std::uint64_t kCalls = 4096;
  MappingTable table;
  for (std::uint64_t i = 0; i < kMappings; ++i) table.insert(i * 4096, (i + 1) * 4096, 1, 0);
  std::uint64_t changes = 0;
  const auto count = [&](const Region&, std::int64_t, std::int64_t) { ++changes; };
  std::uint64_t undone = 0;
  for (; undone < kCalls; ++undone)
    if (!table.put_back(table.take(0, kMappings * 4096, count), count)) break;
  // A process with many mappings is far from the limit.
  CHECK(undone >= MappingTable::kMinSteps / kMappings);
  CHECK(table.size() < kMappings);
  for (std::uint64_t i = 0; i < kCalls; ++i)
    static_cast<void>(table.put_back(table.take(0, kMappings * 4096, count), count));
  // What is taken was inserted or put back before. Without a limit, there would be 2 * kMappings changes a call.
  const std::uint64_t calls = kMappings + undone + 1 + kCalls;  // of insert() and take()
  const std::uint64_t steps = MappingTable::kMinSteps + MappingTable::kStepsPerCall * calls;
  CHECK(changes <= kMappings + 2 * steps);
  CHECK(2 * kMappings * kCalls > 8 * changes);
}
