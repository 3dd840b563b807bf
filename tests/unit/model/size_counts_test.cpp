// Sizes are counted in a time that does not depend on which sizes they are.
#include "analyzer/model/size_counts.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <unordered_map>

using heapprof::model::SizeCount;
using heapprof::model::SizeCounts;

TEST_CASE("Few sizes are compared, also if they were chosen for one bucket of a hash map") {
  constexpr std::uint64_t kSizes = 20'000;
  std::unordered_map<std::uint64_t, std::uint64_t> usual;
  for (std::uint64_t i = 0; i < kSizes; ++i) usual[i] = i;
  const std::uint64_t buckets = usual.bucket_count();
  SizeCounts counts;
  for (int round = 0; round < 2; ++round)
    for (std::uint64_t i = 1; i <= kSizes; ++i) counts.count(i * buckets);
  CHECK(counts.max_compared() < 30);
  const std::vector<SizeCount> sorted = counts.sorted();
  REQUIRE(sorted.size() == kSizes);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 1; i <= kSizes; ++i)
    wrong += sorted[i - 1].size != i * buckets || sorted[i - 1].allocations != 2;
  CHECK(wrong == 0);
}
