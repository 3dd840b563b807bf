// --only-own and --full-names in the commands that print call sites and stacks: other code is left out, and every
// figure stays.
#include <catch2/catch.hpp>

#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

namespace {

constexpr const char* kNone = "(no own code)";

/// The output of a command that shows the code of libwork.so only.
Outcome own_work(const std::string& command, const KnownTrace& trace, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {command, trace.path(), "--only-own", "--own", "libwork"});
  return run(more);
}

}  // namespace

TEST_CASE("leaks --only-own has one site for what no own code allocated") {
  const KnownTrace trace;
  const Outcome json = own_work("leaks", trace, {"--json"});
  REQUIRE(json.count("/sites") == 2);
  CHECK(json.number("/sites/0/bytes") == kC);
  CHECK(json.at("/sites/0/site/module") == "/opt/known/libwork.so");
  CHECK(json.number("/sites/1/bytes") == kE);
  CHECK(json.at("/sites/1/site") == "null");
  const Outcome text = own_work("leaks", trace);
  CHECK(text.has_line({"2", kNone}));
  CHECK_FALSE(text.has_line({kLoadName, "demo"}));
}

TEST_CASE("figures by call site add up with --only-own, too") {
  const KnownTrace trace;
  const Outcome churn = own_work("churn", trace, {"--within", "1s", "--json"});
  CHECK(churn.number("/total/short_lived") == 3);
  REQUIRE(churn.count("/sites") == 1);
  CHECK(churn.at("/sites/0/site/function") == kNone);
  CHECK(churn.number("/sites/0/short_lived") == 3);
  const Outcome threads = own_work("threads", trace, {"--json"});
  REQUIRE(threads.count("/sites") == 1);
  CHECK(threads.at("/sites/0/site/function") == kNone);
  CHECK(own_work("threads", trace).has_line({"1.00 KiB", kNone}));
  const Outcome blocks = own_work("blocks", trace, {"--json"});
  REQUIRE(blocks.count("/blocks") == 2);
  CHECK(blocks.at("/blocks/0/name") == kWorkName);
  CHECK(blocks.at("/blocks/1/name") == kNone);
  const Outcome timeline = own_work("timeline", trace, {"--json"});
  CHECK(timeline.count("/sites") == 1);
  const Outcome moments =
      run({"diff", trace.path() + "@start", trace.path() + "@end", "--only-own", "--own", "libwork", "--json"});
  CHECK(moments.status == 0);
  CHECK(own_work("rss", trace).status == 0);
  CHECK(own_work("source", trace).status == 0);
  CHECK(own_work("reallocs", trace).status == 0);
}

TEST_CASE("diff of two recordings leaves out other frames") {
  const KnownTrace before;
  const KnownTrace after(Variant::kTwice);
  const Outcome diff = run({"diff", before.path(), after.path(), "--only-own", "--own", "libwork"});
  CHECK(diff.status == 0);
  CHECK(diff.has_line({"[no own code]"}));
  CHECK_FALSE(diff.has_line({kLoadName}));
}

TEST_CASE("commands without stacks and call sites refuse --only-own and --full-names") {
  const KnownTrace trace;
  for (const char* command : {"histogram", "info", "check", "frees"})
    for (const char* option : {"--only-own", "--full-names"}) {
      INFO(command << ' ' << option);
      const Outcome outcome = run({command, trace.path(), option});
      CHECK(outcome.status == 2);
      CHECK(outcome.err.find(option) != std::string::npos);
    }
}

TEST_CASE("a pattern of own code that matches nothing is reported once") {
  const KnownTrace trace;
  const std::string end = " in the names of functions, source files and modules of this recording\n";
  for (const char* command : {"report", "leaks", "tree", "churn"})
    CHECK(run({command, trace.path(), "--own", "libwrk", "--own", "libwork"}).err ==
          "heapprof: --own matches nothing: 'libwrk'" + end);
  const TemporaryFile file(".toml");
  std::ofstream(file.path()) << "own = [\"^acme::\", \"demo\"]\n";
  CHECK(run({"report", trace.path(), "--config", file.path()}).err ==
        "heapprof: " + file.path() + ": own matches nothing: '^acme::'" + end);
  CHECK(run({"report", trace.path(), "--own", "acme", "--thread", "main"}).err.empty());
  CHECK(run({"report", trace.path(), "--own", ""}).status == 2);
}

TEST_CASE("timeline --only-own says why it lists no call sites") {
  const KnownTrace trace;
  const char* const why = "none is in the program's own code; --own REGEX adds code to it";
  CHECK(run({"timeline", trace.path(), "--only-own"}).has_line({"Call sites: ", why}));
  CHECK_FALSE(own_work("timeline", trace).has_line({why}));
}

TEST_CASE("flamegraph and diff, which have no call sites, report such a pattern as well") {
  const KnownTrace trace;
  const KnownTrace later(Variant::kTwice);
  const std::string begin = "heapprof: --own matches nothing: 'libwrk' in the names of functions, source files and ";
  CHECK(run({"flamegraph", trace.path(), "--format", "folded", "--own", "libwrk", "--own", "libwork"}).err ==
        begin + "modules of this recording\n");
  // A pattern need not match the code of both recordings.
  const KnownTrace nothing(Variant::kEmpty);
  for (const char* format : {"text", "folded"}) {
    const auto errors = [&](const std::string& before, const char* own) {
      return run({"diff", before, later.path(), "--format", format, "--own", own}).err;
    };
    CHECK(errors(trace.path(), "libwrk") == begin + "modules of both recordings\n");
    CHECK(errors(trace.path(), "libwork").empty());
    CHECK(errors(nothing.path(), "libwork").find("matches nothing") == std::string::npos);
  }
}
