// The tables of a compacted trace equal what follows from the addresses of its original, at each snapshot of resident
// pages and at the end.
#include <catch2/catch.hpp>

#include <array>

#include "analyzer/pins/pinned_tables.h"
#include "analyzer/replay/compact/compactor.h"
#include "common/residency_codec.h"
#include "tests/support/random_trace.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

using namespace heapprof;
using namespace heapprof::pins;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

namespace {

constexpr replay::IndexUse kNoIndex{.use = false, .keep = false};

/// Adds a snapshot that began at `begin_ns`, wherever its text is in the trace.
void add_snapshot(const TraceBuilder& trace, TraceBuilder::Stream& stream, std::uint64_t number,
                  std::uint64_t begin_ns) {
  std::array<std::uint8_t, 2 * kMaxResidencyItemBytes> piece;
  ResidencyEncoder encoder(piece.data());
  const std::uint64_t monotonic_ns = trace.header.start_monotonic_ns + begin_ns;
  encoder.begin({SnapshotReason::kMark, SnapshotMethod::kPagemapScan, monotonic_ns, 1 << 20, 0, 4096});
  encoder.end({monotonic_ns, 0, true});
  stream.text(TextKind::kResidency, number, 0, {reinterpret_cast<const char*>(piece.data()), encoder.bytes()});
}

/// Everything that `pins` prints follows from these.
void check_equal(const PinnedMemory& is, const PinnedMemory& was) {
  CHECK(is.allocator == was.allocator);
  CHECK(is.note == was.note);
  CHECK(is.pinned_bytes == was.pinned_bytes);
  CHECK(is.usable_bytes == was.usable_bytes);
  CHECK(is.returnable_bytes == was.returnable_bytes);
  REQUIRE(is.kept.sets.size() == was.kept.sets.size());
  for (std::size_t set = 0; set < is.kept.sets.size(); ++set) {
    CHECK(is.kept.sets.bytes(set) == was.kept.sets.bytes(set));
    REQUIRE(std::ranges::equal(is.kept.sets.holders(set), was.kept.sets.holders(set)));
  }
  REQUIRE(is.kept.by_node.size() == was.kept.by_node.size());
  for (std::size_t node = 0; node < is.kept.by_node.size(); ++node) {
    CHECK(is.kept.by_node[node].requested_bytes == was.kept.by_node[node].requested_bytes);
    CHECK(is.kept.by_node[node].usable_bytes == was.kept.by_node[node].usable_bytes);
    CHECK(is.kept.by_node[node].blocks == was.kept.by_node[node].blocks);
  }
}

/// Compacts the trace and compares all its tables. Returns their moments.
std::vector<PinnedMoment> check_tables(TraceBuilder& trace) {
  const TemporaryFile path, compacted;
  trace.write(path.path());
  replay::compact(path.path(), compacted.path(), {.chunk_records = 4'000, .level = 3});
  const std::vector<PinnedMoment> moments = pinned_moments(trace::TraceFile(compacted.path()));
  for (const PinnedMoment& moment : moments) {
    CAPTURE(moment.at_ns, moment.snapshot);
    replay::Selection selection;
    if (moment.snapshot != 0) selection.to = replay::Moment{static_cast<double>(moment.at_ns) / 1e9};
    std::vector<PinningBlock> live;
    const replay::Analysis was(path.path(), selection, {}, kNoIndex, {}, [&](const replay::LiveBlock& block) {
      live.push_back({block.address, block.size, block.node});
    });
    const replay::Analysis is(compacted.path(), selection);
    CHECK(has_addresses(was.profile()));
    CHECK_FALSE(has_addresses(is.profile()));
    check_equal(read_pinned_table(is, moment), find_pinned_memory(was, std::move(live)));
  }
  return moments;
}

}  // namespace

TEST_CASE("tables of a random program equal what follows from addresses") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(1, 5)));
  TraceBuilder trace;
  // One tick is a microsecond, so rounding changes no time.
  trace.header.ticks_per_second = 1'000'000;
  heapprof::test::random_program(trace, seed, 30'000);
  auto& stream = trace.stream();
  stream.thread(99, "snapshots");
  // One at the start, several within one batch of the reader, one after the last event.
  std::uint64_t number = 0;
  for (const std::uint64_t at_us : {0u, 40'000u, 40'100u, 40'101u, 1'000'000u, 9'000'000u, 4'000'000'000u})
    add_snapshot(trace, stream, ++number, at_us * std::uint64_t{1000});
  const std::vector<PinnedMoment> moments = check_tables(trace);
  REQUIRE(moments.size() == number + 1);
  CHECK(moments.back().snapshot == 0);
  CHECK(moments[1].at_ns == 40'000'000);
}

