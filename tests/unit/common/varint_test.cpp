#include "common/varint.h"
#include "tests/support/require_each.h"
#include "tests/support/seed.h"

#include <catch2/catch.hpp>

#include <limits>
#include <random>
#include <vector>

using namespace heapprof;
using heapprof::test::require_each;

TEST_CASE("decoding returns a varint as it was encoded, with the documented length") {
  const std::vector<std::pair<std::uint64_t, std::size_t>> cases = {{0, 1},
                                                                    {1, 1},
                                                                    {127, 1},
                                                                    {128, 2},
                                                                    {16383, 2},
                                                                    {16384, 3},
                                                                    {(1ull << 56) - 1, 8},
                                                                    {1ull << 63, 10},
                                                                    {std::numeric_limits<std::uint64_t>::max(), 10}};
  for (const auto& [value, length] : cases) {
    std::uint8_t bytes[kMaxVarintBytes];
    const std::uint8_t* end = put_varint(bytes, value);
    CHECK(static_cast<std::size_t>(end - bytes) == length);
    std::uint64_t read = ~value;
    CHECK(get_varint(bytes, end, read) == end);
    CHECK(read == value);
    // Every proper prefix is refused.
    for (const std::uint8_t* cut = bytes; cut != end; ++cut) {
      CHECK(get_varint(bytes, cut, read) == nullptr);
      CHECK(get_small_varint(bytes, cut, read) == nullptr);
    }
  }
}

TEST_CASE("the bytes after a varint do not change its value") {
  std::mt19937_64 random(heapprof::test::seed(1));
  for (unsigned bits = 0; bits <= 64; ++bits) {
    for (int round = 0; round < 100; ++round) {
      const std::uint64_t value = bits == 0 ? 0 : random() >> (64 - bits);
      std::uint8_t bytes[kMaxVarintBytes + 16];
      for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
      const std::uint8_t* const end = put_varint(bytes, value);
      std::uint64_t read = ~value;
      std::uint64_t read_slowly = ~value;
      require_each(get_varint(bytes, bytes + sizeof bytes, read) == end);
      require_each(read == value);
      require_each(get_varint_slowly(bytes, end, read_slowly) == end);
      require_each(read_slowly == value);
      read = ~value;
      require_each(get_small_varint(bytes, bytes + sizeof bytes, read) == end);
      require_each(read == value);
    }
  }
}

TEST_CASE("a varint of more than 64 bits is refused") {
  const std::uint8_t too_large[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
  const std::uint8_t too_long[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00};
  std::uint64_t value;
  CHECK(get_varint(too_large, too_large + sizeof too_large, value) == nullptr);
  CHECK(get_varint(too_long, too_long + sizeof too_long, value) == nullptr);
  CHECK(get_small_varint(too_large, too_large + sizeof too_large, value) == nullptr);
  CHECK(get_small_varint(too_long, too_long + sizeof too_long, value) == nullptr);
}

TEST_CASE("zigzag keeps small magnitudes small and is its own inverse with unzigzag") {
  CHECK(zigzag(0) == 0);
  CHECK(zigzag(-1) == 1);
  CHECK(zigzag(1) == 2);
  CHECK(zigzag(-2) == 3);
  for (std::int64_t value : {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1234567}, std::int64_t{0},
                             std::int64_t{99}, std::numeric_limits<std::int64_t>::max()})
    CHECK(unzigzag(zigzag(value)) == value);
}
