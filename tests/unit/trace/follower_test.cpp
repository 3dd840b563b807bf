// Reading a recording while it grows: every event once, in order, whatever the moments of the readings.
#include <catch2/catch.hpp>

#include <cstring>
#include <ctime>
#include <map>
#include <vector>

#include "analyzer/trace/follower.h"
#include "analyzer/trace/merged_reader.h"
#include "tests/support/growing_file.h"
#include "tests/support/random_trace.h"

using namespace heapprof;
using namespace heapprof::trace;
using heapprof::test::GrowingFile;
using heapprof::test::TraceBuilder;

namespace {

/// What identifies an event in two readings, which number stacks and texts differently.
struct Seen {
  std::uint64_t time;
  std::uint64_t address;
  std::uint64_t op_size;
  friend bool operator==(const Seen&, const Seen&) = default;
};

/// Reads one advance; the events of each stream, by its number in the reader.
void read(Follower& follower, std::map<std::uint32_t, std::vector<Seen>>& into) {
  follower.advance();
  EventRun run;
  while (follower.next(run))
    for (const MergedEvent& event : run.events)
      into[event.stream()].push_back({event.time, event.address, event.op_size});
}

std::vector<std::vector<Seen>> sorted(const std::map<std::uint32_t, std::vector<Seen>>& streams) {
  std::vector<std::vector<Seen>> result;
  for (const auto& [stream, events] : streams) result.push_back(events);
  std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) {
    return std::pair(a.size(), a.front().address) < std::pair(b.size(), b.front().address);
  });
  return result;
}

std::size_t events_of(Follower& follower) {
  std::map<std::uint32_t, std::vector<Seen>> streams;
  read(follower, streams);
  std::size_t count = 0;
  for (const auto& [stream, events] : streams) count += events.size();
  return count;
}

std::uint64_t monotonic_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

TEST_CASE("A recording that is followed has the events of one that is read at its end") {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    INFO("seed " << seed);
    TraceBuilder trace;
    GrowingFile file(trace);
    Follower follower(file.path());
    CHECK_FALSE(follower.ended());
    std::map<std::uint32_t, std::vector<Seen>> followed;
    const int step = seed == 0 ? 1 : 3 + 41 * static_cast<int>(seed);
    test::random_program(trace, seed, seed == 0 ? 600 : 4'000, [&](int i) {
      if (i % step != 0) return;
      file.write();
      read(follower, followed);
    });
    file.write();
    file.end();
    read(follower, followed);
    CHECK(follower.ended());
    CHECK(follower.damage().notes.empty());
    CHECK_FALSE(follower.damage().incomplete);

    const TraceFile whole(file.path());
    MergedReader reader(whole);
    std::map<std::uint32_t, std::vector<Seen>> expected;
    Batch batch;
    while (reader.next(batch))
      for (const MergedEvent& event : batch.events())
        expected[event.stream()].push_back({event.time, event.address, event.op_size});
    CHECK(sorted(followed) == sorted(expected));
    std::size_t defined = 0;
    for (const NodeDefinition& node : follower.definitions().nodes) defined += node.defined;
    CHECK(defined == 60);
    CHECK(follower.definitions().modules.size() == 2);
    CHECK(follower.definitions().redefined_nodes == 0);
  }
}

TEST_CASE("Events after the time of a reading wait for a later one") {
  TraceBuilder trace;
  trace.header.start_ticks = trace.header.start_monotonic_ns = monotonic_ns();
  constexpr std::uint64_t kHour = 3'600'000'000'000;
  auto& early = trace.stream();
  auto& late = trace.stream();
  early.alloc(10, 0x1000, 1);
  early.alloc(kHour, 0x2000, 1);
  late.alloc(kHour + 1, 0x3000, 1);
  GrowingFile file(trace);
  Follower follower(file.path());
  CHECK(events_of(follower) == 1);
  early.alloc(kHour + 2, 0x4000, 1);
  file.write();
  CHECK(events_of(follower) == 0);
  file.end();
  follower.advance();
  std::vector<std::uint64_t> addresses;
  EventRun run;
  while (follower.next(run))
    for (const MergedEvent& event : run.events) addresses.push_back(event.address);
  CHECK(addresses == std::vector<std::uint64_t>{0x2000, 0x3000, 0x4000});
}

TEST_CASE("A stream whose extent is completed late is found") {
  TraceBuilder trace;
  trace.stream().alloc(1, 0x1000, 1);
  trace.stream().alloc(2, 0x2000, 1);
  trace.stream().alloc(3, 0x3000, 1);
  GrowingFile file(trace);
  const std::vector<std::uint8_t> whole = trace.bytes();
  std::vector<std::uint8_t> incomplete = whole;
  std::memset(incomplete.data() + trace.staging_offset(1), 0, sizeof(std::uint64_t));
  file.write(incomplete);
  Follower follower(file.path());
  CHECK(events_of(follower) == 2);
  CHECK(events_of(follower) == 0);
  file.write(whole);
  CHECK(events_of(follower) == 1);
  CHECK_FALSE(follower.damage().incomplete);
}

