// heapprof leaks: live blocks at the end, their trend, and suppressions.
#include <catch2/catch.hpp>

#include <fstream>

#include "tests/support/python_text.h"
#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof;
using namespace heapprof::test;

namespace {

constexpr std::uint64_t kGrowingBytes = 10, kSteadyBytes = 10'000, kRounds = 160;

/// One stack leaks a little in each round; the other allocates one large block at the start, and keeps it.
void write_growing(const std::string& path) {
  TraceBuilder trace;
  auto& main = trace.stream(1000);
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000);
  main.node(1, 0, 2, 0x100);  // grows
  main.node(2, 0, 2, 0x200);  // steady
  main.alloc(1 * kMs, 0xa000, kSteadyBytes, 2);
  for (std::uint64_t i = 0; i < kRounds; ++i) main.alloc((2 + 10 * i) * kMs, 0x100000 + 64 * i, kGrowingBytes, 1);
  trace.write(path);
}

/// read_input leaks most of all call sites; open_session and parse, which handle_request calls, leak more together;
/// and make_empty leaks a block of 0 bytes. They are lines of Python, which have names without a file of symbols.
void write_empty_block(const std::string& path) {
  TraceBuilder trace;
  auto& main = trace.stream();
  main.thread(1, "main");
  main.text(TextKind::kPythonInterpreter, 0x030b07f0, 0, "");
  std::uint32_t number = 0;
  const auto function = [&](const char* name, std::uint32_t caller) {
    main.text(TextKind::kPythonCode, ++number, 0, python_code_text("/srv/app/app.py", name, 1));
    main.node(number, caller, raw(ModuleId::kPython), python_offset(number, 2));
    return number;
  };
  const std::uint32_t handle_request = function("handle_request", 0);
  main.alloc(1 * kMs, 0xa000, 1400, function("open_session", handle_request));
  main.alloc(2 * kMs, 0xb000, 1400, function("parse", handle_request));
  main.alloc(3 * kMs, 0xc000, 1500, function("read_input", 0));
  main.alloc(4 * kMs, 0xd000, 0, function("make_empty", 0));
  trace.write(path);
}

}  // namespace

TEST_CASE("leaks --json has the blocks live at the end, with times and sizes") {
  const KnownTrace trace;
  const Outcome leaks = run({"leaks", trace.path(), "--json"});
  CHECK(leaks.status == 0);
  CHECK(leaks.number("/total/bytes") == kLeakedBytes);
  CHECK(leaks.number("/total/blocks") == kLeakedBlocks);
  REQUIRE(leaks.count("/top") == 2);
  CHECK(leaks.number("/top/0/bytes") == kC);
  CHECK(leaks.number("/top/0/blocks") == 1);
  CHECK(leaks.number("/top/0/first_ns") == 30 * kMs);
  CHECK(leaks.number("/top/0/last_ns") == 30 * kMs);
  CHECK(leaks.number("/top/0/smallest_bytes") == kC);
  CHECK(leaks.number("/top/0/freed_blocks") == 0);
  CHECK(leaks.number("/top/1/bytes") == kE);
  CHECK(leaks.number("/top/1/stack/0/offset") == 0x200);
  CHECK(leaks.number("/top/1/freed_blocks") == 1);  // A, of the same stack
  CHECK(leaks.number("/top/1/longest_lifetime_ns") == 40 * kMs);
  CHECK(leaks.number("/suppressed/bytes") == 0);
}

TEST_CASE("leaks prints the same figures as text") {
  const KnownTrace trace;
  const Outcome leaks = run({"leaks", trace.path()});
  CHECK(leaks.has_line({"pid ", ": no end recorded (killed, _exit, or a copy), after 100 ms."}));
  CHECK(leaks.has_line({": 4.50 KiB in 2 blocks, 64.3% of the peak."}));
  // Most of the memory is below work(), which has no name.
  CHECK_FALSE(leaks.has_line({"Look first at"}));
  // The table: one unit in the column of bytes. Half of what load allocated was freed, twice as much as is left.
  CHECK(leaks.has_line({"1  4.00 KiB", "89%", "1", "0%", kWorkName}));
  CHECK(leaks.has_line({"2  0.50 KiB", "11%", "1", "67%", kLoadName}));
  // Who keeps what it allocates: main and load keep one of their blocks, work its only one.
  CHECK(leaks.has_line({"4.00 KiB", "89%", "1", "100%", "100%", kWorkName}));
  // The stacks.
  CHECK(leaks.has_line({"1", "4.00 KiB", "88.9%", "in 1 block"}));
  CHECK(leaks.has_line({"2", "512 B", "11.1%", "in 1 block"}));
  CHECK(leaks.has_line({"1 block freed, longest lifetime 40.0 ms"}));
}

