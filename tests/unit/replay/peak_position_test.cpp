// The peak is a moment between two events, which may have the same time: what is live then are the bytes and blocks
// of the peak, however they are asked for.
#include <catch2/catch.hpp>

#include <map>
#include <random>
#include <vector>

#include "analyzer/replay/analysis/analysis.h"
#include "tests/support/random_trace.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"
#include "tests/support/trace_index.h"

using namespace heapprof;
using namespace heapprof::replay;
using heapprof::test::index_trace;
using heapprof::test::kIndex;
using heapprof::test::kNoIndex;
using heapprof::test::Removed;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

namespace {

struct Live {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  friend bool operator==(const Live&, const Live&) = default;
};

std::ostream& operator<<(std::ostream& out, const Live& live) {
  return out << live.bytes << " bytes in " << live.blocks << " blocks";
}

Moment peak_of(const std::string& path, const IndexUse& use) {
  Selection selection;
  selection.only_costs = true;
  const Analysis analysis(path, selection, {}, use);
  REQUIRE(analysis.peak_position());
  Moment moment{.value = static_cast<double>(analysis.profile().peak_time_ns) / 1e9};
  moment.position = analysis.peak_position();
  return moment;
}

/// What is live at the moment, by every way to ask for it.
std::vector<Live> live_at(const std::string& path, const Moment& moment, const IndexUse& use) {
  std::vector<Live> result;
  Selection only_live;
  only_live.live_at = moment;
  only_live.only_live = true;
  const Analysis live(path, only_live, {}, use);
  result.push_back({live.profile().heap.leaked_bytes, live.profile().heap.leaked_blocks});
  Selection lived_then;
  lived_then.live_at = moment;
  const Analysis blocks(path, lived_then, {}, use);
  result.push_back({blocks.profile().heap.allocated_bytes, blocks.profile().heap.allocations});
  for (const bool only_costs : {false, true}) {
    Selection until;
    until.to = moment;
    until.only_costs = only_costs;
    const Analysis slice(path, until, {}, use);
    result.push_back({slice.profile().heap.leaked_bytes, slice.profile().heap.leaked_blocks});
    result.push_back({slice.profile().heap.peak_bytes, slice.profile().heap.peak_blocks});
  }
  const Analysis whole(path, {}, {}, use);
  const std::vector<ResolvedMoment> moments = {
      whole.moment_of(moment), whole.moment_of(moment), {whole.profile().recording.duration_ns, {}}};
  std::vector<Live> visited(moments.size());
  whole.for_each_live_at(moments, [&](std::size_t i, const LiveBlock& block) {
    visited[i].bytes += block.size;
    ++visited[i].blocks;
  });
  CHECK(visited[2] == Live{whole.profile().heap.leaked_bytes, whole.profile().heap.leaked_blocks});
  result.push_back(visited[0]);
  result.push_back(visited[1]);
  return result;
}

}  // namespace

TEST_CASE("What is live at the peak is the peak, although blocks are freed at the same time") {
  int with_later_events = 0;  // recordings in which less is live after all events of the peak's time
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(test::seed(seed));
    TraceBuilder trace;
    auto& stream = trace.stream(100);
    std::map<std::uint64_t, std::uint64_t> live;  // sizes by address
    Live now;
    Live peak;
    std::uint64_t time = 1;
    for (int i = 0; i < 3'000; ++i) {
      if (random() % 30 == 0) time += 1 + random() % 100;
      const bool grow = random() % 100 < (i / 700 % 2 == 0 ? 60u : 40u);
      if (!live.empty() && !grow) {
        const auto block = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        stream.free(time, block->first);
        now = {now.bytes - block->second, now.blocks - 1};
        live.erase(block);
        continue;
      }
      const std::uint64_t address = 16 * (1 + random() % 100'000);
      const std::uint64_t size = random() % 1'000;
      if (!live.try_emplace(address, size).second) continue;
      stream.alloc(time, address, size);
      now = {now.bytes + size, now.blocks + 1};
      if (now.bytes > peak.bytes) peak = now;
    }
    const TemporaryFile path;
    trace.write(path.path());
    const Removed index{index_trace(path.path(), 300)};
    for (const IndexUse& use : {kNoIndex, kIndex}) {
      INFO("index " << use.use);
      Moment moment = peak_of(path.path(), use);
      for (const Live& found : live_at(path.path(), moment, use)) CHECK(found == peak);
      moment.position.reset();
      with_later_events += live_at(path.path(), moment, use).front() != peak;
    }
  }
  CHECK(with_later_events > 4);
}

TEST_CASE("The peak of threads with equal times is one moment") {
  for (std::uint64_t seed = 1; seed < 12; ++seed) {
    INFO("seed " << seed);
    TraceBuilder trace;
    test::random_program(trace, seed, 5'000);
    const TemporaryFile path;
    trace.write(path.path());
    const Removed index{index_trace(path.path(), 500)};
    const model::HeapTotals heap = Analysis(path.path(), {}, {}, kNoIndex).profile().heap;
    for (const IndexUse& use : {kNoIndex, kIndex})
      for (const Live& found : live_at(path.path(), peak_of(path.path(), use), use))
        CHECK(found == Live{heap.peak_bytes, heap.peak_blocks});
  }
}

TEST_CASE("The order that an address requires within a time can be cut by the peak") {
  TraceBuilder trace;
  auto& first = trace.stream();
  auto& second = trace.stream();
  second.alloc(1, 0x1000, 100);
  // The first stream gets the address that the second one frees at the same time, after an allocation that makes the
  // peak: so the second stream's events come first.
  first.alloc(5, 0x1000, 60);
  second.alloc(5, 0x2000, 50);
  second.free(5, 0x1000);
  first.alloc(9, 0x3000, 10);
  const TemporaryFile path;
  trace.write(path.path());
  for (const Live& found : live_at(path.path(), peak_of(path.path(), kNoIndex), kNoIndex))
    CHECK(found == Live{150, 2});
}
