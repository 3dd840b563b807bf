// The number of bits that are set, compared with the standard library's.
#include "analyzer/base/count_bits.h"

#include <catch2/catch.hpp>

#include <bit>
#include <cstdint>
#include <random>

#include "tests/support/seed.h"

using heapprof::count_bits;

TEST_CASE("The bits of a number are counted") {
  static_assert(count_bits(0) == 0);
  static_assert(count_bits(~std::uint64_t{0}) == 64);
  for (int bit = 0; bit < 64; ++bit) {
    CHECK(count_bits(std::uint64_t{1} << bit) == 1);
    CHECK(count_bits((std::uint64_t{1} << bit) - 1) == static_cast<std::uint32_t>(bit));
  }
  std::mt19937_64 random(heapprof::test::seed(6));
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t number = random() & (i % 2 == 0 ? ~std::uint64_t{0} : random() & random());
    CHECK(count_bits(number) == static_cast<std::uint32_t>(std::popcount(number)));
  }
}