TEST_CASE("the text of leaks limits call sites and stacks apart, and counts what it leaves out") {
  const KnownTrace trace;
  const Outcome one = run({"leaks", trace.path(), "--top", "1"});
  CHECK(one.has_line({", likeliest leaks first, by call site (1 of 2; 88.9% of the bytes)"}));
  CHECK(run({"leaks", trace.path(), "--sort", "age"}).has_line({", oldest first, by call site"}));
  CHECK_FALSE(run({"leaks", trace.path(), "--sort", "bytes"}).has_line({" first, by call site"}));
  CHECK(one.has_line({"(1 of 2; 88.9% of the bytes)"}));
  CHECK_FALSE(one.has_line({"2  0.50 KiB"}));
  CHECK(one.has_line({"All 2 call sites: --top 0"}));
  const Outcome stack = run({"leaks", trace.path(), "--stacks", "1"});
  CHECK(stack.has_line({"2  0.50 KiB", kLoadName}));
  CHECK(stack.has_line({"Stacks (1 of 2; 88.9% of the bytes)"}));
  CHECK_FALSE(run({"leaks", trace.path(), "--stacks", "0"}).has_line({"Stacks ("}));
}

TEST_CASE("the call sites of each trend are a line, growing ones first") {
  const TemporaryFile trace;
  write_growing(trace.path());
  const Outcome leaks = run({"leaks", trace.path()});
  CHECK(leaks.has_line({"growing", "1.56 KiB", "160 blocks", "1 call site grew until the end; none freed"}));
  CHECK(leaks.has_line({"stable", "9.77 KiB", "1 block", "1 call site that did not grow after 1.60 ms"}));
  CHECK_FALSE(leaks.has_line({"in use"}));
  CHECK_FALSE(run({"leaks", trace.path(), "--no-history"}).has_line({"growing"}));
}

TEST_CASE("a growing stack is ranked before a larger stable one") {
  const TemporaryFile trace;
  write_growing(trace.path());
  const Outcome leaks = run({"leaks", trace.path(), "--json"});
  CHECK(leaks.number("/trends/growing/bytes") == kRounds * kGrowingBytes);
  CHECK(leaks.number("/trends/growing/blocks") == kRounds);
  CHECK(leaks.number("/trends/growing/stacks") == 1);
  CHECK(leaks.number("/trends/stable/bytes") == kSteadyBytes);
  CHECK(leaks.number("/trends/in_use/blocks") == 0);
  CHECK(leaks.at("/top/0/trend") == "growing");
  CHECK(leaks.number("/top/0/bytes") == kRounds * kGrowingBytes);
  CHECK(leaks.at("/top/1/trend") == "stable");
}

TEST_CASE("a block of 0 bytes does not change where to look first") {
  const TemporaryFile trace;
  write_empty_block(trace.path());
  const Outcome leaks = run({"leaks", trace.path(), "--json"});
  CHECK(leaks.number("/total/blocks") == 4);
  CHECK(leaks.number("/common_path/bytes") == 2800);
  REQUIRE(leaks.count("/common_path/functions") == 1);
  CHECK(leaks.at("/common_path/functions/0/function") == "handle_request");
  CHECK(run({"leaks", trace.path()}).has_line({"Look first at", "2.73 KiB"}));
}

