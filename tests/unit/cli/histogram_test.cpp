// heapprof histogram: sizes and lifetimes of blocks.
#include <catch2/catch.hpp>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

TEST_CASE("histogram --json counts sizes by powers of two") {
  const KnownTrace trace;
  const Outcome histogram = run({"histogram", trace.path(), "--json"});
  CHECK(histogram.status == 0);
  CHECK(histogram.number("/allocations") == kAllocations);
  CHECK(histogram.number("/allocated_bytes") == kAllocatedBytes);
  CHECK(histogram.at("/sizes_exact") == "true");
  const std::uint64_t sizes[] = {kD, kE, kA, kB, kC};  // each is twice the previous one, so each is in its own class
  REQUIRE(histogram.count("/sizes") == std::size(sizes));
  for (std::size_t i = 0; i < std::size(sizes); ++i) {
    const std::string one = "/sizes/" + std::to_string(i);
    INFO(one);
    CHECK(histogram.number(one + "/from_bytes") == sizes[i] / 2 + 1);
    CHECK(histogram.number(one + "/to_bytes") == sizes[i]);
    CHECK(histogram.number(one + "/allocations") == 1);
    CHECK(histogram.number(one + "/bytes") == sizes[i]);
    const std::string common = "/common_sizes/" + std::to_string(i);
    CHECK(histogram.number(common + "/size") == sizes[i]);
    CHECK(histogram.number(common + "/allocations") == 1);
  }
}

TEST_CASE("histogram --json counts lifetimes by powers of ten, and blocks not freed") {
  const KnownTrace trace;
  const Outcome histogram = run({"histogram", trace.path(), "--json"});
  std::uint64_t blocks = 0;
  for (std::size_t i = 0; i < histogram.count("/lifetimes"); ++i) {
    const std::string one = "/lifetimes/" + std::to_string(i);
    INFO(one);
    const std::uint64_t below = histogram.number(one + "/below_ns");
    const bool has_d = below == 1 * kMs;          // half a millisecond
    const bool has_a_and_b = below == 100 * kMs;  // 40 and 20 milliseconds
    CHECK(histogram.number(one + "/blocks") == (has_d ? 1 : has_a_and_b ? 2 : 0));
    CHECK(histogram.number(one + "/bytes") == (has_d ? kD : has_a_and_b ? kA + kB : 0));
    blocks += histogram.number(one + "/blocks");
  }
  CHECK(blocks == kFrees);
  CHECK(histogram.number("/not_freed/blocks") == kLeakedBlocks);
  CHECK(histogram.number("/not_freed/bytes") == kLeakedBytes);
}

TEST_CASE("the cells of histogram --json divide the same blocks by size and lifetime") {
  const KnownTrace trace;
  const Outcome histogram = run({"histogram", trace.path(), "--json"});
  std::uint64_t freed = 0, left = 0, left_bytes = 0;
  for (std::size_t i = 0; i < histogram.count("/cells"); ++i) {
    const std::string one = "/cells/" + std::to_string(i);
    INFO(one);
    const std::uint64_t bytes = histogram.number(one + "/bytes");
    const std::uint64_t blocks = histogram.number(one + "/blocks");
    CHECK(bytes >= blocks * histogram.number(one + "/from_bytes"));
    CHECK(bytes <= blocks * histogram.number(one + "/to_bytes"));
    if (histogram.at(one + "/from_ns") == "null") {
      CHECK(histogram.at(one + "/below_ns") == "null");
      left += blocks;
      left_bytes += bytes;
      continue;
    }
    freed += blocks;
    if (bytes == kD) CHECK(histogram.number(one + "/below_ns") == 1 * kMs);
    else CHECK(histogram.number(one + "/below_ns") == 100 * kMs);
  }
  CHECK(freed == kFrees);
  CHECK(left == kLeakedBlocks);
  CHECK(left_bytes == kLeakedBytes);
}

TEST_CASE("histogram prints quantiles, sizes and lifetimes as text") {
  const KnownTrace trace;
  const Outcome histogram = run({"histogram", trace.path()});
  CHECK(histogram.has_line({"median", "1.00 KiB"}));
  CHECK(histogram.has_line({"p99", "4.00 KiB"}));
  CHECK(histogram.has_line({"513 B to 1.00 KiB", "1", "20.0%", "1.00 KiB", "12.9%"}));
  CHECK(histogram.has_line({"10 ms to 100 ms", "2", "40.0%", "3.00 KiB"}));
  CHECK(histogram.has_line({"not freed", "2", "40.0%", "4.50 KiB"}));
}

TEST_CASE("histogram counts only the selected blocks") {
  const KnownTrace trace;
  const Outcome histogram = run({"histogram", trace.path(), "--json", "--thread", "worker"});
  CHECK(histogram.number("/allocations") == 1);
  REQUIRE(histogram.count("/sizes") == 1);
  CHECK(histogram.number("/sizes/0/bytes") == kC);
  CHECK(histogram.number("/not_freed/bytes") == kC);
}
