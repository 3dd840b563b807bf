// heapprof churn: short-lived and temporary blocks by call site.
#include <catch2/catch.hpp>

#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

TEST_CASE("churn --json counts blocks that live no longer than --within") {
  const KnownTrace trace;
  const Outcome churn = run({"churn", trace.path(), "--json"});
  CHECK(churn.status == 0);
  CHECK(churn.number("/within_ns") == 1 * kMs);
  CHECK(churn.number("/total/allocations") == kAllocations);
  CHECK(churn.number("/total/allocated_bytes") == kAllocatedBytes);
  CHECK(churn.number("/total/freed") == kFrees);
  CHECK(churn.number("/total/short_lived") == 1);  // D
  CHECK(churn.number("/total/short_lived_bytes") == kD);
  CHECK(churn.number("/total/temporary") == kTemporary);
  CHECK(churn.number("/total/mean_lifetime_ns") == (40 * kMs + 20 * kMs + kMs / 2) / 3);  // A, B, D
  REQUIRE(churn.count("/sites") == 1);
  CHECK(churn.number("/sites/0/site/offset") == 0x300);
  CHECK(churn.number("/sites/0/allocations") == 2);
  CHECK(churn.number("/sites/0/short_lived") == 1);
  CHECK(churn.number("/sites/0/temporary") == 2);
  CHECK(churn.number("/sites/0/stack/1/offset") == 0x100);
  // As in the report, which finds the origin itself.
  const Outcome report = run({"report", trace.path(), "--json", "--cost", "temporary"});
  CHECK(report.at("/sites/0/site/offset") == churn.at("/sites/0/site/offset"));
  CHECK(churn.at("/sites/0/origin") == report.at("/sites/0/origin"));
}

TEST_CASE("churn --within sets the limit, inclusive") {
  const KnownTrace trace;
  const auto short_lived = [&](const char* within) {
    return run({"churn", trace.path(), "--json", "--within", within}).number("/total/short_lived");
  };
  CHECK(short_lived("100us") == 0);
  CHECK(short_lived("500us") == 1);
  CHECK(short_lived("20ms") == 2);
  CHECK(short_lived("0.04") == 3);
  for (const char* wrong : {"", "soon", "-1", "5 parsecs"}) {
    const Outcome churn = run({"churn", trace.path(), "--within", wrong});
    CHECK(churn.status == 2);
    CHECK(churn.err.find("--within") != std::string::npos);
  }
}

TEST_CASE("churn ranks sites by short-lived and temporary blocks, and --top limits them") {
  const KnownTrace trace;
  const Outcome churn = run({"churn", trace.path(), "--json", "--within", "1"});
  REQUIRE(churn.count("/sites") == 2);  // work frees nothing
  CHECK(churn.number("/sites/0/site/offset") == 0x300);
  CHECK(churn.number("/sites/1/site/offset") == 0x200);
  CHECK(churn.number("/sites/1/short_lived_bytes") == kA);
  CHECK(run({"churn", trace.path(), "--json", "--within", "1", "--top", "1"}).count("/sites") == 1);
}

TEST_CASE("churn has the mean of lives whose sum has more than 64 bits") {
  constexpr std::uint64_t kLifeNs = 8'000'000'000'000'000'000;
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(kMainTid, "main");
  for (const std::uint64_t address : {0xa000u, 0xb000u, 0xc000u}) main.alloc(1 * kMs, address, kA);
  for (const std::uint64_t address : {0xa000u, 0xb000u, 0xc000u}) main.free(1 * kMs + kLifeNs, address);
  const TemporaryFile trace;
  builder.write(trace.path());
  const Outcome churn = run({"churn", trace.path(), "--json"});
  CHECK(churn.number("/total/freed") == 3);
  CHECK(churn.number("/total/mean_lifetime_ns") == kLifeNs);
}

TEST_CASE("churn prints the same figures as text") {
  const KnownTrace trace;
  const Outcome churn = run({"churn", trace.path()});
  CHECK(churn.has_line({"short-lived", "20.0%", "1 of 5", "1.00 ms", "256 B"}));
  CHECK(churn.has_line({"temporary", "40.0%", "2"}));
  CHECK(churn.has_line({"1", "50.0%", "2", "256 B", "10.2 ms", kParseName}));
}
