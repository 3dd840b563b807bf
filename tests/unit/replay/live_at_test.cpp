// The costs of what is live at a moment: found in the pass that counts, from a snapshot or from the start, they equal
// those of blocks that a pass of its own selected.
#include <catch2/catch.hpp>

#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <vector>

#include "analyzer/replay/analysis/analysis.h"
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
using heapprof::test::TraceBuilder;

namespace {

/// What an analysis of costs has.
std::string figures_of(const Analysis& analysis) {
  const model::Profile& p = analysis.profile();
  std::ostringstream out;
  const auto costs = [&](const model::Costs& c) {
    out << c.allocations << ' ' << c.allocated_bytes << ' ' << c.temporary << ' ' << c.temporary_bytes << ' '
        << c.leaked_bytes << ' ' << c.leaked_blocks << ' ' << c.peak_bytes << ' ' << c.peak_blocks << ' '
        << c.live_bytes << ' ' << c.live_blocks << ' ' << c.moved_bytes << ' ' << c.moved_blocks << '\n';
  };
  const model::HeapTotals& h = p.heap;
  out << "heap " << h.allocations << ' ' << h.allocated_bytes << ' ' << h.frees << ' ' << h.failed << ' '
      << h.peak_bytes << ' ' << h.peak_time_ns << ' ' << h.peak_blocks << ' ' << h.leaked_bytes << ' '
      << h.leaked_blocks << ' ' << h.temporary_allocations << ' ' << h.unmatched_frees << ' ' << h.implied_frees
      << "\nmmap " << p.mmap.mappings << ' ' << p.mmap.mapped_bytes << ' ' << p.mmap.reserved_bytes << ' '
      << p.mmap.peak_bytes << ' ' << p.mmap.live_bytes << "\nresident " << p.resident.time_ns << ' '
      << p.resident.bytes << "\nat " << p.live_at_ns.value_or(0) << ' ' << p.peak_time_ns << '\n';
  costs(p.totals);
  for (const model::CallNode& node : p.nodes) costs(node.costs);
  for (const model::Costs& thread : p.thread_costs) costs(thread);
  for (const model::Thread& thread : p.threads)
    out << "thread " << thread.tid << ' ' << thread.name << ' ' << thread.start_ns << ' ' << thread.allocations << ' '
        << thread.allocated_bytes << '\n';
  return out.str();
}

/// Allocations and frees of the selected blocks: times, addresses and sizes.
std::vector<std::uint64_t> events_of(const Analysis& analysis) {
  std::vector<std::uint64_t> numbers;
  analysis.for_each_event([&](std::span<const ProfileEvent> events) {
    for (const ProfileEvent& event : events) {
      numbers.push_back(event.time_ns);
      numbers.push_back(event.address);
      numbers.push_back(event.size);
    }
  });
  return numbers;
}

}  // namespace

