// heapprof diff: what changed from one recording to another.
#include <catch2/catch.hpp>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

TEST_CASE("diff --json has the totals of both, and each stack's change") {
  const KnownTrace before;
  const KnownTrace after(Variant::kTwice);
  const Outcome diff = run({"diff", before.path(), after.path(), "--json"});
  CHECK(diff.status == 0);
  CHECK(diff.at("/before/trace") == before.path());
  CHECK(diff.number("/before/peak_bytes") == kPeakBytes);
  CHECK(diff.number("/before/leaked_bytes") == kLeakedBytes);
  CHECK(diff.number("/before/temporary_allocations") == kTemporary);
  CHECK(diff.at("/after/trace") == after.path());
  CHECK(diff.number("/after/peak_bytes") == 2 * kPeakBytes);
  CHECK(diff.number("/after/allocated_bytes") == 2 * kAllocatedBytes);
  CHECK(diff.number("/after/allocations") == kAllocations);
  CHECK(diff.number("/changed_stacks") == 3);
  REQUIRE(diff.count("/top") == 3);
  CHECK(diff.number("/top/0/bytes") == kC);
  CHECK(diff.number("/top/0/bytes_before") == kC);
  CHECK(diff.number("/top/0/bytes_after") == 2 * kC);
  CHECK(diff.number("/top/0/blocks") == 0);
  CHECK(diff.at("/top/0/stack/0/function") == kWorkName);
  CHECK(diff.number("/top/2/bytes") == kA);
}

TEST_CASE("the changes of the reverse comparison are negative") {
  const KnownTrace large(Variant::kTwice);
  const KnownTrace small;
  const Outcome diff = run({"diff", large.path(), small.path(), "--json", "--top", "1"});
  CHECK(diff.at("/top/0/bytes") == "-" + std::to_string(kC));
  CHECK(diff.number("/changed_stacks") == 3);
  CHECK(diff.count("/top") == 1);
}

TEST_CASE("a stack of only one recording changed by all its bytes") {
  const KnownTrace nothing(Variant::kEmpty);
  const KnownTrace trace;
  const Outcome diff = run({"diff", nothing.path(), trace.path(), "--json", "--cost", "allocations"});
  CHECK(diff.number("/before/allocations") == 0);
  REQUIRE(diff.count("/top") == 3);
  CHECK(diff.number("/top/0/blocks_before") == 0);
  CHECK(diff.number("/top/0/blocks") == 2);
  CHECK(diff.number("/top/2/blocks") == 1);
}

TEST_CASE("a recording does not differ from itself") {
  const KnownTrace trace;
  const Outcome diff = run({"diff", trace.path(), trace.path(), "--json"});
  CHECK(diff.status == 0);
  CHECK(diff.number("/changed_stacks") == 0);
  CHECK(diff.at("/top") == "[]");
  CHECK(run({"diff", trace.path(), trace.path()}).has_line({"peak", "7.00 KiB", "7.00 KiB", "same"}));
}

TEST_CASE("diff prints the same figures as text") {
  const KnownTrace before;
  const KnownTrace after(Variant::kTwice);
  const Outcome diff = run({"diff", before.path(), after.path()});
  CHECK(diff.has_line({"peak", "7.00 KiB", "14.0 KiB", "+7.00 KiB", "+100.0%"}));
  CHECK(diff.has_line({"leaked", "4.50 KiB", "9.00 KiB", "+4.50 KiB", "+100.0%"}));
  CHECK(diff.has_line({"allocations", "5", "5", "same"}));
  CHECK(diff.has_line({"1", "+4.00 KiB", "4.00 KiB in 1 block before", "8.00 KiB in 1 block after"}));
  CHECK(diff.has_line({kWorkName}));
}

TEST_CASE("diff draws a flame graph, and folded text with both values") {
  const KnownTrace before;
  const KnownTrace after(Variant::kTwice);
  const Outcome folded = run({"diff", before.path(), after.path(), "--format", "folded"});
  CHECK(folded.has_line({std::string(kMainName) + ";" + kLoadName + " 1024 2048"}));
  CHECK(folded.has_line({std::string(kWorkName) + " 4096 8192"}));
  CHECK(run({"diff", before.path(), after.path(), "--format", "svg"}).out.find("</svg>") != std::string::npos);
  CHECK(run({"diff", before.path(), after.path(), "--format", "svg", "--json"}).status == 2);
}

TEST_CASE("diff needs two recordings, and names a damaged one") {
  const KnownTrace trace;
  const KnownTrace damaged(Variant::kDamaged);
  CHECK(run({"diff", trace.path(), kNoFile}).status == 1);
  CHECK(run({"diff", kNoFile, trace.path()}).status == 1);
  const Outcome first = run({"diff", damaged.path(), trace.path(), "--json"});
  CHECK(first.status == 1);
  CHECK(first.err.find(damaged.path()) != std::string::npos);
  CHECK(first.number("/after/peak_bytes") == kPeakBytes);
  CHECK(run({"diff", trace.path(), damaged.path()}).status == 1);
}
