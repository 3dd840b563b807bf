// Questions about single blocks, on traces whose every time is known: what a resolved event tells, and the models
// made of it.
#include <catch2/catch.hpp>

#include "analyzer/cli/text/call_sites.h"
#include "analyzer/model/free_pairs.h"
#include "analyzer/model/leak_history.h"
#include "analyzer/model/lifetimes.h"
#include "analyzer/model/realloc_chains.h"
#include "analyzer/replay/analysis/analysis.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

using namespace heapprof;
using namespace heapprof::model;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

TEST_CASE("A release tells who did it, by which stack, and how old its block was") {
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
  one.alloc(900, 0xd000, 60, 4);  // nobody saw the release in between
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), trace.bytes());
  const replay::Analysis analysis(path.path(), {});
  std::vector<replay::ProfileEvent> releases;
  std::vector<replay::ProfileEvent> allocations;
  std::vector<replay::LiveBlock> left;
  analysis.for_each_event(
      [&](std::span<const replay::ProfileEvent> events) {
        for (const replay::ProfileEvent& event : events) {
          if (event.kind == replay::ResolvedKind::kFree) releases.push_back(event);
          if (event.kind == replay::ResolvedKind::kAllocation) allocations.push_back(event);
        }
      },
      {}, {.visit_leaked = [&](const replay::LiveBlock& block) { left.push_back(block); }});

  REQUIRE(releases.size() == 3);
  CHECK(releases[0].thread == 0);
  CHECK(releases[0].freeing_thread == 1);
  CHECK(releases[0].freeing_node == kNoIndex);
  CHECK(releases[0].allocated_ns == 100);
  CHECK_FALSE(releases[0].in_realloc);
  CHECK(releases[1].in_realloc);
  CHECK(releases[1].address == 0xb000);
  CHECK(releases[1].freeing_thread == 0);
  REQUIRE(releases[1].freeing_node != kNoIndex);
  CHECK(analysis.profile().addresses[analysis.profile().nodes[releases[1].freeing_node].address].offset == 0x300);
  CHECK(releases[1].allocated_ns == 200);
  CHECK(releases[2].freeing_thread == replay::kNoThread);
  CHECK(releases[2].allocated_ns == 700);
  REQUIRE(allocations.size() == 5);
  CHECK_FALSE(allocations[1].in_realloc);
  CHECK(allocations[2].in_realloc);
  CHECK(allocations[2].old_address == 0xb000);
  REQUIRE(left.size() == 2);
  std::uint64_t bytes = 0;
  for (const replay::LiveBlock& block : left) bytes += block.size;
  CHECK(bytes == 40 + 60);
}

namespace {

Profile profile_with_leaks(std::size_t nodes) {
  Profile profile;
  profile.nodes.resize(nodes + 1);
  for (std::size_t node = 1; node <= nodes; ++node) profile.nodes[node].costs.leaked_blocks = 1;
  return profile;
}

}  // namespace

TEST_CASE("What grows is told from what filled once and from what is replaced") {
  const Profile profile = profile_with_leaks(4);
  LeakHistory history(profile, 0, 1600);
  for (std::uint64_t time = 0; time < 1600; time += 10) {
    history.allocated(1, 10, time);                              // to the end
    if (time < 300) history.allocated(2, 10, time);              // to the third part
    history.allocated(3, 10, time);                              // each replaces that of 100 before
    if (time >= 100) history.freed(3, 10, time, time - 100);
    history.allocated(4, 1000, time);                            // comes and goes
    history.freed(4, 1000, time, time);
  }
  history.allocated(4, 1000, 1599);
  for (std::uint64_t time = 0; time < 1600; time += 10) history.left(1, 10, time);
  for (std::uint64_t time = 0; time < 300; time += 10) history.left(2, 10, time);
  for (std::uint64_t time = 1500; time < 1600; time += 10) history.left(3, 10, time);
  history.left(4, 1000, 1599);
  history.finish();

  CHECK(history.of(1).growth == Growth::kGrowing);
  CHECK(history.of(1).rises == LeakTrend::kParts);
  CHECK(history.of(1).low_bytes.back() == 1600);
  CHECK(history.of(1).low_bytes[8] == 800);
  CHECK(history.of(1).first_ns == 0);
  CHECK(history.of(1).last_ns == 1590);
  CHECK(history.of(2).growth == Growth::kStable);
  CHECK(history.of(2).rises == 3);
  CHECK(history.of(2).left_blocks == 30);
  CHECK(history.of(3).growth == Growth::kInUse);
  CHECK(history.of(3).longest_life_ns == 100);
  CHECK(history.of(3).released_blocks == 150);
  CHECK(history.of(4).growth == Growth::kStable);  // older than any that went: those lived for no time at all
  CHECK(history.of(4).low_bytes[7] == 0);
}

