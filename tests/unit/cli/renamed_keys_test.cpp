// JSON keys that were renamed keep their old names, with equal values, for one release. And every document has a
// format version.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "tests/support/running_trace.h"
#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

namespace {

struct Renamed {
  const char* now;
  const char* before;
};

void check_equal(const Outcome& outcome, const std::vector<Renamed>& keys) {
  for (const Renamed& key : keys) {
    INFO(key.now);
    CHECK(outcome.at(key.now) != "(absent)");
    CHECK(outcome.at(key.now) == outcome.at(key.before));
  }
}

}  // namespace

TEST_CASE("leaks: trend was growth, freed was released") {
  const KnownTrace trace;
  const Outcome leaks = run({"leaks", trace.path(), "--json"});
  check_equal(leaks, {{"/trends/growing", "/growth/growing"},
                      {"/trends/stable", "/growth/kept"},
                      {"/trends/in_use", "/growth/in_use"},
                      {"/top/0/freed_blocks", "/top/0/released_blocks"}});
  CHECK(leaks.at("/top/0/trend") == "stable");
  CHECK(leaks.at("/top/0/growth") == "kept");
}

TEST_CASE("threads: cross_thread_frees was crossed, freed was released") {
  const KnownTrace trace;
  check_equal(run({"threads", trace.path(), "--json"}),
              {{"/freed", "/released"},
               {"/cross_thread_frees", "/crossed"},
               {"/threads/0/freed_by_itself", "/threads/0/released_by_itself"},
               {"/threads/0/freed_by_others", "/threads/0/released_by_others"},
               {"/threads/1/freed_of_others", "/threads/1/released_of_others"},
               {"/threads/0/not_freed", "/threads/0/not_released"},
               {"/pairs/0/freed_by", "/pairs/0/released_by"}});
}

TEST_CASE("frees, churn, histogram: freed was released") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000);
  main.node(1, 0, 2, 0x100);
  main.node(2, 0, 2, 0x200);
  main.alloc(1 * kMs, 0xa000, 10, 1);
  main.add(heapprof::Op::kFreeStack, 2 * kMs, 0xa000, 0, 2);
  const TemporaryFile file;
  builder.write(file.path());
  check_equal(run({"frees", file.path(), "--json"}), {{"/pairs/0/freed_by", "/pairs/0/released_by"}});
  const KnownTrace trace;
  check_equal(run({"churn", trace.path(), "--json"}),
              {{"/total/freed", "/total/released"}, {"/sites/0/freed", "/sites/0/released"}});
  check_equal(run({"histogram", trace.path(), "--json"}), {{"/not_freed", "/not_released"}});
}

TEST_CASE("info: command_line_truncated was command_line_cut; diff: location was place; timeline: idle was gaps") {
  const KnownTrace trace;
  const KnownTrace twice(Variant::kTwice);
  check_equal(run({"info", trace.path(), "--json"}), {{"/command_line_truncated", "/command_line_cut"}});
  check_equal(run({"diff", trace.path(), twice.path(), "--json"}),
              {{"/top/0/stack/0/location", "/top/0/stack/0/place"}});
  check_equal(run({"timeline", trace.path(), "--json"}), {{"/idle", "/gaps"}});
}

TEST_CASE("control: request_pending was letter_waiting") {
  RunningTrace trace;
  const auto status = [&] { return run({"control", trace.path(), "status", "--json"}); };
  CHECK(status().at("/request_pending") == "false");
  check_equal(status(), {{"/request_pending", "/letter_waiting"}});
  run({"control", trace.path(), "pause", "--wait", "0"});
  CHECK(status().at("/request_pending") == "true");
  check_equal(status(), {{"/request_pending", "/letter_waiting"}});
  CHECK(status().at("/format_version") == "1");
}

TEST_CASE("every JSON document has a format version") {
  const KnownTrace trace;
  using Words = std::vector<std::string>;
  for (const Words& words : {Words{"info"}, Words{"report"}, Words{"leaks"}, Words{"timeline"}, Words{"churn"},
                             Words{"reallocs"}, Words{"threads"}, Words{"frees"}, Words{"histogram"},
                             Words{"diff", trace.path()}, Words{"check", "--max-peak", "1G"}}) {
    INFO(words.front());
    Words arguments = words;
    arguments.insert(arguments.end(), {trace.path(), "--json"});
    CHECK(run(arguments).at("/format_version") == "1");
  }
}
