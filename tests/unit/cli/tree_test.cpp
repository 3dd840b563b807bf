// heapprof tree: the call tree of a recording whose figures are known.
#include <catch2/catch.hpp>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

TEST_CASE("tree prints callers above their callees, with own and inclusive costs") {
  const KnownTrace trace;
  const Outcome json = run({"tree", trace.path(), "--json"});
  CHECK(json.status == 0);
  CHECK(json.number("/total/peak_bytes") == kPeakBytes);
  REQUIRE(json.count("/children") == 2);
  CHECK(json.at("/children/0/name") == kWorkName);
  CHECK(json.number("/children/0/self/peak_bytes") == kC);
  CHECK(json.at("/children/1/name") == kMainName);
  CHECK(json.number("/children/1/self/peak_bytes") == 0);
  CHECK(json.number("/children/1/total/peak_bytes") == kA + kB);
  CHECK(json.at("/children/1/children/0/name") == kParseName);
  CHECK(json.at("/children/1/children/1/name") == kLoadName);
  const Outcome text = run({"tree", trace.path()});
  CHECK(text.has_line({"total", "share", "self", "function"}));
  CHECK(text.has_line({"3.00 KiB", "42.9%", kMainName}));
  CHECK(text.has_line({"2.00 KiB", "28.6%", "2.00 KiB", kParseName}));
}

TEST_CASE("tree --inverted begins with call sites") {
  const KnownTrace trace;
  const Outcome json = run({"tree", trace.path(), "--inverted", "--json"});
  REQUIRE(json.count("/children") == 3);
  CHECK(json.at("/children/1/name") == kParseName);
  CHECK(json.at("/children/1/children/0/name") == kMainName);
  CHECK(json.number("/children/1/children/0/total/peak_bytes") == kB);
}

TEST_CASE("tree counts what --depth and --min-share leave out") {
  const KnownTrace trace;
  const Outcome depth = run({"tree", trace.path(), "--depth", "1", "--json"});
  CHECK(depth.count("/children/1/children") == 0);
  CHECK(depth.number("/children/1/left_out/nodes") == 2);
  CHECK(depth.number("/children/1/left_out/total/peak_bytes") == kA + kB);
  CHECK(run({"tree", trace.path(), "--depth", "1"}).has_line({"3.00 KiB", "42.9%", "+2 more"}));
  CHECK(run({"tree", trace.path(), "--min-share", "50"}).has_line({"3.00 KiB", "42.9%", "+1 more"}));
  const Outcome nothing = run({"tree", trace.path(), "--min-size", "1G"});
  CHECK(nothing.status == 0);
  CHECK(nothing.has_line({"none"}));
}

TEST_CASE("tree --only-own prints the costs without own code") {
  const KnownTrace trace;
  const Outcome text = run({"tree", trace.path(), "--only-own", "--own", "known/demo"});
  CHECK(text.has_line({"own code only"}));
  CHECK(text.has_line({"4.00 KiB", "57.1%", "4.00 KiB", "(no own code)"}));
  CHECK(text.has_line({"3.00 KiB", "42.9%", kMainName}));
  CHECK_FALSE(text.has_line({kWorkName}));
}
