// The figures that each event changes.
#include <catch2/catch.hpp>

#include "analyzer/replay/analysis/analysis.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

using namespace heapprof;
using namespace heapprof::replay;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

namespace {

model::Profile replay_trace(TraceBuilder& trace, const Selection& selection = {}) {
  const TemporaryFile path;
  trace.write(path.path());
  return Analysis(path.path(), selection).profile();
}

bool has_note(const model::Profile& profile, const std::string& text) {
  for (const std::string& note : profile.integrity.notes)
    if (note.find(text) != std::string::npos) return true;
  return false;
}

void check_equations(const model::Profile& profile) {
  const model::HeapTotals& heap = profile.heap;
  CHECK(heap.leaked_blocks == heap.allocations - (heap.frees - heap.unmatched_frees) - heap.implied_frees);
  model::Costs sum;
  for (const model::CallNode& node : profile.nodes) sum += node.costs;
  if (profile.kind != model::Kind::kHeap) return;
  CHECK(sum.allocations == heap.allocations);
  CHECK(sum.allocated_bytes == heap.allocated_bytes);
  CHECK(sum.temporary == heap.temporary_allocations);
  CHECK(sum.leaked_bytes == heap.leaked_bytes);
  CHECK(sum.leaked_blocks == heap.leaked_blocks);
  CHECK(sum.peak_bytes == heap.peak_bytes);
  CHECK(sum.peak_blocks == heap.peak_blocks);
}

}  // namespace

TEST_CASE("What the recorder adds is no activity of the program") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const std::uint64_t start = trace.header.start_monotonic_ns;
  stream.sample(0, start, 1 << 20);
  stream.alloc(1 * kSecond, 0x1000, 100);
  stream.text(TextKind::kNote, 0, 0, "a note");
  stream.sample(4 * kSecond, start + 4 * kSecond, 5 << 20);
  stream.alloc(6 * kSecond, 0x2000, 50);
  stream.sample(9 * kSecond, start + 9 * kSecond, 7 << 20);
  const model::Profile profile = replay_trace(trace);
  std::vector<std::uint64_t> busy_s;
  std::vector<std::uint64_t> rss_mib;
  for (const model::Timeline::Bucket& bucket : profile.timeline.buckets) {
    if (!bucket.idle) busy_s.push_back(bucket.start_ns / kSecond);
    if (bucket.rss_bytes != 0) rss_mib.push_back(bucket.rss_bytes >> 20);
    const std::uint64_t live = bucket.start_ns >= 6 * kSecond ? 150 : bucket.start_ns >= kSecond ? 100 : 0;
    if (bucket.idle) CHECK(bucket.last_bytes == live);
  }
  CHECK(busy_s == std::vector<std::uint64_t>{0, 5});  // the buckets that contain 1 and 6 s
  CHECK(rss_mib == std::vector<std::uint64_t>{1, 5, 7});
}

TEST_CASE("Allocations, frees and live blocks") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.thread(7, "main");
  stream.alloc(1000, 0x1000, 100);
  stream.alloc(2000, 0x2000, 50);
  stream.free(3000, 0x1000);
  stream.alloc(4000, 0x3000, 70);
  stream.alloc(5000, 0x4000, 0);
  const model::Profile profile = replay_trace(trace);
  CHECK(profile.heap.allocations == 4);
  CHECK(profile.heap.allocated_bytes == 220);
  CHECK(profile.heap.frees == 1);
  CHECK(profile.events() == 5);
  CHECK(profile.heap.peak_bytes == 150);
  CHECK(profile.heap.peak_blocks == 2);
  CHECK(profile.heap.peak_time_ns == 2000);
  CHECK(profile.heap.leaked_bytes == 120);
  CHECK(profile.heap.leaked_blocks == 3);
  REQUIRE(profile.threads.size() == 1);
  CHECK(profile.threads[0].tid == 7);
  CHECK(profile.threads[0].name == "main");
  CHECK(profile.threads[0].allocations == 4);
  CHECK(profile.integrity.complete);
  CHECK(profile.integrity.notes.empty());
  check_equations(profile);
}

