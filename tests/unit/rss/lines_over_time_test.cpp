// Lines at every snapshot of a trace, in one replay.
#include "analyzer/rss/lines_over_time.h"

#include <catch2/catch.hpp>

#include "analyzer/rss/process_memory.h"
#include "analyzer/rss/snapshot_lines.h"
#include "tests/support/snapshot_builder.h"

using namespace heapprof;
using namespace heapprof::rss;
using heapprof::test::SnapshotBuilder;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHeap = 0x1000000;
constexpr std::uint64_t kMs = 1'000'000;

SnapshotBuilder snapshot(std::uint64_t at_ns, std::uint64_t pages) {
  SnapshotBuilder result;
  result.begin_ns = at_ns;
  result.end_ns = at_ns + 100;
  result.statm_bytes = pages * kPage;
  result.mapping(kHeap, kHeap + 4096 * kPage, "rw-p", "[heap]");
  result.pages(kPresent, kHeap, kHeap + pages * kPage);
  return result;
}

/// A block of a page for each event; every third one is freed at once. A snapshot after every 50 events, also in the
/// middle of batches.
void write_trace(const std::string& path, std::uint64_t snapshots) {
  TraceBuilder trace;
  auto& main = trace.stream();
  main.thread(1, "main");
  main.module(2, "/opt/demo", "\x01", 0x400000, 0, 0x10000, true);
  main.node(1, 0, 2, 0x400100);
  std::uint64_t blocks = 0;
  for (std::uint64_t number = 1; number <= snapshots; ++number) {
    for (int i = 0; i < 25; ++i) {
      const std::uint64_t address = kHeap + blocks++ % 4000 * kPage + 16;
      main.alloc(number * kMs + blocks, address, 100, 1);
      if (blocks % 3 == 0) main.free(number * kMs + blocks, address);
    }
    snapshot((number + 1) * kMs - 1000, std::min<std::uint64_t>(blocks, 4000)).add_to(trace, main, number);
  }
  TraceBuilder::write_bytes(path, trace.bytes());
}

}  // namespace

TEST_CASE("The lines at each snapshot are those of an analysis up to there") {
  const TemporaryFile path;
  write_trace(path.path(), 30);
  const RecordedResidency recorded = read_residency(trace::TraceFile(path.path()));
  const replay::Analysis analysis(path.path(), {});
  const std::vector<LinesAt> lines = lines_at_snapshots(analysis, recorded.snapshots);
  REQUIRE(lines.size() == 30);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    REQUIRE(lines[i].time_ns == recorded.snapshots[i].end_ns);
    replay::Selection until;
    until.to = replay::Moment{static_cast<double>(lines[i].time_ns) / 1e9, false, ""};
    MemoryCollector collector;
    const replay::Analysis part(path.path(), until, {}, {}, {}, collector.blocks(), collector.mappings());
    const auto read = read_snapshot(trace::TraceFile(path.path()), recorded.snapshots[i].number);
    REQUIRE(read);
    const ResidentMemory expected = classify(*read, collector.finish(part));
    CHECK(expected.bytes_of(Line::kRequested) != 0);
    CHECK(expected.bytes_of(Line::kReturnable) != 0);
    for (std::size_t line = 0; line < kLines; ++line) REQUIRE(lines[i].bytes[line] == expected.lines[line].bytes);
  }
}

TEST_CASE("Of many snapshots, some are divided: the largest and the last one among them") {
  const TemporaryFile path;
  write_trace(path.path(), 300);
  const RecordedResidency recorded = read_residency(trace::TraceFile(path.path()));
  const replay::Analysis analysis(path.path(), {});
  const std::vector<LinesAt> lines = lines_at_snapshots(analysis, recorded.snapshots);
  CHECK(lines.size() <= kMaxSnapshotsOverTime);
  CHECK(lines.size() >= kMaxSnapshotsOverTime - 2);
  CHECK(lines.back().time_ns == recorded.snapshots.back().end_ns);
}

TEST_CASE("Samples show live blocks, files and the rest") {
  model::Profile profile;
  profile.recording.duration_ns = 100 * kMs;
  for (std::uint64_t i = 0; i < 10; ++i) {
    model::Timeline::Bucket bucket;
    bucket.start_ns = i * 10 * kMs;
    bucket.last_bytes = i * 1000;
    profile.timeline.buckets.push_back(bucket);
  }
  const std::vector<LinesAt> lines =
      lines_at_samples(profile, {{15 * kMs, 10'000, 4'000}, {95 * kMs, 10'000, 4'000}, {96 * kMs, 10'000, {}}});
  REQUIRE(lines.size() == 3);
  const auto at = [&](std::size_t i, Line line) { return lines[i].bytes[static_cast<std::size_t>(line)]; };
  CHECK(at(0, Line::kRequested) == 1'000);
  CHECK(at(0, Line::kFiles) == 4'000);
  CHECK(at(0, Line::kUnknown) == 5'000);
  CHECK(at(1, Line::kRequested) == 6'000);  // as much as is not of files
  CHECK(at(1, Line::kUnknown) == 0);
  CHECK(at(2, Line::kFiles) == 0);
  CHECK(at(2, Line::kUnknown) == 1'000);
}
