// The analysis of a program that runs, again and again: at each time it has the figures of one that begins anew.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/analysis/followed.h"
#include "tests/support/growing_file.h"
#include "tests/support/random_trace.h"

using namespace heapprof;
using namespace heapprof::replay;
using heapprof::test::GrowingFile;
using heapprof::test::TraceBuilder;

namespace {

const IndexUse kNoIndex{.use = false, .keep = false};

/// Follows a trace: advances `rounds` times, and calls `write` between these.
template <typename Write>
void advance(Followed& followed, int rounds, Write&& write) {
  for (int round = 0; round < rounds; ++round) {
    if (round != 0) write();
    followed.advance();
  }
}

Analysis taken_over(const std::string& path, const Selection& selection, Followed& followed) {
  return Analysis(path, selection, {}, kNoIndex, {}, {}, {}, &followed);
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
      Followed followed(file.path(), {});
      advance(followed, rounds, write);
      const Analysis again = taken_over(file.path(), costs, followed);
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

TEST_CASE("What everything allocated so far is known while a part of the blocks is followed") {
  TraceBuilder trace;
  GrowingFile file(trace);
  std::vector<std::vector<std::uint8_t>> states;  // of the file
  test::random_program(trace, 7, 3'000, [&](int i) {
    if (i % 700 == 699) states.push_back(trace.bytes());
  });
  std::size_t next = 0;
  const auto write = [&] { file.write(states.at(next++)); };
  write();
  Selection part;
  part.min_size = 1'000;
  Followed followed(file.path(), part);
  advance(followed, 3, write);
  const Analysis analysis = taken_over(file.path(), part, followed);
  const Analysis everything(file.path(), Selection{}, {}, kNoIndex);
  REQUIRE(analysis.profile().heap.allocations < everything.profile().heap.allocations);
  for (std::uint32_t node = 0; node < everything.profile().nodes.size(); ++node)
    CHECK(analysis.profile().whole_of(node) == everything.profile().whole_of(node));
}

TEST_CASE("What needs the whole recording first cannot be followed") {
  TraceBuilder trace;
  GrowingFile file(trace);
  trace.stream().alloc(10, 0x1000, 1);
  file.write();
  Selection slice;
  slice.to = Moment{};
  CHECK_THROWS_AS(Followed(file.path(), slice), trace::TraceError);
  {
    Followed followed(file.path(), {});
    followed.advance();
    CHECK_THROWS_AS(taken_over(file.path(), slice, followed), trace::TraceError);
  }
  // A program that has ended is no longer followed.
  Followed followed(file.path(), {});
  CHECK_THROWS_AS(advance(followed, 2, [&] { file.end(); }), trace::TraceError);
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
    Followed followed(file.path(), {}, [&](std::span<const ProfileEvent> events) {
      followed_events.insert(followed_events.end(), events.begin(), events.end());
    });
    std::size_t next = 1;
    advance(followed, static_cast<int>(states.size()), [&] { file.write(states[next++]); });
    const Analysis again = taken_over(file.path(), {}, followed);
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

TEST_CASE("Leaks of a program that is followed have the trends of a second pass") {
  constexpr std::uint64_t kEvents = 40'000;
  TraceBuilder trace;
  GrowingFile file(trace);
  // Stack 1 grows, 2 frees each block before it allocates the next, 3 allocates once, 4 grows and shrinks.
  TraceBuilder::Stream& stream = trace.stream();
  stream.thread(100, "main");
  stream.module(2, "/bin/one", "\x01\x02", 0x1000, 0, 0x10000, true);
  for (std::uint32_t i = 1; i <= 4; ++i) stream.node(i, 0, 2, 0x100 * i);
  stream.alloc(10, 0x30000000, 500, 3);
  for (std::uint64_t i = 1; i <= kEvents; ++i) {
    const std::uint64_t time = 1000 * i;
    if (i % 10 == 0) stream.alloc(time, 0x10000000 + 64 * i, 40, 1);
    if (i != 1) stream.free(time + 1, 0x20000000 + 64 * (i - 1));
    stream.alloc(time + 2, 0x20000000 + 64 * i, 48, 2);
    if (i % 1000 < 500) stream.alloc(time + 3, 0x40000000 + 64 * (i % 1000), 56, 4);
    else stream.free(time + 3, 0x40000000 + 64 * (i % 1000 - 500));
    if (i == kEvents / 2) file.write();
  }
  Selection costs;
  costs.only_costs = costs.with_timeline = true;
  Followed followed(file.path(), {});
  advance(followed, 2, [&] { file.write(); });
  const Analysis again = taken_over(file.path(), costs, followed);
  const Analysis anew(file.path(), costs, {}, kNoIndex);
  const auto trends = [](const Analysis& analysis) {
    const model::Profile& profile = analysis.profile();
    std::vector<std::uint32_t> stack_of_node, site_of_node(profile.nodes.size(), 0);
    for (std::uint32_t node = 0; node < profile.nodes.size(); ++node) stack_of_node.push_back(node);
    model::LeakHistory stacks(profile.nodes.size(), analysis.leak_steps(), analysis.clock());
    model::LeakHistory sites(1, analysis.leak_steps(), analysis.clock());
    analysis.follow_leaks(stacks, stack_of_node, sites, site_of_node);
    stacks.finish();
    sites.finish();
    std::vector<model::LeakTrend> found;
    for (std::uint32_t node = 0; node < profile.nodes.size(); ++node) found.push_back(stacks.of(node));
    found.push_back(sites.of(0));
    return found;
  };
  const std::vector<model::LeakTrend> of_followed = trends(again);
  const std::vector<model::LeakTrend> of_pass = trends(anew);
  REQUIRE(of_followed.size() == of_pass.size());
  REQUIRE(of_followed.size() == 6);
  for (std::size_t i = 0; i < of_pass.size(); ++i) {
    INFO("node " << i);
    const model::LeakTrend& one = of_followed[i];
    const model::LeakTrend& other = of_pass[i];
    CHECK(one.growth == other.growth);
    CHECK(one.rises == other.rises);
    CHECK(one.left_blocks == other.left_blocks);
    CHECK(one.freed_blocks == other.freed_blocks);
    CHECK(one.longest_life_ns == other.longest_life_ns);
    CHECK(one.first_ns == other.first_ns);
    CHECK(one.last_ns == other.last_ns);
    CHECK(one.low_bytes == other.low_bytes);
    CHECK(one.grew_until_ns == other.grew_until_ns);
    CHECK(one.grew_with_load == other.grew_with_load);
  }
  CHECK(of_followed[2].freed_blocks == kEvents - 1);
}
