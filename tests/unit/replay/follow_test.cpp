// The analysis of a program that runs, again and again: at each time it has the figures of one that begins anew.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "analyzer/replay/analysis/analysis.h"
#include "tests/support/growing_file.h"
#include "tests/support/random_trace.h"

using namespace heapprof;
using namespace heapprof::replay;
using heapprof::test::GrowingFile;
using heapprof::test::TraceBuilder;

namespace {

const IndexUse kNoIndex{.use = false, .keep = false};

/// An analysis that is called `rounds` times before it returns; `write` is called between these.
template <typename Write>
Analysis followed(const std::string& path, const Selection& selection, int rounds, Write&& write) {
  return Analysis(path, selection, {}, kNoIndex, {}, {}, {}, [&, round = 0]() mutable {
    if (++round == rounds) return false;
    write();
    return true;
  });
}

std::vector<std::uint64_t> costs_of(const model::Costs& costs) {
  return {costs.allocations,  costs.allocated_bytes, costs.peak_bytes, costs.peak_blocks,
          costs.leaked_bytes, costs.leaked_blocks,   costs.temporary,  costs.live_bytes};
}

void check_equal(const model::Profile& one, const model::Profile& other) {
  CHECK(one.heap.allocations == other.heap.allocations);
  CHECK(one.heap.frees == other.heap.frees);
  CHECK(one.heap.unmatched_frees == other.heap.unmatched_frees);
  CHECK(one.heap.peak_bytes == other.heap.peak_bytes);
  CHECK(one.heap.peak_time_ns == other.heap.peak_time_ns);
  CHECK(one.heap.leaked_bytes == other.heap.leaked_bytes);
  CHECK(one.integrity.ended_by == other.integrity.ended_by);
  CHECK(one.integrity.complete == other.integrity.complete);
  CHECK(one.integrity.notes == other.integrity.notes);
  REQUIRE(one.threads.size() == other.threads.size());
  REQUIRE(one.nodes.size() == other.nodes.size());
  for (std::size_t i = 0; i < one.nodes.size(); ++i)
    CHECK(costs_of(one.nodes[i].costs) == costs_of(other.nodes[i].costs));
}

}  // namespace

TEST_CASE("An analysis that follows a program has the figures of one that begins anew") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    INFO("seed " << seed);
    for (int rounds = 1; rounds <= 4; ++rounds) {
      INFO("rounds " << rounds);
      TraceBuilder trace;
      GrowingFile file(trace);
      Selection costs;
      costs.only_costs = true;
      costs.with_timeline = true;
      std::vector<std::vector<std::uint8_t>> states;  // of the file
      test::random_program(trace, seed, 3'000, [&](int i) {
        if (i % 700 == 699) states.push_back(trace.bytes());
      });
      std::size_t next = 0;
      const auto write = [&] { file.write(states.at(next++)); };
      write();
      const Analysis again = followed(file.path(), costs, rounds, write);
      const Analysis anew(file.path(), costs, {}, kNoIndex);
      check_equal(again.profile(), anew.profile());
      // Live bytes over time come from a log of the replay, not from a second pass.
      const std::vector<std::uint32_t> group(again.profile().nodes.size(), 0);
      const auto live = again.live_by_group(group, 1);
      REQUIRE(live.size() == 1);
      CHECK(live.front().back() == again.profile().heap.leaked_bytes);
      CHECK_THROWS_AS(again.live_by_group(group, 1, {}, InBucket::kHighest), trace::TraceError);
    }
  }
}

TEST_CASE("What needs the whole recording first cannot be followed") {
  TraceBuilder trace;
  GrowingFile file(trace);
  trace.stream().alloc(10, 0x1000, 1);
  file.write();
  Selection slice;
  slice.to = Moment{};
  const auto never = [] { FAIL("nothing more is written"); };
  CHECK_THROWS_AS(followed(file.path(), slice, 1, never), trace::TraceError);
  // A program that has ended is no longer followed.
  CHECK_THROWS_AS(followed(file.path(), Selection{}, 2, [&] { file.end(); }), trace::TraceError);
}

TEST_CASE("Events come while a program is followed, as those of a second pass") {
  using Event = std::tuple<ResolvedKind, std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t, bool, bool>;
  const auto event_of = [](const ProfileEvent& event, std::uint32_t node) {
    return Event(event.kind, event.address, event.size, node, event.thread, event.temporary, event.in_realloc);
  };
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    INFO("seed " << seed);
    TraceBuilder trace;
    GrowingFile file(trace);
    std::vector<std::vector<std::uint8_t>> states;  // of the file
    test::random_program(trace, seed, 2'000, [&](int i) {
      if (i % 700 == 699) states.push_back(trace.bytes());
    });
    file.write(states.at(0));
    std::vector<ProfileEvent> followed_events;  // their nodes are dense indexes
    const Analysis again(
        file.path(), {}, {}, kNoIndex, {}, {}, {},
        [&, next = std::size_t{1}]() mutable {
          if (next == states.size()) return false;
          file.write(states[next++]);
          return true;
        },
        [&](std::span<const ProfileEvent> events) {
          followed_events.insert(followed_events.end(), events.begin(), events.end());
        });
    CHECK(again.has_followed());
    const Analysis anew(file.path(), {}, {}, kNoIndex);
    std::vector<Event> expected;
    anew.for_each_event([&](std::span<const ProfileEvent> events) {
      for (const ProfileEvent& event : events)
        if (event.kind != ResolvedKind::kSample) expected.push_back(event_of(event, event.node));
    });
    std::vector<Event> got;
    std::vector<std::uint64_t> allocations_by_index;
    for (const ProfileEvent& event : followed_events) {
      if (event.kind == ResolvedKind::kSample) continue;
      got.push_back(event_of(event, again.node_of(event.node)));
      if (event.kind != ResolvedKind::kAllocation) continue;
      if (event.node >= allocations_by_index.size()) allocations_by_index.resize(event.node + 1);
      ++allocations_by_index[event.node];
    }
    CHECK(!got.empty());
    // Those of equal times may have another order.
    std::ranges::sort(got);
    std::ranges::sort(expected);
    CHECK((got == expected));
    const std::vector<std::uint64_t> by_node = again.by_node(allocations_by_index);
    REQUIRE(by_node.size() == anew.profile().nodes.size());
    for (std::size_t node = 0; node < by_node.size(); ++node)
      CHECK(by_node[node] == anew.profile().nodes[node].costs.allocations);
  }
}
