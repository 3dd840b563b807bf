// Random programs, replayed by the analyzer and by a simple reference implementation.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <vector>

#include "analyzer/replay/analysis/analysis.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

using namespace heapprof;
using namespace heapprof::replay;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

namespace {

/// The reference: keeps everything in maps and copies them at each new peak.
struct Reference {
  struct Block {
    std::uint64_t size;
    std::uint32_t node;
    std::size_t thread;
  };
  std::map<std::uint64_t, Block> blocks;
  std::map<std::uint32_t, std::uint64_t> live, live_blocks, peak_live, peak_live_blocks, allocations, allocated,
      temporary;
  std::map<std::size_t, std::uint64_t> last;  // by thread: its latest allocation, 0 when freed
  std::uint64_t sum = 0, peak = 0, peak_blocks = 0, peak_time = 0, frees = 0;

  void alloc(std::uint64_t time, std::size_t thread, std::uint64_t address, std::uint64_t size, std::uint32_t node) {
    blocks[address] = {size, node, thread};
    live[node] += size;
    ++live_blocks[node];
    ++allocations[node];
    allocated[node] += size;
    sum += size;
    last[thread] = address;
    if (sum <= peak) return;
    peak = sum;
    peak_time = time;
    peak_blocks = blocks.size();
    peak_live = live;
    peak_live_blocks = live_blocks;
  }
  void free(std::size_t thread, std::uint64_t address) {
    const Block block = blocks.at(address);
    if (last[thread] == address && block.thread == thread) {
      ++temporary[block.node];
      last[thread] = 0;
    }
    blocks.erase(address);
    live[block.node] -= block.size;
    --live_blocks[block.node];
    sum -= block.size;
    ++frees;
  }
};

}  // namespace