TEST_CASE("tables follow the quantum of jemalloc, which is decided by the blocks that are live at the moment") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.thread(1, "main");
  stream.module(2, "/usr/lib/libjemalloc.so.2", "", 0x7f0000000000, 0x7f0000000000);
  stream.node(1, 0, 2, 0x100);
  constexpr std::uint64_t kHeap = 0x7e0000000000;
  std::uint64_t time = 1'000;
  for (std::uint64_t i = 0; i < 100; ++i) stream.alloc(time += 1'000, kHeap + 48 * i, 40, 1);
  const std::uint64_t aligned = time + 500;
  for (std::uint64_t i = 0; i < 100; ++i) stream.alloc(time += 1'000, kHeap + 0x100000 + 40 * i, 40, 1);
  const std::uint64_t odd = time + 500;
  for (std::uint64_t i = 0; i < 100; ++i) stream.free(time += 1'000, kHeap + 0x100000 + 40 * i);
  add_snapshot(trace, stream, 1, aligned);
  add_snapshot(trace, stream, 2, odd);
  CHECK(check_tables(trace).size() == 3);
}

TEST_CASE("tables take a bounded part of the compacted trace, and the end always has one") {
  TraceBuilder trace;
  auto& stream = trace.stream(2'046);
  stream.thread(1, "main");
  constexpr std::uint32_t kNodes = 60;
  for (std::uint32_t node = 1; node <= kNodes; ++node) stream.node(node, 0, 1, node);
  // Four blocks of random stacks in each page.
  constexpr std::uint64_t kBlocks = 20'000, kSnapshots = 300, kSpacing = 1'000'000;
  std::mt19937_64 random(heapprof::test::seed(1));
  for (std::uint64_t i = 0; i < kBlocks; ++i)
    stream.alloc(i + 1, 0x10010 + 1024 * i, 500, 1 + static_cast<std::uint32_t>(random() % kNodes));
  for (std::uint64_t i = 1; i <= kSnapshots; ++i) {
    stream.free(i * kSpacing, 0x10010 + 1024 * i);
    add_snapshot(trace, stream, i, i * kSpacing);
  }
  const TemporaryFile path, compacted;
  trace.write(path.path());
  replay::compact(path.path(), compacted.path(), {.level = 3});
  const trace::TraceFile file(compacted.path());
  const std::vector<PinnedMoment> moments = pinned_moments(file);
  CHECK(moments.size() > 10);
  CHECK(moments.size() < kSnapshots);
  CHECK(moments.back().snapshot == 0);
  CHECK(file.bytes() < 3 << 20);
}

TEST_CASE("a trace that keeps its addresses has no tables") {
  TraceBuilder trace;
  heapprof::test::random_program(trace, 1, 1'000);
  const TemporaryFile path, compacted;
  trace.write(path.path());
  replay::compact(path.path(), compacted.path(), {.exact = true});
  CHECK(pinned_moments(trace::TraceFile(compacted.path())).empty());
  CHECK(pinned_moments(trace::TraceFile(path.path())).empty());
}
