// heapprof top --once and --batch: what is live now, of a recording whose figures are known and of one that grows.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/growing_file.h"
#include "tests/support/running_trace.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"
#include "tests/unit/cli/wrong_command_lines.h"

using namespace heapprof;
using namespace heapprof::test;

TEST_CASE("top --once has what was live at the end of a finished recording") {
  const KnownTrace trace;
  const Outcome json = run({"top", trace.path(), "--once", "--json"});
  CHECK(json.status == 0);
  CHECK(json.err == "");
  CHECK(json.at("/program") == "/opt/known/demo");
  CHECK(json.at("/state") == "ended");
  CHECK(json.at("/integrity/complete") == "true");
  CHECK(json.number("/at_ns") == kDurationNs);
  CHECK(json.number("/rss_bytes") == kResidentBytes);
  CHECK(json.number("/total/live_bytes") == kLeakedBytes);
  CHECK(json.number("/total/live_blocks") == kLeakedBlocks);
  CHECK(json.number("/total/allocations") == kAllocations);
  CHECK(json.number("/total/allocated_bytes") == kAllocatedBytes);
  CHECK(json.at("/total/allocated_bytes_per_s") == std::to_string(kAllocatedBytes * 1000 * kMs / kDurationNs) + ".0");
  CHECK(json.number("/total/frees") == kFrees);
  struct Row {
    const char* name;
    std::uint64_t live_bytes, live_blocks, allocations, allocated_bytes;
  };
  const std::vector<Row> rows = {
      {kWorkName, kC, 1, 1, kC}, {kLoadName, kE, 1, 2, kA + kE}, {kParseName, 0, 0, 2, kB + kD}};
  REQUIRE(json.count("/rows") == rows.size());
  CHECK(json.number("/all_rows") == rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string row = "/rows/" + std::to_string(i);
    INFO(rows[i].name);
    CHECK(json.at(row + "/name") == rows[i].name);
    CHECK(json.number(row + "/live_bytes") == rows[i].live_bytes);
    CHECK(json.number(row + "/live_blocks") == rows[i].live_blocks);
    CHECK(json.number(row + "/allocations") == rows[i].allocations);
    CHECK(json.number(row + "/allocated_bytes") == rows[i].allocated_bytes);
  }
}

TEST_CASE("top --once prints the same figures as text") {
  const KnownTrace trace;
  const Outcome text = run({"top", trace.path(), "--once"});
  CHECK(text.status == 0);
  CHECK(text.has_line({"demo, pid "}));
  CHECK(text.has_line({"4.50 KiB live in 2 blocks", "77.5 KiB/s allocated", "9.00 MiB resident"}));
  CHECK(text.has_line({"By call site, sorted by live bytes"}));
  CHECK(text.has_line({"4.00 KiB", "1", kWorkName}));
  CHECK(text.has_line({"0.50 KiB", "1", kLoadName}));
  CHECK(run({"top", trace.path(), "--once", "--top", "1"}).has_line({"+2 more, 512 B live; --top 0 prints all"}));
  const KnownTrace empty(Variant::kEmpty);
  CHECK(run({"top", empty.path(), "--once"}).has_line({"nothing was allocated yet"}));
}

TEST_CASE("top groups and sorts the rows by its options") {
  const KnownTrace trace;
  const Outcome threads = run({"top", trace.path(), "--once", "--json", "--by", "thread"});
  REQUIRE(threads.count("/rows") == 2);
  CHECK(threads.number("/rows/0/tid") == kWorkerTid);
  CHECK(threads.number("/rows/0/live_bytes") == kC);
  CHECK(threads.number("/rows/1/tid") == kMainTid);
  CHECK(threads.number("/rows/1/live_bytes") == kE);
  CHECK(threads.number("/rows/1/allocations") == 4);
  const Outcome rate = run({"top", trace.path(), "--once", "--json", "--sort", "rate", "--top", "2"});
  CHECK(rate.at("/sort") == "rate");
  CHECK(rate.number("/all_rows") == 3);
  REQUIRE(rate.count("/rows") == 2);
  CHECK(rate.at("/rows/0/name") == kWorkName);
  CHECK(rate.at("/rows/1/name") == kParseName);  // 2304 bytes, above the 1536 of load
}

