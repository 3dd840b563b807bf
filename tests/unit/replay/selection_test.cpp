// The blocks that each selection selects, and the figures of slices of time. One small trace, whose figures were
// computed by hand:
//
//   time   0    100      200      300      400      500      600
//   A 1000 B           [100------------------------]            node 1 (f)
//   B  500 B                     [210-----------------------    node 2 (f > g), never freed
//   C  300 B                     [220-230]                      node 3 (h), temporary
//   D  800 B                              [310--------520]      node 2
//   E   50 B                                      [410-----     node 3, never freed
#include <catch2/catch.hpp>

#include <map>

#include "analyzer/replay/analysis/analysis.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

using namespace heapprof;
using namespace heapprof::replay;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

namespace {

struct Recorded {
  TemporaryFile path;
  Recorded() {
    TraceBuilder trace;
    auto& stream = trace.stream();
    stream.thread(1, "main");
    stream.module(2, "/usr/bin/demo", "\x01\x02", 0x1000, 0);
    stream.node(1, 0, 2, 0xf);
    stream.node(2, 1, 2, 0x10);
    stream.node(3, 0, 2, 0x11);
    stream.alloc(100, 0xa000, 1000, 1);
    stream.alloc(210, 0xb000, 500, 2);
    stream.alloc(220, 0xc000, 300, 3);
    stream.free(230, 0xc000);
    stream.alloc(310, 0xd000, 800, 2);
    stream.free(400, 0xa000);
    stream.alloc(410, 0xe000, 50, 3);
    stream.free(520, 0xd000);
    trace.header.end_kind = EndKind::kExit;
    trace.header.end_ticks = 1'000;
    trace.write(path.path());
  }
  model::Profile under(const Selection& selection) const { return Analysis(path.path(), selection).profile(); }
};

Moment at_ns(double ns) { return {ns / 1e9, false}; }

/// Costs by the offset of the innermost frame.
std::map<std::uint64_t, model::Costs> by_offset(const model::Profile& profile) {
  std::map<std::uint64_t, model::Costs> result;
  for (const model::CallNode& node : profile.nodes)
    if (node.address != model::kNoIndex && !node.costs.empty())
      result[profile.addresses[node.address].offset] = node.costs;
  return result;
}

}  // namespace