TEST_CASE("The costs of random programs equal those of the reference") {
  const int seed = GENERATE(range(1, 9));
  std::mt19937_64 random(heapprof::test::seed(static_cast<std::uint64_t>(seed)));
  const std::size_t threads = static_cast<std::size_t>(seed) % 4 + 1;
  constexpr std::uint32_t kNodes = 40;

  TraceBuilder trace;
  std::vector<TraceBuilder::Stream*> streams;
  for (std::size_t i = 0; i < threads; ++i) {
    streams.push_back(&trace.stream(40 + static_cast<std::uint32_t>(random() % 200)));
    streams.back()->thread(static_cast<std::uint32_t>(100 + i), "t");
  }
  // A chain of stacks, each defined by a thread, some by two under different numbers.
  for (std::uint32_t node = 1; node <= kNodes; ++node) {
    streams[random() % threads]->node(node, node == 1 ? 0 : 1 + static_cast<std::uint32_t>(random() % (node - 1)), 1,
                                      node);
  }
  Reference reference;
  std::vector<std::uint64_t> live;
  std::uint64_t time = 1;
  const int events = 60'000;
  for (int i = 0; i < events; ++i) {
    time += 1 + random() % 5;
    const std::size_t thread = random() % threads;
    TraceBuilder::Stream& stream = *streams[thread];
    const auto node = static_cast<std::uint32_t>(random() % (kNodes + 1));
    const std::uint64_t size = random() % 10 == 0 ? 0 : random() % (i % 7 == 0 ? 100'000 : 200);
    // Waves: growing, then shrinking.
    const bool grow = random() % 100 < ((i / 6'000) % 2 == 0 ? 65u : 40u);
    const unsigned what = static_cast<unsigned>(random() % 10);
    if (random() % 4 == 0) {  // freed at once, sometimes in the same tick
      const std::uint64_t address = 0x10000 + 16 * (200'000 + random() % 20);
      stream.alloc(time, address, size, node);
      reference.alloc(time, thread, address, size, node);
      stream.free(time += random() % 2, address);
      reference.free(thread, address);
    } else if (live.empty() || (grow && what != 9)) {
      std::uint64_t address;
      do address = 0x10000 + 16 * (random() % 200'000);
      while (reference.blocks.count(address) != 0);
      stream.alloc(time, address, size, node);
      reference.alloc(time, thread, address, size, node);
      live.push_back(address);
    } else {
      // Often the latest block, so that some are temporary.
      const std::size_t at = random() % 3 == 0 ? live.size() - 1 : random() % live.size();
      const std::uint64_t address = live[at];
      if (what == 8) {
        stream.realloc_begin(time, address);
        stream.realloc_failed(time, 1);
        continue;
      }
      if (what >= 6) {
        const std::uint64_t moved = random() % 2 == 0 ? address : 0x8000000 + 16 * static_cast<std::uint64_t>(i);
        stream.realloc_begin(time, address);
        stream.realloc_end(++time, moved, size, node);
        reference.free(thread, address);
        reference.alloc(time, thread, moved, size, node);
        live[at] = moved;
        continue;
      }
      stream.free(time, address);
      reference.free(thread, address);
      live[at] = live.back();
      live.pop_back();
    }
  }

  const TemporaryFile path;
  trace.write(path.path());
  const Analysis analysis(path.path(), {});
  const model::Profile& profile = analysis.profile();
  CHECK(profile.integrity.complete);
  CHECK(profile.events() == trace.events());
  CHECK(profile.heap.frees == reference.frees);
  CHECK(profile.heap.unmatched_frees == 0);
  CHECK(profile.heap.implied_frees == 0);
  CHECK(profile.heap.leaked_bytes == reference.sum);
  CHECK(profile.heap.leaked_blocks == reference.blocks.size());
  CHECK(profile.heap.peak_bytes == reference.peak);
  CHECK(profile.heap.peak_blocks == reference.peak_blocks);
  CHECK(profile.heap.peak_time_ns == reference.peak_time);

  // Nodes are identified by the offset of their code, which is the number in the reference.
  std::size_t compared = 0;
  for (const model::CallNode& node : profile.nodes) {
    const std::uint32_t number =
        node.address == model::kNoIndex ? 0 : static_cast<std::uint32_t>(profile.addresses[node.address].offset);
    REQUIRE(node.costs.leaked_bytes == reference.live[number]);
    REQUIRE(node.costs.leaked_blocks == reference.live_blocks[number]);
    REQUIRE(node.costs.peak_bytes == reference.peak_live[number]);
    REQUIRE(node.costs.peak_blocks == reference.peak_live_blocks[number]);
    REQUIRE(node.costs.allocations == reference.allocations[number]);
    REQUIRE(node.costs.allocated_bytes == reference.allocated[number]);
    REQUIRE(node.costs.temporary == reference.temporary[number]);
    ++compared;
  }
  CHECK(compared == kNodes + 1);

  // The extremes and the end of the timeline are equal too.
  std::uint64_t highest = 0;
  for (const auto& bucket : profile.timeline.buckets) highest = std::max(highest, bucket.max_bytes);
  CHECK(highest == reference.peak);
  CHECK(profile.timeline.buckets.back().last_bytes == reference.sum);
  std::uint64_t allocations = 0;
  for (const auto& bucket : profile.timeline.buckets) allocations += bucket.allocations;
  CHECK(allocations == profile.heap.allocations);

  // for_each_event() has the same sums.
  std::uint64_t live_sum = 0;
  std::uint64_t live_peak = 0;
  std::uint64_t temporary = 0;
  analysis.for_each_event([&](std::span<const ProfileEvent> batch) {
    for (const ProfileEvent& event : batch) {
      if (event.kind == ResolvedKind::kAllocation) live_peak = std::max(live_peak, live_sum += event.size);
      else live_sum -= event.size;
      temporary += event.kind == ResolvedKind::kFree && event.temporary;
    }
  });
  CHECK(live_sum == profile.heap.leaked_bytes);
  CHECK(live_peak == profile.heap.peak_bytes);
  CHECK(temporary == profile.heap.temporary_allocations);

  // With a filter of nodes it has the sums of these nodes.
  std::vector<std::uint8_t> odd(profile.nodes.size());
  for (std::size_t i = 0; i < odd.size(); ++i) odd[i] = i % 2;
  const auto events_of = [&](const std::vector<std::uint8_t>* nodes) {
    std::vector<std::array<std::uint64_t, 5>> events;
    analysis.for_each_event(
        [&](std::span<const ProfileEvent> batch) {
          for (const ProfileEvent& event : batch)
            if (event.kind == ResolvedKind::kSample || odd[event.node] != 0)
              events.push_back(
                  {event.time_ns, event.address, event.size, event.node, static_cast<std::uint64_t>(event.kind)});
        },
        {}, {.nodes = nodes});
    return events;
  };
  std::size_t handed_out = 0;
  analysis.for_each_event([&](std::span<const ProfileEvent> batch) { handed_out += batch.size(); }, {},
                          {.nodes = &odd});
  CHECK(handed_out == events_of(&odd).size());
  CHECK(handed_out != 0);
  CHECK((events_of(&odd) == events_of(nullptr)));

  // Live bytes by group add up to the timeline.
  std::vector<std::uint32_t> group(profile.nodes.size());
  for (std::size_t i = 0; i < group.size(); ++i) group[i] = static_cast<std::uint32_t>(i % 3);
  const auto series = analysis.live_by_group(group, 3);
  for (std::size_t i = 0; i < profile.timeline.buckets.size(); ++i)
    REQUIRE(series[0][i] + series[1][i] + series[2][i] == profile.timeline.buckets[i].last_bytes);
}

TEST_CASE("Blocks that the next event frees count as in the single events, whatever happens at the same time") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(21, 27)));
  std::mt19937_64 random(heapprof::test::seed(seed));
  constexpr std::uint32_t kNodes = 12;
  TraceBuilder trace;
  std::vector<TraceBuilder::Stream*> streams;
  for (std::uint32_t i = 0; i < 3; ++i) {
    streams.push_back(&trace.stream(200));
    streams.back()->thread(100 + i, "t");
  }
  for (std::uint32_t node = 1; node <= kNodes; ++node) streams[0]->node(node, 0, 1, node);
  // Few addresses, and many events of one time: of different streams, they come in any order.
  std::vector<std::uint64_t> live;
  std::vector<std::uint64_t> given(streams.size(), 0);  // by thread: the address that its realloc has
  const auto is_live = [&](std::uint64_t address) { return std::ranges::find(live, address) != live.end(); };
  const auto unused = [&] {  // also addresses that reallocs have, which have freed them then
    for (;;)
      if (const std::uint64_t address = 16 * (1 + random() % 40); !is_live(address)) return address;
  };
  const auto take = [&] {
    std::swap(live[random() % live.size()], live.back());
    const std::uint64_t address = live.back();
    live.pop_back();
    return address;
  };
  std::uint64_t time = 1;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 4 == 0) time += 1 + random() % 50;
    const std::size_t thread = random() % streams.size();
    TraceBuilder::Stream& stream = *streams[thread];
    const auto node = static_cast<std::uint32_t>(random() % (kNodes + 1));
    const std::uint64_t size = random() % 300;
    const auto what = random() % 10;
    if (what < 5) {
      const std::uint64_t address = unused();
      stream.alloc(time, address, size, node);
      stream.free(time += random() % 2, address);
    } else if (given[thread] != 0) {
      const std::uint64_t address = random() % 2 == 0 && !is_live(given[thread]) ? given[thread] : unused();
      given[thread] = 0;
      stream.realloc_end(time, address, size, node);
      live.push_back(address);
    } else if (live.size() < 5 || (live.size() < 20 && what < 7)) {
      live.push_back(unused());
      stream.alloc(time, live.back(), size, node);
    } else if (what == 9) {
      given[thread] = take();
      stream.realloc_begin(time, given[thread]);
    } else {
      stream.free(time, take());
    }
  }
  const TemporaryFile path;
  trace.write(path.path());
  const Analysis analysis(path.path(), {});
  const model::Profile& profile = analysis.profile();
  struct Sums {
    std::uint64_t allocations = 0, allocated_bytes = 0, temporary = 0, live_bytes = 0;
    bool operator==(const Sums&) const = default;
  };
  std::vector<Sums> sums(profile.nodes.size());
  std::uint64_t live_bytes = 0, peak_bytes = 0, frees = 0, at_once = 0, last = 0;
  analysis.for_each_event([&](std::span<const ProfileEvent> events) {
    for (const ProfileEvent& event : events) {
      Sums& node = sums[event.node];
      if (event.kind == ResolvedKind::kAllocation) {
        ++node.allocations;
        node.allocated_bytes += event.size;
        node.live_bytes += event.size;
        peak_bytes = std::max(peak_bytes, live_bytes += event.size);
        last = event.address;
      } else if (event.kind == ResolvedKind::kFree) {
        ++frees;
        node.temporary += event.temporary;
        node.live_bytes -= event.size;
        live_bytes -= event.size;
        at_once += event.address == last;
      }
    }
  });
  CHECK(at_once > 5'000);
  CHECK(peak_bytes == profile.heap.peak_bytes);
  CHECK(frees + profile.heap.unmatched_frees == profile.heap.frees + profile.heap.implied_frees);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const model::Costs& costs = profile.nodes[i].costs;
    INFO("node " << i);
    CHECK(sums[i] == Sums{costs.allocations, costs.allocated_bytes, costs.temporary, costs.leaked_bytes});
  }
}
