// The pending reallocs by address, also if the addresses were chosen for the hash.
#include "analyzer/replay/pending_reallocs.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "tests/support/chosen_addresses.h"

using namespace heapprof::replay;
using heapprof::test::addresses_with_upper_bits;

namespace {

PendingRealloc of_block(std::uint64_t address) {
  PendingRealloc pending;
  pending.block.address = address;
  pending.thread = 1;
  return pending;
}

}  // namespace

TEST_CASE("Pending reallocs are found by few comparisons, also if their addresses were chosen for the hash") {
  constexpr std::size_t kReallocs = 20'000;
  const std::vector<std::uint64_t> addresses = addresses_with_upper_bits(0x123456, kReallocs);
  PendingReallocs pending;
  std::vector<PendingReallocs::Number> numbers;
  std::size_t longest = 0;
  for (const std::uint64_t address : addresses) {
    numbers.push_back(pending.add(of_block(address)));
    longest = std::max(longest, pending.chain_length(BlockTable::hash_of(address)));
  }
  CHECK(longest <= 256);
  std::size_t compared = 0;
  for (std::size_t i = 0; i < kReallocs; ++i) {
    const std::uint64_t hash = BlockTable::hash_of(addresses[i]);
    REQUIRE(pending.can_have(hash));
    REQUIRE(pending.find(addresses[i], hash) == numbers[i]);
    compared += pending.chain_length(hash);
  }
  CHECK(compared < 10 * kReallocs);
  std::set<std::uint64_t> seen;
  pending.for_each_live([&](const PendingRealloc& one) { seen.insert(one.block.address); });
  CHECK(seen.size() == kReallocs);

  // Half of the calls return, and half of the blocks are freed before; in the order in which they have begun.
  for (std::size_t i = 0; i < kReallocs; ++i) {
    if (i % 2 == 0) CHECK(pending.take(numbers[i]).block.address == addresses[i]);
    else pending.set_freed(numbers[i]);
    REQUIRE(pending.find(addresses[i], BlockTable::hash_of(addresses[i])) == PendingReallocs::kNone);
  }
  for (std::size_t i = 1; i < kReallocs; i += 2) REQUIRE(pending[numbers[i]].freed);
  pending.for_each_live([](const PendingRealloc&) { FAIL("no block is live"); });
}

TEST_CASE("Blocks of one cluster are in one chain") {
  PendingReallocs pending;
  for (std::uint64_t cell = 0; cell < 64; ++cell) pending.add(of_block(0x7f0000001000 + 16 * cell));
  CHECK(pending.chain_length(BlockTable::hash_of(0x7f0000001000)) == 64);
  for (std::uint64_t cell = 0; cell < 64; ++cell) {
    const std::uint64_t address = 0x7f0000001000 + 16 * cell;
    CHECK(pending.find(address, BlockTable::hash_of(address)) == cell);
  }
}
