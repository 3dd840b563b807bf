#include "analyzer/render/units.h"
#include "analyzer/render/byte_column.h"

#include <cstdint>

#include <catch2/catch.hpp>

using namespace heapprof::render;

TEST_CASE("sizes with three digits") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1024) == "1.00 KiB");
  CHECK(human_bytes(1536) == "1.50 KiB");
  CHECK(human_bytes(10 * 1024 - 1) == "10.0 KiB");    // not 10.00
  CHECK(human_bytes(1024 * 1024 - 1) == "1.00 MiB");  // not 1024 KiB
  CHECK(human_bytes(12'897'411) == "12.3 MiB");
  CHECK(human_bytes(std::uint64_t{1} << 56) == "64.0 PiB");
  CHECK(human_bytes(UINT64_MAX) == "16.0 EiB");
}

TEST_CASE("counts and shares") {
  CHECK(exact_number(0) == "0");
  CHECK(block_count(1) == "1 block");
  CHECK(block_count(1000) == "1,000 blocks");
  CHECK(exact_number(999) == "999");
  CHECK(exact_number(1000) == "1,000");
  CHECK(exact_number(1234567890) == "1,234,567,890");
  CHECK(percent(1, 3) == "33.3%");
  CHECK(percent(1, 1000000) == "<0.01%");
  CHECK(percent(5, 5) == "100%");
  CHECK(percent(0, 5) == "0%");
  CHECK(percent(0, 0) == "0%");
}

TEST_CASE("times") {
  CHECK(human_time(0) == "0 s");
  CHECK(human_time(350) == "350 ns");
  CHECK(human_time(350'000) == "350 \xc2\xb5s");
  CHECK(human_time(1'250'000'000) == "1.25 s");
  CHECK(human_time(125'000'000'000) == "2 min 05 s");
  CHECK(human_time(2ull * 3600 * 1'000'000'000 + 120'000'000'000) == "2 h 02 min");
}

TEST_CASE("the sizes of a column have one unit and equal decimal places") {
  const ByteColumn mebibytes(10 * 1024 * 1024);
  CHECK(mebibytes.text(10 * 1024 * 1024) == "10.0 MiB");
  CHECK(mebibytes.text(512 * 1024) == "0.5 MiB");
  CHECK(mebibytes.text(1000) == "1000 B");
  CHECK(mebibytes.text(30'800) == "30.1 KiB");
  CHECK(mebibytes.text(0) == "0.0 MiB");
  CHECK(ByteColumn(8 * 1024).text(1024) == "1.00 KiB");
  CHECK(ByteColumn(8 * 1024).text(1) == "1 B");
  CHECK(ByteColumn(1023).text(7) == "7 B");
  CHECK(ByteColumn(1024 * 1024 - 1).text(1024 * 1024 - 1) == "1.00 MiB");
}
