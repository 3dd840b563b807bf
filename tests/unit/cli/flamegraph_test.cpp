// heapprof flamegraph: every stack with its cost, as folded text and as a picture.
#include <catch2/catch.hpp>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

namespace {

std::string folded(const KnownTrace& trace, std::vector<std::string> more) {
  std::vector<std::string> arguments = {"flamegraph", trace.path(), "--format", "folded"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = run(arguments);
  CHECK(outcome.status == 0);
  return outcome.out;
}

/// A line of folded text, the outermost frame first.
std::string line(const std::vector<std::string>& frames, std::uint64_t value) {
  std::string text;
  for (const std::string& frame : frames) text += (text.empty() ? "" : ";") + frame;
  return text + " " + std::to_string(value) + "\n";
}

}  // namespace

TEST_CASE("folded text has a line for every stack with its bytes at the peak") {
  const KnownTrace trace;
  CHECK(folded(trace, {}) ==
        line({kMainName, kLoadName}, kA) + line({kMainName, kParseName}, kB) + line({kWorkName}, kC));
}

TEST_CASE("--cost selects the values of the lines") {
  const KnownTrace trace;
  CHECK(folded(trace, {"--cost", "leaked"}) == line({kMainName, kLoadName}, kE) + line({kWorkName}, kC));
  CHECK(folded(trace, {"--cost", "allocated"}) ==
        line({kMainName, kLoadName}, kA + kE) + line({kMainName, kParseName}, kB + kD) + line({kWorkName}, kC));
  CHECK(folded(trace, {"--cost", "allocations"}) ==
        line({kMainName, kLoadName}, 2) + line({kMainName, kParseName}, 2) + line({kWorkName}, 1));
  CHECK(folded(trace, {"--cost", "temporary"}) == line({kMainName, kParseName}, kTemporary));
}

TEST_CASE("--bottom-up begins with the function that allocates") {
  const KnownTrace trace;
  CHECK(folded(trace, {"--bottom-up"}) ==
        line({kLoadName, kMainName}, kA) + line({kParseName, kMainName}, kB) + line({kWorkName}, kC));
}

TEST_CASE("the picture is an svg that names functions and totals") {
  const KnownTrace trace;
  const TemporaryFile file(".svg");
  const Outcome outcome = run({"flamegraph", trace.path(), "-o", file.path()});
  CHECK(outcome.status == 0);
  CHECK(outcome.out == "");
  const std::string svg = read_file(file.path());
  CHECK(svg.find("<svg") != std::string::npos);
  CHECK(svg.find("</svg>") != std::string::npos);
  CHECK(svg.find(kParseName) != std::string::npos);
  CHECK(svg.find(kWorkName) != std::string::npos);
}

TEST_CASE("if no stack has the cost, the picture is empty and a message is printed") {
  const KnownTrace trace;
  const Outcome outcome =
      run({"flamegraph", trace.path(), "--format", "folded", "--cost", "temporary", "--thread", "worker"});
  CHECK(outcome.status == 0);
  CHECK(outcome.out == "");
  CHECK(outcome.err.find("nothing to show") != std::string::npos);
}

TEST_CASE("flamegraph refuses other formats and costs") {
  const KnownTrace trace;
  CHECK(run({"flamegraph", trace.path(), "--format", "png"}).status == 2);
  CHECK(run({"flamegraph", trace.path(), "--cost", "money"}).status == 2);
  CHECK(run({"flamegraph", trace.path(), "--json"}).status == 2);
}

TEST_CASE("--only-own leaves out other frames, and keeps every total") {
  const KnownTrace trace;
  CHECK(folded(trace, {"--only-own", "--own", "libwork"}) ==
        line({"[no own code]"}, kA + kB) + line({kWorkName}, kC));
  CHECK(folded(trace, {"--only-own", "--own", "libwork", "--bottom-up"}) ==
        line({"[no own code]"}, kA + kB) + line({kWorkName}, kC));
}
