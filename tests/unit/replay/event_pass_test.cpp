// Analysis::for_each_event(): what a resolved event has, on a trace whose times are all known. The records of
// for_each_record(), and the blocks that are left.
#include <catch2/catch.hpp>

#include "analyzer/replay/analysis/analysis.h"
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
