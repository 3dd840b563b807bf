// heapprof report --by: rows of a recording whose figures are known, as JSON, CSV and tables.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

namespace {

Outcome rows(const KnownTrace& trace, std::vector<std::string> options) {
  options.insert(options.begin(), {"report", trace.path(), "--by"});
  return run(options);
}

/// The names of all rows.
std::vector<std::string> names_of(const Outcome& json) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < json.count("/rows"); ++i)
    names.push_back(json.at("/rows/" + std::to_string(i) + "/name"));
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("report --by function: what each function costs itself, and with what it calls") {
  const KnownTrace trace;
  const Outcome json = rows(trace, {"function", "--json"});
  CHECK(json.status == 0);
  CHECK(json.at("/by") == "function");
  CHECK(json.number("/all_rows") == 4);
  CHECK(json.number("/total/peak_bytes") == kPeakBytes);
  CHECK(json.number("/total/allocations") == kAllocations);
  REQUIRE(names_of(json) == Names{kWorkName, kParseName, kLoadName, kMainName});
  CHECK(json.number("/rows/0/self/peak_bytes") == kC);
  CHECK(json.number("/rows/1/self/allocations") == 2);
  CHECK(json.number("/rows/1/self/temporary_allocations") == 2);
  CHECK(json.number("/rows/2/self/leaked_bytes") == kE);
  CHECK(json.number("/rows/3/self/peak_bytes") == 0);
  CHECK(json.number("/rows/3/total/peak_bytes") == kA + kB);
  CHECK(json.number("/rows/3/total/allocated_bytes") == kA + kB + kD + kE);
}

TEST_CASE("report --by site, stack, module and thread divide the totals") {
  const KnownTrace trace;
  CHECK(names_of(rows(trace, {"site", "--json"})) == Names{kWorkName, kParseName, kLoadName});
  CHECK(names_of(rows(trace, {"stack", "--json"})) ==
        Names{kWorkName, std::string(kParseName) + " < " + kMainName, std::string(kLoadName) + " < " + kMainName});
  const Outcome modules = rows(trace, {"module", "--json"});
  REQUIRE(names_of(modules) == Names{"/opt/known/libwork.so", "/opt/known/demo"});
  CHECK(modules.number("/rows/1/self/peak_bytes") == kA + kB);
  const Outcome threads = rows(trace, {"thread", "--json"});
  REQUIRE(threads.count("/rows") == 2);
  CHECK(threads.number("/rows/0/tid") == kWorkerTid);
  CHECK(threads.number("/rows/0/self/leaked_bytes") == kC);
  CHECK(threads.number("/rows/1/self/allocated_bytes") == kA + kB + kD + kE);
  CHECK(threads.number("/rows/1/self/peak_bytes") == kA + kB);
}

TEST_CASE("report --by: --sort, --top and --columns") {
  const KnownTrace trace;
  CHECK(names_of(rows(trace, {"function", "--json", "--sort", "total-allocations", "--top", "1"})) ==
        Names{kMainName});
  const Outcome table = rows(trace, {"function", "--sort", "total"});
  CHECK(table.status == 0);
  CHECK(table.has_line({"By function, sorted by total"}));
  CHECK(table.has_line({"self", "share", "total", "share", "blocks", "function"}));
  CHECK(table.has_line({"4.00 KiB", "57.1%", "4.00 KiB", "57.1%", "1", kWorkName}));
  CHECK(table.has_line({"0%", "3.00 KiB", "42.9%", "2", kMainName}));
  const Outcome cut = rows(trace, {"function", "--top", "1"});
  CHECK(cut.has_line({"+3 more, 3.00 KiB of self; --top 0 prints all"}));
  // What is left out is of the figure by which the table is sorted, which may be another one than that of "self".
  const Outcome by_allocated = rows(trace, {"function", "--top", "1", "--sort", "allocated"});
  CHECK(by_allocated.has_line({"+3 more, 3.75 KiB allocated; --top 0 prints all"}));
  CHECK(
      rows(trace, {"site", "--top", "1", "--columns", "leaked,peak"}).has_line({"+2 more, 3.00 KiB peak; --top 0"}));
  const Outcome csv = rows(trace, {"site", "--csv", "--columns", "leaked,allocations"});
  CHECK(csv.out.starts_with("name,file,line,module,origin,self_leaked_bytes,self_allocations\n"));
  CHECK(csv.has_line({kWorkName, "/opt/known/libwork.so,unknown,4096,1"}));
  const Outcome misspelt = rows(trace, {"site", "--columns", "leakd"});
  CHECK(misspelt.status == 2);
  CHECK(misspelt.err.find("did you mean 'leaked'") != std::string::npos);
}

