// heapprof check: limits, a baseline, and the exit statuses 0 (no limit exceeded), 1 (no result), 2 (wrong command
// line), 3 (limit exceeded).
#include <catch2/catch.hpp>

#include <cstring>

#include "analyzer/cli/commands/compare/check_limits.h"
#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;
using heapprof::cli::with_tolerance;

TEST_CASE("check compares each figure with its limit; a figure equal to its limit passes") {
  const KnownTrace trace;
  struct Figure {
    const char* option;
    const char* name;
    std::uint64_t figure;
  };
  for (const Figure& one : {Figure{"--max-peak", "peak", kPeakBytes}, Figure{"--max-leaked", "leaked", kLeakedBytes},
                            Figure{"--max-leaked-blocks", "leaked blocks", kLeakedBlocks},
                            Figure{"--max-allocated", "allocated", kAllocatedBytes},
                            Figure{"--max-allocations", "allocations", kAllocations},
                            Figure{"--max-temporary", "temporary", kTemporary}}) {
    INFO(one.option);
    const Outcome within = run({"check", trace.path(), one.option, std::to_string(one.figure), "--json"});
    CHECK(within.status == 0);
    CHECK(within.at("/ok") == "true");
    CHECK(within.count("/checks") == 1);
    CHECK(within.at("/checks/0/name") == one.name);
    CHECK(within.number("/checks/0/figure") == one.figure);
    CHECK(within.number("/checks/0/limit") == one.figure);
    const Outcome above = run({"check", trace.path(), one.option, std::to_string(one.figure - 1), "--json"});
    CHECK(above.status == 3);
    CHECK(above.at("/ok") == "false");
    CHECK(above.at("/checks/0/ok") == "false");
  }
}

TEST_CASE("one exceeded limit fails the check, and the text output names it") {
  const KnownTrace trace;
  const Outcome check = run({"check", trace.path(), "--max-peak", "1K", "--max-allocations", "100"});
  CHECK(check.status == 3);
  CHECK(check.has_line({"FAILED", "peak", "7.00 KiB"}));
  CHECK(check.has_line({"ok", "allocations", "5"}));
}

TEST_CASE("a baseline may be exceeded by the tolerance, and by no more") {
  const KnownTrace before;
  const KnownTrace after(Variant::kTwice);  // twice the bytes, the same number of blocks
  CHECK(run({"check", before.path(), "--baseline", before.path(), "--tolerance", "0"}).status == 0);
  const Outcome above = run({"check", after.path(), "--baseline", before.path(), "--tolerance", "99", "--json"});
  CHECK(above.status == 3);
  CHECK(above.count("/checks") == 6);
  CHECK(above.at("/checks/0/name") == "peak");
  CHECK(above.at("/checks/0/against_baseline") == "true");
  CHECK(above.number("/checks/0/figure") == 2 * kPeakBytes);
  CHECK(above.number("/checks/0/limit") == kPeakBytes * 199 / 100);
  CHECK(above.at("/checks/0/ok") == "false");
  CHECK(above.at("/checks/4/name") == "allocations");
  CHECK(above.at("/checks/4/ok") == "true");
  CHECK(run({"check", after.path(), "--baseline", before.path(), "--tolerance", "100"}).status == 0);
  CHECK(run({"check", after.path(), "--baseline", kNoFile}).status == 1);
}

TEST_CASE("the limit of a baseline is exact") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000);
  main.node(1, 0, 2, 0x100);
  main.alloc(1 * kMs, 0xa000, 100, 1);
  const TemporaryFile trace;
  builder.write(trace.path());
  const Outcome check = run({"check", trace.path(), "--baseline", trace.path(), "--tolerance", "15", "--json"});
  CHECK(check.number("/checks/0/limit") == 115);

  CHECK(with_tolerance(90, 40) == 126);
  CHECK(with_tolerance(100, 15.9) == 115);  // a part of a byte is not allowed
  CHECK(with_tolerance(1000, 0.3) == 1003);
  CHECK(with_tolerance(3, 100.0 / 3) == 3);
  CHECK(with_tolerance(0, 1e300) == 0);
  // Larger than what a double represents exactly.
  constexpr std::uint64_t kLarge = 9'007'199'254'740'993;  // 2^53 + 1
  CHECK(with_tolerance(kLarge, 0) == kLarge);
  CHECK(with_tolerance(kLarge, 100) == 2 * kLarge);
  constexpr std::uint64_t kMax = ~std::uint64_t{0};
  CHECK(with_tolerance(kMax, 0) == kMax);
  CHECK(with_tolerance(kMax, 10) == kMax);
  CHECK(with_tolerance(kMax / 2, 100) == kMax - 1);
  CHECK(with_tolerance(1, 1e12) == 10'000'000'001);
  CHECK(with_tolerance(1, 1e300) == kMax);
}

TEST_CASE("a wrong command line gives exit status 2, also if the baseline is read before it is found") {
  const KnownTrace trace;
  for (const char* option : {"--function", "--not-function"})
    CHECK(run({"check", trace.path(), "--baseline", trace.path(), option, "("}).status == 2);
  CHECK(run({"check", trace.path(), "--baseline", trace.path(), "--live-at", "1h"}).status == 2);
  CHECK(run({"check", trace.path(), "--baseline", KnownTrace(Variant::kDamaged).path()}).status == 1);
}

