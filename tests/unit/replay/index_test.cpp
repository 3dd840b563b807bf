// Slices analyzed from snapshots equal those replayed from the start; an index of another trace is not used.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <sstream>
#include <tuple>

#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/compact/compactor.h"
#include "analyzer/replay/index/index.h"
#include "analyzer/replay/index/index_cache.h"
#include "analyzer/trace/frame_list.h"
#include "analyzer/trace/merged_reader.h"
#include "tests/support/profile_text.h"
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
using heapprof::test::text_of;
using heapprof::test::TraceBuilder;

namespace {

std::vector<std::uint8_t> read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string text_of_threads(const Analysis& analysis) {
  heapprof::test::TextWriter out;
  for (const model::Costs& c : analysis.profile().thread_costs)
    out << c.allocations << ' ' << c.allocated_bytes << ' ' << c.temporary << ' ' << c.temporary_bytes << ' '
        << c.leaked_bytes << ' ' << c.leaked_blocks << ' ' << c.peak_bytes << ' ' << c.peak_blocks << ' '
        << c.live_bytes << ' ' << c.live_blocks << '\n';
  return out.str();
}

std::string text_of(const model::Timeline& timeline) {
  heapprof::test::TextWriter out;
  for (const model::Timeline::Bucket& b : timeline.buckets)
    out << b.start_ns << ' ' << b.min_bytes << ' ' << b.max_bytes << ' ' << b.last_bytes << ' ' << b.last_blocks
        << ' ' << b.allocations << ' ' << b.allocated_bytes << ' ' << b.mapped_bytes << ' ' << b.rss_bytes << ' '
        << b.idle << '\n';
  for (const model::Timeline::Mark& mark : timeline.marks)
    out << "mark " << mark.time_ns << ' ' << static_cast<int>(mark.kind) << ' ' << mark.text << '\n';
  out << timeline.samples << ' ' << timeline.snapshots << ' ' << timeline.peak_rss_bytes << '\n';
  return out.str();
}

/// A trace of two threads. Nodes 1 to 3 are free to use.
struct TwoThreads {
  TraceBuilder trace;
  TraceBuilder::Stream& main = trace.stream();
  TraceBuilder::Stream& other = trace.stream();
  std::uint64_t time = 1;