TEST_CASE("report --by: a table has the column by which it is sorted, and says which columns do not fit") {
  const KnownTrace trace;
  const Outcome sorted = run({"report", trace.path(), "--by", "function", "--sort", "allocations"});
  CHECK(sorted.has_line({"self", "share", "total", "share", "blocks", "allocations", "function"}));
  const std::string all = "peak,peak-blocks,leaked,leaked-blocks,allocated,allocations,temporary,live,live-blocks";
  const Outcome narrow = run({"report", trace.path(), "--by", "function", "--columns", all});
  CHECK(narrow.has_line({"  without ", "live-blocks: the line is too narrow; --csv and --json have all columns"}));
  CHECK(run({"report", trace.path(), "--by", "function", "--columns", "peak"}).out.find("without") ==
        std::string::npos);
}

TEST_CASE("report --columns over-time has the live bytes of each row over the recording") {
  const KnownTrace trace;
  for (const char* key : {"function", "site", "stack", "thread", "module", "line"}) {
    INFO(key);
    const Outcome json = rows(trace, {key, "--columns", "self,over-time", "--json"});
    REQUIRE(json.count("/rows/0/live_over_time") == 9);
    // C is allocated at 30 of 100 ms, in the third of nine parts, and never freed.
    CHECK(json.number("/rows/0/live_over_time/1") == 0);
    CHECK(json.number("/rows/0/live_over_time/2") == kC);
    CHECK(json.number("/rows/0/live_over_time/8") == kC);
  }
  CHECK(rows(trace, {"site", "--json"}).at("/rows/0/live_over_time") == "(absent)");
  CHECK(rows(trace, {"site", "--columns", "over-time"}).has_line({"peak", "share", "blocks", "over time"}));
  CHECK(rows(trace, {"site", "--columns", "self,leaked"}).has_line({"By call site, sorted by peak"}));
  CHECK(rows(trace, {"site", "--columns", "self,over-time", "--csv"})
            .has_line({kWorkName, ",4096,0 0 4096 4096 4096 4096 4096 4096 4096"}));
  CHECK(rows(trace, {"site", "--columns", "over-time", "--kind", "mmap"}).status == 2);
  CHECK(run({"report", trace.path(), "--columns", "over-time"}).status == 2);
}

TEST_CASE("report --only-own counts what other code allocates at the own code that called it") {
  const KnownTrace trace;
  // Nothing is known of the two files, so that only --own makes code the program's own.
  const Outcome none = rows(trace, {"function", "--only-own", "--json"});
  REQUIRE(names_of(none) == Names{"(no own code)"});
  CHECK(none.number("/rows/0/self/peak_bytes") == kPeakBytes);
  const Outcome main = rows(trace, {"function", "--only-own", "--own", "0x100", "--json"});
  REQUIRE(names_of(main) == Names{"(no own code)"});  // unresolved names are not matched, files are
  const Outcome demo = rows(trace, {"function", "--only-own", "--own", "known/demo", "--json"});
  CHECK(names_of(demo) == Names{"(no own code)", kParseName, kLoadName, kMainName});
  CHECK(demo.number("/rows/0/self/peak_bytes") == kC);
  CHECK(demo.at("/only_own") == "true");
  CHECK(rows(trace, {"site", "--only-own", "--own", "libwork"}).has_line({"By call site, own code only"}));
  const Outcome report = run({"report", trace.path(), "--only-own", "--own", "known/demo", "--json"});
  REQUIRE(report.count("/sites") == 3);
  CHECK(report.at("/sites/0/site") == "null");
  CHECK(report.number("/sites/0/bytes") == kC);
  CHECK(report.at("/sites/1/origin") == "own");
}

TEST_CASE("tables of rows end with a command that goes on from the first row") {
  const KnownTrace trace;
  CHECK(rows(trace, {"function"}).has_line({"Callers of the first: heapprof callers TRACE libwork.so+0x400"}));
  CHECK(rows(trace, {"module"}).has_line({"heapprof report TRACE --by function --module libwork.so"}));
  CHECK(rows(trace, {"thread"}).has_line({"heapprof report TRACE --thread 4243"}));
}

TEST_CASE("--only-own says when a stripped program is the reason that there is no own code") {
  const KnownTrace trace;
  const char* const kNote = "no function of demo has a name";
  CHECK(rows(trace, {"function", "--only-own"}).out.find(kNote) != std::string::npos);
  CHECK(run({"leaks", trace.path(), "--only-own"}).out.find(kNote) != std::string::npos);
  CHECK(rows(trace, {"function", "--only-own", "--own", "demo"}).out.find(kNote) == std::string::npos);
  CHECK(rows(trace, {"function"}).out.find(kNote) == std::string::npos);
}

