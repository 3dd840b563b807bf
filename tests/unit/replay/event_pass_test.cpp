// Analysis::for_each_event(): what a resolved event has, on a trace whose times are all known. The records of
// for_each_record(), and the blocks that are left.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <tuple>

#include "analyzer/replay/analysis/analysis.h"
#include "tests/support/random_trace.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

using namespace heapprof;
using namespace heapprof::model;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

TEST_CASE("A resolved free has the freeing thread and stack, and the time of the allocation") {
  TraceBuilder trace;
  auto& one = trace.stream();
  one.thread(1, "maker");
  one.module(2, "/bin/demo", "\x01\x02", 0x1000, 0);
  for (std::uint32_t node = 1; node <= 4; ++node) one.node(node, 0, 2, 0x100 * node);
  auto& two = trace.stream();
  two.thread(2, "taker");
  one.alloc(100, 0xa000, 10, 1);
  one.alloc(200, 0xb000, 20, 1);
  two.free(500, 0xa000);
  one.realloc_begin(600, 0xb000);
  one.realloc_end(610, 0xc000, 40, 3);
  one.alloc(700, 0xd000, 50, 4);
  one.alloc(900, 0xd000, 60, 4);  // the free in between is not in the trace
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), trace.bytes());
  const replay::Analysis analysis(path.path(), {});
  std::vector<replay::ProfileEvent> frees;
  std::vector<replay::ProfileEvent> allocations;
  std::vector<replay::LiveBlock> left;
  analysis.for_each_event(
      [&](std::span<const replay::ProfileEvent> events) {
        for (const replay::ProfileEvent& event : events) {
          if (event.kind == replay::ResolvedKind::kFree) frees.push_back(event);
          if (event.kind == replay::ResolvedKind::kAllocation) allocations.push_back(event);
        }
      },
      {}, {.visit_leaked = [&](const replay::LiveBlock& block) { left.push_back(block); }});

  REQUIRE(frees.size() == 3);
  CHECK(frees[0].thread == 0);
  CHECK(frees[0].freeing_thread == 1);
  CHECK(frees[0].freeing_node == kNoIndex);
  CHECK(frees[0].allocated_ns == 100);
  CHECK_FALSE(frees[0].in_realloc);
  CHECK(frees[1].in_realloc);
  CHECK(frees[1].address == 0xb000);
  CHECK(frees[1].freeing_thread == 0);
  REQUIRE(frees[1].freeing_node != kNoIndex);
  CHECK(analysis.profile().addresses[analysis.profile().nodes[frees[1].freeing_node].address].offset == 0x300);
  CHECK(frees[1].allocated_ns == 200);
  CHECK(frees[2].freeing_thread == replay::kNoThread);
  CHECK(frees[2].allocated_ns == 700);
  REQUIRE(allocations.size() == 5);
  CHECK_FALSE(allocations[1].in_realloc);
  CHECK(allocations[2].in_realloc);
  CHECK(allocations[2].old_address == 0xb000);
  REQUIRE(left.size() == 2);
  std::uint64_t bytes = 0;
  for (const replay::LiveBlock& block : left) bytes += block.size;
  CHECK(bytes == 40 + 60);
}

