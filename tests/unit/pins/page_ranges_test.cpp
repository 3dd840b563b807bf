#include <catch2/catch.hpp>

#include <random>
#include <set>

#include "analyzer/pins/page_ranges.h"
#include "tests/support/seed.h"

using namespace heapprof;
using namespace heapprof::pins;

TEST_CASE("ranges that overlap or touch are joined, empty ones left out") {
  CHECK(joined({{5, 7}, {1, 2}, {2, 3}, {6, 9}, {20, 20}}) == PageRanges{{1, 3}, {5, 9}});
  CHECK(joined({}).empty());
}

TEST_CASE("the difference of ranges") {
  CHECK(difference({{0, 10}, {20, 30}}, {{2, 3}, {5, 22}, {29, 40}}) == PageRanges{{0, 2}, {3, 5}, {22, 29}});
  CHECK(difference({{0, 10}}, {{0, 10}}).empty());
  CHECK(difference({{0, 10}}, {}) == PageRanges{{0, 10}});
  CHECK(difference({{4, 6}, {8, 9}}, {{0, 100}}).empty());
  CHECK(bytes_of({{0, 10}, {20, 25}}) == 15);
}

TEST_CASE("a collector forgets pages that are removed, and can get them again") {
  std::mt19937_64 random(test::given_seed());
  PageCollector collector;
  std::set<std::uint64_t> pages;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t begin = random() % 5000;
    const std::uint64_t length = random() % 50 == 0 ? 600 + random() % 2000 : 1 + random() % 30;
    const bool removed = random() % 3 == 0;
    if (removed) collector.remove({begin * 4096, (begin + length) * 4096});
    else collector.add({begin * 4096, (begin + length) * 4096});
    for (std::uint64_t page = begin; page < begin + length; ++page) {
      if (removed) pages.erase(page);
      else pages.insert(page);
    }
    if (i % 100 != 0) continue;
    const PageRanges ranges = collector.ranges();
    REQUIRE(bytes_of(ranges) == pages.size() * 4096);
    for (const AddressRange& range : ranges)
      for (std::uint64_t at = range.begin; at < range.end; at += 4096) REQUIRE(pages.contains(at / 4096));
  }
  collector.remove({0, allocators::kMaxAddress});
  CHECK(collector.ranges().empty());
  collector.add({4096, 8192});
  collector.remove({4096, 4096});
  CHECK(collector.ranges() == PageRanges{{4096, 8192}});
}

TEST_CASE("a collector keeps nothing of what was removed, and overlapping ranges as one") {
  // Otherwise each of many calls of remove() would visit all that was ever added.
  constexpr std::uint64_t kMiB = 1 << 20;
  PageCollector collector;
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    collector.add({i * 4 * kMiB, i * 4 * kMiB + 4096});
    collector.add({8'192 * kMiB + i * kMiB, 8'195 * kMiB + i * kMiB});
    collector.add({i * 16'384 * kMiB + 10'000 * kMiB, i * 16'384 * kMiB + 10'003 * kMiB});
  }
  CHECK(collector.chunks() == 1'000);
  CHECK(collector.long_ranges() == 1'001);
  collector.remove({0, 2'000 * kMiB});
  CHECK(collector.chunks() == 500);
  collector.remove({8'192 * kMiB + 4096, allocators::kMaxAddress});
  CHECK(collector.long_ranges() == 1);
  CHECK(collector.chunks() == 500);
  collector.remove({0, 4'000 * kMiB});
  CHECK(collector.chunks() == 0);
  CHECK(collector.ranges() == PageRanges{{8'192 * kMiB, 8'192 * kMiB + 4096}});
}

TEST_CASE("a collector has every page that was added, once") {
  std::mt19937_64 random(test::given_seed());
  PageCollector collector;
  std::set<std::uint64_t> pages;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t begin = random() % 5000;
    // One in 50 is longer than the pages that have bits.
    const std::uint64_t length = i % 50 == 0 ? 600 + random() % 100 : 1 + random() % 3;
    collector.add({begin * 4096, (begin + length) * 4096});
    for (std::uint64_t page = begin; page < begin + length; ++page) pages.insert(page);
    if (i != 10 && i != 2999) continue;
    const PageRanges ranges = collector.ranges();
    CHECK(bytes_of(ranges) == pages.size() * 4096);
    CHECK(joined(ranges) == ranges);
    for (const AddressRange& range : ranges)
      for (std::uint64_t at = range.begin; at < range.end; at += 4096) REQUIRE(pages.contains(at / 4096));
  }
}
