#include "analyzer/symbols/interval_map.h"
#include "tests/support/seed.h"

#include <catch2/catch.hpp>
#include <random>

using heapprof::symbols::IntervalMap;

TEST_CASE("an empty map contains no address") {
  IntervalMap map;
  map.build();
  CHECK(map.find(0) == IntervalMap::kNone);
  CHECK(map.find(~std::uint64_t{0}) == IntervalMap::kNone);
}

TEST_CASE("find() gives the innermost range") {
  IntervalMap map;
  map.add(10, 100, 1);
  map.add(20, 60, 2);
  map.add(30, 40, 3);
  map.add(50, 60, 4);
  map.add(70, 70, 5);  // empty
  map.add(90, 80, 6);  // reversed
  map.build();
  CHECK(map.find(9) == IntervalMap::kNone);
  CHECK(map.find(10) == 1);
  CHECK(map.find(20) == 2);
  CHECK(map.find(30) == 3);
  CHECK(map.find(39) == 3);
  CHECK(map.find(40) == 2);
  CHECK(map.find(59) == 4);
  CHECK(map.find(60) == 1);
  CHECK(map.find(70) == 1);
  CHECK(map.find(99) == 1);
  CHECK(map.find(100) == IntervalMap::kNone);
}

TEST_CASE("the last added of equal ranges is the inner one") {
  IntervalMap map;
  map.add(0, 10, 1);
  map.add(0, 10, 2);
  map.build();
  CHECK(map.find(0) == 2);
  CHECK(map.find(9) == 2);
  CHECK(map.find(10) == IntervalMap::kNone);
}

TEST_CASE("a range may reach the end of the address space") {
  IntervalMap map;
  map.add(5, ~std::uint64_t{0}, 1);
  map.build();
  CHECK(map.find(~std::uint64_t{0} - 1) == 1);
}

TEST_CASE("random ranges: find() gives the one with the latest start that contains the address") {
  std::mt19937 random(heapprof::test::seed(7));
  for (int round = 0; round < 300; ++round) {
    struct Range {
      std::uint64_t low, high;
    };
    std::vector<Range> ranges(random() % 30);
    IntervalMap map;
    for (std::uint32_t i = 0; i < ranges.size(); ++i) {
      ranges[i] = {random() % 100, random() % 100};
      map.add(ranges[i].low, ranges[i].high, i);
    }
    map.build();
    for (std::uint64_t address = 0; address < 101; ++address) {
      // The expected range: the latest start, then the earliest end, then the one added last.
      std::uint32_t best = IntervalMap::kNone;
      for (std::uint32_t i = 0; i < ranges.size(); ++i) {
        const Range& range = ranges[i];
        if (address < range.low || address >= range.high) continue;
        if (best == IntervalMap::kNone || range.low > ranges[best].low ||
            (range.low == ranges[best].low && range.high <= ranges[best].high))
          best = i;
      }
      INFO("round " << round << ", address " << address);
      REQUIRE(map.find(address) == best);
    }
  }
}
