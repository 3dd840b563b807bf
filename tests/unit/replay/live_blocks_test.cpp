// Selection::only_live: the live blocks of a moment, from the start of the trace and from a snapshot.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <random>

#include "analyzer/replay/analysis/analysis.h"
#include "tests/support/random_trace.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_file.h"
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

/// Address (of a mapping its begin), size, time, node, thread.
using Row = std::array<std::uint64_t, 5>;

struct LiveBlocks {
  std::vector<Row> rows;  ///< sorted
  std::uint64_t bytes = 0;
  model::Costs totals;
  std::vector<std::uint64_t> blocks_of_node;
  bool began_at_snapshot = false;
};

LiveBlocks live_blocks(const std::string& path, Selection selection, const IndexUse& index_use) {
  selection.only_live = true;
  LiveBlocks live;
  const auto add = [&](const Row& row) {
    live.rows.push_back(row);
    live.bytes += row[1];
  };
  const Analysis analysis(
      path, selection, {}, index_use, {},
      [&](const LiveBlock& block) {
        if (selection.kind != model::Kind::kMmap)
          add({block.address, block.size, block.time_ns, block.node, block.thread});
      },
      [&](const LiveMapping& mapping) {
        const bool counts = (mapping.flags & kMapReserve) == 0 && !mapping.before_slice &&
                            (selection.kind == model::Kind::kMmap || (mapping.flags & kMapFromAllocator) == 0);
        if (selection.kind != model::Kind::kHeap && counts)
          add({mapping.begin, mapping.end - mapping.begin, 0, mapping.node, mapping.thread});
      });
  std::ranges::sort(live.rows);
  live.totals = analysis.profile().totals;
  for (const model::CallNode& node : analysis.profile().nodes) live.blocks_of_node.push_back(node.costs.live_blocks);
  live.began_at_snapshot = analysis.began_at_snapshot();
  return live;
}

void check_equal(const LiveBlocks& one, const LiveBlocks& other) {
  CHECK((one.rows == other.rows));
  CHECK((one.blocks_of_node == other.blocks_of_node));
  CHECK(one.totals.live_bytes == other.totals.live_bytes);
  CHECK(one.totals.allocations == other.totals.allocations);
}

}  // namespace

TEST_CASE("A realloc that has not returned has freed its block once another block got the address") {
  TraceBuilder trace;
  auto& one = trace.stream();
  auto& two = trace.stream();
  one.thread(1, "one");
  two.thread(2, "two");
  one.alloc(100, 0x1000, 100);
  one.alloc(110, 0x2000, 30);
  one.realloc_begin(200, 0x1000);
  two.alloc(300, 0x1000, 50);
  two.free(400, 0x1000);
  std::uint64_t time = 500;
  for (int i = 0; i < 10'000; ++i) {
    two.alloc(time += 10, 0x9000, 1);
    two.free(time += 10, 0x9000);
  }
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 4'000)};
  const auto sizes_at = [&](double percent, const IndexUse& use) {
    Selection selection;
    selection.live_at = Moment{percent, true};
    const LiveBlocks live = live_blocks(path.path(), selection, use);
    // Reports select the blocks by their lifetimes.
    CHECK(Analysis(path.path(), selection, {}, kNoIndex).profile().totals.live_bytes == live.bytes);
    Selection until;
    until.to = Moment{percent, true};
    CHECK(Analysis(path.path(), until, {}, use).profile().totals.live_bytes == live.bytes);
    return live.bytes;
  };
  for (const IndexUse& use : {kNoIndex, kIndex}) {
    CHECK(sizes_at(250 * 100.0 / static_cast<double>(time), use) == 130);
    CHECK(sizes_at(350 * 100.0 / static_cast<double>(time), use) == 80);
    CHECK(sizes_at(450 * 100.0 / static_cast<double>(time), use) == 30);
    CHECK(sizes_at(99.99, use) == 30);
  }
  Selection slice;
  slice.from = Moment{95, true};
  CHECK(Analysis(path.path(), slice, {}, kIndex).began_at_snapshot());
  CHECK(Analysis(path.path(), slice, {}, kIndex).profile().totals.live_bytes == 30);
}