TEST_CASE("The first of several equal peaks counts, with its composition") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.node(1, 0, 1, 0xa);
  stream.node(2, 0, 1, 0xb);
  stream.alloc(1, 0x1000, 100, 1);
  stream.alloc(2, 0x5000, 0, 2);  // no higher sum: not a new peak
  stream.free(3, 0x1000);
  stream.alloc(4, 0x2000, 100, 2);  // the same height
  const model::Profile profile = replay_trace(trace);
  CHECK(profile.heap.peak_bytes == 100);
  CHECK(profile.heap.peak_time_ns == 1);
  CHECK(profile.heap.peak_blocks == 1);
  CHECK(profile.nodes[1].costs.peak_bytes == 100);
  CHECK(profile.nodes[2].costs.peak_bytes == 0);
  CHECK(profile.nodes[2].costs.peak_blocks == 0);
  check_equations(profile);
}

TEST_CASE("A realloc is a free and an allocation, a failed realloc is a failure") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.alloc(1, 0x1000, 100);
  stream.realloc_begin(2, 0x1000);
  stream.realloc_end(3, 0x2000, 300);
  stream.realloc_begin(4, 0x2000);
  stream.realloc_failed(5, 1'000'000);
  stream.alloc_failed(6, 5);
  stream.alloc(7, 0x3000, 10);
  stream.realloc_begin(8, 0x3000);
  stream.realloc_end(9, 0, 0);       // realloc(p, 0)
  stream.realloc_begin(10, 0x7777);  // unknown
  stream.realloc_end(11, 0x8000, 1);
  const model::Profile profile = replay_trace(trace);
  CHECK(profile.heap.allocations == 4);
  CHECK(profile.heap.frees == 3);
  CHECK(profile.heap.unmatched_frees == 1);
  CHECK(profile.heap.failed == 2);
  CHECK(profile.events() == trace.events());
  CHECK(profile.heap.peak_bytes == 310);
  CHECK(profile.heap.leaked_bytes == 301);
  CHECK(profile.totals.moved_bytes == 100);  // realloc(p, 0) frees, and the moved block of the unknown one is unknown
  CHECK(profile.totals.moved_blocks == 1);
  check_equations(profile);
}

TEST_CASE("A realloc that fails in a pause is no failed allocation, and its block is live again") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.alloc(1, 0x1000, 100);
  stream.add(Op::kPause, 2);
  stream.realloc_begin(3, 0x1000);
  stream.realloc_failed(4, 0);
  stream.add(Op::kResume, 5);
  stream.alloc_failed(6, 0);  // malloc(0)
  const model::Profile profile = replay_trace(trace);
  CHECK(profile.heap.failed == 1);
  CHECK(profile.heap.frees == 0);
  CHECK(profile.heap.leaked_bytes == 100);
  check_equations(profile);
}

TEST_CASE("A block in realloc is freed when another block gets its address, not when the realloc returns") {
  TraceBuilder trace;
  auto& one = trace.stream();
  auto& two = trace.stream();
  one.alloc(1, 0x1000, 100);
  one.realloc_begin(2, 0x1000);
  two.alloc(3, 0x1000, 50);
  SECTION("so the peak has one of them") {
    one.realloc_end(4, 0x2000, 60);
    const model::Profile profile = replay_trace(trace);
    CHECK(profile.heap.peak_bytes == 110);
    CHECK(profile.heap.peak_blocks == 2);
    CHECK(profile.heap.peak_time_ns == 4);
    CHECK(profile.heap.frees == 1);
    CHECK(profile.totals.moved_bytes == 100);
    check_equations(profile);
  }
  SECTION("and the free of the other block is not taken for its own") {
    one.realloc_end(4, 0x2000, 200);
    two.free(5, 0x1000);
    const model::Profile profile = replay_trace(trace);
    CHECK(profile.heap.implied_frees == 0);
    CHECK(profile.heap.unmatched_frees == 0);
    CHECK(profile.heap.leaked_bytes == 200);
    check_equations(profile);
  }
  SECTION("also if the realloc is said to have failed") {
    one.realloc_failed(4, 1'000'000);
    const model::Profile profile = replay_trace(trace);
    CHECK(profile.heap.peak_bytes == 100);
    CHECK(profile.heap.leaked_bytes == 50);
    CHECK(profile.heap.frees == 1);
    CHECK(profile.heap.failed == 1);
    CHECK(profile.heap.implied_frees == 0);
    check_equations(profile);
  }
}

