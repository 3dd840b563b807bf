// Snapshots and samples of a trace, and which of them a moment means.
#include "analyzer/rss/recorded_residency.h"

#include <catch2/catch.hpp>

#include "tests/support/snapshot_builder.h"

using namespace heapprof;
using namespace heapprof::rss;
using heapprof::test::SnapshotBuilder;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

namespace {

constexpr std::uint64_t kMs = 1'000'000;

/// Samples at 10, 20 and 90 ms; snapshots at 15 ms, 50 ms (incomplete) and 80 ms.
class Recorded {
 public:
  Recorded() {
    TraceBuilder trace;
    const std::uint64_t start = trace.header.start_monotonic_ns;
    auto& one = trace.stream();
    auto& two = trace.stream();
    one.sample(10 * kMs, start + 10 * kMs, 1000);  // as in format 1.0
    snapshot(15, 1).add_to(trace, one, 1);
    two.sample(20 * kMs, start + 20 * kMs, 2000, 500);
    SnapshotBuilder given_up = snapshot(50, 2);
    given_up.complete = false;
    given_up.add_to(trace, two, 2);
    one.alloc(79 * kMs, 0x1000, 8);  // texts have the time of the event before them
    snapshot(80, 3).add_to(trace, one, 3);
    one.sample(90 * kMs, start + 90 * kMs, 3000, 600);
    TraceBuilder::write_bytes(path_.path(), trace.bytes());
  }
  trace::TraceFile file() const { return trace::TraceFile(path_.path()); }

 private:
  static SnapshotBuilder snapshot(std::uint64_t at_ms, std::uint64_t pages) {
    SnapshotBuilder result;
    result.begin_ns = at_ms * kMs;
    result.end_ns = result.begin_ns + kMs;
    result.statm_bytes = pages * 4096;
    result.mapping(0x10000, 0x20000, "rw-p");
    result.pages(kPresent, 0x10000, 0x10000 + pages * 4096);
    return result;
  }
  TemporaryFile path_;
};

}  // namespace

TEST_CASE("The last complete snapshot, the last sample and the end are known after one reading") {
  const RecordedResidency recorded = read_residency(Recorded().file());
  REQUIRE(recorded.snapshots.size() == 3);
  CHECK(recorded.snapshots[0].begin_ns == 15 * kMs);
  CHECK(recorded.snapshots[0].end_ns == 16 * kMs);
  CHECK(recorded.snapshots[0].statm_bytes == 4096);
  CHECK(recorded.snapshots[0].complete);
  CHECK_FALSE(recorded.snapshots[1].complete);
  REQUIRE(recorded.last);
  CHECK(recorded.last->number == 3);
  CHECK(recorded.last->pages.resident_bytes(0, 0x20000) == 3 * 4096);
  REQUIRE(recorded.samples.size() == 3);
  CHECK(recorded.samples.back().resident_bytes == 3000);
  CHECK(recorded.end_ns == 90 * kMs);
  CHECK(recorded.last_event_ns == 90 * kMs);
}

TEST_CASE("The end in a damaged header does not overflow") {
  TraceBuilder trace;
  trace.header.end_monotonic_ns = ~std::uint64_t{0};
  trace.stream().sample(kMs, trace.header.start_monotonic_ns + kMs, 1000);
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), trace.bytes());
  CHECK(read_residency(trace::TraceFile(path.path())).end_ns == RecordedResidency::kMaxTimeNs);
}

TEST_CASE("A sample has its shared memory, if its recorder wrote that") {
  const Recorded recorded;
  CHECK_FALSE(read_sample(recorded.file(), 5 * kMs));
  const auto first = read_sample(recorded.file(), 19 * kMs);
  REQUIRE(first);
  CHECK(first->time_ns == 10 * kMs);
  CHECK(first->resident_bytes == 1000);
  CHECK_FALSE(first->shared_bytes);
  const auto second = read_sample(recorded.file(), 20 * kMs);
  REQUIRE(second);
  CHECK(second->shared_bytes == 500);
}

TEST_CASE("Of many samples, evenly chosen ones are kept, and the last one") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  for (std::uint64_t i = 1; i <= 10'000; ++i)
    stream.sample(i * kMs, trace.header.start_monotonic_ns + i * kMs, i * 4096);
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), trace.bytes());
  const std::vector<ResidentSample> samples = read_residency(trace::TraceFile(path.path())).samples;
  CHECK(samples.size() > RecordedResidency::kMaxSamples / 2);
  CHECK(samples.size() <= RecordedResidency::kMaxSamples);
  CHECK(samples.front().time_ns == kMs);
  CHECK(samples.back().time_ns == 10'000 * kMs);
  for (std::size_t i = 1; i + 1 < samples.size(); ++i)
    REQUIRE(samples[i].time_ns - samples[i - 1].time_ns == 8 * kMs);
}

TEST_CASE("A snapshot is read by its number, if it is complete") {
  const Recorded recorded;
  const auto first = read_snapshot(recorded.file(), 1);
  REQUIRE(first);
  CHECK(first->pages.resident_bytes(0, 0x20000) == 4096);
  CHECK_FALSE(read_snapshot(recorded.file(), 2));
  CHECK_FALSE(read_snapshot(recorded.file(), 4));
}