TEST_CASE("Live blocks add up to the figures of the profile, with and without an index") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(31, 37)));
  TraceBuilder trace;
  heapprof::test::random_program(trace, seed, 16'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 2'000)};
  std::mt19937_64 random(heapprof::test::seed(seed));
  const auto percent = [&] { return Moment{static_cast<double>(random() % 1'001) / 10, true}; };
  int began_at_snapshot = 0;
  for (int i = 0; i < 18; ++i) {
    Selection selection;
    if (i % 3 == 1) selection.live_at = percent();
    if (i % 3 == 2) selection.to = percent();
    if (i % 9 == 2 || i % 9 == 6) selection.from = Moment{selection.to ? selection.to->value / 2 : 30, true};
    if (i % 9 == 4) selection.from = Moment{selection.live_at->value / 2, true};
    if (i % 4 == 1) selection.min_size = 100;
    if (i % 5 == 2) selection.thread_ids = {100, 102};
    if (i % 6 == 3) selection.min_lifetime_ns = 50;
    if (i % 7 == 3)
      selection.select_stacks = [](const model::Profile& profile) {
        std::vector<std::uint8_t> chosen(profile.nodes.size());
        for (std::size_t node = 0; node < chosen.size(); ++node) chosen[node] = node % 3 != 0;
        return chosen;
      };
    if (i % 5 == 4 && !selection.live_at && !selection.min_lifetime_ns)
      selection.kind = i % 2 == 0 ? model::Kind::kMmap : model::Kind::kAll;
    INFO("seed " << seed << ", selection " << i);
    const LiveBlocks without = live_blocks(path.path(), selection, kNoIndex);
    const LiveBlocks with = live_blocks(path.path(), selection, kIndex);
    check_equal(with, without);
    began_at_snapshot += with.began_at_snapshot;
    const model::Costs figures = Analysis(path.path(), selection, {}, kNoIndex).profile().totals;
    CHECK(without.bytes == (selection.live_at ? figures.live_bytes : figures.leaked_bytes));
    CHECK(without.rows.size() == (selection.live_at ? figures.live_blocks : figures.leaked_blocks));
    CHECK(without.totals.live_bytes == without.bytes);
  }
  CHECK(began_at_snapshot >= 6);
}

TEST_CASE("The blocks of a selection are those that are freed by its end, and those that are left then") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(61, 62));
  TraceBuilder trace;
  heapprof::test::random_program(trace, seed, 16'000);
  // Of the random blocks, all may be freed at the end.
  TraceBuilder::Stream& stream = trace.stream(300);
  stream.thread(300, "kept");
  stream.alloc(1, 0xa0000000, 300, 0);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 2'000)};
  const std::vector<std::function<void(Selection&)>> parts = {
      [](Selection&) {},
      [](Selection& part) { part.min_size = 100; },
      [](Selection& part) {
        part.from = Moment{20, true}, part.to = Moment{60, true};
      },
      [](Selection& part) {
        part.to = Moment{40, true}, part.survivors = Moment{41, true};
      },
      [](Selection& part) {
        part.live_at = Moment{50, true};
      },
      [](Selection& part) {
        part.from = Moment{20, true}, part.to = Moment{60, true}, part.live_at = Moment{59, true};
      },
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Selection all;
    parts[i](all);
    for (const IndexUse& use : {kNoIndex, kIndex}) {
      INFO("seed " << seed << ", part " << i << ", index " << use.use);
      const auto heap = [&](Freed freed) {
        Selection selection = all;
        selection.freed = freed;
        return Analysis(path.path(), selection, {}, use).profile().heap;
      };
      const model::HeapTotals any = heap(Freed::kAny), freed = heap(Freed::kYes), left = heap(Freed::kNo);
      CHECK(freed.allocations > 0);
      CHECK(left.allocations > 0);
      CHECK(freed.allocations + left.allocations == any.allocations);
      CHECK(freed.allocated_bytes + left.allocated_bytes == any.allocated_bytes);
      CHECK(freed.leaked_blocks == 0);
      CHECK(left.leaked_blocks == left.allocations);
      CHECK(left.leaked_bytes == any.leaked_bytes);
      CHECK(left.frees == 0);
      // What was live at a moment of the slice, and is not freed by its end.
      if (!all.live_at) continue;
      Selection selection = all;
      selection.freed = Freed::kNo;
      if (all.is_slice()) selection.from = Moment{0, true};  // with the blocks from before the slice
      const Analysis every(path.path(), selection, {}, use);
      CHECK(live_blocks(path.path(), selection, use).bytes == every.profile().heap.leaked_bytes);
    }
  }
}

TEST_CASE("The survivors of a slice are the same with and without an index") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(51, 52));
  TraceBuilder trace;
  heapprof::test::random_program(trace, seed, 40'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 4'000)};
  for (const model::Kind kind : {model::Kind::kHeap, model::Kind::kMmap, model::Kind::kAll}) {
    for (const bool from_start : {false, true}) {
      for (const double until : {35.0, 60.0, 100.0}) {
        Selection selection;
        selection.kind = kind;
        if (!from_start) selection.from = Moment{15, true};
        selection.to = Moment{35, true};
        selection.survivors = Moment{until, true};
        INFO("seed " << seed << ", kind " << static_cast<int>(kind) << ", from_start " << from_start << ", until "
                     << until);
        const LiveBlocks without = live_blocks(path.path(), selection, kNoIndex);
        const LiveBlocks with = live_blocks(path.path(), selection, kIndex);
        CHECK(with.began_at_snapshot == (kind == model::Kind::kHeap || !from_start));
        check_equal(with, without);
        CHECK(without.bytes == Analysis(path.path(), selection, {}, kNoIndex).profile().totals.leaked_bytes);
        if (until == 35) CHECK(without.bytes > 0);
      }
    }
  }
}

TEST_CASE("A moment outside of the slice is refused") {
  TraceBuilder trace;
  heapprof::test::random_program(trace, 41, 2'000);
  const TemporaryFile path;
  trace.write(path.path());
  Selection selection;
  selection.from = Moment{50, true};
  selection.live_at = Moment{40, true};
  CHECK_THROWS_AS(live_blocks(path.path(), selection, kNoIndex), SelectionError);
  selection.live_at = Moment{60, true};
  CHECK_NOTHROW(live_blocks(path.path(), selection, kNoIndex));
  selection.to = Moment{55, true};
  CHECK_THROWS_AS(live_blocks(path.path(), selection, kNoIndex), SelectionError);
}
