// heapprof compact: reports of the new trace are the same.
#include <catch2/catch.hpp>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

TEST_CASE("a compacted trace is smaller and has the same figures") {
  const KnownTrace trace;
  for (const bool exact : {false, true}) {
    const TemporaryFile small;
    std::vector<std::string> arguments = {"compact", trace.path(), "-o", small.path()};
    if (exact) arguments.push_back("--exact");
    const Outcome compact = run(arguments);
    CHECK(compact.status == 0);
    CHECK(compact.out.find(small.path()) == 0);
    CHECK(read_file(small.path()).size() < read_file(trace.path()).size());
    const Outcome before = run({"report", trace.path(), "--json"});
    const Outcome after = run({"report", small.path(), "--json"});
    CHECK(after.status == 0);
    CHECK(after.at("/heap") == before.at("/heap"));
    CHECK(after.at("/threads") == before.at("/threads"));
    CHECK(after.at("/top") == before.at("/top"));
    const Outcome info = run({"info", small.path(), "--json"});
    CHECK(info.at("/compacted") == "true");
    CHECK(info.at("/rounded") == (exact ? "false" : "true"));
    CHECK(info.number("/original_bytes") == read_file(trace.path()).size());
  }
}

TEST_CASE("a compacted trace has the same figures for a slice of time") {
  const KnownTrace trace;
  const TemporaryFile small;
  REQUIRE(run({"compact", trace.path(), "-o", small.path(), "--level", "19"}).status == 0);
  const auto slice = [](const std::string& path) {
    return run({"report", path, "--json", "--from", "35ms", "--to", "65ms"}).at("/heap");
  };
  CHECK(slice(small.path()) == slice(trace.path()));
  CHECK(json_at(slice(small.path()), "/allocations") == "1");
}

TEST_CASE("compact does not change the trace, whatever its output is") {
  const KnownTrace trace;
  const std::string before = read_file(trace.path());
  const Outcome onto_itself = run({"compact", trace.path(), "-o", trace.path()});
  CHECK(onto_itself.status == 1);
  CHECK(onto_itself.err.find(trace.path()) != std::string::npos);
  CHECK(read_file(trace.path()) == before);
  CHECK(run({"compact", trace.path(), "-o", kNoFile}).status == 1);
  CHECK(run({"compact", kNoFile, "-o", "/dev/null/x"}).status == 1);
}

TEST_CASE("compact and index of a damaged trace print what it lacks, and have exit status 1") {
  const KnownTrace trace(Variant::kDamaged);
  for (const char* command : {"compact", "index"}) {
    INFO(command);
    const TemporaryFile output(".out");
    const Outcome outcome = run({command, trace.path(), "-o", output.path()});
    CHECK(outcome.status == 1);
    CHECK(outcome.out.find(output.path()) == 0);
    CHECK(outcome.err.find(trace.path() + ": recorded data is missing: 6 events lost") != std::string::npos);
    CHECK(read_file(output.path()).size() > 0);
  }
  // What is lost is lost in the copy, too.
  const TemporaryFile small;
  REQUIRE(run({"compact", trace.path(), "-o", small.path()}).status == 1);
  CHECK(run({"report", small.path()}).err.find("6 events lost") != std::string::npos);
  const TemporaryFile output(".out");
  const Outcome index_of_copy = run({"index", small.path(), "-o", output.path()});
  CHECK(index_of_copy.status == 1);
  CHECK(index_of_copy.err.find("6 events lost") != std::string::npos);
}

TEST_CASE("compact needs an output file and a valid zstd compression level") {
  const KnownTrace trace;
  CHECK(run({"compact", trace.path()}).status == 2);
  CHECK(run({"compact", trace.path(), "-o", "-"}).status == 2);
  const TemporaryFile small;
  for (const char* level : {"0", "20", "high"})
    CHECK(run({"compact", trace.path(), "-o", small.path(), "--level", level}).status == 2);
  CHECK(read_file(small.path()) == "");
}
