// The threads of a replay by tid.
#include "analyzer/replay/thread_table.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <unordered_map>

using heapprof::replay::Selection;
using heapprof::replay::ThreadTable;

TEST_CASE("Few threads are compared, also if their ids were chosen for one bucket of a hash map") {
  constexpr std::uint32_t kThreads = 2'000;
  std::unordered_map<std::uint32_t, std::uint32_t> usual;
  for (std::uint32_t i = 0; i < kThreads; ++i) usual[i] = i;
  const auto buckets = static_cast<std::uint32_t>(usual.bucket_count());
  ThreadTable threads(Selection{}, 0);
  for (std::uint32_t i = 0; i < kThreads; ++i) threads.start((i + 1) * buckets, {});
  REQUIRE(threads.size() == kThreads);
  std::uint32_t wrong = 0;
  for (std::uint32_t i = 0; i < kThreads; ++i) wrong += threads.find((i + 1) * buckets) != i;
  CHECK(wrong == 0);
  CHECK_FALSE(threads.find(buckets + 1).has_value());
  CHECK(threads.max_compared() > 0);
  CHECK(threads.max_compared() < 30);
}