TEST_CASE("Streams are found although many extents before them are completed late") {
  // 300 threads that start at once, each with a staging block of 64 KiB: 4,800 units.
  constexpr int kThreads = 300;
  TraceBuilder trace;
  for (int i = 0; i < kThreads; ++i) trace.stream(2'000).alloc(1, 16 * static_cast<std::uint64_t>(i + 1), 1);
  GrowingFile file(trace);
  const std::vector<std::uint8_t> whole = trace.bytes();
  std::vector<std::uint8_t> incomplete = whole;
  for (int i = 0; i + 1 < kThreads; ++i)
    std::memset(incomplete.data() + trace.staging_offset(static_cast<std::size_t>(i)), 0, sizeof(std::uint64_t));
  file.write(incomplete);
  Follower follower(file.path());
  CHECK(events_of(follower) == 1);
  file.write(whole);
  CHECK(events_of(follower) == kThreads - 1);
}

TEST_CASE("A process killed between frame and commit word leaves one copy of the block, also for a follower") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  for (std::uint64_t i = 1; i <= 10; ++i) stream.alloc(i, 16 * i, 1);
  GrowingFile file(trace);
  Follower follower(file.path());
  CHECK(events_of(follower) == 10);
  stream.alloc(11, 0x1000, 1);
  stream.flush_and_die();
  file.write();
  file.end();
  CHECK(events_of(follower) == 1);
  CHECK_FALSE(follower.damage().incomplete);
}

TEST_CASE("A file that is truncated while it is followed keeps what was read, and reports it") {
  TraceBuilder trace;
  auto& stream = trace.stream(30);
  for (std::uint64_t i = 1; i <= 100; ++i) stream.alloc(i, 16 * i, 1);
  GrowingFile file(trace);
  Follower follower(file.path());
  CHECK(events_of(follower) == 100);
  file.truncate(100);
  CHECK(events_of(follower) == 0);
  CHECK(follower.damage().incomplete);
  REQUIRE_FALSE(follower.damage().notes.empty());
  CHECK(follower.damage().notes.front().find("truncated") != std::string::npos);
}

TEST_CASE("A frame that is damaged while a recording is followed costs its events only") {
  TraceBuilder trace;
  auto& stream = trace.stream(30);
  for (std::uint64_t i = 1; i <= 20; ++i) stream.alloc(i, 16 * i, 1);
  GrowingFile file(trace);
  Follower follower(file.path());
  CHECK(events_of(follower) == 20);
  // Blocks of 29 events and a block start; the third block is lost.
  for (std::uint64_t i = 21; i <= 100; ++i) stream.alloc(i, 16 * i, 1);
  std::vector<std::uint8_t> bytes = trace.bytes();
  bytes[trace.frame_offsets(0)[2] + sizeof(FrameHeader) + 30] ^= 1;
  file.write(bytes);
  file.end();
  CHECK(events_of(follower) == 80 - 29 + 1);  // and a gap
  CHECK(follower.damage().events_lost == 29);
}

TEST_CASE("Of a damaged frame, the events that were read from its staging block before are not missing") {
  TraceBuilder trace;
  auto& stream = trace.stream(30);
  for (std::uint64_t i = 1; i <= 10; ++i) stream.alloc(i, 16 * i, 1);
  GrowingFile file(trace);
  Follower follower(file.path());
  CHECK(events_of(follower) == 10);
  // Blocks of 29 events and a block start; the first one is damaged.
  std::uint64_t events = 0;
  SECTION("a later block follows") { events = 60; }
  SECTION("it is the last one") { events = 29; }
  for (std::uint64_t i = 11; i <= events; ++i) stream.alloc(i, 16 * i, 1);
  if (events == 29) stream.flush();
  std::vector<std::uint8_t> bytes = trace.bytes();
  bytes[trace.frame_offsets(0)[0] + sizeof(FrameHeader) + 30] ^= 1;
  file.write(bytes);
  file.end();
  CHECK(events_of(follower) == events - 29 + 1);  // with a gap
  CHECK(follower.damage().events_lost == 19);
}

TEST_CASE("A recording that stopped counts as ended, although its program runs") {
  TraceBuilder trace;
  trace.stream().alloc(1, 0x1000, 1);
  GrowingFile file(trace);
  Follower follower(file.path());
  CHECK(events_of(follower) == 1);
  CHECK(follower.ended_by() == "running");
  file.header().end_kind = EndKind::kStopped;
  CHECK(events_of(follower) == 0);
  CHECK(follower.ended());
  CHECK(follower.ended_by() == "stopped");
}

TEST_CASE("What is no trace is refused with the reason") {
  const test::TemporaryFile file;
  CHECK_THROWS_WITH(Follower(file.path()), Catch::Contains("is empty"));
  CHECK_THROWS_AS(Follower("/dev/null/no-such-file"), TraceError);
}
