// heapprof timeline: live bytes over time, in figures; tests/unit/render tests how they are drawn.
#include <catch2/catch.hpp>

#include <algorithm>
#include <sstream>

#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

TEST_CASE("timeline --json has the peak, live bytes and the resident set") {
  const KnownTrace trace;
  const Outcome timeline = run({"timeline", trace.path(), "--json"});
  CHECK(timeline.status == 0);
  CHECK(timeline.number("/duration_ns") == kDurationNs);
  CHECK(timeline.number("/peak/bytes") == kPeakBytes);
  CHECK(timeline.number("/peak/time_ns") == kPeakNs);
  const std::size_t samples = timeline.count("/samples/live_bytes");
  REQUIRE(samples > 0);
  REQUIRE(timeline.count("/samples/time_ns") == samples);
  REQUIRE(timeline.count("/samples/highest_bytes") == samples);
  std::uint64_t highest = 0;
  bool b_is_freed = false;
  for (std::size_t i = 0; i < samples; ++i) {
    const std::string at = "/" + std::to_string(i);
    highest = std::max(highest, timeline.number("/samples/highest_bytes" + at));
    // B is freed at 40 ms: the first sample after that has the new figures.
    if (!b_is_freed && timeline.number("/samples/time_ns" + at) > 40 * kMs) {
      b_is_freed = true;
      CHECK(timeline.number("/samples/live_bytes" + at) == kA + kC);
      CHECK(timeline.number("/samples/highest_bytes" + at) == kPeakBytes);
    }
    // Live bytes change at 10, 20, ... ms only.
    const std::uint64_t ms = timeline.number("/samples/time_ns" + at) / kMs;
    if (ms >= 32 && ms < 38) CHECK(timeline.number("/samples/live_bytes" + at) == kPeakBytes);
    if (ms >= 42 && ms < 48) CHECK(timeline.number("/samples/live_bytes" + at) == kA + kC);
    if (ms >= 52 && ms < 58) CHECK(timeline.number("/samples/live_bytes" + at) == kC);
  }
  CHECK(highest == kPeakBytes);
  CHECK(b_is_freed);
  CHECK(timeline.number("/samples/live_bytes/" + std::to_string(samples - 1)) == kLeakedBytes);
  REQUIRE(timeline.count("/samples/mapped_bytes") == samples);
  CHECK(timeline.at("/rss/bytes") == "[" + std::to_string(kResidentBytes) + "]");
  CHECK(timeline.at("/integrity/complete") == "true");
}

TEST_CASE("timeline has the call sites by live bytes at the peak, and --sites limits them") {
  const KnownTrace trace;
  const Outcome timeline = run({"timeline", trace.path(), "--json"});
  REQUIRE(timeline.count("/sites") == 3);
  CHECK(timeline.number("/sites/0/peak_bytes") == kC);
  CHECK(timeline.at("/sites/0/module") == "libwork.so");
  CHECK(timeline.number("/sites/1/peak_bytes") == kB);
  CHECK(timeline.number("/sites/2/peak_bytes") == kA);
  const std::string last = std::to_string(timeline.count("/sites/0/bytes") - 1);
  CHECK(timeline.number("/sites/0/bytes/" + last) == kC);
  CHECK(timeline.number("/sites/1/bytes/" + last) == 0);
  CHECK(timeline.number("/sites/2/bytes/" + last) == kE);
  CHECK(run({"timeline", trace.path(), "--json", "--sites", "0"}).at("/sites") == "[]");
  const Outcome one = run({"timeline", trace.path(), "--json", "--sites", "1"});
  CHECK(one.number("/sites/0/peak_bytes") == kC);
}

TEST_CASE("timeline --by module and --by thread divide the same bytes") {
  const KnownTrace trace;
  for (const char* const by : {"module", "thread"}) {
    INFO(by);
    const Outcome timeline = run({"timeline", trace.path(), "--json", "--by", by});
    CHECK(timeline.status == 0);
    const std::size_t samples = timeline.count("/samples/live_bytes");
    std::uint64_t peak = 0, last = 0, before = ~std::uint64_t{0};
    for (std::size_t i = 0; i < timeline.count("/sites"); ++i) {
      const std::string one = "/sites/" + std::to_string(i);
      REQUIRE(timeline.count(one + "/bytes") == samples);
      peak += timeline.number(one + "/peak_bytes");
      last += timeline.number(one + "/bytes/" + std::to_string(samples - 1));
      std::uint64_t highest = 0;
      for (std::size_t at = 0; at < samples; ++at)
        highest = std::max(highest, timeline.number(one + "/bytes/" + std::to_string(at)));
      CHECK(highest <= before);
      before = highest;
    }
    CHECK(peak == kPeakBytes);
    CHECK(last == kLeakedBytes);
  }
  CHECK(run({"timeline", trace.path(), "--by", "thread", "--kind", "mmap"}).status == 2);
  CHECK(run({"timeline", trace.path(), "--by", "module", "--resident"}).status == 2);
}

TEST_CASE("timeline --json ranks call sites by their maximum over time, not at the peak only") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.module(2, "/opt/many", "\x01", 0x400000, 0x400000, 0x1000000, true);
  for (std::uint32_t i = 1; i <= 3; ++i) main.node(i, 0, 2, 0x1000 * i);
  main.alloc(10 * kMs, 0x1000, 5000, 1);  // freed before the peak
  main.alloc(20 * kMs, 0x3000, 100, 2);
  main.free(100 * kMs, 0x1000);
  main.alloc(200 * kMs, 0x10000, 9000, 3);
  const TemporaryFile trace;
  builder.write(trace.path());
  const Outcome two = run({"timeline", trace.path(), "--json", "--sites", "2"});
  REQUIRE(two.count("/sites") == 2);
  CHECK(two.number("/sites/0/peak_bytes") == 9000);
  CHECK(two.number("/sites/1/peak_bytes") == 0);
  CHECK(two.number("/sites/1/bytes/" + std::to_string(two.count("/sites/1/bytes") / 4)) == 5000);
}