TEST_CASE("Many reallocs at once have their blocks found by address") {
  TraceBuilder trace;
  auto& one = trace.stream();
  auto& two = trace.stream();
  std::uint64_t time = 1;
  constexpr std::uint64_t kBlocks = 3'000;
  for (std::uint64_t i = 1; i <= kBlocks; ++i) {
    one.alloc(time++, 16 * i, 10);
    one.realloc_begin(time++, 16 * i);  // as signal handlers nest
  }
  for (std::uint64_t i = 3; i <= kBlocks; i += 3) two.alloc(time++, 16 * i, 1);
  for (std::uint64_t i = kBlocks; i > kBlocks / 2; --i) one.realloc_end(time++, 0x100'000 + 16 * i, 5);
  const model::Profile profile = replay_trace(trace);
  CHECK(profile.heap.peak_bytes == kBlocks * 10);
  CHECK(profile.heap.implied_frees == 0);
  // A third of the blocks was reused. Of the others, those of the first half are still in a realloc.
  CHECK(profile.heap.leaked_blocks == kBlocks / 3 + kBlocks / 2 + kBlocks / 2 - kBlocks / 6);
  CHECK(profile.heap.frees == kBlocks / 2 + kBlocks / 6);
  CHECK(profile.heap.leaked_bytes == kBlocks / 3 + kBlocks / 2 * 5 + (kBlocks / 2 - kBlocks / 6) * 10);
  check_equations(profile);
}

TEST_CASE("A realloc without an end leaves its block live and is reported") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.alloc(1, 0x1000, 100);
  stream.realloc_begin(2, 0x1000);
  SECTION("in general") {
    const model::Profile profile = replay_trace(trace);
    CHECK(profile.heap.leaked_bytes == 100);
    CHECK(profile.heap.leaked_blocks == 1);
    CHECK(profile.heap.frees == 0);
    CHECK(has_note(profile, "realloc"));
    check_equations(profile);
  }
  SECTION("unless its address was reused") {
    trace.stream().alloc(3, 0x1000, 7);
    const model::Profile profile = replay_trace(trace);
    CHECK(profile.heap.leaked_bytes == 7);
    CHECK(profile.heap.frees == 1);
    CHECK(profile.heap.implied_frees == 0);
    check_equations(profile);
  }
  SECTION("also when the block that reused it is gone") {
    auto& other = trace.stream();
    other.alloc(3, 0x1000, 7);
    other.free(4, 0x1000);
    const model::Profile profile = replay_trace(trace);
    CHECK(profile.heap.leaked_blocks == 0);
    CHECK(profile.heap.frees == 2);
    check_equations(profile);
  }
}

TEST_CASE("The end of a nested realloc of a signal handler ends that realloc, not the interrupted one") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.alloc(1, 0x1000, 100);
  stream.alloc(1, 0x2000, 200);
  stream.realloc_begin(2, 0x1000);
  stream.realloc_begin(3, 0x2000);
  stream.realloc_end(4, 0x3000, 300);
  stream.realloc_failed(5, 999);
  const model::Profile profile = replay_trace(trace);
  CHECK(profile.heap.leaked_bytes == 400);  // 0x1000 stays live, 0x2000 became 0x3000
  CHECK(profile.heap.failed == 1);
  check_equations(profile);
}

TEST_CASE("An allocation at a live address implies a free; the free of an unknown block is unmatched") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.alloc(1, 0x1000, 100);
  stream.alloc(2, 0x1000, 30);
  stream.free(3, 0x9000);
  stream.free(4, 0x1000);
  const model::Profile profile = replay_trace(trace);
  CHECK(profile.heap.implied_frees == 1);
  CHECK(profile.heap.unmatched_frees == 1);
  CHECK(profile.heap.frees == 2);
  CHECK(profile.heap.leaked_bytes == 0);
  CHECK(profile.events() == trace.events());
  CHECK(has_note(profile, "not in the trace"));
  CHECK(has_note(profile, "not in the trace: the address was allocated again"));
  check_equations(profile);
}

