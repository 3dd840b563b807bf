// heapprof report: totals and the most expensive stacks of a recording whose figures are known.
#include <catch2/catch.hpp>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

TEST_CASE("report --json has the totals of the heap") {
  const KnownTrace trace;
  const Outcome report = run({"report", trace.path(), "--json"});
  CHECK(report.status == 0);
  CHECK(report.err == "");
  CHECK(report.number("/heap/allocations") == kAllocations);
  CHECK(report.number("/heap/allocated_bytes") == kAllocatedBytes);
  CHECK(report.number("/heap/frees") == kFrees);
  CHECK(report.number("/heap/peak_bytes") == kPeakBytes);
  CHECK(report.number("/heap/peak_blocks") == kPeakBlocks);
  CHECK(report.number("/heap/peak_time_ns") == kPeakNs);
  CHECK(report.number("/heap/leaked_bytes") == kLeakedBytes);
  CHECK(report.number("/heap/leaked_blocks") == kLeakedBlocks);
  CHECK(report.number("/heap/temporary_allocations") == kTemporary);
  CHECK(report.number("/heap/failed") == 0);
  CHECK(report.number("/heap/unmatched_frees") == 0);
  CHECK(report.number("/heap/implied_frees") == 0);
  CHECK(report.number("/events") == kAllocations + kFrees);
  CHECK(report.number("/peak_rss_bytes") == kResidentBytes);
  CHECK(report.number("/duration_ns") == kDurationNs);
  CHECK(report.at("/program") == "/opt/known/demo");
  CHECK(report.at("/integrity/complete") == "true");
  CHECK(report.at("/slice") == "null");
  CHECK(report.at("/selected") == "null");
}

TEST_CASE("report ranks the stacks by the cost that --cost names") {
  const KnownTrace trace;
  struct Expected {
    const char* cost;
    std::uint64_t total_bytes, total_blocks, stacks, first_bytes, first_blocks, first_offset;
  };
  // Innermost frames: load 0x200, parse 0x300, work 0x400.
  for (const Expected& expected :
       {Expected{"peak", kPeakBytes, 3, 3, kC, 1, 0x400}, Expected{"leaked", kLeakedBytes, 2, 2, kC, 1, 0x400},
        Expected{"allocated", kAllocatedBytes, 5, 3, kC, 1, 0x400},
        Expected{"allocations", kAllocatedBytes, 5, 3, kB + kD, 2, 0x300},
        Expected{"temporary", kB + kD, 2, 1, kB + kD, 2, 0x300}}) {
    INFO(expected.cost);
    const Outcome report = run({"report", trace.path(), "--json", "--cost", expected.cost});
    CHECK(report.at("/cost") == expected.cost);
    CHECK(report.number("/total/bytes") == expected.total_bytes);
    CHECK(report.number("/total/blocks") == expected.total_blocks);
    CHECK(report.count("/top") == expected.stacks);
    CHECK(report.number("/top/0/bytes") == expected.first_bytes);
    CHECK(report.number("/top/0/blocks") == expected.first_blocks);
    CHECK(report.number("/top/0/stack/0/offset") == expected.first_offset);
  }
}

TEST_CASE("report prints the same figures as text") {
  const KnownTrace trace;
  const Outcome report = run({"report", trace.path()});
  CHECK(report.status == 0);
  CHECK(report.has_line({"peak", "7.00 KiB", "3 blocks", "30.0 ms"}));
  CHECK(report.has_line({"live", "4.50 KiB", "2 blocks, live at its last event"}));
  CHECK(report.has_line({"allocated", "7.75 KiB", "5 allocations"}));
  CHECK(report.has_line({"temporary", "40.0%", "2"}));
  CHECK(report.has_line({"resident", "9.00 MiB"}));
  CHECK(report.has_line({"1  4.00 KiB", "57%", "1", kWorkName}));
  CHECK(report.has_line({"2  2.00 KiB", "29%", "1", "100%", kParseName}));
  CHECK(report.has_line({"1", "4.00 KiB", "57.1%", "in 1 block"}));
  CHECK(report.has_line({kWorkName}));
  CHECK(report.has_line({kLoadName}));
}

TEST_CASE("a selection without blocks has a peak of 0 bytes and no time of the peak") {
  const KnownTrace trace;
  const Outcome report = run({"report", trace.path(), "--min-size", "1G"});
  CHECK(report.status == 0);
  CHECK(report.has_line({"peak", "0 B", "no byte was live"}));
  CHECK_FALSE(report.has_line({"peak", "0 blocks"}));
  const Outcome picture = run({"flamegraph", trace.path(), "--min-size", "1G", "-o", "-"});
  CHECK(picture.status == 0);
  CHECK(picture.out.find("no byte was live") != std::string::npos);
  CHECK(picture.out.find("at 0 s") == std::string::npos);
}

TEST_CASE("report --top and --frames limit what is shown, and 0 shows all") {
  const KnownTrace trace;
  CHECK(run({"report", trace.path(), "--json", "--top", "1"}).count("/top") == 1);
  CHECK(run({"report", trace.path(), "--json", "--top", "0"}).count("/top") == 3);
  const Outcome one = run({"report", trace.path(), "--top", "1"});
  CHECK(one.has_line({"Live at the peak, by call site (1 of 3; 57.1% of the bytes)"}));
  CHECK_FALSE(one.has_line({"2  2.00 KiB"}));
  CHECK(run({"report", trace.path(), "--frames", "0"}).has_line({kMainName}));
  const std::string in_stack = std::string("\n      ") + kMainName;
  CHECK(run({"report", trace.path()}).out.find(in_stack) != std::string::npos);
  CHECK(run({"report", trace.path(), "--frames", "1"}).out.find(in_stack) == std::string::npos);
}

TEST_CASE("report ranks call sites by blocks where the cost counts blocks") {
  const KnownTrace trace;
  const Outcome report = run({"report", trace.path(), "--cost", "temporary"});
  CHECK(report.has_line({"Temporary allocations, by call site"}));
  CHECK(report.has_line({"1", "2", "100%", "2.25 KiB", kParseName}));
  CHECK_FALSE(report.has_line({"Who keeps"}));
}

TEST_CASE("report shows live bytes over time, unless the trace is to be read once") {
  const KnownTrace trace;
  CHECK(run({"report", trace.path()}).has_line({"over time"}));
  CHECK_FALSE(run({"report", trace.path(), "--no-history"}).has_line({"over time"}));
}
