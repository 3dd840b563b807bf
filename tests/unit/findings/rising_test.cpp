// Live bytes that rose until a moment.
#include <catch2/catch.hpp>

#include <cstdint>
#include <functional>
#include <vector>

#include "analyzer/findings/rising.h"

using heapprof::findings::is_rising;

namespace {

bool rises(const std::function<std::uint64_t(std::uint64_t)>& live, std::uint64_t values = 320) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < values; ++i) all.push_back(live(i));
  return is_rising(all);
}

}  // namespace

TEST_CASE("what grows all the time rises, also in few steps") {
  CHECK(rises([](std::uint64_t i) { return 1000 + i; }));
  CHECK(rises([](std::uint64_t i) { return 1000 * (1 + i / 60); }));
  // A leak below memory that comes and goes.
  CHECK(rises([](std::uint64_t i) { return 10 * i + (i % 5 == 0 ? 0 : 5000); }));
}

TEST_CASE("what was loaded, filled up, or comes and goes does not rise") {
  CHECK_FALSE(rises([](std::uint64_t) { return 1000; }));
  CHECK_FALSE(rises([](std::uint64_t i) { return i < 100 ? 10 * i : 1000; }));
  CHECK_FALSE(rises([](std::uint64_t i) { return i % 50 * 100; }));
  // Less than 1/64 of the last value in each part.
  CHECK_FALSE(rises([](std::uint64_t i) { return 1'000'000 + i; }));
  // It rose, and most of it is gone.
  CHECK_FALSE(rises([](std::uint64_t i) { return i + 1 == 320 ? 10 : 10 * i; }));
}

TEST_CASE("there are too few values to say") {
  CHECK_FALSE(is_rising({}));
  CHECK_FALSE(rises([](std::uint64_t i) { return 100 * i; }, 15));
  CHECK(rises([](std::uint64_t i) { return 100 * i; }, 16));
}
