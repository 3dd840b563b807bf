// The sums of live blocks of a followed recording, compared with those of a full replay.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "analyzer/live/live_state.h"
#include "analyzer/replay/replay.h"
#include "analyzer/trace/follower.h"
#include "analyzer/trace/merged_reader.h"
#include "tests/support/growing_file.h"
#include "tests/support/random_trace.h"

using namespace heapprof;
using heapprof::live::LiveState;
using heapprof::test::GrowingFile;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

namespace {

using Sums = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;

void read(trace::Follower& follower, LiveState& state) {
  follower.advance();
  trace::EventRun run;
  while (follower.next(run)) state.take(run);
}

/// Live bytes, live blocks, allocations and allocated bytes by the offset of the stack's innermost frame.
std::map<std::uint64_t, Sums> by_offset(const trace::Follower& follower, const LiveState& state) {
  std::map<std::uint64_t, Sums> result;
  const auto& nodes = follower.definitions().nodes;
  for (std::size_t i = 0; i < state.nodes().size(); ++i) {
    const live::LiveSums& sums = state.nodes()[i];
    if (sums.allocations != 0)
      result[i < nodes.size() ? nodes[i].offset : 0] = {sums.live_bytes, sums.live_blocks, sums.allocations,
                                                        sums.allocated_bytes};
  }
  return result;
}

struct Replayed {
  explicit Replayed(const std::string& path) : file(path), reader(file), replay(file, {}) {
    trace::Batch batch;
    while (reader.next(batch)) replay.replay(batch);
    replay.finish(0);
    for (std::uint32_t i = 0; i < replay.heap_costs().node_count(); ++i) {
      const replay::NodeCosts costs = replay.heap_costs().settled(i);
      if (costs.allocations == 0) continue;
      const auto& nodes = reader.definitions().nodes;
      by_offset[i < nodes.size() ? nodes[i].offset : 0] = {costs.live_bytes, costs.live_blocks, costs.allocations,
                                                           costs.allocated_bytes};
      moved += replay.heap_costs().moved_of(i).bytes;
    }
  }
  trace::TraceFile file;
  trace::MergedReader reader;
  replay::Replay replay;
  std::map<std::uint64_t, Sums> by_offset;
  std::uint64_t moved = 0;
};

/// The state of a whole trace that has ended.
struct Read {
  explicit Read(TraceBuilder& trace) {
    trace.write(file.path());
    trace::Follower follower(file.path());
    state = std::make_unique<LiveState>(follower.header());
    read(follower, *state);
  }
  TemporaryFile file;
  std::unique_ptr<LiveState> state;
};

/// Takes the text with which a stream begins to have events of a thread.
void take_thread(LiveState& state, std::uint32_t stream, std::uint32_t tid, std::uint64_t how) {
  std::vector<trace::EventText> texts = {{TextKind::kThread, tid, how, "worker"}};
  const trace::MergedEvent event{0, 0, op_size(Op::kText, 0), 0, stream};
  state.take({{&event, 1}, &texts});
}

}  // namespace