TEST_CASE("A slice has its own peak, which includes older blocks") {
  const Recorded recorded;
  Selection selection;
  selection.from = at_ns(205);
  selection.to = at_ns(300);
  const model::Profile profile = recorded.under(selection);
  CHECK(profile.slice->from_ns == 205);
  CHECK(profile.slice->to_ns == 300);
  CHECK(profile.recording.duration_ns == 1'000);
  CHECK(profile.heap.allocations == 2);
  CHECK(profile.heap.allocated_bytes == 800);
  CHECK(profile.heap.frees == 1);
  CHECK(profile.heap.temporary_allocations == 1);
  CHECK(profile.heap.peak_bytes == 1'800);  // A, B and C
  CHECK(profile.heap.peak_blocks == 3);
  CHECK(profile.heap.peak_time_ns == 220);
  CHECK(profile.heap.leaked_bytes == 500);  // only B was allocated in the slice and is still live
  CHECK(profile.heap.leaked_blocks == 1);
  CHECK(profile.threads[0].allocations == 2);
  auto costs = by_offset(profile);
  CHECK(costs[0xf].peak_bytes == 1'000);
  CHECK(costs[0xf].allocations == 0);
  CHECK(costs[0xf].leaked_bytes == 0);
  CHECK(costs[0x10].peak_bytes == 500);
  CHECK(costs[0x10].leaked_bytes == 500);
  CHECK(costs[0x11].peak_bytes == 300);
  CHECK(costs[0x11].temporary == 1);
  CHECK(profile.timeline.buckets.front().start_ns == 205);
  CHECK(profile.integrity.complete);
}

TEST_CASE("The peak of a slice in which memory only falls is at its start") {
  const Recorded recorded;
  Selection selection;
  selection.from = at_ns(395);
  selection.to = at_ns(405);
  const model::Profile profile = recorded.under(selection);
  CHECK(profile.heap.allocations == 0);
  CHECK(profile.heap.peak_bytes == 2'300);
  CHECK(profile.heap.peak_time_ns == 395);
  CHECK(profile.heap.leaked_blocks == 0);
  CHECK(profile.heap.frees == 1);
}

TEST_CASE("Both ends belong to a slice, and the sums of adjacent slices add up") {
  const Recorded recorded;
  Selection selection;
  selection.from = at_ns(210);
  selection.to = at_ns(310);
  CHECK(recorded.under(selection).heap.allocations == 3);
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  for (double from = 0; from < 1'000; from += 50) {
    selection.from = at_ns(from);
    selection.to = at_ns(from + 49);
    allocations += recorded.under(selection).heap.allocations;
    frees += recorded.under(selection).heap.frees;
  }
  CHECK(allocations == 5);
  CHECK(frees == 3);
}

TEST_CASE("Percentages are of the duration; a slice of the whole recording has all figures") {
  const Recorded recorded;
  Selection selection;
  selection.from = Moment{0, true};
  selection.to = Moment{100, true};
  const model::Profile all = recorded.under(selection);
  CHECK(all.heap.allocations == 5);
  CHECK(all.heap.peak_bytes == 2'300);
  CHECK(all.heap.leaked_bytes == 550);
  selection.from = Moment{41, true};
  CHECK(recorded.under(selection).heap.allocations == 1);
  CHECK(recorded.under(selection).heap.leaked_bytes == 50);
  selection.to = Moment{40, true};
  CHECK_THROWS_AS(recorded.under(selection), SelectionError);
}

TEST_CASE("A moment after the end of the recording is refused") {
  const Recorded recorded;
  Selection selection;
  for (const auto moment : {&Selection::from, &Selection::live_at}) {
    selection = {};
    selection.*moment = at_ns(1'005);  // reports round the duration
    CHECK_NOTHROW(recorded.under(selection));
    selection.*moment = at_ns(1'006);
    CHECK_THROWS_AS(recorded.under(selection), SelectionError);
    selection.to = at_ns(5'000);
    CHECK_THROWS_AS(recorded.under(selection), SelectionError);
  }
  selection = {};
  selection.to = at_ns(5'000);
  CHECK(recorded.under(selection).end_ns() == 1'000);
}

TEST_CASE("A slice after the last event has the live blocks as its peak") {
  const Recorded recorded;
  Selection selection;
  selection.from = at_ns(900);
  const model::Profile profile = recorded.under(selection);
  CHECK(profile.heap.allocations == 0);
  CHECK(profile.heap.peak_bytes == 550);
  CHECK(profile.heap.leaked_bytes == 0);
}

TEST_CASE("Lifetimes, and what is live at a moment") {
  const Recorded recorded;
  Selection shortest;
  shortest.max_lifetime_ns = 210;
  CHECK(recorded.under(shortest).heap.allocated_bytes == 300 + 800);  // C, D; B and E are never freed
  Selection longest;
  longest.min_lifetime_ns = 300;
  const model::Profile profile = recorded.under(longest);
  CHECK(profile.heap.allocated_bytes == 1'000 + 500 + 50);  // A: 300, B and E: to the end
  CHECK(profile.heap.peak_bytes == 1'500);
  CHECK(profile.heap.frees == 1);
  Selection live;
  live.live_at = at_ns(400);  // A is freed then
  const model::Profile then = recorded.under(live);
  CHECK(then.heap.allocations == 2);
  CHECK(then.heap.peak_bytes == 1'300);
  CHECK(then.heap.leaked_bytes == 500);
  live.live_at = at_ns(399);
  CHECK(recorded.under(live).heap.peak_bytes == 2'300);
  live.live_at = at_ns(50);
  CHECK(recorded.under(live).heap.allocations == 0);
}

TEST_CASE("Blocks that are freed by the end of the recording or of a slice, and those that are not") {
  const Recorded recorded;
  Selection freed, left;
  freed.freed = Freed::kYes;
  left.freed = Freed::kNo;
  CHECK(recorded.under(freed).heap.allocated_bytes == 1'000 + 300 + 800);
  CHECK(recorded.under(freed).heap.leaked_blocks == 0);
  CHECK(recorded.under(left).heap.allocated_bytes == 500 + 50);
  CHECK(recorded.under(left).heap.leaked_bytes == 500 + 50);

  // D is freed after the slice, and A, which is older, in it.
  for (Selection* const one : {&freed, &left}) {
    one->from = at_ns(205);
    one->to = at_ns(450);
  }
  CHECK(recorded.under(freed).heap.allocated_bytes == 300);
  CHECK(recorded.under(freed).heap.peak_bytes == 1'000 + 300);
  CHECK(recorded.under(freed).heap.frees == 2);
  CHECK(recorded.under(left).heap.allocated_bytes == 500 + 800 + 50);
  CHECK(recorded.under(left).heap.leaked_bytes == 500 + 800 + 50);
  CHECK(recorded.under(left).heap.frees == 0);

  // What was live at a moment of the slice is freed by the end of the slice, not by the moment.
  for (Selection* const one : {&freed, &left}) {
    one->live_at = at_ns(350);
    one->only_live = true;
  }
  CHECK(recorded.under(freed).totals.live_bytes == 1'000);
  CHECK(recorded.under(left).totals.live_bytes == 500 + 800);

  // Survivors are followed until a later moment.
  for (Selection* const one : {&freed, &left}) {
    one->live_at.reset();
    one->only_live = false;
    one->survivors = at_ns(520);
  }
  CHECK(recorded.under(freed).heap.allocated_bytes == 300 + 800);
  CHECK(recorded.under(left).heap.allocated_bytes == 500 + 50);

  Selection longest;  // with lifetimes: A and D
  longest.freed = Freed::kYes;
  longest.min_lifetime_ns = 100;
  CHECK(recorded.under(longest).heap.allocated_bytes == 1'000 + 800);
}

TEST_CASE("The end of a slice can be between two events of equal time, also for what is freed by then") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.thread(1, "main");
  stream.module(2, "/usr/bin/demo", "\x01\x02", 0x1000, 0);
  stream.node(1, 0, 2, 0xf);
  stream.alloc(100, 0xa000, 1000, 1);
  stream.alloc(200, 0xb000, 500, 1);
  stream.free(200, 0xa000);
  stream.alloc(200, 0xc000, 10, 1);
  stream.free(300, 0xb000);
  trace.header.end_kind = EndKind::kExit;
  trace.header.end_ticks = 1'000;
  const TemporaryFile path;
  trace.write(path.path());
  Selection left;
  left.freed = Freed::kNo;
  left.to = at_ns(200);
  CHECK(Analysis(path.path(), left).profile().heap.leaked_bytes == 500 + 10);
  left.to->position = EventPosition{200, 1};  // directly after B
  CHECK(Analysis(path.path(), left).profile().heap.leaked_bytes == 1'000 + 500);
}

TEST_CASE("Failed calls, mappings and unmatched frees count where they can match the selection") {
  TemporaryFile path;
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.thread(1, "main");
  stream.module(2, "/usr/bin/demo", "\x01\x02", 0x1000, 0);
  stream.node(1, 0, 2, 0xf);
  stream.alloc(100, 0xa000, 1000, 1);
  stream.alloc_failed(110, 5'000'000);
  stream.free(120, 0xbad000);
  stream.add(Op::kMap, 130, 0x100000, 0x2000, 1, kMapAnonymous);
  stream.sample(140, 140, 40 << 20);
  stream.sample(300, 300, 50 << 20);
  trace.header.end_kind = EndKind::kExit;
  trace.header.end_ticks = 1'000;
  trace.write(path.path());
  const auto under = [&](const Selection& selection) { return Analysis(path.path(), selection).profile(); };

  const model::Profile all = under({});
  CHECK(all.heap.failed == 1);
  CHECK(all.heap.unmatched_frees == 1);
  CHECK(all.mmap.mapped_bytes == 0x2000);
  CHECK(all.timeline.peak_rss_bytes == 50 << 20);
  Selection small;
  small.max_size = 4'096;
  CHECK(under(small).heap.failed == 0);
  CHECK(under(small).heap.frees == 0);
  CHECK(under(small).heap.unmatched_frees == 0);
  Selection large;
  large.min_size = 4'096;
  CHECK(under(large).heap.failed == 1);
  CHECK(under(large).mmap.mapped_bytes == 0x2000);
  Selection other_thread;
  other_thread.thread_ids = {2};
  CHECK(under(other_thread).heap.failed == 0);
  CHECK(under(other_thread).heap.unmatched_frees == 0);
  Selection live;
  for (const auto& [moment, resident] : {std::pair(105.0, 0u), std::pair(140.0, 40u), std::pair(299.0, 40u),
                                         std::pair(300.0, 50u), std::pair(900.0, 50u)}) {
    live.live_at = at_ns(moment);
    const model::Profile then = under(live);
    CHECK(then.heap.peak_bytes == 1'000);
    CHECK(then.heap.failed == 0);
    CHECK(then.heap.unmatched_frees == 0);
    CHECK(then.mmap.mapped_bytes == 0);
    CHECK(then.resident.bytes == std::uint64_t{resident} << 20);
  }
}

TEST_CASE("Stacks selected by the caller, alone and with other selections") {
  const Recorded recorded;
  Selection selection;
  selection.select_stacks = [](const model::Profile& profile) {
    std::vector<std::uint8_t> chosen(profile.nodes.size(), 0);
    for (std::size_t node = 1; node < profile.nodes.size(); ++node)
      chosen[node] = profile.addresses[profile.nodes[node].address].offset != 0xf;
    return chosen;
  };
  const model::Profile profile = recorded.under(selection);
  CHECK(profile.heap.allocations == 4);
  CHECK(profile.heap.peak_bytes == 1'350);  // B, D and E
  CHECK(profile.heap.frees == 2);
  selection.min_size = 400;
  selection.live_at = at_ns(405);
  selection.to = at_ns(450);
  const model::Profile narrow = recorded.under(selection);
  CHECK(narrow.heap.allocations == 2);
  CHECK(narrow.heap.leaked_bytes == 1'300);  // D is still live at 450
}

TEST_CASE("for_each_event() gives the events of blocks of the slice") {
  const Recorded recorded;
  Selection selection;
  selection.from = at_ns(300);
  selection.to = at_ns(600);
  const Analysis analysis(recorded.path.path(), selection);
  const auto count = [&](bool with_older) {
    std::pair<int, int> seen{0, 0};
    analysis.for_each_event(
        [&](std::span<const ProfileEvent> events) {
          for (const ProfileEvent& event : events) {
            seen.first += event.kind == ResolvedKind::kAllocation;
            seen.second += event.kind == ResolvedKind::kFree;
          }
        },
        {}, {.with_older = with_older});
    return seen;
  };
  CHECK(count(false) == std::pair(2, 1));
  CHECK(count(true) == std::pair(5, 3));
  const std::vector<std::uint32_t> one_group(analysis.profile().nodes.size(), 0);
  CHECK(analysis.live_by_group(one_group, 1)[0].back() == 550);
}

TEST_CASE("Survivors are the slice's own blocks that are live at a later moment") {
  const Recorded recorded;
  Selection selection;
  selection.from = at_ns(205);
  selection.to = at_ns(350);
  selection.survivors = at_ns(450);
  const model::Profile until_450 = recorded.under(selection);
  CHECK(until_450.slice->to_ns == 350);
  CHECK(until_450.survivors_ns == 450);
  CHECK(until_450.end_ns() == 450);
  CHECK(until_450.heap.allocations == 3);  // B, C and D: A is older, E younger
  CHECK(until_450.heap.allocated_bytes == 1'600);
  CHECK(until_450.heap.frees == 1);  // of C; A does not count
  CHECK(until_450.heap.leaked_bytes == 1'300);
  CHECK(until_450.heap.leaked_blocks == 2);
  CHECK(until_450.heap.peak_bytes == 1'300);
  CHECK(until_450.heap.peak_time_ns == 450);
  auto costs = by_offset(until_450);
  CHECK(costs.count(0xf) == 0);
  CHECK(costs[0x10].leaked_bytes == 1'300);
  CHECK(costs[0x10].live_bytes == 1'300);
  CHECK(costs[0x10].peak_bytes == 1'300);
  CHECK(costs[0x11].allocations == 1);
  CHECK(costs[0x11].leaked_blocks == 0);
  CHECK(until_450.timeline.buckets.back().last_bytes == 1'300);

  selection.survivors = Moment{100, true};
  const model::Profile at_end = recorded.under(selection);
  CHECK(at_end.heap.leaked_bytes == 500);  // B
  CHECK(at_end.heap.frees == 2);
  CHECK(at_end.totals.live_bytes == 500);

  // Without a beginning, A counts too; it is freed at 400.
  selection.from.reset();
  selection.survivors = at_ns(399);
  CHECK(recorded.under(selection).heap.leaked_bytes == 2'300);
  selection.survivors = at_ns(400);
  CHECK(recorded.under(selection).heap.leaked_bytes == 1'300);
  CHECK(recorded.under(selection).heap.allocations == 4);
}

TEST_CASE("Survivors at the end of the slice are its leaks") {
  const Recorded recorded;
  Selection selection;
  selection.from = at_ns(205);
  selection.to = at_ns(350);
  const std::uint64_t leaked = recorded.under(selection).heap.leaked_bytes;
  selection.survivors = at_ns(350);
  CHECK(recorded.under(selection).heap.leaked_bytes == leaked);
}

TEST_CASE("Survivors are looked for within the recording, after the slice") {
  const Recorded recorded;
  Selection selection;
  selection.from = at_ns(205);
  selection.to = at_ns(350);
  selection.survivors = at_ns(349);
  CHECK_THROWS_AS(recorded.under(selection), SelectionError);
  selection.survivors = at_ns(1'100);
  CHECK_THROWS_AS(recorded.under(selection), SelectionError);
  selection.to.reset();  // the slice ends with the recording
  selection.survivors = at_ns(900);
  CHECK_THROWS_AS(recorded.under(selection), SelectionError);
  selection.survivors = at_ns(1'000);
  CHECK(recorded.under(selection).heap.leaked_bytes == 550);
}

TEST_CASE("The live blocks of several moments are visited in one pass") {
  const Recorded recorded;
  Selection selection;
  selection.from = at_ns(205);
  const Analysis analysis(recorded.path.path(), selection);
  const std::vector<ResolvedMoment> moments = {{205, {}}, {225, {}}, {229, {}},  {230, {}},
                                               {405, {}}, {405, {}}, {1'000, {}}};
  std::vector<std::uint64_t> bytes(moments.size());
  analysis.for_each_live_at(moments, [&](std::size_t i, const LiveBlock& block) { bytes[i] += block.size; });
  CHECK(bytes == std::vector<std::uint64_t>{1'000, 1'800, 1'800, 1'500, 1'300, 1'300, 550});
}

TEST_CASE("A moment can be that of a mark") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.thread(1, "main");
  stream.alloc(100, 0xa000, 10);
  stream.text(TextKind::kMark, 0, 150, "load begins");
  stream.alloc(200, 0xb000, 20);
  stream.text(TextKind::kMark, 0, 250, "twice");
  stream.alloc(300, 0xc000, 40);
  stream.text(TextKind::kMark, 0, 350, "twice");
  stream.alloc(400, 0xd000, 80);
  const TemporaryFile path;
  trace.write(path.path());
  Selection selection;
  selection.from = Moment{.text = "load begins", .mark = "load begins"};
  CHECK(Analysis(path.path(), selection).profile().slice->from_ns == 150);
  CHECK(Analysis(path.path(), selection).profile().heap.allocated_bytes == 140);
  const auto message = [&](const char* mark) -> std::string {
    selection.from = Moment{.text = mark, .mark = mark};
    try {
      const Analysis analysis(path.path(), selection);
    } catch (const SelectionError& error) {
      return error.what();
    }
    return {};
  };
  CHECK(message("load ends")
            .find("no mark has the text 'load ends'; the recording's marks are 'load begins' (150ns), "
                  "'twice' (250ns), 'twice' (350ns)") != std::string::npos);
  CHECK(message("twice").find("2 marks have the text 'twice'; give the time of one: 250ns, 350ns") !=
        std::string::npos);
}
