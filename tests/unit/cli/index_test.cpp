// heapprof index: a file beside the trace, which does not change the output of any command.
#include <catch2/catch.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

namespace {

/// The index that `heapprof index` writes beside a trace; removed by the destructor.
struct IndexFile {
  explicit IndexFile(const std::string& trace) : path(trace + ".idx") {}
  ~IndexFile() { ::unlink(path.c_str()); }
  bool exists() const {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0;
  }
  const std::string path;
};

}  // namespace

TEST_CASE("an index is written beside its trace, and slices have the same figures with it") {
  const KnownTrace trace;
  const std::string bytes = read_file(trace.path());
  const IndexFile index(trace.path());
  const auto slice = [&](const char* from, const char* to) {
    const Outcome report = run({"report", trace.path(), "--json", "--from", from, "--to", to});
    CHECK(report.status == 0);
    return report.out;
  };
  const std::string late = slice("55ms", "100ms");
  const std::string early = slice("0", "25ms");
  CHECK_FALSE(index.exists());
  const Outcome outcome = run({"index", trace.path()});
  CHECK(outcome.status == 0);
  CHECK(outcome.out.find(index.path) == 0);
  REQUIRE(index.exists());
  CHECK(slice("55ms", "100ms") == late);
  CHECK(slice("0", "25ms") == early);
  CHECK(json_at(early, "/heap/allocations") == "2");
  CHECK(json_at(late, "/heap/leaked_bytes") == std::to_string(kE));
  CHECK(read_file(trace.path()) == bytes);
}

TEST_CASE("index -o writes elsewhere, but never over the trace or to standard output") {
  const KnownTrace trace;
  const std::string bytes = read_file(trace.path());
  const TemporaryFile file(".idx");
  CHECK(run({"index", trace.path(), "-o", file.path()}).status == 0);
  CHECK(read_file(file.path()).size() > 0);
  CHECK_FALSE(IndexFile(trace.path()).exists());
  CHECK(run({"index", trace.path(), "-o", "-"}).status == 2);
  CHECK(run({"index", trace.path(), "-o", trace.path()}).status == 1);
  CHECK(read_file(trace.path()) == bytes);
  CHECK(run({"index", trace.path(), "-o", kNoFile}).status == 1);
  CHECK(run({"index", kNoFile}).status == 1);
}