TEST_CASE("The live state of a followed recording equals that of a full replay") {
  for (std::uint64_t seed = 10; seed < 22; ++seed) {
    INFO("seed " << seed);
    TraceBuilder trace;
    GrowingFile file(trace);
    trace::Follower follower(file.path());
    LiveState state(follower.header());
    test::random_program(trace, seed, 5'000, [&](int i) {
      if (i % 331 != 0) return;
      file.write();
      read(follower, state);
    });
    file.write();
    file.end();
    read(follower, state);
    REQUIRE(follower.ended());

    const Replayed expected(file.path());
    CHECK(state.totals().live_bytes == expected.replay.heap().leaked_bytes);
    CHECK(state.totals().live_blocks == expected.replay.heap().leaked_blocks);
    CHECK(state.totals().allocations == expected.replay.heap().allocations);
    CHECK(state.totals().allocated_bytes == expected.replay.heap().allocated_bytes);
    CHECK(state.frees() == expected.replay.heap().frees);
    CHECK(state.events() == expected.replay.heap().events());
    CHECK(by_offset(follower, state) == expected.by_offset);
    std::uint64_t moved = 0;
    for (const live::MovedBlocks& one : state.moved()) moved += one.bytes;
    CHECK(moved == expected.moved);
    CHECK(state.last_ticks() == expected.replay.now());

    using Thread = std::tuple<std::uint32_t, std::string, std::uint64_t, std::uint64_t>;
    std::vector<Thread> threads;
    std::uint64_t live_of_threads = 0;
    for (const live::LiveThread& thread : state.threads()) {
      threads.emplace_back(thread.tid, thread.name, thread.sums.allocations, thread.sums.allocated_bytes);
      live_of_threads += thread.sums.live_bytes;
    }
    std::vector<Thread> expected_threads;
    for (const auto& thread : expected.replay.threads())
      expected_threads.emplace_back(thread.tid, thread.name, thread.allocations, thread.allocated_bytes);
    std::sort(threads.begin(), threads.end());
    std::sort(expected_threads.begin(), expected_threads.end());
    CHECK(threads == expected_threads);
    CHECK(live_of_threads == state.totals().live_bytes);
  }
}

TEST_CASE("Events of equal time in two streams are paired in either order") {
  TraceBuilder trace;
  auto& first = trace.stream();
  auto& second = trace.stream();
  // The second stream frees the block before the first one gets its address.
  second.alloc(1, 0x1000, 100);
  first.alloc(5, 0x1000, 7);
  second.free(5, 0x1000);
  // The first stream frees what the second one allocates.
  first.free(9, 0x2000);
  second.alloc(9, 0x2000, 50);
  const Read read(trace);
  CHECK(read.state->totals().live_bytes == 7);
  CHECK(read.state->totals().live_blocks == 1);
  CHECK(read.state->totals().allocations == 3);
  CHECK(read.state->frees() == 2);
}

TEST_CASE("Of many events of equal time, those are paired that a replay pairs: they are near each other") {
  constexpr std::uint64_t kEvents = 300;
  const auto address = [](std::uint64_t i) { return 0x1000 + 16 * i; };
  SECTION("frees before the allocations") {
    TraceBuilder trace;
    auto& first = trace.stream();
    auto& second = trace.stream();
    for (std::uint64_t i = 0; i < kEvents; ++i) first.free(5, address(i));
    second.alloc(5, address(0), 50);
    second.alloc(5, address(kEvents - 1), 7);
    const Read read(trace);
    CHECK(read.state->totals().live_bytes == 50);
    CHECK(Replayed(read.file.path()).replay.heap().leaked_bytes == 50);
  }
  SECTION("allocations of live addresses before the frees") {
    TraceBuilder trace;
    auto& first = trace.stream();
    auto& second = trace.stream();
    for (std::uint64_t i = 0; i < kEvents; ++i) first.alloc(1, address(i), 100);
    for (std::uint64_t i = 0; i < kEvents; ++i) first.alloc(5, address(i), 7);
    second.free(5, address(0));
    second.free(5, address(kEvents - 1));
    const Read read(trace);
    CHECK(read.state->totals().live_blocks == kEvents - 1);
    CHECK(Replayed(read.file.path()).replay.heap().leaked_blocks == kEvents - 1);
  }
}

TEST_CASE("A free of an unknown block does not free a block that is allocated there later") {
  TraceBuilder trace;
  auto& first = trace.stream();
  auto& second = trace.stream();
  first.free(5, 0x1000);
  second.alloc(6, 0x1000, 50);
  const Read read(trace);
  CHECK(read.state->totals().live_bytes == 50);
}

TEST_CASE("A block whose realloc has not returned is live until another block gets its address") {
  TraceBuilder trace;
  auto& first = trace.stream();
  auto& second = trace.stream();
  first.alloc(1, 0x1000, 10);
  first.realloc_begin(2, 0x1000);
  second.alloc(3, 0x1000, 5);
  second.free(4, 0x1000);
  SECTION("while the call lasts") {}
  SECTION("whatever the call returns") { first.realloc_failed(5, 1 << 20); }
  const Read read(trace);
  CHECK(read.state->totals().live_blocks == 0);
  CHECK(read.state->frees() == 2);
}