TEST_CASE("Events of equal time are handled in the order that the state of the address requires") {
  TraceBuilder trace;
  auto& one = trace.stream();
  auto& two = trace.stream();
  SECTION("free before reuse") {
    two.alloc(1, 0x1000, 10);
    one.alloc(50, 0x1000, 20);  // stream 1 comes first in a tie
    two.alloc(50, 0x7000, 1);
    two.free(50, 0x1000);
    const model::Profile profile = replay_trace(trace);
    CHECK(profile.heap.implied_frees == 0);
    CHECK(profile.heap.unmatched_frees == 0);
    CHECK(profile.heap.leaked_bytes == 21);
    check_equations(profile);
  }
  SECTION("allocation before its free by another thread") {
    one.free(50, 0x1000);
    two.alloc(50, 0x1000, 10);
    const model::Profile profile = replay_trace(trace);
    CHECK(profile.heap.unmatched_frees == 0);
    CHECK(profile.heap.leaked_bytes == 0);
    check_equations(profile);
  }
  SECTION("a thread without a name starts in a tie") {
    auto& three = trace.stream();
    auto& four = trace.stream();
    one.alloc(10, 0x1000, 10);
    one.alloc(50, 0x1000, 20);
    three.free(50, 0x1000);
    two.alloc(60, 0x2000, 10);
    two.realloc_begin(70, 0x3000);
    two.realloc_end(70, 0x4000, 5);
    four.alloc(70, 0x3000, 1);
    const model::Profile profile = replay_trace(trace);
    CHECK(profile.heap.implied_frees == 0);
    CHECK(profile.heap.leaked_bytes == 35);
    std::uint64_t allocations = 0;
    for (const model::Thread& thread : profile.threads) allocations += thread.allocations;
    CHECK(allocations == profile.heap.allocations);
    check_equations(profile);
  }
  SECTION("the address of a realloc is reused") {
    two.alloc(1, 0x1000, 10);
    one.alloc(50, 0x1000, 20);
    two.realloc_begin(50, 0x1000);
    two.realloc_end(50, 0x2000, 40);
    const model::Profile profile = replay_trace(trace);
    CHECK(profile.heap.implied_frees == 0);
    CHECK(profile.heap.leaked_bytes == 60);
    check_equations(profile);
  }
  SECTION("events of different times are not reordered") {
    two.alloc(1, 0x1000, 10);
    one.alloc(50, 0x1000, 20);
    two.free(51, 0x1000);
    const model::Profile profile = replay_trace(trace);
    CHECK(profile.heap.implied_frees == 1);
    CHECK(profile.heap.leaked_bytes == 0);
  }
}

TEST_CASE("Temporary: freed by its thread with no other allocation of that thread in between") {
  TraceBuilder trace;
  auto& one = trace.stream();
  auto& two = trace.stream();
  one.thread(1, "one");
  two.thread(2, "two");
  one.alloc(10, 0x1000, 1);
  two.alloc(11, 0x2000, 1);  // an allocation of another thread is ignored
  one.free(12, 0x1000);      // temporary
  one.alloc(20, 0x3000, 1);
  one.alloc(21, 0x4000, 1);
  one.free(22, 0x3000);  // not: 0x4000 was allocated in between
  one.free(23, 0x4000);  // temporary: frees in between are ignored
  one.alloc(30, 0x5000, 1);
  two.free(31, 0x5000);  // not: another thread
  one.alloc(40, 0x6000, 1);
  one.realloc_begin(41, 0x6000);
  one.realloc_end(42, 0x6000, 2);  // temporary: a realloc frees
  one.realloc_begin(43, 0x6000);
  one.realloc_failed(44, 9);
  one.free(45, 0x6000);  // temporary: nothing was allocated in between
  const model::Profile profile = replay_trace(trace);
  CHECK(profile.heap.temporary_allocations == 4);
  check_equations(profile);
}

TEST_CASE("A nested stream belongs to the thread that it interrupted, a reused one to its new thread") {
  TraceBuilder trace;
  auto& outer = trace.stream();
  auto& nested = trace.stream();
  outer.thread(5, "outer");
  nested.thread(5, "outer", kThreadNested);
  outer.alloc(10, 0x1000, 1);
  nested.alloc(11, 0x2000, 2);
  nested.free(12, 0x2000);
  outer.thread(6, "next");
  outer.alloc(20, 0x3000, 4);
  outer.text(TextKind::kThreadName, 6, 0, "renamed");
  const model::Profile profile = replay_trace(trace);
  REQUIRE(profile.threads.size() == 2);
  CHECK(profile.threads[0].allocations == 2);
  CHECK(profile.threads[0].allocated_bytes == 3);
  CHECK(profile.threads[0].start_ns == 10);
  CHECK(profile.threads[1].tid == 6);
  CHECK(profile.threads[1].name == "renamed");
  CHECK(profile.threads[1].allocated_bytes == 4);
  CHECK(profile.threads[1].start_ns == 20);
  CHECK(profile.heap.temporary_allocations == 1);
}