TEST_CASE("leaks --sort ranks by bytes, blocks or age") {
  const TemporaryFile trace;
  write_growing(trace.path());
  const auto first = [&](const char* order) {
    return run({"leaks", trace.path(), "--json", "--sort", order}).number("/top/0/stack/0/offset");
  };
  CHECK(first("growth") == 0x100);
  CHECK(first("bytes") == 0x200);
  CHECK(first("blocks") == 0x100);
  CHECK(first("age") == 0x200);
  CHECK(run({"leaks", trace.path(), "--sort", "colour"}).status == 2);
}

TEST_CASE("leaks --sort age is refused where ages are not known") {
  const KnownTrace trace;
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"leaks", trace.path(), "--sort", "age"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome leaks = run(arguments);
    CHECK(leaks.status == 2);
    CHECK(leaks.out.empty());
    return leaks.err;
  };
  CHECK(refused({"--no-history"}).find("--sort age and --no-history exclude each other") != std::string::npos);
  for (const char* kind : {"mmap", "all"})
    CHECK(refused({"--kind", kind}).find("--sort age is for the heap only") != std::string::npos);
  const KnownTrace other;
  CHECK(refused({other.path()}).find("--sort age is for one recording") != std::string::npos);
}

TEST_CASE("leaks --no-history prints no trend, and --top limits the stacks") {
  const KnownTrace trace;
  const Outcome leaks = run({"leaks", trace.path(), "--json", "--no-history", "--top", "1"});
  CHECK(leaks.at("/trends") == "(absent)");
  CHECK(leaks.at("/growth") == "(absent)");
  CHECK(leaks.at("/top/0/first_ns") == "(absent)");
  CHECK(leaks.count("/top") == 1);
  CHECK(leaks.number("/top/0/bytes") == kC);
  CHECK(run({"leaks", trace.path(), "--json", "--top", "1"}).count("/top") == 1);
}

TEST_CASE("a suppression removes stacks from the list and counts them") {
  const KnownTrace trace;
  const TemporaryFile file(".supp");
  std::ofstream(file.path()) << "# accepted\nleak:libwork\n";
  const Outcome leaks = run({"leaks", trace.path(), "--json", "--suppressions", file.path()});
  CHECK(leaks.status == 0);
  REQUIRE(leaks.count("/top") == 1);
  CHECK(leaks.number("/top/0/bytes") == kE);
  CHECK(leaks.number("/suppressed/bytes") == kC);
  CHECK(leaks.number("/suppressed/blocks") == 1);
  CHECK(leaks.at("/suppressed/by/0/name") == "libwork");
  CHECK(leaks.at("/suppressed/by/0/built_in") == "false");
}

TEST_CASE("suppressions that cannot be read are an error") {
  const KnownTrace trace;
  const TemporaryFile file(".supp");
  std::ofstream(file.path()) << "race:main\n";
  for (const std::string& path : {file.path(), std::string(kNoFile)}) {
    const Outcome leaks = run({"leaks", trace.path(), "--suppressions", path});
    CHECK(leaks.status == 1);
    CHECK(leaks.out == "");
    CHECK(leaks.err.find(path) != std::string::npos);
  }
}

TEST_CASE("rules that suppress nothing are named once") {
  const KnownTrace trace;
  const TemporaryFile file(".supp");
  std::ofstream(file.path()) << "leak:libwork\nleak:renamed\n";
  const std::string message = "heapprof: " + trace.path() + ": rules that suppress no leak: leak:renamed\n";
  CHECK(run({"leaks", trace.path(), "--suppressions", file.path()}).err == message);
  CHECK(run({"leaks", trace.path(), "--suppressions", file.path(), "--json"}).err == message);
  CHECK(run({"check", trace.path(), "--suppressions", file.path(), "--max-leaked", "1M"}).err == message);
  // What a part of the recording lacks may be in the rest.
  CHECK(run({"leaks", trace.path(), "--suppressions", file.path(), "--thread", "main"}).err.empty());
  std::ofstream(file.path()) << "leak:a1\nleak:a2\nleak:a3\nleak:a4\nleak:a5\nleak:a6\nleak:a7\n";
  CHECK(run({"leaks", trace.path(), "--suppressions", file.path()}).err.find("leak:a5, and 2 more\n") !=
        std::string::npos);
}
