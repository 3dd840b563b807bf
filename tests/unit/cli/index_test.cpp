// heapprof index: a file beside the trace, which does not change the output of any command.
#include <catch2/catch.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/random_trace.h"
#include "tests/support/temporary_file.h"
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

TEST_CASE("info of an indexed trace reads the index only, and has the same figures") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    TraceBuilder trace;
    random_program(trace, seed, 20'000);
    trace.stream().add(heapprof::Op::kPause, trace.header.start_ticks);
    const TemporaryFile path;
    trace.write(path.path());
    const auto print = [&](const char* option) { return run({"info", path.path(), option}); };
    const std::string json = print("--json").out;
    CHECK(json.find("mark ") != std::string::npos);
    CHECK(json.find("paused") != std::string::npos);
    const std::string text = print("--no-index").out;
    const std::string mark = json_at(json, "/marks/3/text");
    const std::string slice = run({"report", path.path(), "--json", "--from", mark}).out;

    const IndexFile index(path.path());
    REQUIRE(run({"index", path.path()}).status == 0);
    CHECK(run({"report", path.path(), "--json", "--from", mark}).out == slice);
    // Within the payload of a frame: the headers, by which an index belongs to a trace, are the same.
    std::vector<std::uint8_t> bytes = trace.bytes();
    bytes[trace.frame_offsets(0)[1] + sizeof(heapprof::FrameHeader) + 20] ^= 1;
    TraceBuilder::write_bytes(path.path(), bytes);
    CHECK(print("--json").out == json);
    CHECK(print("--json").status == 0);
    CHECK(run({"info", path.path()}).out == text);
    CHECK(print("--no-index").status == 1);
  }
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