TEST_CASE("Mappings: parts, MAP_FIXED over other mappings, mremap, failures, the program break") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  const auto page = [](std::uint64_t number) { return 0x10000000 + number * 4096; };
  stream.add(Op::kMap, 1, page(0), 10 * 4096, 0, kMapAnonymous);
  stream.add(Op::kUnmapBegin, 2, page(3), 2 * 4096);
  stream.add(Op::kUnmapEnd, 3);
  stream.add(Op::kMap, 4, page(0), 4096, 0, kMapAnonymous);  // over the head: MAP_FIXED
  stream.add(Op::kUnmapBegin, 5, page(5), 4096);
  stream.add(Op::kUnmapFailed, 6);
  stream.add(Op::kRemapBegin, 7, page(5), 5 * 4096);
  stream.add(Op::kRemapEnd, 8, page(100), 20 * 4096);
  stream.add(Op::kBrk, 9, 0x900000, 0x800000);
  stream.add(Op::kBrk, 10, 0x880000, 0x900000);
  stream.add(Op::kMap, 11, page(1000), 1 << 30, 0, kMapReserve);
  stream.add(Op::kMap, 12, page(500), 4096, 0, kMapAnonymous | kMapFromAllocator);
  const model::Profile profile = replay_trace(trace);
  CHECK(profile.mmap.mappings == 5);
  CHECK(profile.mmap.mapped_bytes == (10 + 1 + 20 + 1) * 4096 + 0x100000);
  CHECK(profile.mmap.reserved_bytes == 1 << 30);
  CHECK(profile.mmap.from_allocator_bytes == 4096);
  // 3 pages of the first (0 was mapped over), the one over it, 20 moved, half the break, the allocator's.
  CHECK(profile.mmap.live_bytes == (2 + 1 + 20 + 1) * 4096 + 0x80000);
  CHECK(profile.mmap.peak_bytes == (2 + 1 + 20) * 4096 + 0x100000);
  CHECK(profile.mmap.peak_time_ns == 9);
  CHECK(profile.events() == 0);

  SECTION("--kind mmap counts them by stack") {
    Selection selection;
    selection.kind = model::Kind::kMmap;
    const model::Profile by_mapping = replay_trace(trace, selection);
    CHECK(by_mapping.totals.leaked_bytes == profile.mmap.live_bytes);
    CHECK(by_mapping.totals.peak_bytes == profile.mmap.peak_bytes);
    CHECK(by_mapping.totals.allocations == 5);
  }
  SECTION("--kind all counts each byte once") {
    stream.alloc(20, page(500) + 64, 1000);
    Selection selection;
    selection.kind = model::Kind::kAll;
    const model::Profile all = replay_trace(trace, selection);
    CHECK(all.totals.leaked_bytes == profile.mmap.live_bytes - 4096 + 1000);
    CHECK(all.heap.leaked_bytes == 1000);
    CHECK(all.totals.peak_bytes == profile.mmap.peak_bytes);
  }
}