TEST_CASE("limits apply to the selection; names that match nothing give exit status 1") {
  const KnownTrace trace;
  CHECK(run({"check", trace.path(), "--thread", "worker", "--max-allocations", "1"}).status == 0);
  CHECK(run({"check", trace.path(), "--function", "0x300", "--max-peak", "2K"}).status == 0);
  CHECK(run({"check", trace.path(), "--function", "0x300", "--max-peak", "2047"}).status == 3);
  const Outcome renamed = run({"check", trace.path(), "--function", "renamed", "--max-peak", "1G", "--json"});
  CHECK(renamed.status == 1);
  CHECK(renamed.at("/names_found") == "false");
  CHECK(renamed.at("/ok") == "false");
  // A limit of 0 requires that the function allocates nothing.
  CHECK(run({"check", trace.path(), "--function", "renamed", "--max-allocations", "0"}).status == 0);
}

TEST_CASE("check of a damaged recording gives exit status 1, unless a limit is exceeded") {
  const KnownTrace trace(Variant::kDamaged);
  CHECK(run({"check", trace.path(), "--max-peak", "1G"}).status == 1);
  CHECK(run({"check", trace.path(), "--max-peak", "1K"}).status == 3);
}

TEST_CASE("check of a damaged recording says so wherever its results are read") {
  const KnownTrace trace(Variant::kDamaged);
  const TemporaryFile junit(".xml");
  const Outcome check = run({"check", trace.path(), "--max-peak", "1G", "--json", "--junit", junit.path()});
  CHECK(check.at("/ok") == "false");
  CHECK(check.at("/no_verdict").find("incomplete") != std::string::npos);
  CHECK(check.at("/checks/0/ok") == "true");
  CHECK(read_file(junit.path()).find("tests=\"2\" failures=\"1\"") != std::string::npos);
  CHECK(run({"check", trace.path(), "--max-peak", "1G"}).has_line({"FAILED", "recording", "incomplete"}));
}

TEST_CASE("check gives no verdict about mappings that were not recorded") {
  TraceBuilder builder;
  std::strcpy(builder.header.settings, "HEAPPROF_MMAP=0\n");
  auto& main = builder.stream();
  main.thread(1, "main");
  main.alloc(1 * kMs, 0xa000, 100);
  const TemporaryFile trace;
  builder.write(trace.path());
  const std::string reason = "mappings were not recorded (HEAPPROF_MMAP=0), so no verdict";
  for (const char* const kind : {"mmap", "all"}) {
    INFO(kind);
    const TemporaryFile junit(".xml");
    const Outcome text = run({"check", trace.path(), "--kind", kind, "--max-peak", "1G"});
    CHECK(text.status == 1);
    CHECK(text.has_line({"FAILED", "recording", "mappings"}));
    CHECK(text.out.find(reason) != std::string::npos);
    CHECK(text.out.find("peak") == std::string::npos);  // it is not known to be within the limit
    const std::string sentence = "mappings were not recorded";
    const std::size_t printed = text.err.find(sentence);
    REQUIRE(printed != std::string::npos);
    CHECK(text.err.find(sentence, printed + 1) == std::string::npos);
    const Outcome json =
        run({"check", trace.path(), "--kind", kind, "--max-peak", "1G", "--json", "--junit", junit.path()});
    CHECK(json.status == 1);
    CHECK(json.at("/no_verdict") == reason);
    CHECK(json.at("/ok") == "false");
    CHECK(json.at("/checks") == "[]");
    CHECK(read_file(junit.path()).find("tests=\"1\" failures=\"1\"") != std::string::npos);
  }
  // The blocks alone exceed this limit. Without --kind, mappings do not matter.
  CHECK(run({"check", trace.path(), "--kind", "all", "--max-peak", "99"}).status == 3);
  CHECK(run({"check", trace.path(), "--max-peak", "100"}).status == 0);
  // A program that made no mapping is within each limit.
  CHECK(run({"check", KnownTrace().path(), "--kind", "mmap", "--max-peak", "1G"}).status == 0);
}

TEST_CASE("check --junit writes a test case for each limit") {
  const KnownTrace trace;
  const TemporaryFile junit(".xml");
  CHECK(run({"check", trace.path(), "--max-peak", "1K", "--max-allocations", "5", "--junit", junit.path()}).status ==
        3);
  const std::string xml = read_file(junit.path());
  CHECK(xml.find("tests=\"2\" failures=\"1\"") != std::string::npos);
  CHECK(xml.find("name=\"peak\"><failure message=") != std::string::npos);
  CHECK(xml.find("name=\"allocations\"/>") != std::string::npos);
  const std::string before = read_file(trace.path());
  CHECK(run({"check", trace.path(), "--max-peak", "1G", "--junit", trace.path()}).status == 1);
  CHECK(read_file(trace.path()) == before);
}

TEST_CASE("check needs a limit, and limits are sizes") {
  const KnownTrace trace;
  CHECK(run({"check", trace.path()}).status == 2);
  CHECK(run({"check", trace.path(), "--max-peak", "much"}).status == 2);
  CHECK(run({"check", trace.path(), "--max-peak"}).status == 2);
  CHECK(run({"check", trace.path(), "--baseline", trace.path(), "--tolerance", "-1"}).status == 2);
  CHECK(run({"check", trace.path(), "--baseline", trace.path(), "--tolerance", "nan"}).status == 2);
}
