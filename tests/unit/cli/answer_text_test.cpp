// The table of call sites, and stacks below it: one call site with several stacks, one with recursion.
#include <catch2/catch.hpp>

#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof;
using namespace heapprof::test;

namespace {

/// At 0x200, called from 0x110 and 0x120, 3 blocks of 1000 bytes are live; at 0x300, called by 0x400 in a recursion
/// of four calls, one of 500 bytes. The file does not exist, so that functions are named by module and offset.
void write_stacks(const std::string& path) {
  TraceBuilder trace;
  auto& main = trace.stream();
  main.thread(1, "main");
  main.text(TextKind::kProgram, 0, 0, "/opt/known/demo");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000, 0x10000, true);
  main.node(1, 0, 2, 0x100);
  main.node(2, 1, 2, 0x110);
  main.node(3, 1, 2, 0x120);
  main.node(4, 2, 2, 0x200);
  main.node(5, 3, 2, 0x200);
  for (std::uint32_t node = 6; node <= 9; ++node) main.node(node, node == 6 ? 1 : node - 1, 2, 0x400);
  main.node(10, 9, 2, 0x300);
  main.alloc(1 * kMs, 0xa000, 1000, 4);
  main.alloc(2 * kMs, 0xb000, 1000, 4);
  main.alloc(3 * kMs, 0xc000, 1000, 5);
  main.alloc(4 * kMs, 0xd000, 500, 10);
  trace.write(path);
}

}  // namespace

TEST_CASE("a call site is one line, and its stacks are counted") {
  const TemporaryFile trace;
  write_stacks(trace.path());
  const Outcome report = run({"report", trace.path(), "--stacks", "2"});
  CHECK(report.has_line({"1  2.93 KiB", "86%", "3", "0%", "demo+0x200"}));
  CHECK(report.has_line({"2  0.49 KiB", "14%", "1", "0%", "demo+0x300"}));
  CHECK(report.has_line({"Stacks (2 of 3; 71.4% of the bytes)"}));
  CHECK(report.has_line({"1    1.95 KiB   57.1%  in 2 blocks"}));
  CHECK(report.has_line({"(1 further stack of this call site: 1000 B, 28.6%)"}));
  CHECK(report.has_line({"2       500 B   14.3%  in 1 block"}));
}

TEST_CASE("further stacks of a call site follow when each call site has one") {
  const TemporaryFile trace;
  write_stacks(trace.path());
  const Outcome report = run({"report", trace.path(), "--stacks", "3"});
  CHECK(report.has_line({"1      1000 B   28.6%  in 1 block"}));
  CHECK_FALSE(report.has_line({"further"}));
  CHECK(run({"report", trace.path(), "--stacks", "0"}).out.find("1000 B   28.6%") != std::string::npos);
}

TEST_CASE("recursion in a stack is folded") {
  const TemporaryFile trace;
  write_stacks(trace.path());
  CHECK(run({"report", trace.path()}).has_line({"2 frames of recursion of demo+0x400"}));
  CHECK_FALSE(run({"report", trace.path(), "--frames", "0"}).has_line({"recursion"}));
}

TEST_CASE("the next commands name the options that show more") {
  const TemporaryFile trace;
  write_stacks(trace.path());
  const Outcome report = run({"report", trace.path(), "--top", "1", "--stacks", "1"});
  CHECK(report.has_line({"All 2 call sites: --top 0", "more stacks: --stacks 10"}));
  CHECK(report.has_line({"  +1 more, "}));
  CHECK(report.has_line({"Callers of the first: heapprof callers TRACE demo+0x"}));
  CHECK(report.has_line({"Never freed: heapprof leaks TRACE"}));
  CHECK(report.has_line({"Over time: heapprof timeline TRACE"}));
  const Outcome all = run({"leaks", trace.path(), "--stacks", "0"});
  CHECK_FALSE(all.has_line({"--top 0"}));
  CHECK_FALSE(all.has_line({"--stacks "}));
}

TEST_CASE("the heading says that a stack stands for others that differ in recursion only") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000, 0x10000, true);
  main.node(1, 0, 2, 0x100);
  for (std::uint32_t node = 2; node <= 4; ++node) main.node(node, node - 1, 2, 0x400);
  main.node(5, 3, 2, 0x300);  // two calls of 0x400
  main.node(6, 4, 2, 0x300);  // three calls
  main.node(7, 1, 2, 0x200);
  main.alloc(1 * kMs, 0xa000, 1000, 5);
  main.alloc(2 * kMs, 0xb000, 1000, 6);
  main.alloc(3 * kMs, 0xc000, 500, 7);
  const TemporaryFile trace;
  builder.write(trace.path());
  CHECK(run({"report", trace.path(), "--stacks", "1"})
            .has_line({"Stacks: 1, each the largest of similar ones (2 of 3; 80.0% of the bytes)"}));
}

TEST_CASE("call sites with less than a hundredth are counted below the table, unless all are asked for") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000, 0x10000, true);
  constexpr std::uint32_t kSmall = 3;
  main.node(1, 0, 2, 0x100);
  main.alloc(1 * kMs, 0xa000, 10'000, 1);
  for (std::uint32_t i = 0; i < kSmall; ++i) {
    main.node(2 + i, 0, 2, 0x200 + 0x100 * i);
    main.alloc((2 + i) * kMs, 0xb000 + 0x1000 * i, 90, 2 + i);
  }
  const TemporaryFile trace;
  builder.write(trace.path());
  for (const char* command : {"report", "leaks"}) {
    const Outcome few = run({command, trace.path()});
    CHECK(few.has_line({"by call site (1 of 4; 97.4% of the bytes)"}));
    CHECK(few.has_line({"  +3 more, 270 B"}));
    const Outcome all = run({command, trace.path(), "--top", "0"});
    CHECK(all.has_line({"4", "0.09 KiB"}));
    CHECK_FALSE(all.has_line({" more, "}));
    // A program that reads the figures gets them all.
    CHECK(run({command, trace.path(), "--json"}).count("/sites") == 4);
  }
}
