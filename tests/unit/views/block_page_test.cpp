// Pages of live blocks.
#include <catch2/catch.hpp>

#include <algorithm>
#include <random>

#include "analyzer/views/block_page.h"
#include "tests/support/seed.h"

using namespace heapprof;
using views::BlockOrder;
using views::BlockPage;
using views::ListedBlock;

namespace {

std::vector<std::uint64_t> addresses_of(BlockPage& page) {
  std::vector<std::uint64_t> addresses;
  for (const ListedBlock& block : page.take()) addresses.push_back(block.address);
  return addresses;
}

std::vector<std::uint64_t> page_of(const std::vector<ListedBlock>& blocks, BlockOrder order, std::size_t skip,
                                   std::size_t top) {
  BlockPage page(order, skip, top);
  for (const ListedBlock& block : blocks) page.add(block);
  return addresses_of(page);
}

using Addresses = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("blocks are listed by size, age or address") {
  const std::vector<ListedBlock> blocks = {{30, 1, 100}, {10, 2, 300}, {20, 3, 200}};
  CHECK(page_of(blocks, BlockOrder::kSize, 0, 0) == Addresses{2, 3, 1});
  CHECK(page_of(blocks, BlockOrder::kAge, 0, 0) == Addresses{2, 3, 1});
  CHECK(page_of(blocks, BlockOrder::kAddress, 0, 0) == Addresses{1, 2, 3});
}

TEST_CASE("of blocks of one size the oldest comes first, and mappings, whose time is unknown, come last") {
  const std::vector<ListedBlock> blocks = {{views::kUnknownTime, 1, 100}, {20, 2, 100}, {10, 4, 100}, {10, 3, 100}};
  CHECK(page_of(blocks, BlockOrder::kSize, 0, 0) == Addresses{3, 4, 2, 1});
  CHECK(page_of(blocks, BlockOrder::kAge, 0, 0) == Addresses{3, 4, 2, 1});
}

TEST_CASE("a page after the last block is empty, and sums count all blocks") {
  BlockPage page(BlockOrder::kSize, 5, 10);
  page.add({1, 1, 7});
  page.add({2, 2, 9});
  CHECK(page.take().empty());
  CHECK(page.all().blocks == 2);
  CHECK(page.all().bytes == 16);
  CHECK(page_of({{1, 1, 7}}, BlockOrder::kSize, ~std::size_t{0}, ~std::size_t{0}).empty());
}

TEST_CASE("pages are the parts of the sorted list") {
  std::mt19937_64 random(heapprof::test::seed(1));
  std::vector<ListedBlock> blocks;
  for (std::uint64_t i = 0; i < 500; ++i) blocks.push_back({random() % 20, i, random() % 10});
  for (const BlockOrder order : {BlockOrder::kSize, BlockOrder::kAge, BlockOrder::kAddress}) {
    std::shuffle(blocks.begin(), blocks.end(), random);
    const Addresses all = page_of(blocks, order, 0, 0);
    REQUIRE(all.size() == blocks.size());
    for (const std::size_t size : {1, 7, 499, 500, 501}) {
      Addresses joined;
      for (std::size_t skip = 0; skip < blocks.size(); skip += size)
        std::ranges::copy(page_of(blocks, order, skip, size), std::back_inserter(joined));
      CHECK(joined == all);
    }
  }
}