  TwoThreads() {
    main.thread(100, "main");
    other.thread(101, "other");
    main.module(2, "/bin/one", "\x01", 0x1000, 0, 0x10000, true);
    for (std::uint32_t node = 1; node <= 4; ++node) main.node(node, 0, 2, node);
  }
  /// Events of the main thread, as many as several intervals of an index need.
  void pass_intervals(int events) {
    for (int i = 0; i < events / 2; ++i) {
      main.alloc(time += 2, 0x900'000, 8, 4);
      main.free(time += 2, 0x900'000);
    }
  }
};

}  // namespace

TEST_CASE("Random slices are the same with and without an index") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(1, 9)));
  TraceBuilder trace;
  heapprof::test::random_program(trace, seed, 24'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 3'600)};
  std::mt19937_64 random(heapprof::test::seed(seed));
  int began_at_snapshot = 0;
  for (int i = 0; i < 14; ++i) {
    Selection selection;
    const double from = static_cast<double>(random() % 1'000) / 10;
    selection.from = Moment{from, true};
    if (i % 3 != 0) selection.to = Moment{from + static_cast<double>(random() % 1'000) / 10000 * (100 - from), true};
    if (i % 4 == 3 && selection.to)
      selection.survivors = Moment{i % 8 == 3 ? 100 : (selection.to->value + 100) / 2, true};
    if (i % 4 == 1) selection.kind = model::Kind::kAll;
    if (i % 4 == 2) selection.kind = model::Kind::kMmap;
    if (i % 5 == 1) selection.min_size = 100, selection.max_size = 50'000;
    if (i % 5 == 2) selection.thread_ids = {100, 102, 203};
    if (i % 7 == 3) selection.thread_names = {"worker"};
    if (i % 8 == 6) selection.excluded_thread_names = {"worker"};
    if (i % 7 == 5) selection.max_lifetime_ns = 30;
    if (i % 6 == 4)
      selection.select_stacks = [](const model::Profile& profile) {
        std::vector<std::uint8_t> chosen(profile.nodes.size());
        for (std::size_t node = 0; node < chosen.size(); ++node) chosen[node] = node % 3 != 0;
        return chosen;
      };
    const Analysis with(path.path(), selection, {}, kIndex);
    const Analysis without(path.path(), selection, {}, kNoIndex);
    CHECK(with.warnings().empty());
    CHECK(!without.began_at_snapshot());
    began_at_snapshot += with.began_at_snapshot();
    INFO("seed " << seed << ", slice " << i);
    CHECK(heapprof::test::first_difference(text_of(with), text_of(without)) == "");
  }
  CHECK(began_at_snapshot >= 4);
}

TEST_CASE("Blocks and their frees are the same where an index leaves out intervals") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(31, 39)));
  const bool has_sizes = seed >= 37;  // asks for rare sizes, in more intervals
  TraceBuilder trace;
  heapprof::test::random_program(trace, seed, has_sizes ? 200'000 : 24'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 300)};
  std::mt19937_64 random(heapprof::test::seed(seed));
  std::size_t compared = 0, shorter = 0;
  for (int i = 0; i < 16; ++i) {
    Selection selection;
    selection.only_costs = true;
    EventFilter::Sizes sizes;
    if (has_sizes) {
      sizes.min_size = 1'000 + random() % 90'000;
      sizes.max_size = sizes.min_size + (i % 5 == 0 ? 20'000 : 30 + random() % 100);
    }
    const double from = static_cast<double>(random() % 900) / 10;
    if (i % 4 != 0) selection.from = Moment{from, true};
    if (i % 5 == 1) selection.min_size = 100;
    if (i % 7 == 2) selection.thread_names = {"worker"};
    const bool lists = i % 3 == 2;

    // Of a block: when, where, size, stack and thread; when and by which thread it was freed, or whether it was left.
    using Row = std::array<std::uint64_t, 10>;
    const auto blocks = [&](const IndexUse& use, std::size_t& events) {
      const Analysis analysis(path.path(), selection, {}, use);
      CHECK(analysis.warnings().empty());
      const std::uint64_t duration_ns = analysis.profile().recording.duration_ns;
      const std::uint64_t until_ns = static_cast<std::uint64_t>(
          static_cast<double>(duration_ns) / 100 * (selection.from ? from + static_cast<double>(i % 4) : 101));
      std::vector<std::uint8_t> nodes(analysis.profile().nodes.size(), i % 2 == 0 ? 1 : 0);
      if (i % 2 == 1)
        for (std::size_t node = seed % 7; node < nodes.size(); node += 1 + nodes.size() / 2) nodes[node] = 1;
      EventFilter which;
      which.of_kind = true;
      which.nodes = &nodes;
      if (use.use) which.blocks_until_ns = until_ns, which.block_sizes = sizes;
      if (lists) which.only_allocations.emplace();
      std::vector<Row> rows;
      const auto is_asked = [&](std::uint64_t allocated_ns, std::uint64_t size, std::uint32_t node) {
        return allocated_ns <= until_ns && size >= sizes.min_size && size <= sizes.max_size && nodes[node] != 0;
      };
      double last_share = 0;
      bool ordered = true;
      const Progress progress = [&](const Done& done) {
        ordered &= done.share >= last_share && done.share <= 1;
        last_share = done.share;
      };
      which.visit_leaked = [&](const LiveBlock& block) {
        if (is_asked(block.time_ns, block.size, block.node))
          rows.push_back({block.time_ns, block.address, block.size, block.node, block.thread, 0, 0, 0, 0, 1});
      };
      analysis.for_each_event(
          [&](std::span<const ProfileEvent> some) {
            for (const ProfileEvent& event : some) {
              ++events;
              if (event.subject != Subject::kBlock) continue;
              if (lists && event.kind == ResolvedKind::kAllocation && is_asked(event.time_ns, event.size, event.node))
                rows.push_back({event.time_ns, event.address, event.size, event.node, event.thread});
              if (event.kind == ResolvedKind::kFree && is_asked(event.allocated_ns, event.size, event.node))
                rows.push_back({event.allocated_ns, event.address, event.size, event.node, event.thread,
                                event.time_ns, event.freeing_thread, event.temporary, event.in_realloc, 0});
            }
          },
          progress, which);
      CHECK(ordered);
      std::ranges::sort(rows);
      return rows;
    };
    INFO("seed " << seed << ", selection " << i);
    std::size_t events_with = 0, events_without = 0;
    const std::vector<Row> expected = blocks(kNoIndex, events_without);
    const std::vector<Row> found = blocks(kIndex, events_with);
    shorter += 2 * events_with < events_without || (!has_sizes && events_with < events_without);
    CHECK(expected.size() == found.size());
    CHECK((expected == found));
    compared += expected.size();
  }
  CHECK(compared > (has_sizes ? 100 : 10'000));
  CHECK(shorter >= (has_sizes ? 4 : 1));
}

TEST_CASE("Where an index leaves out intervals, a realloc does not make its block a selected one") {
  TwoThreads threads;
  auto& [trace, main, other, time] = threads;
  main.alloc(time += 2, 0x10'000, 111, 1);
  main.alloc(time += 2, 0x20'000, 222, 1);
  other.alloc(time += 2, 0x30'000, 333, 1);
  const std::uint64_t until_ns = time;
  threads.pass_intervals(20'000);
  other.realloc_begin(time += 2, 0x30'000);
  threads.pass_intervals(20'000);
  // The frees of the asked blocks let the interval of the realloc's end be read.
  main.free(time += 2, 0x10'000);
  other.realloc_end(time += 2, 0x40'000, 444, 2);
  main.free(time += 2, 0x20'000);
  threads.pass_intervals(20'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 1'000)};
  Selection selection;
  selection.only_costs = true;
  selection.from = Moment{0, true};
  selection.thread_ids = {100};
  const auto freed = [&](const IndexUse& use, std::size_t& events) {
    const Analysis analysis(path.path(), selection, {}, use);
    CHECK(analysis.warnings().empty());
    std::vector<std::uint64_t> addresses;
    EventFilter which;
    which.blocks_until_ns = until_ns;
    analysis.for_each_event(
        [&](std::span<const ProfileEvent> some) {
          events += some.size();
          for (const ProfileEvent& event : some)
            if (event.kind == ResolvedKind::kFree && event.allocated_ns <= until_ns)
              addresses.push_back(event.address);
        },
        {}, which);
    return addresses;
  };
  std::size_t events_with = 0, events_without = 0;
  const std::vector<std::uint64_t> expected = {0x10'000, 0x20'000};
  const std::vector<std::uint64_t> freed_without = freed(kNoIndex, events_without);
  const std::vector<std::uint64_t> freed_with = freed(kIndex, events_with);
  CHECK(freed_without == expected);
  CHECK(freed_with == expected);
  CHECK(events_with < events_without);  // intervals were left out
}

TEST_CASE("With a damaged index, a slice's blocks and frees are right, or an error says so") {
  TraceBuilder trace;
  heapprof::test::random_program(trace, 38, 12'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 300)};
  Selection selection;
  selection.only_costs = true;
  const auto sum_of_frees = [&](double from, const IndexUse& use) {
    selection.from = Moment{from, true};
    const Analysis analysis(path.path(), selection, {}, use);
    const auto duration_ns = static_cast<double>(analysis.profile().recording.duration_ns);
    const auto until_ns = static_cast<std::uint64_t>(duration_ns * (from + 5) / 100);
    std::uint64_t sum = 0;
    EventFilter which;
    which.blocks_until_ns = until_ns;
    analysis.for_each_event(
        [&](std::span<const ProfileEvent> events) {
          for (const ProfileEvent& event : events)
            if (event.kind == ResolvedKind::kFree && event.allocated_ns <= until_ns)
              sum += event.time_ns * event.size;
        },
        {}, which);
    return sum;
  };
  // Several slices: the frees of one that begins during a realloc are found without the index.
  std::array<std::uint64_t, 10> expected;
  const auto from_of = [](std::size_t slice) { return 15 + 5 * static_cast<double>(slice); };
  for (std::size_t slice = 0; slice < expected.size(); ++slice) {
    expected[slice] = sum_of_frees(from_of(slice), kNoIndex);
    CHECK(sum_of_frees(from_of(slice), kIndex) == expected[slice]);
  }
  const std::string index_path = path.path() + ".idx";
  const std::vector<std::uint8_t> whole = read_all(index_path);
  int errors = 0;
  for (std::size_t i = 1; i < 200; ++i) {
    std::vector<std::uint8_t> damaged = whole;
    damaged[whole.size() * i / 200] ^= 0x10;
    const std::size_t slice = i % expected.size();
    TraceBuilder::write_bytes(index_path, damaged);
    INFO("byte " << whole.size() * i / 200 << ", slice " << slice);
    try {
      const std::uint64_t sum = sum_of_frees(from_of(slice), kIndex);
      CHECK(sum == expected[slice]);
    } catch (const trace::TraceError& error) {
      CHECK(std::string(error.what()).find("--no-index") != std::string::npos);
      ++errors;
    }
  }
  CHECK(errors > 0);
}

TEST_CASE("What the whole recording allocated is known in every selection, with and without an index") {
  const std::uint64_t seed = 71;
  TraceBuilder trace;
  heapprof::test::random_program(trace, seed, 12'000);
  const TemporaryFile path;
  trace.write(path.path());
  const TemporaryFile compacted_path;
  compact(path.path(), compacted_path.path(), {.chunk_records = 1'000, .snapshot_interval = 3'000});
  const Removed index{index_trace(path.path(), 1'800)};

  const auto totals_of = [](const model::Profile& profile) {
    std::vector<model::StackTotals> totals;
    for (std::uint32_t node = 0; node < profile.nodes.size(); ++node) totals.push_back(profile.whole_of(node));
    return totals;
  };
  const auto whole_of = [&](model::Kind kind) {
    Selection everything;
    everything.kind = kind;
    const Analysis analysis(path.path(), everything, {}, kNoIndex);
    CHECK(analysis.profile().whole.empty());
    return totals_of(analysis.profile());
  };
  const std::vector<model::StackTotals> heap = whole_of(model::Kind::kHeap);
  const std::vector<model::StackTotals> mmap = whole_of(model::Kind::kMmap);
  std::vector<model::StackTotals> all = heap;
  for (std::size_t node = 0; node < all.size(); ++node) all[node] += mmap[node];
  REQUIRE(heap != all);

  const std::vector<std::function<void(Selection&)>> parts = {
      [](Selection& part) { part.min_size = 1'000; },
      [](Selection& part) { part.thread_ids = {100}; },
      [](Selection& part) {
        part.from = Moment{30, true};
      },
      [](Selection& part) {
        part.to = Moment{60, true};
      },
      [](Selection& part) {
        part.from = Moment{0, true}, part.to = Moment{100, true};
      },
      [](Selection& part) {
        part.from = Moment{20, true}, part.to = Moment{40, true}, part.only_costs = true;
      },
      [](Selection& part) {
        part.live_at = Moment{50, true};
      },
      [](Selection& part) {
        part.live_at = Moment{50, true}, part.only_costs = true;
      },
      [](Selection& part) {
        part.live_at = Moment{50, true}, part.only_live = true;
      },
      [](Selection& part) { part.only_live = true; },
      [](Selection& part) {
        part.from = Moment{20, true}, part.to = Moment{40, true}, part.survivors = Moment{80, true};
      },
      [](Selection& part) { part.max_lifetime_ns = 100; },
      [](Selection& part) {
        part.select_stacks = [](const model::Profile& profile) {
          std::vector<std::uint8_t> chosen(profile.nodes.size());
          for (std::size_t node = 0; node < chosen.size(); ++node) chosen[node] = node % 2;
          return chosen;
        };
      },
  };
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (const model::Kind kind : {model::Kind::kHeap, model::Kind::kMmap, model::Kind::kAll}) {
      Selection part;
      parts[i](part);
      part.kind = kind;
      const auto& expected = kind == model::Kind::kHeap ? heap : kind == model::Kind::kMmap ? mmap : all;
      INFO("seed " << seed << ", part " << i << ", kind " << static_cast<int>(kind));
      for (const IndexUse& use : {kIndex, kNoIndex}) {
        const Analysis analysis(path.path(), part, {}, use);
        CHECK(totals_of(analysis.profile()) == expected);
        // Nodes of a compacted trace are in the same order.
        CHECK(totals_of(Analysis(compacted_path.path(), part, {}, use).profile()) == expected);
      }
    }
}

TEST_CASE("Sections of an index file are not used in a compacted trace") {
  TraceBuilder trace;
  heapprof::test::random_program(trace, 72, 6'000);
  const TemporaryFile path, compacted_path;
  trace.write(path.path());
  compact(path.path(), compacted_path.path(), {.chunk_records = 1'000, .snapshot_interval = 1'000'000});
  const Removed index{index_trace(path.path(), 2'000)};
  const std::vector<std::uint8_t> bytes = read_all(index.path);
  std::vector<std::uint8_t> compacted = read_all(compacted_path.path());
  {
    const trace::InputFile input(index.path);
    const trace::SectionTable table = trace::walk_sections(input, TraceBuilder::kFileId, 48, input.size());
    REQUIRE(table.states.size() >= 2);
    // All but the summary, which is the last one.
    compacted.insert(compacted.end(), bytes.begin() + 48,
                     bytes.begin() + static_cast<std::ptrdiff_t>(table.summaries.back().offset));
  }
  TraceBuilder::write_bytes(compacted_path.path(), compacted);
  const trace::TraceFile file(compacted_path.path());
  REQUIRE(file.compacted()->sections.states.size() >= 2);
  const Index inside = Index::inside(file);
  CHECK(inside.intervals() == 0);
  CHECK(inside.snapshot_before(~std::uint64_t{0}).empty());
  Selection selection;
  selection.from = Moment{90, true};
  const Analysis with(compacted_path.path(), selection, {}, kIndex);
  const Analysis without(compacted_path.path(), selection, {}, kNoIndex);
  CHECK(with.warnings().empty());
  CHECK(heapprof::test::first_difference(text_of(with), text_of(without)) == "");
}

TEST_CASE("Totals of the recording are read as they were written, and only of stacks that exist") {
  RecordingTotals totals;
  totals.heap.resize(9);
  totals.heap[3] = {4, 400, 1, 2};
  totals.heap[8] = {1, 1, 0, 0};
  totals.mmap.resize(2);
  totals.mmap[1] = {1, 4096, 0, 1};
  trace::ByteWriter out;
  save(totals, out);
  const auto load = [&](std::uint32_t node_count) {
    trace::ByteReader in(out.bytes());
    return load_recording_totals(in, node_count);
  };
  const RecordingTotals loaded = load(9);
  CHECK(loaded.heap == totals.heap);
  CHECK(loaded.mmap == totals.mmap);
  CHECK(loaded.of(model::Kind::kAll, 3) == totals.heap[3]);
  CHECK(loaded.of(model::Kind::kHeap, 1).empty());
  CHECK_THROWS_AS(load(8), trace::FormatError);  // no stack has the number 8
  CHECK_THROWS_AS(load(1), trace::FormatError);
  out.number(0);
  CHECK_THROWS_AS(load(9), trace::FormatError);
}

TEST_CASE("Costs by thread are those of the blocks that the thread allocated") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(61, 62));
  TraceBuilder trace;
  heapprof::test::random_program(trace, seed, 8'000);
  const TemporaryFile path;
  trace.write(path.path());
  for (int i = 0; i < 5; ++i) {
    Selection selection;
    if (i >= 1) selection.from = Moment{25, true};
    if (i >= 2) selection.to = Moment{70, true};
    if (i == 3) selection.live_at = Moment{40, true};
    if (i == 4) selection.survivors = Moment{90, true};
    selection.costs_by_thread = true;
    const Analysis all(path.path(), selection, {}, kNoIndex);
    model::Costs sum;
    for (const model::Costs& costs : all.profile().thread_costs) sum += costs;
    INFO("seed " << seed << ", slice " << i);
    CHECK((sum.peak_bytes == all.profile().totals.peak_bytes && sum.peak_blocks == all.profile().totals.peak_blocks));
    REQUIRE(all.profile().thread_costs.size() == all.profile().threads.size());
    for (std::size_t thread = 0; thread < all.profile().threads.size(); ++thread) {
      selection.thread_ids = {all.profile().threads[thread].tid};
      const Analysis one(path.path(), selection, {}, kNoIndex);
      const model::Costs& costs = all.profile().thread_costs[thread];
      const model::Costs& expected = one.profile().totals;
      CHECK((costs.allocations == expected.allocations && costs.allocated_bytes == expected.allocated_bytes));
      CHECK((costs.temporary == expected.temporary && costs.temporary_bytes == expected.temporary_bytes));
      CHECK((costs.leaked_blocks == expected.leaked_blocks && costs.leaked_bytes == expected.leaked_bytes));
      CHECK((costs.live_blocks == expected.live_blocks && costs.live_bytes == expected.live_bytes));
    }
  }
}

TEST_CASE("Costs of random slices are the same when sums are added and when all events are replayed") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(51, 59)));
  TraceBuilder trace;
  heapprof::test::random_program(trace, seed, 32'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 1'000)};
  std::mt19937_64 random(heapprof::test::seed(seed));
  std::size_t added = 0;
  int narrow = 0;
  for (int i = 0; i < 16; ++i) {
    Selection selection;
    selection.only_costs = selection.costs_by_thread = true;
    const double from = static_cast<double>(random() % 1'000) / 10;
    if (i % 4 != 0) selection.from = Moment{from, true};
    if (i % 4 == 0) selection.from = Moment{0, true};
    if (i % 3 != 0) selection.to = Moment{from + static_cast<double>(random() % 1'000) / 1000 * (100 - from), true};
    if (i % 5 == 3) selection.to = Moment{from + static_cast<double>(random() % 1'000) / 10'000, true};  // narrow
    if (i == 15) selection.from.reset(), selection.to.reset();
    const Analysis with(path.path(), selection, {}, kIndex);
    const Analysis without(path.path(), selection, {}, kNoIndex);
    CHECK(with.warnings().empty());
    CHECK(without.intervals_added() == 0);
    added += with.intervals_added();
    if (i == 15) CHECK(with.intervals_added() >= 10);
    narrow += with.began_at_snapshot() && with.intervals_added() == 0;
    INFO("seed " << seed << ", slice " << i << ", intervals added " << with.intervals_added());
    CHECK(heapprof::test::first_difference(text_of(with), text_of(without)) == "");
    for (std::size_t node = 0; node < with.profile().nodes.size(); ++node) {
      const model::Costs& one = with.profile().nodes[node].costs;
      const model::Costs& other = without.profile().nodes[node].costs;
      CHECK((one.moved_blocks == other.moved_blocks && one.moved_bytes == other.moved_bytes));
    }
    CHECK(heapprof::test::first_difference(text_of_threads(with), text_of_threads(without)) == "");
    // But for what only_costs leaves out, also the same as any other analysis of the slice.
    selection.only_costs = false;
    const Analysis whole(path.path(), selection, {}, kNoIndex);
    CHECK(whole.profile().heap.peak_time_ns == with.profile().heap.peak_time_ns);
    CHECK(whole.profile().totals.peak_bytes == with.profile().totals.peak_bytes);
    CHECK(whole.profile().totals.leaked_blocks == with.profile().totals.leaked_blocks);
    CHECK(whole.profile().totals.moved_bytes == with.profile().totals.moved_bytes);
  }
  CHECK(added >= 40);
  CHECK(narrow >= 1);
}

TEST_CASE(
    "An index without room for live or for older blocks at the end serves the whole recording, and all slices") {
  const bool frees_all = GENERATE(false, true);  // then there are too many older ones
  constexpr std::uint64_t kBlocks = 30'000;
  std::mt19937_64 random(heapprof::test::seed(71));
  TraceBuilder trace;
  TraceBuilder::Stream& stream = trace.stream();
  stream.thread(100, "main");
  stream.module(2, "/bin/one", "\x01", 0x1000, 0, 0x10000, true);
  for (std::uint32_t node = 1; node <= 4; ++node) stream.node(node, 0, 2, node);
  std::uint64_t time = 1;
  const auto allocate = [&](std::uint64_t block) {
    stream.alloc(time += 1 + random() % 900, 0x10000 + 64 * block, random() % 100'000,
                 1 + static_cast<std::uint32_t>(random() % 4));
  };
  for (std::uint64_t block = 0; block < kBlocks; ++block) allocate(block * 7919 % kBlocks);
  for (std::uint64_t i = 0; i < (frees_all ? 2 * kBlocks : kBlocks / 2); ++i) {
    const std::uint64_t block = random() % kBlocks;
    stream.free(time += random() % 900, 0x10000 + 64 * block);
    allocate(block);
  }
  for (std::uint64_t block = 0; frees_all && block < kBlocks; ++block)
    stream.free(time += random() % 900, 0x10000 + 64 * block);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 3'000)};
  const trace::TraceFile file(path.path());
  const trace::InputFile input(index.path);
  const trace::SectionTable table = trace::walk_sections(input, file.file_id(), 48, input.size());
  REQUIRE(table.states.size() >= 2);
  REQUIRE(table.states.back().header.events == (frees_all ? kEndOfTrace | kWithoutOlder : kEndOfTrace));
  REQUIRE(table.blocks.empty());
  for (const auto& [from, to] : {std::pair(-1, -1), std::pair(0, 60), std::pair(30, 100), std::pair(95, 99)}) {
    Selection selection;
    selection.only_costs = selection.costs_by_thread = true;
    if (from >= 0) selection.from = Moment{static_cast<double>(from), true};
    if (to >= 0) selection.to = Moment{static_cast<double>(to), true};
    const Analysis with(path.path(), selection, {}, kIndex);
    const Analysis without(path.path(), selection, {}, kNoIndex);
    INFO("from " << from << " to " << to);
    CHECK(with.warnings().empty());
    CHECK(with.intervals_added() == (from < 0 ? table.states.size() : with.intervals_added()));
    if (!frees_all) CHECK((with.intervals_added() != 0 || with.began_at_snapshot()));
    CHECK(heapprof::test::first_difference(text_of(with), text_of(without)) == "");
    CHECK(heapprof::test::first_difference(text_of_threads(with), text_of_threads(without)) == "");
  }
}

TEST_CASE("Slices within one interval, and in parts of two or three, have the same costs") {
  constexpr std::uint64_t kBlocks = 20'000, kReplaced = 100;
  std::mt19937_64 random(heapprof::test::seed(72));
  TraceBuilder trace;
  TraceBuilder::Stream& stream = trace.stream();
  stream.thread(100, "main");
  stream.module(2, "/bin/one", "\x01", 0x1000, 0, 0x10000, true);
  for (std::uint32_t node = 1; node <= 4; ++node) stream.node(node, 0, 2, node);
  std::uint64_t time = 1;
  const auto allocate = [&](std::uint64_t block) {
    stream.alloc(time += 1 + random() % 900, 0x10000 + 64 * block, random() % 10'000,
                 1 + static_cast<std::uint32_t>(random() % 4));
  };
  for (std::uint64_t block = 0; block < kBlocks; ++block) allocate(block);
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    const std::uint64_t block = random() % kReplaced;
    stream.free(time += random() % 900, 0x10000 + 64 * block);
    allocate(block);
  }
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 2'000)};
  std::string why_not;
  const trace::TraceFile file(path.path());
  const auto opened = Index::open(index.path, file, why_not);
  REQUIRE(opened);
  REQUIRE(opened->intervals() >= 8);
  const auto percent_at = [&](std::size_t interval, int later) {
    const auto ticks = static_cast<double>(opened->last_time_of(interval)) + later;
    return ticks * 100 / static_cast<double>(opened->summary()->last_time);
  };
  std::array<int, 3> slices{};  // by whole intervals
  int within = 0;
  for (std::size_t i = 1; i + 3 < opened->intervals(); ++i)
    for (const auto& [from, last, to] : {std::tuple(-3'000, 1, 3'000), std::tuple(-3'000, 0, 3'000),
                                         std::tuple(3'000, 0, 9'000), std::tuple(3'000, 1, 3'000)}) {
      Selection selection;
      selection.only_costs = selection.costs_by_thread = true;
      selection.from = Moment{percent_at(i, from), true};
      selection.to = Moment{percent_at(i + static_cast<std::size_t>(last), to), true};
      const Analysis with(path.path(), selection, {}, kIndex);
      const Analysis without(path.path(), selection, {}, kNoIndex);
      INFO("slice " << i << " from " << from << " to " << last << ", " << to);
      CHECK(with.warnings().empty());
      CHECK(with.began_at_snapshot());
      CHECK(with.profile().heap.allocations > 2);
      CHECK(heapprof::test::first_difference(text_of(with), text_of(without)) == "");
      CHECK(heapprof::test::first_difference(text_of_threads(with), text_of_threads(without)) == "");
      if (with.intervals_added() < slices.size()) ++slices[with.intervals_added()];
      within += to == 9'000;
    }
  CHECK((slices[0] >= 8 && slices[1] >= 4 && within >= 4));
}

TEST_CASE("No interval ends between events of one time, and slices are the same") {
  std::mt19937_64 random(heapprof::test::seed(73));
  TraceBuilder trace;
  TraceBuilder::Stream& stream = trace.stream();
  stream.thread(100, "main");
  stream.module(2, "/bin/one", "\x01", 0x1000, 0, 0x10000, true);
  for (std::uint32_t node = 1; node <= 4; ++node) stream.node(node, 0, 2, node);
  std::vector<std::uint64_t> free_places, live;
  for (std::uint64_t place = 0; place < 3'000; ++place) free_places.push_back(0x10000 + 64 * place);
  // More events of one time than a batch has, which reuse addresses, and then events of different times.
  std::uint64_t time = 1'000;
  for (int i = 0; i < 150'000; ++i) {
    if (i % 30'000 >= 20'000) ++time;
    const bool allocates = live.empty() || (!free_places.empty() && random() % 2 == 0);
    std::vector<std::uint64_t>& from = allocates ? free_places : live;
    std::swap(from[random() % from.size()], from.back());
    const std::uint64_t address = from.back();
    from.pop_back();
    (allocates ? live : free_places).push_back(address);
    if (allocates) stream.alloc(time, address, random() % 1'000, 1 + static_cast<std::uint32_t>(random() % 4));
    else stream.free(time, address);
  }
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 2'000)};
  const trace::TraceFile file(path.path());
  const trace::InputFile input(index.path);
  const trace::SectionTable table = trace::walk_sections(input, file.file_id(), 48, input.size());
  REQUIRE(table.states.size() >= 6);
  std::vector<std::uint64_t> times;
  trace::MergedReader reader(file);
  trace::Batch batch;
  while (reader.next(batch))
    for (const trace::MergedEvent& event : batch.events()) times.push_back(event.time);
  for (const trace::Section& state : table.states) {
    const std::uint64_t records = state.header.number;
    CHECK((records == times.size() || times[records - 1] != times[records]));
  }
  int began = 0;
  for (int from = 5; from < 96; from += 11)
    for (const int to : {from + 3, from + 20})
      for (const bool costs : {true, false}) {
        Selection selection;
        selection.only_costs = costs;
        selection.from = Moment{static_cast<double>(from), true};
        selection.to = Moment{static_cast<double>(std::min(to, 100)), true};
        const Analysis with(path.path(), selection, {}, kIndex);
        const Analysis without(path.path(), selection, {}, kNoIndex);
        INFO("from " << from << " to " << to << ", costs " << costs);
        CHECK(with.warnings().empty());
        began += with.began_at_snapshot() || with.intervals_added() != 0;
        CHECK(heapprof::test::first_difference(text_of(with), text_of(without)) == "");
      }
  CHECK(began >= 24);
}

TEST_CASE("Slices know which blocks reallocs have, and which of them were freed before the realloc failed") {
  const bool gives_again = GENERATE(false, true);
  TwoThreads threads;
  auto& [trace, main, other, time] = threads;
  main.alloc(time += 2, 0x10'000, 111, 1);
  other.realloc_begin(time += 2, 0x10'000);
  main.alloc(time += 2, 0x10'000, 222, 2);
  threads.pass_intervals(10'000);
  const std::uint64_t begin = time;
  main.free(time += 2, 0x10'000);
  other.realloc_failed(time += 2, 5);
  if (gives_again) other.realloc_begin(time += 2, 0x10'000);
  threads.pass_intervals(10'000);
  if (gives_again) other.realloc_failed(time += 2, 5);
  main.free(time += 2, 0x10'000);
  threads.pass_intervals(10'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 1'000)};
  for (std::uint64_t from = begin - 6'000; from < time - 100; from += 997)
    for (const bool costs : {true, false}) {
      Selection selection;
      selection.only_costs = selection.costs_by_thread = costs;
      selection.from = Moment{static_cast<double>(from) * 100 / static_cast<double>(time), true};
      const Analysis with(path.path(), selection, {}, kIndex);
      const Analysis without(path.path(), selection, {}, kNoIndex);
      INFO("from " << from << ", costs " << costs);
      CHECK(with.warnings().empty());
      CHECK(with.began_at_snapshot());
      CHECK(heapprof::test::first_difference(text_of(with), text_of(without)) == "");
      CHECK(heapprof::test::first_difference(text_of_threads(with), text_of_threads(without)) == "");
    }
}

TEST_CASE("A realloc counts as a move although its block was freed long before it returned") {
  TwoThreads threads;
  auto& [trace, main, other, time] = threads;
  threads.pass_intervals(6'000);
  const std::uint64_t begin = time;
  main.alloc(time += 2, 0x10'000, 111, 1);
  main.alloc(time += 2, 0x30'000, 555, 1);  // stays live
  threads.pass_intervals(6'000);
  other.realloc_begin(time += 2, 0x10'000);
  threads.pass_intervals(6'000);
  main.alloc(time += 2, 0x10'000, 222, 2);
  threads.pass_intervals(6'000);
  other.realloc_end(time += 2, 0x20'000, 333, 3);
  threads.pass_intervals(6'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 1'000)};
  std::size_t added = 0;
  for (std::uint64_t moment = 1; moment < time; moment += 1'997)
    for (const int what : {0, 1, 2}) {
      Selection selection;
      selection.only_costs = selection.costs_by_thread = true;
      std::optional<Moment>& given = what == 0 ? selection.from : what == 1 ? selection.to : selection.live_at;
      given = Moment{static_cast<double>(moment) * 100 / static_cast<double>(time), true};
      const Analysis with(path.path(), selection, {}, kIndex);
      const Analysis without(path.path(), selection, {}, kNoIndex);
      INFO((what == 0 ? "from " : what == 1 ? "to " : "live at ") << moment);
      CHECK(with.warnings().empty());
      added += with.intervals_added();
      CHECK(heapprof::test::first_difference(text_of(with), text_of(without)) == "");
      if (what == 0) CHECK(without.profile().totals.moved_blocks == (moment < begin));
    }
  CHECK(added > 100);
  const Analysis with(path.path(), {}, {}, kIndex);
  CHECK(with.profile().totals.moved_blocks == 1);
  CHECK(heapprof::test::first_difference(text_of(with), text_of(Analysis(path.path(), {}, {}, kNoIndex))) == "");
}

TEST_CASE("Slices are the same where reallocs last long, fail, and their blocks' addresses are used meanwhile") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(75, 77)));
  std::mt19937_64 random(heapprof::test::seed(seed));
  TraceBuilder trace;
  std::vector<TraceBuilder::Stream*> streams;
  for (std::uint32_t thread = 0; thread < 4; ++thread) {
    streams.push_back(&trace.stream(400));
    streams.back()->thread(100 + thread, "t" + std::to_string(thread));
  }
  streams[0]->module(2, "/bin/one", "\x01", 0x1000, 0, 0x10000, true);
  for (std::uint32_t node = 1; node <= 4; ++node) streams[0]->node(node, 0, 2, node);
  std::vector<std::uint64_t> live;
  std::array<std::uint64_t, 4> given{};  // by thread: the address of the block that its realloc has
  std::uint64_t time = 1, fresh = 0x10000;
  int failed = 0, reused = 0;
  const auto is_live = [&](std::uint64_t address) { return std::ranges::find(live, address) != live.end(); };
  const auto take = [&] {
    std::swap(live[random() % live.size()], live.back());
    const std::uint64_t address = live.back();
    live.pop_back();
    return address;
  };
  for (int i = 0; i < 40'000; ++i) {
    time += 1 + random() % 3;
    const std::size_t thread = random() % 4;
    TraceBuilder::Stream& stream = *streams[thread];
    const auto node = 1 + static_cast<std::uint32_t>(random() % 4);
    const std::uint64_t size = random() % 1'000;
    const std::uint64_t others = given[random() % 4];
    if (given[thread] != 0 && random() % (seed % 2 == 0 ? 300 : 60) == 0) {
      if (random() % 3 != 0 && !is_live(given[thread])) {
        stream.realloc_failed(time, size);
        live.push_back(given[thread]);
        ++failed;
      } else {
        stream.realloc_end(time, fresh += 64, size, node);
        live.push_back(fresh);
      }
      given[thread] = 0;
    } else if (given[thread] == 0 && !live.empty() && random() % 20 == 0) {
      // Often the same block, again and again.
      const std::uint64_t address = take();
      stream.realloc_begin(time, address);
      given[thread] = address;
    } else if (others != 0 && !is_live(others) && random() % 30 == 0 && std::ranges::count(given, others) == 1) {
      stream.alloc(time, others, size, node);
      live.push_back(others);
      ++reused;
    } else if (live.size() < 300 || (live.size() < 600 && random() % 2 == 0)) {
      stream.alloc(time, fresh += 64, size, node);
      live.push_back(fresh);
    } else {
      stream.free(time, take());
    }
  }
  CHECK((failed >= 3 && reused >= 3));
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 1'000)};
  std::string why_not;
  const trace::TraceFile file(path.path());
  const auto opened = Index::open(index.path, file, why_not);
  REQUIRE(opened);
  REQUIRE(opened->intervals() >= 8);
  int began = 0;
  const auto end = static_cast<double>(opened->summary()->last_time);
  for (int i = 0; i < 24; ++i) {
    const bool costs = i % 2 == 0;
    Selection selection;
    selection.only_costs = selection.costs_by_thread = costs;
    const std::size_t first = 1 + random() % (opened->intervals() - 2);
    const std::size_t last = first + random() % 3;
    const auto percent_at = [&](std::size_t interval, std::uint64_t ticks) {
      const std::size_t known = std::min(interval, opened->intervals() - 1);
      return static_cast<double>(opened->last_time_of(known) + ticks) * 100 / end;
    };
    const double from = std::min(percent_at(first, random() % 600), 99.0);
    const double to = std::max(percent_at(last, 600 + random() % 600), from);
    selection.from = Moment{from, true};
    if (to < 100) selection.to = Moment{to, true};
    const Analysis with(path.path(), selection, {}, kIndex);
    const Analysis without(path.path(), selection, {}, kNoIndex);
    INFO("seed " << seed << ", from " << from << " to " << to << ", costs " << costs);
    CHECK(with.warnings().empty());
    began += with.began_at_snapshot();
    CHECK(heapprof::test::first_difference(text_of(with), text_of(without)) == "");
    CHECK(heapprof::test::first_difference(text_of_threads(with), text_of_threads(without)) == "");
  }
  CHECK(began == 24);
}

TEST_CASE("Live bytes over time are the same from the index and from a replay, and add up to the timeline") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(81, 87)));
  TraceBuilder trace;
  heapprof::test::random_program(trace, seed, 40'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 4'000)};
  Selection selection;
  selection.only_costs = selection.with_timeline = selection.costs_by_thread = true;
  const Analysis with(path.path(), selection, {}, kIndex);
  const Analysis without(path.path(), selection, {}, kNoIndex);
  INFO("seed " << seed);
  CHECK(with.warnings().empty());
  CHECK(with.intervals_added() >= 8);
  CHECK(heapprof::test::first_difference(text_of(with), text_of(without)) == "");
  CHECK(heapprof::test::first_difference(text_of_threads(with), text_of_threads(without)) == "");
  const Analysis replayed(path.path(), {}, {}, kNoIndex);
  const std::string timeline_text = text_of(replayed.profile().timeline);
  CHECK(heapprof::test::first_difference(text_of(with.profile().timeline), timeline_text) == "");

  // Groups of stacks, of which some are in none.
  const model::Profile& profile = with.profile();
  std::mt19937_64 random(heapprof::test::seed(seed));
  std::vector<std::uint32_t> group_of_node(profile.nodes.size()), all(profile.nodes.size(), 0);
  for (std::uint32_t& group : group_of_node) group = random() % 4 == 0 ? model::kNoIndex : random() % 5;
  bool has_read = false;
  const auto no_pass = [&](const Done&) { has_read = true; };
  model::Timeline timeline;
  CHECK((with.live_by_group(group_of_node, 5, no_pass, InBucket::kLast, &timeline) ==
         without.live_by_group(group_of_node, 5)));
  CHECK(heapprof::test::first_difference(text_of(timeline), timeline_text) == "");
  CHECK((with.live_by_thread(no_pass) == without.live_by_thread()));
  const std::vector<std::uint64_t> total = with.live_by_group(all, 1, no_pass).front();
  CHECK(!has_read);
  REQUIRE(total.size() == profile.timeline.buckets.size());
  REQUIRE(total.size() > 100);
  for (std::size_t i = 0; i + 1 < total.size(); ++i) CHECK(total[i] == profile.timeline.buckets[i].last_bytes);
}

TEST_CASE("Trends of leaks are the same from the index and from a replay, and those of the live bytes over time") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(91, 95)));
  TraceBuilder trace;
  heapprof::test::random_program(trace, seed, 40'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 4'000)};
  Selection selection;
  selection.only_costs = selection.with_timeline = true;
  const Analysis with(path.path(), selection, {}, kIndex);
  const Analysis without(path.path(), selection, {}, kNoIndex);
  INFO("seed " << seed);
  CHECK(with.intervals_added() >= 8);

  // Some stacks have no history, and sites have several stacks.
  std::mt19937_64 random(heapprof::test::seed(seed));
  const model::Profile& profile = with.profile();
  std::vector<std::uint32_t> stack_of_node(profile.nodes.size(), model::kNoIndex), site_of_node(profile.nodes.size());
  std::uint32_t stacks = 0;
  for (std::uint32_t& stack : stack_of_node)
    if (random() % 4 != 0) stack = stacks++;
  for (std::uint32_t& site : site_of_node) site = random() % 4 == 0 ? model::kNoIndex : random() % 5;
  unsigned batches_read = 0;
  const auto trends = [&](const Analysis& analysis) {
    model::LeakHistory by_stack(stacks, analysis.leak_steps(), analysis.clock());
    model::LeakHistory by_site(5, analysis.leak_steps(), analysis.clock());
    analysis.follow_leaks(by_stack, stack_of_node, by_site, site_of_node, [&](const Done&) { ++batches_read; });
    by_stack.finish();
    by_site.finish();
    std::vector<model::LeakTrend> found;
    for (std::uint32_t i = 0; i < stacks; ++i) found.push_back(by_stack.of(i));
    for (std::uint32_t i = 0; i < 5; ++i) found.push_back(by_site.of(i));
    return found;
  };
  const std::vector<model::LeakTrend> of_index = trends(with);
  CHECK(batches_read == 0);
  const std::vector<model::LeakTrend> of_replay = trends(without);
  CHECK(batches_read != 0);
  REQUIRE(of_index.size() == of_replay.size());
  std::uint64_t longest_ns = 0, freed = 0;
  for (std::size_t i = 0; i < of_index.size(); ++i) {
    INFO("position " << i << " of " << stacks << " stacks and 5 sites");
    CHECK(of_index[i] == of_replay[i]);
    longest_ns = std::max(longest_ns, of_index[i].longest_life_ns);
    freed += of_index[i].freed_blocks;
  }
  CHECK(longest_ns > 0);
  CHECK(freed > 1'000);

  // The lowest live bytes at the ends of the steps, from another pass.
  const auto live = without.live_by_group(site_of_node, 5);
  const model::LeakSteps steps = with.leak_steps();
  for (std::uint32_t site = 0; site < 5; ++site)
    for (unsigned part = 0; part < model::LeakTrend::kParts; ++part) {
      const std::size_t end = part + 1 == model::LeakTrend::kParts ? live[site].size() + 1 : steps.by_time[part + 1];
      std::uint64_t low = ~std::uint64_t{0};
      for (std::size_t step = steps.by_time[part]; step < end; ++step)
        low = std::min(low, step == 0 ? 0 : live[site][step - 1]);
      CHECK(of_index[stacks + site].low_bytes[part] == low);
    }
}

TEST_CASE("An index without room for the changes of stacks has the timeline, and the rest comes from a replay") {
  TraceBuilder trace;
  heapprof::test::random_program(trace, 96, 40'000);
  const TemporaryFile path;
  trace.write(path.path());
  const trace::TraceFile file(path.path());
  const Removed index{index_trace(path.path(), 4'000)};
  {
    const std::vector<std::uint8_t> bytes = read_all(index.path);
    const trace::InputFile input(index.path);
    const trace::SectionTable table = trace::walk_sections(input, file.file_id(), 48, input.size());
    const trace::Section& section = table.histories.back();
    std::string why_not;
    LiveHistory history = *Index::open(index.path, file, why_not)->history(Replay::first_bucket_ticks(file));
    history.nodes.clear();
    history.threads.clear();
    history.has_changes = false;
    trace::ByteWriter contents;
    save(history, contents);
    const std::vector<std::uint8_t> other = trace::make_section(section.header, contents.bytes(), 1);
    std::ofstream out(index.path, std::ios::binary | std::ios::trunc);
    const auto write = [&](const std::uint8_t* begin, const std::uint8_t* end) {
      out.write(reinterpret_cast<const char*>(begin), end - begin);
    };
    write(bytes.data(), bytes.data() + section.offset);
    write(other.data(), other.data() + other.size());
    write(bytes.data() + trace::next_section(section), bytes.data() + bytes.size());
  }
  Selection selection;
  selection.only_costs = selection.with_timeline = selection.costs_by_thread = true;
  const Analysis with(path.path(), selection, {}, kIndex);
  const Analysis without(path.path(), selection, {}, kNoIndex);
  CHECK(with.warnings().empty());
  CHECK(with.intervals_added() >= 8);
  CHECK(text_of(with.profile().timeline) == text_of(without.profile().timeline));
  CHECK(heapprof::test::first_difference(text_of(with), text_of(without)) == "");
  const std::vector<std::uint32_t> all(with.profile().nodes.size(), 0);
  CHECK((with.live_by_group(all, 1) == without.live_by_group(all, 1)));
  CHECK((with.live_by_thread() == without.live_by_thread()));
  const auto trend = [&](const Analysis& analysis) {
    model::LeakHistory stacks(1, analysis.leak_steps(), analysis.clock());
    model::LeakHistory sites(1, analysis.leak_steps(), analysis.clock());
    analysis.follow_leaks(stacks, all, sites, all);
    stacks.finish();
    return stacks.of(0);
  };
  CHECK(trend(with) == trend(without));
  CHECK(std::ranges::max(trend(with).low_bytes) != 0);
}

TEST_CASE("Live bytes over time are not those of an index whose recording ends before that of the trace") {
  const bool has_intervals = GENERATE(false, true);
  constexpr std::uint64_t kBuckets = model::LiveTimeline::kBuckets;
  TwoThreads threads;
  auto& [trace, main, other, time] = threads;
  main.alloc(time += 2, 0x10'000, 111, 1);
  threads.pass_intervals(20'000);
  // The trace needs wider buckets than those of the index, which are all in use.
  const std::uint64_t width_ticks = trace.header.ticks_per_second / 10'000;
  other.alloc(time = (kBuckets + 1) * width_ticks, 0x20'000, 222, 2);
  const TemporaryFile path;
  trace.write(path.path());
  const trace::TraceFile file(path.path());
  REQUIRE(Replay::first_bucket_ticks(file) == width_ticks);
  const Removed index{index_trace(path.path(), 1'000)};
  {
    const std::vector<std::uint8_t> bytes = read_all(index.path);
    const trace::InputFile input(index.path);
    const trace::SectionTable table = trace::walk_sections(input, file.file_id(), 48, input.size());
    REQUIRE(table.states.size() >= 2);
    const trace::Section& section = table.histories.back();
    std::string why_not;
    trace::TraceSummary summary = *Index::open(index.path, file, why_not)->summary();
    summary.last_time = (kBuckets - 1) * width_ticks;
    LiveHistory history;
    history.width_ticks = width_ticks;
    history.buckets.resize(kBuckets);
    history.nodes.push_back({1, kBuckets - 1, 8});
    history.threads.push_back({0, kBuckets - 1, 8});
    trace::ByteWriter contents;
    save(history, contents);
    AtomicFile out(index.path);
    write_index_header(out, file);
    if (has_intervals) out.append(std::span(bytes).subspan(48, section.offset - 48));
    out.append(trace::make_section(section.header, contents.bytes(), 1));
    write_summary(out, file.file_id(), summary);
    out.finish();
    REQUIRE(Index::open(index.path, file, why_not)->history(width_ticks));
  }
  Selection selection;
  selection.only_costs = selection.with_timeline = true;
  const Analysis with(path.path(), selection, {}, kIndex);
  const Analysis without(path.path(), selection, {}, kNoIndex);
  CHECK(with.warnings().empty() == !has_intervals);
  CHECK(with.intervals_added() == 0);
  CHECK(without.profile().timeline.buckets.size() == kBuckets / 2 + 1);
  CHECK(heapprof::test::first_difference(text_of(with.profile().timeline), text_of(without.profile().timeline)) ==
        "");
  const std::vector<std::uint32_t> all(with.profile().nodes.size(), 0);
  CHECK((with.live_by_group(all, 1) == without.live_by_group(all, 1)));
  CHECK((with.live_by_thread() == without.live_by_thread()));
}

TEST_CASE("Lives of blocks are read as they were written, and only of stacks that exist") {
  const std::vector<StackLives> lives = {
      {3, {{50, 90}, {}}}, {7, {{}, {2, 10, 80, 16, 4096}}}, {8, {{1, 2}, {1, 5, 5, 7, 7}}}};
  trace::ByteWriter out;
  save(lives, out);
  const auto load = [&](std::uint32_t node_count) {
    trace::ByteReader in(out.bytes());
    return load_stack_lives(in, node_count);
  };
  CHECK((load(9) == lives));
  CHECK_THROWS_AS(load(8), trace::FormatError);
  CHECK_THROWS_AS(load(2), trace::FormatError);
  std::mt19937_64 random(heapprof::test::seed(13));
  int refused[2] = {};
  for (int i = 0; i < 2'000; ++i) {
    std::vector<std::uint8_t> bytes(out.bytes().begin(), out.bytes().end());
    const bool is_short = i % 2 == 0;
    if (is_short) bytes.resize(random() % bytes.size());
    else bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    try {
      trace::ByteReader in(bytes);
      for (const StackLives& one : load_stack_lives(in, 9))
        if (one.index >= 9 || one.lives.longest.ticks > one.lives.longest.end) FAIL("out of bounds");
    } catch (const trace::FormatError&) {
      ++refused[is_short];
    }
  }
  CHECK(refused[true] == 1'000);
  CHECK(refused[false] > 100);
  out.number(0);
  CHECK_THROWS_AS(load(9), trace::FormatError);
  trace::ByteWriter impossible;
  save(std::vector<StackLives>{{0, {{91, 90}, {}}}}, impossible);
  trace::ByteReader in(impossible.bytes());
  CHECK_THROWS_AS(load_stack_lives(in, 9), trace::FormatError);
}

TEST_CASE("Survivors of mappings are the same with and without an index") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(31, 32));
  TraceBuilder trace;
  heapprof::test::random_program(trace, seed, 60'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 6'000)};
  for (const model::Kind kind : {model::Kind::kHeap, model::Kind::kMmap, model::Kind::kAll}) {
    Selection selection;
    selection.kind = kind;
    selection.from = Moment{50, true};
    selection.to = Moment{70, true};
    const std::uint64_t leaked = Analysis(path.path(), selection, {}, kNoIndex).profile().totals.leaked_bytes;
    for (const double until : {70.0, 80.0, 100.0}) {
      selection.survivors = Moment{until, true};
      const Analysis with(path.path(), selection, {}, kIndex);
      const Analysis without(path.path(), selection, {}, kNoIndex);
      INFO("seed " << seed << ", kind " << static_cast<int>(kind) << ", until " << until);
      REQUIRE(with.began_at_snapshot());
      CHECK(heapprof::test::first_difference(text_of(with), text_of(without)) == "");
      const model::Costs& totals = with.profile().totals;
      CHECK(totals.live_bytes == totals.leaked_bytes);
      CHECK(totals.peak_bytes == totals.leaked_bytes);
      CHECK(totals.live_blocks == totals.leaked_blocks);
      if (until == 70) CHECK(totals.leaked_bytes == leaked);
      else CHECK(totals.leaked_bytes <= leaked);
    }
  }
}

TEST_CASE("The live blocks of moments are the same with and without an index") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(41, 42));
  TraceBuilder trace;
  heapprof::test::random_program(trace, seed, 60'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 6'000)};
  Selection selection;
  selection.from = Moment{60, true};
  const auto live_at = [&](const IndexUse& use) {
    const Analysis analysis(path.path(), selection, {}, use);
    CHECK(analysis.began_at_snapshot() == use.use);
    const std::uint64_t begin_ns = analysis.profile().begin_ns();
    const std::uint64_t end_ns = analysis.profile().end_ns();
    const std::vector<ResolvedMoment> moments = {{begin_ns, {}}, {(begin_ns + end_ns) / 2, {}}, {end_ns, {}}};
    std::vector<std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>>> live(moments.size());
    analysis.for_each_live_at(moments, [&](std::size_t i, const LiveBlock& block) {
      live[i][block.address] = {block.size, block.time_ns};
    });
    // What a slice that ends at the moment counts.
    Selection until;
    for (std::size_t i = 0; i < moments.size(); ++i) {
      until.to = Moment{.value = static_cast<double>(moments[i].ns) / 1e9};
      std::uint64_t bytes = 0;
      for (const auto& [address, block] : live[i]) bytes += block.first;
      const Analysis slice(path.path(), until, {}, kNoIndex);
      CHECK(bytes == slice.profile().totals.live_bytes);
      CHECK(live[i].size() == slice.profile().totals.live_blocks);
    }
    return live;
  };
  CHECK((live_at(kIndex) == live_at(kNoIndex)));
}

TEST_CASE("Slices of mappings are the same with and without an index, and so are their events") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(21, 22, 23));
  TraceBuilder trace;
  heapprof::test::random_program(trace, seed, 60'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 6'000)};
  for (const model::Kind kind : {model::Kind::kMmap, model::Kind::kAll}) {
    for (const double from : {55.0, 75.0, 95.0}) {
      Selection selection;
      selection.kind = kind;
      selection.from = Moment{from, true};
      if (from < 60) selection.to = Moment{from + 25, true};
      const Analysis with(path.path(), selection, {}, kIndex);
      const Analysis without(path.path(), selection, {}, kNoIndex);
      INFO("seed " << seed << ", kind " << static_cast<int>(kind) << ", from " << from);
      REQUIRE(with.began_at_snapshot());
      REQUIRE(!without.began_at_snapshot());
      REQUIRE(without.profile().totals.allocations != 0);
      REQUIRE(without.profile().totals.leaked_bytes != 0);
      CHECK(heapprof::test::first_difference(text_of(with), text_of(without)) == "");
      const auto events_of = [](const Analysis& analysis) {
        std::vector<std::vector<std::uint64_t>> all;
        analysis.for_each_event(
            [&](std::span<const ProfileEvent> events) {
              for (const ProfileEvent& event : events)
                all.push_back({event.time_ns, event.address, event.size, event.node, event.thread,
                               static_cast<std::uint64_t>(event.kind)});
            },
            {}, {.of_kind = true});
        return all;
      };
      CHECK((events_of(with) == events_of(without)));
    }
  }
}

TEST_CASE("An index of another or a changed trace is not used, and a warning reports it") {
  TraceBuilder trace;
  heapprof::test::random_program(trace, 3, 20'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 4'000)};
  Selection selection;
  selection.from = Moment{90, true};
  CHECK(Analysis(path.path(), selection, {}, kIndex).began_at_snapshot());

  // The same file id and length, another event in the last staging block.
  std::vector<std::uint8_t> bytes = trace.bytes();
  bytes[trace.staging_offset(0) + sizeof(StagingHeader) + sizeof(Slot) * 3 + 9] ^= 1;
  TraceBuilder::write_bytes(path.path(), bytes);
  const Analysis changed(path.path(), selection, {}, kIndex);
  CHECK(!changed.began_at_snapshot());
  REQUIRE(changed.warnings().size() == 1);
  CHECK(changed.warnings()[0].find("changed") != std::string::npos);
  CHECK((text_of(changed) == text_of(Analysis(path.path(), selection, {}, kNoIndex))));
}

TEST_CASE("What a process that cannot be seen here adds to its trace is read, whatever the times of the file say") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  for (std::uint64_t i = 1; i <= 20; ++i) stream.alloc(i, 16 * i, 1);
  const TemporaryFile path;
  trace.write(path.path());
  const auto time = std::filesystem::file_time_type::clock::now() - std::chrono::seconds(60);
  std::filesystem::last_write_time(path.path(), time);
  const Removed index{index_trace(path.path(), 4'000)};
  const auto before = text_of(Analysis(path.path(), {}, {}, kIndex));
  // Stores in a mapped page: neither size nor time change.
  stream.alloc(21, 0x1000, 1);
  TraceBuilder::write_bytes(path.path(), trace.bytes());
  std::filesystem::last_write_time(path.path(), time);
  CHECK(!trace::TraceFile(path.path(), frames_in_indexes).opened_with_list());
  const auto after = text_of(Analysis(path.path(), {}, {}, kIndex));
  CHECK((after == text_of(Analysis(path.path(), {}, {}, kNoIndex))));
  CHECK((after != before));
}

TEST_CASE("A trace is opened with the list of frames in its index, unless it has changed since") {
  TraceBuilder trace;
  heapprof::test::random_program(trace, 4, 20'000);
  const TemporaryFile path;
  trace.header.end_kind = EndKind::kExit;
  trace.write(path.path());
  const auto change_time = [&](int seconds_ago) {
    std::filesystem::last_write_time(
        path.path(), std::filesystem::file_time_type::clock::now() - std::chrono::seconds(seconds_ago));
  };
  change_time(60);
  const Removed index{index_trace(path.path(), 4'000)};
  const trace::TraceFile scanned(path.path());
  const trace::TraceFile listed(path.path(), frames_in_indexes);
  REQUIRE(!scanned.opened_with_list());
  REQUIRE(listed.opened_with_list());
  CHECK(listed.fingerprint() == scanned.fingerprint());
  CHECK(listed.frame_bytes() == scanned.frame_bytes());
  CHECK(listed.bytes() == scanned.bytes());
  REQUIRE(listed.streams().size() == scanned.streams().size());
  std::size_t frames = 0;
  std::size_t slots = 0;
  for (std::size_t i = 0; i < scanned.streams().size(); ++i) {
    const trace::StreamIndex& one = listed.streams()[i];
    const trace::StreamIndex& other = scanned.streams()[i];
    CHECK((one.id == other.id && one.has_staging == other.has_staging));
    CHECK((one.staging_sequence == other.staging_sequence && one.staging_offset == other.staging_offset));
    REQUIRE(one.staging.size() == other.staging.size());
    CHECK(std::memcmp(one.staging.data(), other.staging.data(), one.staging.size() * sizeof(Slot)) == 0);
    REQUIRE(one.frames.size() == other.frames.size());
    for (std::size_t frame = 0; frame < one.frames.size(); ++frame)
      CHECK((one.frames[frame].offset == other.frames[frame].offset &&
             one.frames[frame].first_time == other.frames[frame].first_time &&
             one.frames[frame].sequence == other.frames[frame].sequence &&
             one.frames[frame].bytes == other.frames[frame].bytes));
    frames += one.frames.size();
    slots += one.staging.size();
  }
  CHECK(frames > 20);
  CHECK(slots > 0);
  CHECK((text_of(Analysis(path.path(), {}, {}, kIndex)) == text_of(Analysis(path.path(), {}, {}, kNoIndex))));

  // A list of a trace that has just been written would not notice a change of the same moment.
  change_time(0);
  CHECK(!trace::TraceFile(path.path(), frames_in_indexes).opened_with_list());
  CHECK(!trace::TraceFile(path.path()).frame_list());
  // Another trace with the same id and size.
  std::vector<std::uint8_t> bytes = trace.bytes();
  bytes[trace.staging_offset(0) + sizeof(StagingHeader) + sizeof(Slot) * 3 + 9] ^= 1;
  TraceBuilder::write_bytes(path.path(), bytes);
  change_time(30);
  const trace::TraceFile changed(path.path(), frames_in_indexes);
  CHECK(!changed.opened_with_list());
  CHECK(changed.fingerprint() != scanned.fingerprint());
}

TEST_CASE("A malformed list of frames with valid checksums is read within bounds") {
  TraceBuilder trace;
  heapprof::test::random_program(trace, 3, 6'000);
  const TemporaryFile path;
  trace.header.end_kind = EndKind::kExit;
  trace.write(path.path());
  std::filesystem::last_write_time(path.path(),
                                   std::filesystem::file_time_type::clock::now() - std::chrono::seconds(60));
  const trace::TraceFile file(path.path());
  const auto list = file.frame_list();
  REQUIRE(list);
  trace::ByteWriter out;
  trace::save(*list, out);
  std::mt19937_64 random(heapprof::test::seed(13));
  int refused = 0;
  for (int i = 0; i < 2'000; ++i) {
    std::vector<std::uint8_t> bytes(out.bytes().begin(), out.bytes().end());
    if (i % 2 == 0) bytes.resize(random() % bytes.size());
    else bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    try {
      trace::ByteReader in(bytes);
      trace::FrameList damaged = trace::load_frame_list(in, file.bytes());
      for (const trace::StreamIndex& stream : damaged.streams)
        for (const trace::FrameRef& frame : stream.frames)
          if (frame.bytes < sizeof(FrameHeader) || frame.offset + frame.bytes > file.bytes()) FAIL("out of bounds");
      // Frames that do not begin where the list says are reported as damage.
      damaged.modified_ns = list->modified_ns;
      const trace::TraceFile opened(path.path(), [&](const auto&, const auto&, std::uint64_t) { return damaged; });
      trace::MergedReader reader(opened);
      for (trace::Batch batch; reader.next(batch);) {
      }
    } catch (const trace::FormatError&) {
      ++refused;
    } catch (const trace::TraceError&) {
      ++refused;
    }
  }
  CHECK(refused >= 1'000);
}

TEST_CASE("A list of more streams than fit into the trace is refused") {
  trace::FrameList list;
  for (std::uint32_t id = 1; id <= 64; ++id) list.streams.emplace_back().id = static_cast<StreamId>(id);
  trace::ByteWriter out;
  trace::save(list, out);
  const auto load = [&](std::uint64_t trace_bytes) {
    trace::ByteReader in(out.bytes());
    return trace::load_frame_list(in, trace_bytes);
  };
  CHECK(load(64 * sizeof(StagingHeader)).streams.size() == 64);
  CHECK_THROWS_AS(load(64 * sizeof(StagingHeader) - 1), trace::FormatError);
}

TEST_CASE("A damaged index never changes the result") {
  TraceBuilder trace;
  heapprof::test::random_program(trace, 6, 12'000);
  const TemporaryFile path;
  trace.write(path.path());
  std::filesystem::last_write_time(path.path(),
                                   std::filesystem::file_time_type::clock::now() - std::chrono::seconds(60));
  const Removed index{index_trace(path.path(), 2'500)};
  const std::vector<std::uint8_t> sound = read_all(index.path);
  Selection selection;
  selection.from = Moment{70, true};
  selection.to = Moment{75, true};
  const std::string truth = text_of(Analysis(path.path(), selection, {}, kNoIndex));
  Selection over_time;
  over_time.only_costs = over_time.with_timeline = true;
  const std::string truth_over_time = text_of(Analysis(path.path(), over_time, {}, kNoIndex));
  std::mt19937_64 random(heapprof::test::seed(7));
  int used = 0;
  for (int i = 0; i < 60; ++i) {
    std::vector<std::uint8_t> bytes = sound;
    if (i % 3 == 0) bytes.resize(random() % bytes.size());
    else bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
    TraceBuilder::write_bytes(index.path, bytes);
    const Analysis analysis(path.path(), selection, {}, kIndex);
    used += analysis.began_at_snapshot();
    CHECK(heapprof::test::first_difference(text_of(analysis), truth) == "");
    const Analysis whole(path.path(), over_time, {}, kIndex);
    CHECK(heapprof::test::first_difference(text_of(whole), truth_over_time) == "");
  }
  CHECK(used < 60);
}

TEST_CASE("A malformed history with valid checksums is read within bounds") {
  TraceBuilder trace;
  heapprof::test::random_program(trace, 5, 3'000);
  const TemporaryFile path;
  trace.write(path.path());
  const trace::TraceFile file(path.path());
  const Removed index{index_trace(path.path(), 3'000)};
  std::string why_not;
  const auto opened = Index::open(index.path, file, why_not);
  REQUIRE(opened);
  const std::uint32_t node_count = opened->summary()->definitions.node_count;
  const auto thread_count = static_cast<std::uint32_t>(opened->summary()->overview->threads.size());
  const auto history = opened->history(Replay::first_bucket_ticks(file));
  REQUIRE(history);
  REQUIRE(!history->threads.empty());
  trace::ByteWriter out;
  save(*history, out);
  std::mt19937_64 random(heapprof::test::seed(12));
  int refused = 0;
  for (int i = 0; i < 2'000; ++i) {
    std::vector<std::uint8_t> bytes(out.bytes().begin(), out.bytes().end());
    if (i % 2 == 0) bytes.resize(random() % bytes.size());
    else
      for (int flips = 0; flips < 2; ++flips) bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    try {
      trace::ByteReader in(bytes);
      const LiveHistory damaged = load_live_history(in, node_count, thread_count);
      for (const LiveChange& change : damaged.nodes)
        if (change.index >= node_count || change.bucket >= damaged.buckets.size()) FAIL("out of bounds");
      for (const LiveChange& change : damaged.threads)
        if (change.index >= thread_count || change.bucket >= damaged.buckets.size()) FAIL("out of bounds");
    } catch (const trace::FormatError&) {
      ++refused;
    }
  }
  CHECK(refused >= 1'000);
}

TEST_CASE("Malformed snapshots with valid checksums are read within bounds") {
  TraceBuilder trace;
  heapprof::test::random_program(trace, 2, 6'000);
  const TemporaryFile path;
  trace.write(path.path());
  const trace::TraceFile file(path.path());
  const Removed index{index_trace(path.path(), 2'000)};
  std::string why_not;
  const auto opened = Index::open(index.path, file, why_not);
  REQUIRE(opened);
  const std::vector<std::uint8_t> file_bytes = read_all(index.path);
  const trace::InputFile input(index.path);
  const trace::SectionTable table = trace::walk_sections(input, file.file_id(), 48, file_bytes.size());
  REQUIRE(table.states.size() >= 3);
  REQUIRE(table.sums.size() == table.states.size());
  REQUIRE(table.states.back().header.events == kEndOfTrace);
  REQUIRE(!table.blocks.empty());
  const std::vector<std::uint8_t> state = trace::read_contents(input, table.states[0]);
  const std::vector<std::uint8_t> next_state = trace::read_contents(input, table.states[1]);
  const std::vector<std::uint8_t> blocks = trace::read_contents(input, table.blocks[0]);
  const std::vector<std::uint8_t> sums = trace::read_contents(input, table.sums[1]);
  const std::uint32_t node_count = opened->summary()->definitions.node_count;
  std::mt19937_64 random(heapprof::test::seed(11));
  int refused = 0;
  for (int i = 0; i < 3'000; ++i) {
    std::array<std::vector<std::uint8_t>, 4> parts = {state, next_state, blocks, sums};
    std::vector<std::uint8_t>& damaged = parts[static_cast<std::size_t>(i) % 4];
    for (int flips = 0; flips < 3; ++flips) damaged[random() % damaged.size()] = static_cast<std::uint8_t>(random());
    try {
      const auto first = std::make_shared<const IntervalState>(parts[0]);
      const auto next = std::make_shared<const IntervalState>(parts[1]);
      const OlderBlocks older = next->older(node_count);
      const Snapshot snapshot(table.states[0].header.last_time, first, parts[2], older.freed);
      trace::ByteReader position = snapshot.position();
      trace::MergedReader reader(file, *opened->summary(), position);
      ResolvedFilter filter;
      if (i % 8 < 4) filter.from_ticks = i % 16 < 8 ? 1'000 : ~std::uint64_t{0} >> 1;
      Replay replay(file, Selection{}, filter);
      trace::ByteReader in(parts[3]);
      const int how = i / 16 % 4;
      if (how == 0) {
        snapshot.restore(replay, node_count);
      } else if (how == 1) {
        replay.restore_needed(older.freed, first->of_replay(), node_count);
        replay.add_live(load_interval_sums(in, node_count));
      } else {
        replay.add_interval(load_interval_sums(in, node_count), older);
        const bool all = how == 2;
        replay.continue_from(all ? snapshot.blocks() : table_of(older.freed), all, next->of_replay(), node_count);
      }
      trace::Batch batch;
      while (reader.next(batch)) replay.replay(batch);
      replay.finish(0);
    } catch (const trace::FormatError&) {
      ++refused;
    }
  }
  CHECK(refused > 500);

  trace::ByteWriter summary;
  trace::save(*opened->summary(), summary);
  for (int i = 0; i < 3'000; ++i) {
    std::vector<std::uint8_t> bytes(summary.bytes().begin(), summary.bytes().end());
    bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    try {
      trace::ByteReader in(bytes);
      const trace::TraceSummary read = trace::load_summary(in, file.header(), file.bytes());
      CHECK(read.definitions.nodes.size() == read.definitions.node_count);
    } catch (const trace::FormatError&) {
    }
  }
}