TEST_CASE("mremap of a reservation does not count reserved pages as committed") {
  constexpr std::uint64_t kPage = 4096, kReserved = 0x10000000, kElsewhere = 0x20000000;
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.add(Op::kMap, 1, kReserved, 300 * kPage, 0, kMapAnonymous | kMapReserve);
  stream.add(Op::kMap, 2, kReserved, 6 * kPage, 0, kMapAnonymous);
  stream.add(Op::kMap, 3, kReserved + 6 * kPage, 4 * kPage, 0, kMapAnonymous);
  stream.add(Op::kMap, 4, kReserved + 150 * kPage, 100 * kPage, 0, kMapAnonymous);
  stream.add(Op::kRemapBegin, 5, kReserved, 300 * kPage);
  const auto ends_with = [&](std::uint64_t address, std::uint64_t pages, std::uint64_t live_pages) {
    stream.add(Op::kRemapEnd, 6, address, pages * kPage);
    const model::Profile profile = replay_trace(trace);
    CHECK(profile.mmap.live_bytes == live_pages * kPage);
    CHECK(profile.mmap.peak_bytes == 110 * kPage);
    return profile.mmap;
  };
  SECTION("in its place") {
    const model::MmapTotals totals = ends_with(kReserved, 200, 10 + 50);
    // Neighbours that are alike are one mapping.
    CHECK(totals.mappings == 3 + 2);
    CHECK(totals.mapped_bytes == (110 + 60) * kPage);
    CHECK(totals.reserved_bytes == (300 + 140) * kPage);
  }
  SECTION("in its place, to a part of the first mapping") { ends_with(kReserved, 5, 5); }
  SECTION("to another place, over a mapping") {
    stream.add(Op::kMap, 5, kElsewhere + 20 * kPage, kPage, 0, kMapAnonymous);
    stream.add(Op::kRemapEnd, 6, kElsewhere, 300 * kPage);
    CHECK(replay_trace(trace).mmap.live_bytes == 110 * kPage);
  }
  SECTION("to a longer range: they are one mapping of the kernel") {
    stream.add(Op::kRemapEnd, 6, kElsewhere, 400 * kPage);
    CHECK(replay_trace(trace).mmap.live_bytes == 400 * kPage);
  }
}

TEST_CASE("A mapping that is moved in a pause counts as unmapped, and so does what it has replaced") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.add(Op::kMap, 1, 0x10000, 0x4000, 0, kMapAnonymous);
  stream.add(Op::kMap, 2, 0x20000, 0x2000, 0, kMapAnonymous);
  stream.add(Op::kPause, 3);
  stream.add(Op::kRemapBegin, 4, 0x10000, 0x1000);
  stream.add(Op::kRemapEnd, 5, 0, 0);
  stream.add(Op::kUnmapBegin, 5, 0x20000, 0x1000);
  stream.add(Op::kUnmapEnd, 5);
  stream.add(Op::kResume, 6);
  const model::Profile profile = replay_trace(trace);
  CHECK(profile.mmap.mapped_bytes == 0x6000);
  CHECK(profile.mmap.live_bytes == 0x4000);
}

TEST_CASE("Mappings are whole pages, whatever length was requested") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.add(Op::kMap, 1, 0x10000, 5000, 0, kMapAnonymous);
  stream.add(Op::kUnmapBegin, 2, 0x10000, 1);
  stream.add(Op::kUnmapEnd, 3);
  const model::Profile profile = replay_trace(trace);
  CHECK(profile.mmap.mapped_bytes == 8192);
  CHECK(profile.mmap.live_bytes == 4096);
}

TEST_CASE("A munmap without an end leaves its range mapped") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.add(Op::kMap, 1, 0x10000, 0x4000, 0, kMapAnonymous);
  stream.add(Op::kUnmapBegin, 2, 0x11000, 0x1000);
  const model::Profile profile = replay_trace(trace);
  CHECK(profile.mmap.live_bytes == 0x4000);
  CHECK(has_note(profile, "munmap"));
}

