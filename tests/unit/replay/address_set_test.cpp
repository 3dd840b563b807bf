// A set of addresses finds those that were inserted, and no others.
#include <catch2/catch.hpp>

#include <random>
#include <unordered_set>

#include "analyzer/replay/address_set.h"
#include "tests/support/seed.h"

using heapprof::replay::AddressSet;

TEST_CASE("A full set of addresses has those that were inserted, and no others") {
  std::mt19937_64 random(heapprof::test::seed(5));
  for (const std::size_t room : {0, 1, 7, 1'000, 100'000}) {
    AddressSet set(room);
    std::unordered_set<std::uint64_t> expected;
    while (expected.size() < room) {
      const std::uint64_t address = random() % 4 == 0 ? random() : 16 * (random() % (4 * room));
      if (address == 0) continue;
      set.insert(address);
      if (expected.size() % 3 == 0) set.insert(address);
      expected.insert(address);
    }
    INFO("room for " << room);
    CHECK(!set.contains(0));
    set.insert(0);
    CHECK(!set.contains(0));
    std::size_t wrong = 0;
    for (const std::uint64_t address : expected) wrong += !set.contains(address);
    for (std::size_t i = 1; i < 10'000; ++i) {
      const std::uint64_t address = i % 2 == 0 ? random() : 16 * (random() % (8 * room + 8));
      wrong += set.contains(address) != expected.contains(address);
    }
    CHECK(wrong == 0);
  }
}