TEST_CASE("A block whose realloc does not end stays live, unless its address was reused") {
  TraceBuilder trace;
  auto& first = trace.stream();
  auto& second = trace.stream();
  first.alloc(1, 0x1000, 10);
  first.alloc(2, 0x2000, 20);
  first.realloc_begin(3, 0x1000);
  second.alloc(4, 0x1000, 5);
  second.realloc_begin(5, 0x1000);
  second.realloc_failed(6, 1 << 20);
  first.realloc_begin(7, 0x2000);
  const Read read(trace);
  CHECK(read.state->totals().live_bytes == 25);
  CHECK(read.state->totals().live_blocks == 2);
}

TEST_CASE("A realloc that fails in a pause is no failed allocation, and its block is live again") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.alloc(1, 0x1000, 10);
  stream.add(Op::kPause, 2);
  stream.realloc_begin(3, 0x1000);
  stream.realloc_failed(4, 0);
  const Read read(trace);
  CHECK(read.state->events() == 1);
  CHECK(read.state->totals().live_bytes == 10);
}

TEST_CASE("Samples, marks and pauses are kept") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.thread(7, "main");
  stream.alloc(1, 0x1000, 10);
  stream.sample(2, trace.header.start_monotonic_ns + 2, 4096);
  stream.sample(3, trace.header.start_monotonic_ns + 3, 8192);
  stream.text(TextKind::kMark, 0, 3, "load begins");
  stream.add(Op::kPause, 4);
  const Read read(trace);
  CHECK(read.state->rss_bytes() == 8192);
  CHECK(read.state->marks() == 1);
  CHECK(read.state->last_mark() == "load begins");
  CHECK(read.state->paused());
  REQUIRE(read.state->threads().size() == 1);
  CHECK(read.state->threads()[0].tid == 7);
  CHECK(read.state->threads()[0].name == "main");
}

TEST_CASE("Few threads are compared, also if their ids were chosen for one bucket of a hash map") {
  constexpr std::uint32_t kThreads = 2'000;
  std::unordered_map<std::uint32_t, std::uint32_t> usual;
  for (std::uint32_t i = 0; i < kThreads; ++i) usual[i] = i;
  const auto buckets = static_cast<std::uint32_t>(usual.bucket_count());
  LiveState state(TraceBuilder().header);
  for (std::uint32_t i = 0; i < kThreads; ++i) take_thread(state, 0, (i + 1) * buckets, kThreadNew);
  REQUIRE(state.threads().size() == kThreads);
  for (std::uint32_t i = 0; i < kThreads; ++i) take_thread(state, 1, (i + 1) * buckets, kThreadNested);
  CHECK(state.threads().size() == kThreads);
  CHECK(state.max_compared() > 0);
  CHECK(state.max_compared() < 30);
}

TEST_CASE("A nested stream belongs to the latest thread with its tid, also if that is one of the other threads") {
  constexpr auto kMax = static_cast<std::uint32_t>(LiveState::kMaxThreads);
  LiveState state(TraceBuilder().header);
  const auto allocate = [&](std::uint64_t address) {
    const trace::MergedEvent event{0, address, op_size(Op::kAlloc, 8), 0, 1};
    state.take({{&event, 1}, nullptr});
  };
  for (std::uint32_t tid = 1; tid <= kMax; ++tid) take_thread(state, 0, tid, kThreadNew);
  take_thread(state, 1, 5, kThreadNested);
  allocate(0x1000);
  REQUIRE(state.threads().size() == kMax);
  CHECK(state.threads()[4].sums.allocations == 1);
  // The tid is used again.
  take_thread(state, 0, 5, kThreadNew);
  take_thread(state, 1, 5, kThreadNested);
  allocate(0x2000);
  REQUIRE(state.threads().size() == kMax);
  CHECK(state.threads()[4].sums.allocations == 1);
  CHECK(state.threads().back().name == "(other threads)");
  CHECK(state.threads().back().sums.allocations == 1);
}