TEST_CASE("Failed calls that cover more mappings than the limit are reported") {
  TraceBuilder trace;
  auto& stream = trace.stream(2'000);
  constexpr std::uint64_t kMappings = 2'000;
  constexpr std::uint64_t kCalls = 1'000;
  for (std::uint64_t i = 0; i < kMappings; ++i) stream.add(Op::kMap, i, i * 4096, 4096, 0, kMapAnonymous);
  SECTION("few of them leave all mapped") {
    stream.add(Op::kUnmapBegin, kMappings, 0, kMappings * 4096);
    stream.add(Op::kUnmapFailed, kMappings);
    const model::Profile profile = replay_trace(trace);
    CHECK(profile.mmap.live_bytes == kMappings * 4096);
    CHECK(profile.integrity.complete);
  }
  SECTION("many of them do not") {
    for (std::uint64_t i = 0; i < kCalls; ++i) {
      stream.add(Op::kUnmapBegin, kMappings + i, 0, kMappings * 4096);
      stream.add(Op::kUnmapFailed, kMappings + i);
    }
    const model::Profile profile = replay_trace(trace);
    CHECK(profile.mmap.live_bytes < kMappings * 4096);
    CHECK(has_note(profile, "of munmap or mremap that failed, or did not return, counted as successful"));
    CHECK_FALSE(profile.integrity.complete);
  }
}

// If each end looked through all calls that have begun, these would take half a trillion steps, which is longer than
// a test may take.
TEST_CASE("The end of a call costs the same, however many other calls have not returned") {
  TraceBuilder trace;
  auto& stream = trace.stream(2'000);
  constexpr std::uint64_t kCalls = 700'000;
  stream.add(Op::kMap, 1, 0x10000, 0x4000, 0, kMapAnonymous);
  for (std::uint64_t i = 0; i < kCalls; ++i) stream.add(Op::kRemapBegin, 2, 0x90000, 0x1000);
  for (std::uint64_t i = 0; i < kCalls; ++i) stream.add(Op::kUnmapFailed, 3);
  stream.add(Op::kUnmapBegin, 4, 0x10000, 0x1000);
  stream.add(Op::kUnmapFailed, 5);
  CHECK(replay_trace(trace).mmap.live_bytes == 0x4000);
}

TEST_CASE("Blocks that are not selected do not count, and their frees are not unmatched") {
  TraceBuilder trace;
  auto& one = trace.stream();
  auto& two = trace.stream();
  one.thread(1, "one");
  two.thread(2, "two");
  one.alloc(1, 0x1000, 10);
  one.alloc(2, 0x2000, 1000);
  two.alloc(3, 0x3000, 20);
  two.free(4, 0x1000);
  one.free(5, 0x3000);
  Selection selection;
  SECTION("by size") {
    selection.min_size = 15;
    selection.max_size = 999;
    const model::Profile profile = replay_trace(trace, selection);
    CHECK(profile.heap.allocations == 1);
    CHECK(profile.heap.allocated_bytes == 20);
    CHECK(profile.heap.frees == 1);
    CHECK(profile.heap.unmatched_frees == 0);
    CHECK(profile.heap.leaked_bytes == 0);
    check_equations(profile);
  }
  SECTION("by thread") {
    selection.thread_names = {"one"};
    const model::Profile profile = replay_trace(trace, selection);
    CHECK(profile.heap.allocations == 2);
    CHECK(profile.heap.leaked_bytes == 1000);
    check_equations(profile);
    selection.thread_names = {};
    selection.thread_ids = {2};
    CHECK(replay_trace(trace, selection).heap.allocated_bytes == 20);
    selection.excluded_thread_ids = {2};
    CHECK(replay_trace(trace, selection).heap.allocated_bytes == 0);
    selection.thread_ids = {};
    CHECK(replay_trace(trace, selection).heap.leaked_bytes == 1000);
    selection.excluded_thread_names = {"one"};
    CHECK(replay_trace(trace, selection).heap.allocated_bytes == 0);
  }
}

TEST_CASE("The reason for unmatched frees is reported: a fork, or a pause") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  SECTION("fork") {
    trace.header.flags = kHeaderForkedChild;
    stream.free(1, 0x1000);
    const model::Profile profile = replay_trace(trace);
    CHECK(profile.recording.forked_child);
    CHECK(has_note(profile, "before the fork"));
    CHECK(profile.integrity.complete);
  }
  SECTION("pause") {
    stream.add(Op::kPause, 1);
    stream.free(2, 0x1000);
    stream.add(Op::kResume, 3);
    const model::Profile profile = replay_trace(trace);
    CHECK(has_note(profile, "paused"));
    REQUIRE(profile.timeline.marks.size() == 2);
    CHECK(profile.timeline.marks[0].kind == model::Timeline::Mark::Kind::kPaused);
    CHECK(profile.timeline.marks[1].time_ns == 3);
  }
}

TEST_CASE("Without a kill-safe tail the trace of a killed program, and one that stopped, is incomplete") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.alloc(1, 0x1000, 1);
  trace.header.flags = kHeaderTailNotKillSafe;
  CHECK_FALSE(replay_trace(trace).integrity.complete);
  trace.header.end_kind = EndKind::kStopped;
  CHECK_FALSE(replay_trace(trace).integrity.complete);
  trace.header.end_kind = EndKind::kExit;
  CHECK(replay_trace(trace).integrity.complete);
}