TEST_CASE("The allocations alone are those among all events, of every selection") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(91, 95)));
  TraceBuilder trace;
  heapprof::test::random_program(trace, seed, 12'000);
  const TemporaryFile path;
  trace.write(path.path());
  std::mt19937_64 random(heapprof::test::seed(seed));
  std::size_t compared = 0;
  for (int i = 0; i < 14; ++i) {
    replay::Selection selection;
    if (i % 3 == 1) selection.from = replay::Moment{static_cast<double>(random() % 50), true};
    if (i % 3 != 0) selection.to = replay::Moment{50 + static_cast<double>(random() % 50), true};
    if (i % 4 == 1) selection.min_size = 50;
    if (i % 4 == 2) selection.thread_names = {"worker"};
    if (i % 5 == 4) selection.max_lifetime_ns = 30;
    if (i % 7 == 6) selection.kind = Kind::kAll;
    if (i % 6 == 3)
      selection.select_stacks = [](const Profile& profile) {
        std::vector<std::uint8_t> chosen(profile.nodes.size());
        for (std::size_t node = 0; node < chosen.size(); ++node) chosen[node] = node % 3 != 0;
        return chosen;
      };
    const replay::Analysis analysis(path.path(), selection);
    std::vector<std::uint8_t> nodes(analysis.profile().nodes.size(), 1);
    if (i % 2 == 1)
      for (std::size_t node = 0; node < nodes.size(); node += 2) nodes[node] = 0;
    if (i % 4 == 0) {  // of one stack
      nodes.assign(nodes.size(), 0);
      nodes[1 + random() % (nodes.size() - 1)] = 1;
    }
    replay::EventFilter which;
    which.of_kind = true;
    which.nodes = &nodes;
    const std::uint64_t max_size = i % 3 == 2 ? 1'000 : std::numeric_limits<std::uint64_t>::max();
    using Row = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t>;
    const auto rows = [&] {
      std::vector<Row> all;
      analysis.for_each_event(
          [&](std::span<const replay::ProfileEvent> events) {
            for (const replay::ProfileEvent& event : events)
              if (event.kind == replay::ResolvedKind::kAllocation && event.subject == replay::Subject::kBlock &&
                  event.size <= max_size)
                all.emplace_back(event.time_ns, event.address, event.size, event.node, event.thread);
          },
          {}, which);
      CHECK(std::ranges::is_sorted(all, {}, [](const Row& row) { return std::get<0>(row); }));
      std::ranges::sort(all);  // those of equal time are in any order
      return all;
    };
    const std::vector<Row> expected = rows();
    which.only_allocations = {.min_size = 0, .max_size = max_size};
    INFO("seed " << seed << ", selection " << i);
    CHECK(rows() == expected);
    compared += expected.size();
  }
  CHECK(compared > 10'000);
}

TEST_CASE("The mappings that are left at the end, or at the end of a slice, are visited in order of address") {
  TraceBuilder trace;
  auto& one = trace.stream();
  one.thread(1, "main");
  one.module(2, "/bin/demo", "\x01\x02", 0x1000, 0);
  one.node(1, 0, 2, 0x100);
  one.node(2, 0, 2, 0x200);
  one.add(Op::kMap, 100, 0x70000, 0x8000, 1, kMapAnonymous);
  one.add(Op::kMap, 200, 0x40000, 0x4000, 2, kMapAnonymous | kMapReserve);
  one.add(Op::kUnmapBegin, 300, 0x72000, 0x1000);
  one.add(Op::kUnmapEnd, 310);
  one.add(Op::kUnmapBegin, 1'000'000'000, 0x40000, 0x4000);
  one.add(Op::kUnmapEnd, 1'000'000'010);
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), trace.bytes());
  const auto mappings_at = [&](const replay::Selection& selection) {
    std::vector<std::uint64_t> all;
    const replay::Analysis analysis(path.path(), selection, {}, {}, {}, {}, [&](const replay::LiveMapping& mapping) {
      all.insert(all.end(), {mapping.begin, mapping.end, mapping.node, mapping.flags});
    });
    return all;
  };
  const std::vector<std::uint64_t> second = {0x70000, 0x72000, 1, kMapAnonymous, 0x73000, 0x78000, 1, kMapAnonymous};
  CHECK(mappings_at({}) == second);
  replay::Selection early;
  early.to = replay::Moment{0.5, false, "0.5"};
  std::vector<std::uint64_t> all = {0x40000, 0x44000, 2, kMapAnonymous | kMapReserve};
  all.insert(all.end(), second.begin(), second.end());
  CHECK(mappings_at(early) == all);
}

TEST_CASE("The blocks that are left at the end of a slice, and the records up to there, need no second replay") {
  TraceBuilder trace;
  auto& one = trace.stream();
  one.thread(1, "main");
  one.module(2, "/bin/demo", "\x01\x02", 0x1000, 0);
  one.node(1, 0, 2, 0x100);
  one.alloc(100, 0xa000, 10, 1);
  one.alloc(200, 0xb000, 20, 1);
  one.free(300, 0xa000);
  one.alloc(400, 0xc000, 40, 1);
  one.free(500, 0xb000);
  one.alloc(600, 0xd000, 80, 1);
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), trace.bytes());
  const auto read = [&](std::optional<replay::Moment> to, std::vector<std::uint64_t>& records) {
    std::uint64_t left = 0;
    replay::Selection selection;
    selection.to = to;
    const replay::Analysis analysis(path.path(), selection, {}, {.use = false, .keep = false}, {},
                                    [&](const replay::LiveBlock& block) { left += block.size; });
    CHECK(left == analysis.profile().heap.leaked_bytes);
    analysis.for_each_record([&](std::span<const trace::MergedEvent> events) {
      for (const trace::MergedEvent& event : events)
        if (event.op() == Op::kAlloc) records.push_back(event.address);
    });
    return left;
  };
  std::vector<std::uint64_t> records;
  CHECK(read(std::nullopt, records) == 40 + 80);
  CHECK(records == std::vector<std::uint64_t>{0xa000, 0xb000, 0xc000, 0xd000});
  records.clear();
  CHECK(read(replay::Moment{.value = 450e-9}, records) == 20 + 40);
  CHECK(records == std::vector<std::uint64_t>{0xa000, 0xb000, 0xc000});
}

TEST_CASE("A resolved sample has the shared memory that was recorded with it") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.thread(1, "one");
  stream.alloc(100, 0xa000, 10);
  stream.sample(200, 5'000'000'200, 50 << 20);  // as a recorder of format 1.0 writes it
  stream.sample(300, 5'000'000'300, 60 << 20, 7 << 20);
  stream.sample(400, 5'000'000'400, 61 << 20, 0);
  stream.sample(500, 5'000'000'500, 62 << 20);
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), trace.bytes());
  const replay::Analysis analysis(path.path(), {});
  using Sample = std::pair<std::uint64_t, std::uint64_t>;
  std::vector<Sample> samples;
  analysis.for_each_event([&](std::span<const replay::ProfileEvent> events) {
    for (const replay::ProfileEvent& event : events)
      if (event.kind == replay::ResolvedKind::kSample) samples.push_back({event.size, event.address});
  });
  CHECK(samples == std::vector<Sample>{{50 << 20, replay::kUnknownShared},
                                       {60 << 20, 7 << 20},
                                       {61 << 20, 0},
                                       {62 << 20, replay::kUnknownShared}});
}