TEST_CASE("top finds the recording of a process, and has what is live while it is written") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(kMainTid, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000, 0x10000, true);
  main.node(1, 0, 2, 0x100);
  main.node(2, 1, 2, 0x200);
  main.alloc(1 * kMs, 0xa000, 1000, 2);
  main.alloc(2 * kMs, 0xb000, 500, 2);
  main.free(3 * kMs, 0xa000);
  const GrowingFile file(builder);
  for (const std::string& named : {file.path(), std::to_string(::getpid())}) {
    INFO(named);
    const Outcome json = run({"top", named, "--once", "--json"});
    CHECK(json.status == 0);
    CHECK(json.at("/state") == "recording");
    CHECK(json.at("/integrity/ended_by") == "running");
    CHECK(json.number("/pid") == static_cast<std::uint64_t>(::getpid()));
    CHECK(json.number("/total/live_bytes") == 500);
    CHECK(json.number("/total/live_blocks") == 1);
    CHECK(json.number("/total/allocated_bytes") == 1500);
    CHECK(json.number("/total/frees") == 1);
    REQUIRE(json.count("/rows") == 1);
    CHECK(json.at("/rows/0/name") == kLoadName);
  }
}

TEST_CASE("top --batch prints a table in each interval, and one of a recording that has ended") {
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  const RunningTrace running;
  const Outcome two = run({"top", running.path(), "--batch", "--count", "2", "--interval", "0.05", "--json"});
  CHECK(two.status == 0);
  REQUIRE(lines(two.out) == 2);
  for (const std::string& table : {two.out.substr(0, two.out.find('\n')), two.out.substr(two.out.find('\n') + 1)}) {
    CHECK(json_at(table, "/state") == "recording");
    CHECK(json_at(table, "/total/allocations") == "0");
    CHECK(json_at(table, "/rows") == "[]");
  }
  const KnownTrace ended;
  const Outcome one = run({"top", ended.path(), "--batch", "--json"});
  CHECK(one.status == 0);
  CHECK(lines(one.out) == 1);
  CHECK(one.number("/total/live_bytes") == kLeakedBytes);
}

TEST_CASE("top of a damaged recording has what could be read, and exit status 1") {
  const KnownTrace damaged(Variant::kDamaged);
  const Outcome json = run({"top", damaged.path(), "--once", "--json"});
  CHECK(json.status == 1);
  CHECK(json.at("/integrity/complete") == "false");
  CHECK(json.err.find(damaged.path() + ": the trace is incomplete") != std::string::npos);
}

TEST_CASE("top without a recording names what is wrong") {
  const TemporaryFile empty;
  for (const auto& [named, message] : std::vector<std::pair<std::string, std::string>>{
           {kNoFile, kNoFile},
           {empty.path(), "is empty"},
           {"4194305", "there is no process 4194305"},  // above the kernel's highest pid
           {std::to_string(::getpid()), "is not recorded"}}) {
    INFO(named);
    const Outcome outcome = run({"top", named, "--once"});
    CHECK(outcome.status == 1);
    CHECK(outcome.out == "");
    CHECK(outcome.err.find(message) != std::string::npos);
  }
}

TEST_CASE("top rejects a wrong command line with exit status 2 and names the error") {
  const KnownTrace trace;
  check_rejected({"top", trace.path()}, {{{}, "add --once"},  // standard output is no terminal
                                         {{"--json"}, "--once"},
                                         {{"--top", "3"}, "--once"},
                                         {{"--once", "--batch"}, "exclude each other"},
                                         {{"--once", "--interval", "2"}, "--batch"},
                                         {{"--once", "--count", "2"}, "--batch"},
                                         {{"--batch", "--interval", "0"}, "--interval"},
                                         {{"--once", "--by", "nonsense"}, "--by"},
                                         {{"--once", "--sort", "size"}, "--sort"},
                                         {{"--once", "another"}, "another"}});
}