TEST_CASE("timeline sums all stacks of a call site") {
  // Each stack is a function of its own that calls the site. At the peak one block of each is live; another was
  // freed.
  constexpr std::uint32_t kStacks = 5'000;
  constexpr std::uint32_t kOnlyFreed = 10;  // stacks of the site whose blocks are all freed before the peak
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.module(2, "/opt/many", "\x01", 0x400000, 0x400000, 0x1000000, true);
  std::uint64_t time = 1 * kMs;
  for (std::uint32_t i = 0; i < kStacks; ++i) {
    main.node(2 * i + 1, 0, 2, 0x10000 + 16 * i);
    main.node(2 * i + 2, 2 * i + 1, 2, 0x100);
  }
  for (std::uint32_t i = 0; i < kStacks; ++i) main.alloc(time += 1000, 0x1000000 + 4096 * i, 1000, 2 * i + 2);
  const std::uint64_t all_live = time + 2 * kMs;
  time += 4 * kMs;
  for (std::uint32_t i = 0; i < kOnlyFreed; ++i) main.free(time += 1000, 0x1000000 + 4096 * i);
  main.node(2 * kStacks + 1, 0, 2, 0x200);
  main.alloc(time += 10 * kMs, 0x100, 100'000'000, 2 * kStacks + 1);
  const TemporaryFile trace;
  builder.write(trace.path());
  // So many callers would make the site a helper.
  const Outcome timeline = run({"timeline", trace.path(), "--json", "--no-helpers"});
  REQUIRE(timeline.count("/sites") == 2);
  const std::string bytes = "/sites/1/bytes/";
  CHECK(timeline.number("/sites/1/peak_bytes") == (kStacks - kOnlyFreed) * 1000);
  CHECK(timeline.number(bytes + std::to_string(timeline.count("/sites/1/bytes") - 1)) ==
        (kStacks - kOnlyFreed) * 1000);
  const std::uint64_t width = timeline.number("/samples/time_ns/0");
  CHECK(timeline.number(bytes + std::to_string(all_live / width)) == kStacks * 1000);
}

TEST_CASE("timeline --format csv has the same samples as JSON") {
  const KnownTrace trace;
  const Outcome json = run({"timeline", trace.path(), "--json"});
  std::istringstream lines(run({"timeline", trace.path(), "--format", "csv"}).out);
  std::string line, last;
  REQUIRE(std::getline(lines, line));
  CHECK(line.rfind("time_ns,live_bytes,highest_bytes,rss_bytes,", 0) == 0);
  std::size_t rows = 0;
  for (; std::getline(lines, line); ++rows) last = line;
  CHECK(rows >= json.count("/samples/time_ns"));
  CHECK(last.rfind(std::to_string(kDurationNs) + "," + std::to_string(kLeakedBytes) + ",", 0) == 0);
  CHECK(last.find("," + std::to_string(kC) + ",0," + std::to_string(kE)) != std::string::npos);
}

TEST_CASE("timeline shows the marks and pauses of a recording, and only those of a slice") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.alloc(10 * kMs, 0xa000, 100);
  main.text(heapprof::TextKind::kMark, 0, 10 * kMs, "loaded");
  main.add(heapprof::Op::kPause, 20 * kMs);
  main.add(heapprof::Op::kResume, 50 * kMs);
  main.alloc(100 * kMs, 0xb000, 100);
  const TemporaryFile trace;
  builder.write(trace.path());
  const Outcome timeline = run({"timeline", trace.path(), "--json"});
  CHECK(timeline.at("/marks/0/text") == "loaded");
  CHECK(timeline.number("/marks/0/time_ns") == 10 * kMs);
  REQUIRE(timeline.count("/pauses") == 1);
  CHECK(timeline.number("/pauses/0/from_ns") == 20 * kMs);
  CHECK(timeline.number("/pauses/0/to_ns") == 50 * kMs);
  const Outcome slice = run({"timeline", trace.path(), "--json", "--from", "30ms", "--to", "60ms"});
  CHECK(slice.number("/start_ns") == 30 * kMs);
  CHECK(slice.at("/marks") == "[]");
  CHECK(slice.number("/pauses/0/from_ns") == 30 * kMs);
}

TEST_CASE("timeline draws text and svg, exports OpenMetrics, and refuses other formats") {
  const KnownTrace trace;
  CHECK(run({"timeline", trace.path()}).out.find("7.00 KiB") != std::string::npos);
  const Outcome svg = run({"timeline", trace.path(), "--format", "svg"});
  CHECK(svg.out.find("<svg") != std::string::npos);
  CHECK(svg.out.find("</svg>") != std::string::npos);
  const Outcome metrics = run({"timeline", trace.path(), "--format", "openmetrics"});
  CHECK(metrics.out.size() > 6);
  CHECK(metrics.out.substr(metrics.out.size() - 6) == "# EOF\n");
  CHECK(run({"timeline", trace.path(), "--format", "png"}).status == 2);
  CHECK(run({"timeline", trace.path(), "--json", "--format", "csv"}).status == 2);
  CHECK(run({"timeline", trace.path(), "--json", "--format", "json"}).status == 0);
}