TEST_CASE("Costs of what is live at a moment are the same from a snapshot, from the start, and from two passes") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(71, 77)));
  TraceBuilder trace;
  heapprof::test::random_program(trace, seed, 16'000);
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 1'600)};
  std::mt19937_64 random(heapprof::test::seed(seed));
  int began_at_snapshot = 0;
  for (int i = 0; i < 14; ++i) {
    Selection selection;
    selection.costs_by_thread = true;
    Moment moment{static_cast<double>(random() % 1'001) / 10, true};
    if (i == 0) moment.value = 0;
    if (i == 1) moment.value = 100;
    if (i >= 10) {
      // The peak of a slice, which is between two events of equal time.
      Selection slice;
      slice.from = moment;
      const Analysis analysis(path.path(), slice, {}, kNoIndex);
      if (!analysis.peak_position()) continue;
      moment = Moment{static_cast<double>(analysis.profile().heap.peak_time_ns) / 1e9};
      moment.position = analysis.peak_position();
    }
    selection.live_at = moment;
    if (i % 4 == 1) selection.min_size = 100;
    if (i % 5 == 2) selection.thread_ids = {100, 102};
    if (i % 7 == 3) selection.thread_names = {"worker"};
    if (i % 3 == 2)
      selection.select_stacks = [](const model::Profile& profile) {
        std::vector<std::uint8_t> chosen(profile.nodes.size());
        for (std::size_t node = 0; node < chosen.size(); ++node) chosen[node] = node % 3 != 0;
        return chosen;
      };
    INFO("seed " << seed << ", selection " << i);
    const Analysis two_passes(path.path(), selection, {}, kNoIndex);
    selection.only_costs = true;
    const Analysis without(path.path(), selection, {}, kNoIndex);
    const Analysis with(path.path(), selection, {}, kIndex);
    began_at_snapshot += with.began_at_snapshot();
    CHECK(!without.began_at_snapshot());
    CHECK(with.warnings().empty());
    const std::string expected = figures_of(two_passes);
    CHECK(heapprof::test::first_difference(figures_of(without), expected) == "");
    CHECK(heapprof::test::first_difference(figures_of(with), expected) == "");
    // Further passes visit the same blocks.
    CHECK((events_of(with) == events_of(two_passes)));
  }
  CHECK(began_at_snapshot >= 5);
}

TEST_CASE("What becomes of the blocks of a moment follows from the sums of an index") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(81, 82, 83, 84));
  std::mt19937_64 random(heapprof::test::seed(seed));
  TraceBuilder trace;
  std::vector<TraceBuilder::Stream*> streams;
  for (std::uint32_t i = 0; i < 3; ++i) {
    streams.push_back(&trace.stream(64));
    streams.back()->thread(100 + i, "thread");
  }
  streams[0]->module(2, "/bin/one", "\x01\x02", 0x1000, 0, 0x10000, true);
  for (std::uint32_t node = 1; node <= 20; ++node) streams[0]->node(node, node / 2, 2, node);
  std::vector<std::uint64_t> live;
  std::uint64_t next = 0x10000;
  std::uint64_t time = 1;
  const auto any = [&] {
    std::swap(live[random() % live.size()], live.back());
    const std::uint64_t address = live.back();
    live.pop_back();
    return address;
  };
  // Few blocks are live at once, and threads start until the end: each is named with its first event.
  for (int i = 0; i < 16'000; ++i) {
    TraceBuilder::Stream& stream = *streams[i < 30'000 ? random() % 2 : random() % 3];
    const auto node = static_cast<std::uint32_t>(random() % 21);
    const std::uint64_t size = random() % 500;
    time += random() % 3;
    if (i % 100 == 0) stream.sample(time, trace.header.start_monotonic_ns + time, 1'000'000 + random() % 1'000'000);
    const std::uint64_t what = random() % 10;
    if (what < 3 || live.size() < 20) {
      stream.alloc(time, next, size, node);
      if (what == 0) stream.free(time, next);  // temporary
      else live.push_back(next);
      next += 16;
    } else if (what < 7 || live.size() > 60) {
      stream.free(time, any());
    } else {
      stream.realloc_begin(time, any());
      stream.realloc_end(time, next, size, node);
      live.push_back(next);
      next += 16;
    }
  }
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 800)};
  std::size_t added = 0;
  for (int i = 0; i < 12; ++i) {
    Selection selection;
    selection.costs_by_thread = i % 2 == 0;
    selection.live_at = Moment{i == 0 ? 0 : static_cast<double>(random() % 1'001) / 10, true};
    if (i == 11) selection.min_size = 50;
    INFO("seed " << seed << ", moment " << selection.live_at->value << " %");
    const Analysis two_passes(path.path(), selection, {}, kNoIndex);
    selection.only_costs = true;
    const Analysis with(path.path(), selection, {}, kIndex);
    added += with.intervals_added();
    if (i == 11) CHECK(with.intervals_added() == 0);
    CHECK(with.warnings().empty());
    CHECK(heapprof::test::first_difference(figures_of(with), figures_of(two_passes)) == "");
    CHECK((events_of(with) == events_of(two_passes)));
  }
  CHECK(added >= 30);

  // Damage, also of parts that are read only after the replay of the moment's interval, does not change the figures.
  std::ifstream in(index.path, std::ios::binary);
  const std::vector<std::uint8_t> sound{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  Selection selection;
  selection.only_costs = true;
  selection.live_at = Moment{40, true};
  const std::string expected = figures_of(Analysis(path.path(), selection, {}, kNoIndex));
  int used = 0;
  for (int i = 0; i < 20; ++i) {
    std::vector<std::uint8_t> bytes = sound;
    bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
    TraceBuilder::write_bytes(index.path, bytes);
    const Analysis damaged(path.path(), selection, {}, kIndex);
    used += damaged.intervals_added() != 0;
    CHECK(heapprof::test::first_difference(figures_of(damaged), expected) == "");
  }
  CHECK(used < 20);
}

TEST_CASE("The resident memory at a moment is that of the last sample, however long before") {
  TraceBuilder trace;
  TraceBuilder::Stream& stream = trace.stream(64);
  stream.thread(100, "main");
  stream.module(2, "/bin/one", "\x01\x02", 0x1000, 0, 0x10000, true);
  std::uint64_t time = 0;
  for (std::uint64_t i = 0; i < 30'000; ++i) {
    ++time;
    if (i == 100 || i == 27'000) stream.sample(time, trace.header.start_monotonic_ns + time, i == 100 ? 111 : 222);
    if (i >= 10) stream.free(time, 0x10000 + 16 * (i % 10));
    stream.alloc(time, 0x10000 + 16 * (i % 10), i, 0);
  }
  const TemporaryFile path;
  trace.write(path.path());
  const Removed index{index_trace(path.path(), 1'000)};
  for (const double percent : {0.1, 20.0, 70.0, 85.0, 95.0}) {
    Selection selection;
    selection.live_at = Moment{percent, true};
    const Analysis expected(path.path(), selection, {}, kNoIndex);
    selection.only_costs = true;
    const Analysis with(path.path(), selection, {}, kIndex);
    INFO(percent << " %");
    CHECK(with.began_at_snapshot() == (percent > 15));
    CHECK(heapprof::test::first_difference(figures_of(with), figures_of(expected)) == "");
    CHECK(with.profile().resident.bytes == (percent < 1 ? 0u : percent < 90 ? 111u : 222u));
  }
}