TEST_CASE("A time means the nearest complete snapshot, if that is near") {
  const std::vector<SnapshotSummary> snapshots = read_residency(Recorded().file()).snapshots;
  const auto number_at = [&](std::uint64_t ms) {
    const SnapshotSummary* const found = snapshot_at(snapshots, ms * kMs);
    return found == nullptr ? 0 : found->number;
  };
  CHECK(number_at(4) == 0);
  CHECK(number_at(5) == 1);
  CHECK(number_at(15) == 1);
  CHECK(number_at(26) == 1);
  CHECK(number_at(27) == 0);
  CHECK(number_at(50) == 0);  // incomplete
  CHECK(number_at(85) == 3);
  CHECK(number_at(92) == 0);
  // Later, times are printed with fewer digits: 0.5 % of 20 s are 100 ms.
  const std::vector<SnapshotSummary> late = {
      {.number = 7, .begin_ns = 20'000 * kMs, .end_ns = 20'001 * kMs, .complete = true}};
  CHECK(snapshot_at(late, 19'920 * kMs) == &late[0]);
  CHECK(snapshot_at(late, 19'880 * kMs) == nullptr);
}

TEST_CASE("The time of a mark means the snapshot that was taken at it, although another one is nearer") {
  const std::vector<SnapshotSummary> snapshots = {
      {.number = 1, .reason = SnapshotReason::kResidency, .begin_ns = 98 * kMs, .end_ns = 99 * kMs, .complete = true},
      {.number = 2, .begin_ns = 107 * kMs, .end_ns = 108 * kMs, .complete = true, .mark_ns = 100 * kMs},
  };
  CHECK(snapshot_at(snapshots, 99 * kMs) == &snapshots[0]);
  CHECK(snapshot_at(snapshots, 100 * kMs) == &snapshots[1]);
  CHECK(snapshot_at(snapshots, 104 * kMs) == &snapshots[1]);
}

TEST_CASE("A snapshot shows the end if it is hardly older, that of the exit if hardly an event follows") {
  const auto at_end = [](SnapshotReason reason, std::uint64_t snapshot_ms, std::uint64_t end_ms,
                         std::uint64_t last_event_ms = 0) {
    RecordedResidency recorded;
    recorded.snapshots = {{.number = 1, .end_ns = 1 * kMs, .complete = true},
                          {.number = 2, .reason = reason, .end_ns = snapshot_ms * kMs, .complete = true},
                          {.number = 3, .end_ns = end_ms * kMs, .complete = false}};
    recorded.end_ns = end_ms * kMs;
    recorded.last_event_ns = last_event_ms * kMs;
    const SnapshotSummary* const found = snapshot_at_end(recorded);
    return found == nullptr ? 0 : found->number;
  };
  CHECK(at_end(SnapshotReason::kExit, 1000, 2000, 999) == 2);
  CHECK(at_end(SnapshotReason::kExit, 1000, 2000, 1009) == 2);
  CHECK(at_end(SnapshotReason::kExit, 1000, 2000, 1011) == 0);
  CHECK(at_end(SnapshotReason::kMark, 1000, 2000) == 0);
  CHECK(at_end(SnapshotReason::kMark, 1991, 2000) == 2);
  CHECK(at_end(SnapshotReason::kMark, 9960, 10'000) == 2);
  CHECK(at_end(SnapshotReason::kMark, 9940, 10'000) == 0);
  // 0.5 % of an hour are 18 s, in which much can be freed.
  CHECK(at_end(SnapshotReason::kMark, 3'599'950, 3'600'000) == 2);
  CHECK(at_end(SnapshotReason::kMark, 3'590'000, 3'600'000) == 0);
  CHECK(snapshot_at_end({}) == nullptr);
}

TEST_CASE("Snapshots have the marks that caused them, and the first missing event is known") {
  TraceBuilder trace;
  auto& one = trace.stream();
  one.alloc(10 * kMs, 0x1000, 8);
  SnapshotBuilder snapshot;
  snapshot.begin_ns = 12 * kMs;
  snapshot.end_ns = 13 * kMs;
  one.text(TextKind::kMark, 0, 0, "first");
  snapshot.add_to(trace, one, 1);
  one.text(TextKind::kMark, 0, 0, "second");
  snapshot.add_to(trace, one, 2);
  one.flush();
  one.alloc(20 * kMs, 0x2000, 8);
  one.flush();
  one.alloc(30 * kMs, 0x3000, 8);
  std::vector<std::uint8_t> bytes = trace.bytes();
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), bytes);
  const RecordedResidency whole = read_residency(trace::TraceFile(path.path()));
  REQUIRE(whole.snapshots.size() == 2);
  CHECK(whole.snapshots[0].mark == "first");
  CHECK(whole.snapshots[1].mark == "second");
  CHECK(whole.end_ns == 30 * kMs);
  CHECK_FALSE(whole.intact_until_ns);

  const std::size_t lost = trace.frame_offsets(0).back();
  for (std::size_t i = 0; i < 40; ++i) bytes[lost + i] ^= 0x5a;
  TraceBuilder::write_bytes(path.path(), bytes);
  CHECK(read_residency(trace::TraceFile(path.path())).intact_until_ns == 13 * kMs);
}