TEST_CASE("tables of rows fit the page, and have no control characters of names or colours") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "ma\x1b[31m\nin");
  main.text(heapprof::TextKind::kProgram, 0, 0, "/opt/de\x1b[31m\nmo");
  main.module(2, "/opt/de\x1b[31m\nmo-with-a-name-longer-than-its-column", "\x01\x23", 0x400000, 0x400000, 0x10000,
              true);
  main.node(1, 0, 2, 0x100);
  main.alloc(kMs, 0xa000, 100, 1);
  const TemporaryFile trace;
  builder.write(trace.path());
  const auto check = [&](const std::vector<std::string>& words) {
    std::vector<std::string> arguments = {words.front(), trace.path()};
    arguments.insert(arguments.end(), words.begin() + 1, words.end());
    ::setenv("COLUMNS", "20", 1);  // the narrowest page has 40 columns
    const Outcome page = run(arguments);
    ::unsetenv("COLUMNS");
    INFO(words.front() << ' ' << words.back() << '\n' << page.out);
    CHECK(page.status == 0);
    CHECK(page.out.find('\x1b') == std::string::npos);
    std::istringstream lines(page.out);
    for (std::string line; std::getline(lines, line);) {
      const auto points = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
      CHECK(points <= 60);
    }
  };
  for (const char* key : {"function", "line", "site", "stack", "module", "thread"}) check({"report", "--by", key});
  check({"tree"});
  check({"tree", "--inverted"});
  const Outcome csv = run({"report", trace.path(), "--by", "module", "--csv"});
  CHECK(csv.out.find('\x1b') == std::string::npos);
  CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == 2);
}

TEST_CASE("rows of stacks with the same innermost frames show where they differ") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000, 0x10000, true);
  main.node(1, 0, 2, 0x100);
  // 0x100 > 0x20i > 0x300 > 0x400 > 0x500
  for (std::uint32_t i = 0; i < 2; ++i) {
    const std::uint32_t first = 2 + 4 * i;
    main.node(first, 1, 2, 0x200 + 0x80 * i);
    main.node(first + 1, first, 2, 0x300);
    main.node(first + 2, first + 1, 2, 0x400);
    main.node(first + 3, first + 2, 2, 0x500);
    main.alloc((1 + i) * kMs, 0xa000 + 0x1000 * i, 1000 - 100 * i, first + 3);
  }
  main.node(10, 1, 2, 0x600);
  main.alloc(9 * kMs, 0xf000, 500, 10);
  const TemporaryFile trace;
  builder.write(trace.path());
  const Outcome wide = run({"report", trace.path(), "--by", "stack"});
  CHECK(wide.has_line({"1000 B", "demo+0x500 < ", " < demo+0x200 < demo+0x100"}));
  CHECK(wide.has_line({"900 B", "demo+0x500 < ", " < demo+0x280 < demo+0x100"}));
  CHECK(wide.has_line({"500 B", "demo+0x600 < demo+0x100"}));
  ::setenv("COLUMNS", "40", 1);
  const Outcome narrow = run({"report", trace.path(), "--by", "stack"});
  ::unsetenv("COLUMNS");
  CHECK_FALSE(wide.has_line({"demo+0x300"}));
  CHECK(narrow.has_line({"1000 B", "0x200"}));
  CHECK(narrow.has_line({"900 B", "0x280"}));
  CHECK(run({"report", trace.path(), "--by", "stack", "--json"}).at("/rows/0/name") ==
        "demo+0x500 < demo+0x400 < demo+0x300 < demo+0x200 < demo+0x100");
}

TEST_CASE("rows of stacks that differ in the code of one function only show where it is") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.module(2, "/proc/self/exe-which-is-not-there", "", 0x400000, 0x400000, 0x10000, true);
  main.node(1, 0, 2, 0x100);
  main.node(2, 1, 2, 0x500);
  main.node(3, 0, 2, 0x104);
  main.node(4, 3, 2, 0x500);
  main.alloc(1 * kMs, 0xa000, 1000, 2);
  main.alloc(2 * kMs, 0xb000, 900, 4);
  const TemporaryFile trace;
  builder.write(trace.path());
  const Outcome table = run({"report", trace.path(), "--by", "stack"});
  CHECK(table.has_line({"1000 B", "+0x500 < ", "+0x100"}));
  CHECK(table.has_line({"900 B", "+0x500 < ", "+0x104"}));
}

TEST_CASE("what a row costs itself is in the unit of what it costs in total") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000, 0x10000, true);
  main.node(1, 0, 2, 0x100);
  main.node(2, 1, 2, 0x200);
  main.node(3, 1, 2, 0x300);
  main.alloc(1 * kMs, 0xa000, 768, 2);
  main.alloc(2 * kMs, 0xb000, 512, 3);
  const TemporaryFile trace;
  builder.write(trace.path());
  const Outcome table = run({"report", trace.path(), "--by", "function", "--top", "0"});
  CHECK(table.has_line({"0.75 KiB", "60.0%", "0.75 KiB", "60.0%", "demo+0x200"}));
  CHECK(table.has_line({"0%", "1.25 KiB", "100%", "demo+0x100"}));
  // Where no totals are beside them, they have a unit of their own.
  CHECK(run({"report", trace.path(), "--by", "site"}).has_line({"768 B", "60.0%", "demo+0x200"}));
}