TEST_CASE("A leak that stopped long ago is no longer growing") {
  const Profile profile = profile_with_leaks(1);
  LeakHistory history(profile, 0, 1600);
  for (std::uint64_t time = 0; time < 1000; time += 10) {
    history.allocated(1, 10, time);
    history.left(1, 10, time);
  }
  history.finish();
  CHECK(history.of(1).rises == 10);
  CHECK(history.of(1).growth == Growth::kStable);
}

TEST_CASE("What rose late and was given back for the most part is not growing") {
  const Profile profile = profile_with_leaks(1);
  for (const bool given_back : {false, true}) {
    LeakHistory history(profile, 0, 1600);
    for (std::uint64_t time = 900; time < 1300; time += 10) history.allocated(1, 10, time);
    if (given_back)
      for (std::uint64_t time = 1400; time < 1550; time += 5) history.freed(1, 10, time, time - 500);
    for (std::uint64_t time = given_back ? 1200 : 900; time < 1300; time += 10) history.left(1, 10, time);
    history.finish();
    CHECK(history.of(1).rises == 4);
    CHECK((history.of(1).growth == Growth::kGrowing) == !given_back);
  }
}

TEST_CASE("A call site is who asks, not what stands between it and malloc") {
  for (const char* name :
       {"malloc", "xmalloc", "g_realloc_n", "operator new(unsigned long)", "os::malloc(unsigned long, MEMFLAGS)",
        "os::malloc()", "AllocateHeap(unsigned long, MEMFLAGS, AllocFailStrategy::AllocFailEnum)",
        "v8::internal::AlignedAllocWithRetry()"})
    CHECK(heapprof::cli::is_allocation_machinery(name));
  for (const char* name :
       {"main", "Statistics::of_malloc(int)", "Cache<malloc>::fill()", "parse(malloc::State&)", "AllocateHeaps()"})
    CHECK_FALSE(heapprof::cli::is_allocation_machinery(name));
}

TEST_CASE("Lifetimes fall into powers of ten, the limits into the upper class") {
  Lifetimes lives;
  lives.released(0, 1);
  lives.released(999, 2);
  lives.released(1'000, 4);
  lives.released(999'999'999, 8);
  lives.released(1'000'000'000, 16);
  lives.released(~std::uint64_t{0}, 32);
  lives.left(64);
  CHECK(lives.classes()[0].blocks == 2);
  CHECK(lives.classes()[0].bytes == 3);
  CHECK(lives.classes()[1].bytes == 4);
  CHECK(lives.classes()[6].below_ns == 1'000'000'000);
  CHECK(lives.classes()[6].bytes == 8);
  CHECK(lives.classes()[7].bytes == 16);
  CHECK(lives.classes().back().below_ns == 0);
  CHECK(lives.classes().back().bytes == 32);
  CHECK(lives.left().bytes == 64);
}

TEST_CASE("Realloc chains count steps, moves and copies for the stack of each step") {
  ReallocChains chains(3);
  // 10 -> 20 (moves) -> 40 (stays), then released; 100 -> 50 (moves) by another stack, and left.
  chains.begin_step(0xa, 10);
  chains.stepped(0xa, 0xb, 20, 1);
  chains.begin_step(0xb, 20);
  chains.stepped(0xb, 0xb, 40, 1);
  chains.freed(0xb);
  chains.begin_step(0xc, 100);
  chains.stepped(0xc, 0xd, 50, 2);
  chains.freed(0xe);               // never reallocated
  chains.stepped(0xf, 0x10, 99, 2);   // its block does not count
  chains.begin_step(0xd, 50);              // realloc to nothing ends it
  chains.finish();
  CHECK(chains.costs()[1].steps == 2);
  CHECK(chains.costs()[1].moved == 1);
  CHECK(chains.costs()[1].copied_bytes == 10);
  CHECK(chains.costs()[1].chains == 1);
  CHECK(chains.costs()[1].longest == 2);
  CHECK(chains.costs()[1].longest_first_bytes == 10);
  CHECK(chains.costs()[1].longest_last_bytes == 40);
  CHECK(chains.costs()[2].steps == 1);
  CHECK(chains.costs()[2].copied_bytes == 50);
  CHECK(chains.costs()[2].chains == 1);
}

TEST_CASE("Sums by pair keep the pairs apart, whatever comes between") {
  PairSums pairs;
  pairs.add(0, 0, 5);
  pairs.add(0, 1, 1);
  pairs.add(1, 0, 2);
  pairs.add(0, 1, 4);
  REQUIRE(pairs.entries().size() == 3);
  CHECK(pairs.entries()[0].sum.bytes == 5);
  CHECK(pairs.entries()[1].sum.bytes == 5);
  CHECK(pairs.entries()[1].sum.blocks == 2);
  CHECK(pairs.entries()[2].from == 1);
}
