// heapprof callers: who calls a function of a recording whose figures are known, and what it calls.
#include <catch2/catch.hpp>

#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"
#include "tests/unit/cli/wrong_command_lines.h"

using namespace heapprof::test;

TEST_CASE("callers prints the callers and callees of a function") {
  const KnownTrace trace;
  const Outcome parse = run({"callers", trace.path(), kParseName, "--json"});
  CHECK(parse.status == 0);
  CHECK(parse.at("/function") == kParseName);
  CHECK(parse.number("/self/allocations") == 2);
  REQUIRE(parse.count("/callers") == 1);
  CHECK(parse.at("/callers/0/name") == kMainName);
  CHECK(parse.count("/callees") == 0);
  const Outcome main = run({"callers", trace.path(), kMainName});
  CHECK(main.has_line({"total", "3.00 KiB", "42.9% of everything"}));
  CHECK(main.has_line({"3.00 KiB", "100%", "2", "(no caller)"}));
  CHECK(main.has_line({"2.00 KiB", "66.7%", "1", kParseName}));
  CHECK(main.has_line({"1.00 KiB", "33.3%", "1", kLoadName}));
}

TEST_CASE("callers counts only rows that have the cost as left out") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000, 0x10000, true);
  main.node(1, 0, 2, 0x100);
  for (std::uint32_t callee = 2; callee <= 4; ++callee) main.node(callee, 1, 2, 0x100 * callee);
  main.alloc(1 * kMs, 0xa000, 2000, 2);
  main.alloc(2 * kMs, 0xb000, 1000, 3);
  main.alloc(3 * kMs, 0xc000, 500, 4);
  main.free(4 * kMs, 0xc000);
  const TemporaryFile trace;
  builder.write(trace.path());
  const auto callers = [&](const char* top) {
    return run({"callers", trace.path(), kMainName, "--cost", "leaked", "--top", top});
  };
  CHECK(callers("1").has_line({"+1 more, 1000 B; --top 0 prints all"}));
  CHECK(callers("0").has_line({"0.98 KiB", "33.3%", kParseName}));
  CHECK_FALSE(callers("0").has_line({"demo+0x400"}));
}

TEST_CASE("callers of a function without the cost names one that it has") {
  const KnownTrace trace;
  const auto callers = [](const std::string& path, const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"callers", path, kLoadName};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run(arguments);
  };
  CHECK(callers(trace.path(), {"--cost", "temporary"})
            .has_line({"none: it allocated 1.50 KiB in 2 blocks; --cost allocated prints these"}));
  const Outcome older = callers(trace.path(), {"--cost", "leaked", "--from", "35ms", "--to", "55ms"});
  CHECK(older.has_line({"none: it allocated 0 B in 0 blocks"}));
  CHECK_FALSE(older.has_line({"prints these"}));

  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000, 0x10000, true);
  main.node(1, 0, 2, 0x200);
  main.alloc(1 * kMs, 0xa000, 0, 1);
  const TemporaryFile empty_block;
  builder.write(empty_block.path());
  CHECK(callers(empty_block.path(), {"--cost", "allocated"})
            .has_line({"none: it allocated 0 B in 1 block; --cost allocations prints these"}));
}

TEST_CASE("callers names the nearest functions where the one asked for does not occur") {
  const KnownTrace trace;
  const Outcome part = run({"callers", trace.path(), "demo+0x3"});
  CHECK(part.status == 1);
  CHECK(part.out == "");
  CHECK(part.err.find("names that contain it: 'demo+0x300'\n") != std::string::npos);
  const Outcome near = run({"callers", trace.path(), "demo+0z300"});
  CHECK(near.status == 1);
  CHECK(near.err.find("did you mean 'demo+0x300'") != std::string::npos);
  const Outcome coloured = run({"callers", trace.path(), "\x1b[31mdemo"});
  CHECK(coloured.status == 1);
  CHECK(coloured.err.find('\x1b') == std::string::npos);
  const Outcome not_own = run({"callers", trace.path(), kWorkName, "--only-own", "--own", "known/demo"});
  CHECK(not_own.status == 1);
  CHECK(not_own.err.find("leave out --only-own, or add --own REGEX") != std::string::npos);
}

TEST_CASE("callers needs a recording and a function") {
  const KnownTrace trace;
  check_rejected({"callers", trace.path()},
                 {{{}, "FUNCTION"}, {{kMainName, kLoadName}, kLoadName}, {{kMainName, "--cost", "money"}, "money"}});
  const Outcome none = run({"callers", kNoFile, kMainName});
  CHECK(none.status == 1);
  CHECK(none.err.find(kNoFile) != std::string::npos);
}
