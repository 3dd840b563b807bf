// What all commands that read a trace do alike: missing, damaged and empty traces, -o FILE, wrong options.
#include <catch2/catch.hpp>

#include <fstream>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

namespace {

using Words = std::vector<std::string>;

/// Every command that prints an answer about one trace, without the trace.
const std::vector<Words> kQuestions = {{"info"}, {"report"}, {"leaks"}, {"histogram"}, {"churn"}, {"reallocs"},
                                       {"threads"}, {"frees"}, {"timeline"}, {"flamegraph", "--format", "folded"},
                                       {"check", "--max-peak", "1G"}};

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// A file of no trace.
void write_text(const std::string& path) { std::ofstream(path) << "this is no recording\n"; }

}  // namespace

TEST_CASE("a trace that is whole gives 0, and nothing on standard error") {
  const KnownTrace trace;
  for (const Words& question : kQuestions) {
    INFO(question.front());
    const Outcome outcome = run(question + Words{trace.path()});
    CHECK(outcome.status == 0);
    CHECK(outcome.out != "");
    CHECK(outcome.err == "");
  }
}

TEST_CASE("a trace that is missing, or none, gives 1 and is named") {
  const TemporaryFile text;
  write_text(text.path());
  for (const Words& question : kQuestions)
    for (const std::string& path : {std::string(kNoFile), text.path(), std::string("/")}) {
      INFO(question.front() << ' ' << path);
      const Outcome outcome = run(question + Words{path});
      CHECK(outcome.status == 1);
      CHECK(outcome.out == "");
      CHECK(outcome.err.find("heapprof: " + path) == 0);
    }
}

TEST_CASE("a damaged trace gives 1 and what is left of it") {
  const KnownTrace trace(Variant::kDamaged);
  for (const Words& question : kQuestions) {
    INFO(question.front());
    const Outcome outcome = run(question + Words{trace.path()});
    CHECK(outcome.status == 1);
    CHECK(outcome.out != "");
    CHECK(outcome.err.find(trace.path()) != std::string::npos);
    CHECK(outcome.err.find("6 events lost") != std::string::npos);
  }
}

TEST_CASE("a trace in which nothing was allocated gives 0, and standard error says so") {
  const KnownTrace trace(Variant::kEmpty);
  for (const Words& question : kQuestions) {
    INFO(question.front());
    const Outcome outcome = run(question + Words{trace.path()});
    CHECK(outcome.status == 0);
    CHECK(outcome.err.find("no allocation was recorded") != std::string::npos);
  }
  const Outcome report = run({"report", trace.path(), "--json"});
  CHECK(report.number("/heap/allocations") == 0);
  CHECK(report.at("/top") == "[]");
}

TEST_CASE("-o FILE gets what standard output would") {
  const KnownTrace trace;
  for (const Words& question : kQuestions) {
    INFO(question.front());
    const TemporaryFile file(".out");
    const Outcome to_file = run(question + Words{trace.path(), "-o", file.path()});
    CHECK(to_file.status == 0);
    CHECK(to_file.out == "");
    CHECK(read_file(file.path()) == run(question + Words{trace.path()}).out);
  }
}

TEST_CASE("an output that cannot be written gives 1, and the trace is never overwritten") {
  const KnownTrace trace;
  const std::string bytes = read_file(trace.path());
  for (const Words& question : kQuestions) {
    INFO(question.front());
    const Outcome outcome = run(question + Words{trace.path(), "-o", kNoFile});
    CHECK(outcome.status == 1);
    CHECK(outcome.err.find(kNoFile) != std::string::npos);
    const Outcome over_itself = run(question + Words{trace.path(), "-o", trace.path()});
    CHECK(over_itself.status == 1);
    CHECK(read_file(trace.path()) == bytes);
    const Outcome full = run(question + Words{trace.path(), "-o", "/dev/full"});
    CHECK(full.status == 1);
  }
}

TEST_CASE("options that are unknown or lack a value give 2, and print nothing") {
  const KnownTrace trace;
  for (const Words& question : kQuestions)
    for (const Words& wrong :
         {Words{"--no-such-option"}, Words{"-o"}, Words{"--min-size", "large"}, Words{"second", "third"}}) {
      INFO(question.front() << ' ' << wrong.front());
      const Outcome outcome = run(question + Words{trace.path()} + wrong);
      CHECK(outcome.status == 2);
      CHECK(outcome.out == "");
      CHECK(outcome.err.find("heapprof") != std::string::npos);
    }
}

TEST_CASE("--json is JSON, also of an empty and of a damaged trace") {
  for (const Variant variant : {Variant::kWhole, Variant::kEmpty, Variant::kDamaged}) {
    const KnownTrace trace(variant);
    for (const Words& question : kQuestions) {
      if (question.front() == "flamegraph") continue;
      INFO(question.front());
      CHECK(run(question + Words{trace.path(), "--json"}).at("/integrity/complete") ==
            (variant == Variant::kDamaged ? "false" : "true"));
    }
  }
}
