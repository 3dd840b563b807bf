#include <catch2/catch.hpp>

#include <random>
#include <set>

#include "analyzer/rss/range_parts.h"
#include "tests/support/seed.h"

using namespace heapprof;
using namespace heapprof::rss;

namespace {

struct Named {
  std::uint64_t begin;
  std::uint64_t end;
  char name;
  bool operator==(const Named&) const = default;
};

PageRanges random_ranges(std::mt19937_64& random) {
  PageRanges ranges;
  std::uint64_t at = 0;
  for (std::uint64_t i = random() % 30; i != 0; --i) {
    const std::uint64_t begin = at + random() % 5;  // some touch
    at = begin + 1 + random() % 6;
    ranges.push_back({begin, at});
  }
  return ranges;
}

std::set<std::uint64_t> numbers_in(const PageRanges& ranges) {
  std::set<std::uint64_t> result;
  for (const AddressRange& range : ranges)
    for (std::uint64_t at = range.begin; at < range.end; ++at) result.insert(at);
  return result;
}

}  // namespace

TEST_CASE("parts keep what their range is") {
  const std::vector<Named> ranges = {{0, 10, 'a'}, {10, 20, 'b'}, {30, 40, 'c'}};
  const PageRanges some = {{5, 15}, {18, 19}, {25, 45}};
  CHECK(parts_inside(ranges, some) == std::vector<Named>{{5, 10, 'a'}, {10, 15, 'b'}, {18, 19, 'b'}, {30, 40, 'c'}});
  CHECK(parts_outside(ranges, some) == std::vector<Named>{{0, 5, 'a'}, {15, 18, 'b'}, {19, 20, 'b'}});
  CHECK(bytes_inside(ranges, some) == 21);
}

TEST_CASE("inside and outside together are the ranges") {
  std::mt19937_64 random(test::given_seed());
  for (int i = 0; i < 500; ++i) {
    const PageRanges ranges = random_ranges(random);
    const PageRanges some = random_ranges(random);
    std::set<std::uint64_t> inside, outside;
    const std::set<std::uint64_t> wanted = numbers_in(some);
    for (const std::uint64_t at : numbers_in(ranges)) (wanted.contains(at) ? inside : outside).insert(at);
    REQUIRE(numbers_in(parts_inside(ranges, some)) == inside);
    REQUIRE(numbers_in(parts_outside(ranges, some)) == outside);
    REQUIRE(bytes_inside(ranges, some) == inside.size());
    REQUIRE(sum_of(parts_outside(ranges, some)) == outside.size());
    const std::uint64_t begin = random() % 100;
    const std::uint64_t end = begin + 1 + random() % 10;
    const auto next = wanted.lower_bound(begin);
    REQUIRE(overlaps(some, begin, end) == (next != wanted.end() && *next < end));
  }
}

TEST_CASE("ranges are rounded to whole units, which are joined") {
  CHECK(rounded_out({{1, 3}, {5, 9}, {17, 18}}, 8) == PageRanges{{0, 24}});
  CHECK(rounded_out({{1, 3}, {17, 18}}, 8) == PageRanges{{0, 8}, {16, 24}});
}
