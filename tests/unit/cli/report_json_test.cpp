// What the JSON outputs have in common: threads, frames, integrity, and stacks with shared frames.
#include <catch2/catch.hpp>

#include <cstddef>
#include <set>
#include <string>

#include "analyzer/cli/text/report_json.h"
#include "analyzer/replay/analysis/analysis.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof;
using namespace heapprof::cli;
using namespace heapprof::test;

TEST_CASE("JSON has every thread with its allocations") {
  const KnownTrace trace;
  const Outcome report = run({"report", trace.path(), "--json"});
  REQUIRE(report.count("/threads") == 2);
  CHECK(report.number("/threads/0/tid") == kMainTid);
  CHECK(report.at("/threads/0/name") == "main");
  CHECK(report.number("/threads/0/start_ns") == 10 * kMs);
  CHECK(report.number("/threads/0/allocations") == 4);
  CHECK(report.number("/threads/0/allocated_bytes") == kA + kB + kD + kE);
  CHECK(report.number("/threads/1/index") == 1);
  CHECK(report.number("/threads/1/tid") == kWorkerTid);
  CHECK(report.at("/threads/1/name") == "worker");
  CHECK(report.number("/threads/1/allocated_bytes") == kC);
}

TEST_CASE("JSON has a frame's module, build id and addresses, and null for what is unknown") {
  const KnownTrace trace;
  const Outcome report = run({"report", trace.path(), "--json"});
  const std::string frame = "/top/0/stack/0";
  CHECK(report.count("/top/0/stack") == 1);
  CHECK(report.at(frame + "/module") == "/opt/known/libwork.so");
  CHECK(report.at(frame + "/build_id") == "4567");
  CHECK(report.number(frame + "/offset") == 0x400);
  CHECK(report.number(frame + "/address") == 0x7f0000000400);
  CHECK(report.at(frame + "/function") == "");
  CHECK(report.at(frame + "/file") == "null");
  CHECK(report.at(frame + "/line") == "null");
  CHECK(report.at(frame + "/inlined") == "false");
  CHECK(report.at("/top/0/truncated") == "null");
  CHECK(report.at("/top/0/share").substr(0, 6) == "0.5714");  // 4 of 7 KiB
  CHECK(report.at("/symbol_warnings") != "[]");
}

TEST_CASE("the size of the frames in JSON is known before they are written") {
  const KnownTrace trace;
  const replay::Analysis analysis(trace.path(), {});
  const std::vector<RankedStack> stacks = rank_stacks(analysis.profile(), Cost::kAllocated);
  std::vector<std::uint32_t> nodes;
  for (const RankedStack& stack : stacks) nodes.push_back(stack.node);
  StackNames names(analysis.profile(), {});
  names.resolve(nodes);
  const FramesSize size = frames_size(stacks, names);
  const Outcome report = run({"report", trace.path(), "--json", "--cost", "allocated"});
  std::size_t frames = 0;
  for (std::size_t i = 0; i < report.count("/top"); ++i)
    frames += report.count("/top/" + std::to_string(i) + "/stack");
  CHECK(size.frames == frames);
  // The stacks are all of the document behind "top" but figures and brackets.
  const std::size_t top = report.out.size() - report.out.find("\"top\"");
  CHECK(size.bytes < top);
  CHECK(size.bytes > top - 150 * stacks.size() - 20);
}

TEST_CASE("JSON of many frames prints a warning that names --shared-frames") {
  CHECK(size_warning({1'000'000, 300'000'000}).empty());
  const std::string warning = size_warning({20'000'000, std::uint64_t{6} << 30});
  CHECK(warning.find("20,000,000 frames") != std::string::npos);
  CHECK(warning.find("6.00 GiB") != std::string::npos);
  CHECK(warning.find("--shared-frames") != std::string::npos);
}

TEST_CASE("with --shared-frames a stack is a list of positions, and each frame is written once") {
  const KnownTrace trace;
  for (const char* command : {"report", "leaks"}) {
    INFO(command);
    const Outcome plain = run({command, trace.path(), "--json"});
    const Outcome shared = run({command, trace.path(), "--json", "--shared-frames"});
    CHECK(plain.at("/frames") == "(absent)");
    REQUIRE(shared.count("/top") == plain.count("/top"));
    const bool all = std::string(command) == "report";
    CHECK(shared.count("/frames") == (all ? 4 : 3));  // work, load, main; and parse
    for (std::size_t i = 0; i < plain.count("/top"); ++i) {
      const std::string stack = "/top/" + std::to_string(i) + "/stack";
      REQUIRE(shared.count(stack) == plain.count(stack));
      for (std::size_t k = 0; k < plain.count(stack); ++k) {
        const std::string frame = stack + "/" + std::to_string(k);
        CHECK(shared.at("/frames/" + shared.at(frame)) == plain.at(frame));
      }
    }
  }
}

TEST_CASE("with --shared-frames the stacks of rows are lists of positions, too") {
  const KnownTrace trace;
  const Outcome plain = run({"report", trace.path(), "--by", "stack", "--json"});
  const Outcome shared = run({"report", trace.path(), "--by", "stack", "--json", "--shared-frames"});
  CHECK(plain.at("/frames") == "(absent)");
  std::set<std::string> frames;
  REQUIRE(plain.count("/rows") > 1);
  REQUIRE(shared.count("/rows") == plain.count("/rows"));
  for (std::size_t i = 0; i < plain.count("/rows"); ++i) {
    const std::string row = "/rows/" + std::to_string(i), stack = row + "/stack";
    CHECK(shared.at(row + "/name") == plain.at(row + "/name"));
    REQUIRE(plain.count(stack) > 0);
    REQUIRE(shared.count(stack) == plain.count(stack));
    for (std::size_t k = 0; k < plain.count(stack); ++k) {
      const std::string frame = stack + "/" + std::to_string(k);
      CHECK(shared.at("/frames/" + shared.at(frame)) == plain.at(frame));
      frames.insert(plain.at(frame));
    }
  }
  CHECK(shared.count("/frames") == frames.size());
  CHECK(run({"report", trace.path(), "--by", "function", "--json", "--shared-frames"}).at("/frames") == "(absent)");
}

TEST_CASE("JSON of a damaged recording has what was lost, and is complete JSON") {
  const KnownTrace trace(Variant::kDamaged);
  const Outcome report = run({"report", trace.path(), "--json"});
  CHECK(report.status == 1);
  CHECK(report.at("/integrity/complete") == "false");
  CHECK(report.number("/integrity/events_lost") == 6);  // of the main thread: four allocations and two frees
  CHECK(report.number("/integrity/bytes_damaged") > 0);
  CHECK(report.number("/integrity/bytes_damaged") != kNoNumber);
  CHECK(report.count("/integrity/notes") > 0);
  CHECK(report.number("/heap/allocated_bytes") == kC);
}
