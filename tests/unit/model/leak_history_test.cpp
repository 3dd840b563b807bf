// How stacks that leak are classified.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "analyzer/model/leak_history.h"

using namespace heapprof::model;

namespace {

// Its ticks are nanoseconds.
const heapprof::trace::TickClock kClock;

}  // namespace

TEST_CASE("Growing, stable and in-use stacks are distinguished") {
  LeakHistory history(5, 0, 1600, kClock);
  for (std::uint64_t time = 0; time < 1600; time += 10) {
    history.allocated(1, 10, time);                  // to the end
    if (time < 300) history.allocated(2, 10, time);  // in the first three parts
    history.allocated(3, 10, time);                  // each replaces the block of 100 ns before
    if (time >= 100) history.freed(3, 10, time, time - 100);
    history.allocated(4, 1000, time);  // freed at once
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
  CHECK(history.of(3).freed_blocks == 150);
  CHECK(history.of(4).growth == Growth::kStable);  // older than the longest lifetime, which is 0
  CHECK(history.of(4).low_bytes[7] == 0);
}

TEST_CASE("A leak that stopped before the last quarter is not growing") {
  LeakHistory history(5, 0, 1600, kClock);
  for (std::uint64_t time = 0; time < 1000; time += 10) {
    history.allocated(1, 10, time);
    history.left(1, 10, time);
  }
  history.finish();
  CHECK(history.of(1).rises == 10);
  CHECK(history.of(1).growth == Growth::kStable);
}

TEST_CASE("A stack that rose late and freed most of it is not growing") {
  for (const bool freed : {false, true}) {
    LeakHistory history(5, 0, 1600, kClock);
    for (std::uint64_t time = 900; time < 1300; time += 10) history.allocated(1, 10, time);
    if (freed)
      for (std::uint64_t time = 1400; time < 1550; time += 5) history.freed(1, 10, time, time - 500);
    for (std::uint64_t time = freed ? 1200 : 900; time < 1300; time += 10) history.left(1, 10, time);
    history.finish();
    CHECK(history.of(1).rises == 4);
    CHECK((history.of(1).growth == Growth::kGrowing) == !freed);
  }
}

TEST_CASE("A table that a realloc enlarges is growing") {
  for (const bool moved : {false, true}) {
    LeakHistory history(1, 0, 1600, kClock);
    history.allocated(0, 10, 0);
    for (std::uint64_t step = 1; step < 16; ++step) {
      history.freed(0, step * 10, step * 100, step * 100 - 100, moved);
      history.allocated(0, step * 10 + 10, step * 100);
    }
    history.left(0, 160, 1500);
    history.finish();
    CHECK((history.of(0).growth == Growth::kGrowing) == moved);
  }
}

TEST_CASE("A block that a realloc moves to another stack is gone") {
  LeakHistory history(1, 0, 1600, kClock);
  history.allocated(0, 10, 0);
  history.freed(0, 10, 550, 0, true);
  history.allocated(0, 3, 1300);
  history.left(0, 3, 1300);
  history.finish();
  CHECK(history.of(0).low_bytes[4] == 10);
  CHECK(history.of(0).low_bytes[5] == 0);
  CHECK(history.of(0).low_bytes[6] == 0);
}

TEST_CASE("a leak that grew as long as there was load differs from memory allocated at the start") {
  Timeline timeline;
  for (std::uint64_t start = 0; start < 1600; start += 10) {
    Timeline::Bucket bucket;
    bucket.start_ns = start;
    bucket.allocations = start < 320 ? 100 : start % 100 == 0 ? 1 : 0;  // load, then hardly any
    timeline.buckets.push_back(bucket);
  }
  LeakHistory history(2, 0, 1600, kClock);
  history.set_load(load_times(timeline));
  for (std::uint64_t time = 0; time < 320; time += 5) {
    history.allocated(0, 10, time);
    history.left(0, 10, time);
    if (time >= 20) continue;
    history.allocated(1, 200, time);
    history.left(1, 200, time);
  }
  history.finish();
  CHECK(history.of(0).growth == Growth::kStable);
  CHECK(history.of(0).grew_with_load);
  CHECK(history.of(0).grew_until_ns > 300);
  CHECK(history.of(0).grew_until_ns < 320);
  CHECK(history.of(1).growth == Growth::kStable);
  CHECK_FALSE(history.of(1).grew_with_load);
  CHECK(history.of(1).grew_until_ns == 15);
}

TEST_CASE("Load divides the allocations, not the time") {
  Timeline timeline;
  CHECK(load_times(timeline).front() == ~std::uint64_t{0});
  for (std::uint64_t start = 0; start < 32; ++start) {
    Timeline::Bucket bucket;
    bucket.start_ns = start;
    bucket.allocations = start < 16 ? 10 : 0;
    timeline.buckets.push_back(bucket);
  }
  const LoadTimes times = load_times(timeline);
  CHECK(times.front() == 1);
  CHECK(times.back() == 15);
}

TEST_CASE("A cache that has filled stopped growing when it was full") {
  LeakHistory history(1, 0, 1600, kClock);
  for (std::uint64_t time = 0; time < 1600; ++time) {
    history.allocated(0, 10, time);
    if (time >= 400) history.freed(0, 10, time, time - 400);
  }
  for (std::uint64_t time = 1200; time < 1600; ++time) history.left(0, 10, time);
  history.finish();
  CHECK(history.of(0).growth == Growth::kInUse);
  CHECK(history.of(0).grew_until_ns < 402);
  CHECK(history.of(0).grew_until_ns > 380);
}

TEST_CASE("Trends of events in ticks are those of their times in nanoseconds") {
  // The rate of the clock changes several times, from 1/3 to 3 ns in a tick.
  std::vector<heapprof::trace::TickClock::Point> points{{0, 0}};
  constexpr std::uint64_t kTicks = 16'000;
  for (const std::uint64_t ns_per_3_ticks : {3, 9, 1, 4, 2, 9, 3, 7})
    points.push_back({points.back().ticks + kTicks / 8, points.back().ns + kTicks / 8 * ns_per_3_ticks / 3});
  const heapprof::trace::TickClock clock(heapprof::FileHeader{}, points);
  const auto to_ns = [&](std::uint64_t ticks) { return clock.to_ns(heapprof::trace::Ticks{ticks}); };
  const std::uint64_t end_ns = points.back().ns;

  LoadTimes load;
  for (std::size_t i = 0; i < load.size(); ++i) load[i] = end_ns / 2 + i * 100;
  LeakHistory history(1, 0, end_ns, clock);
  history.set_load(load);
  // The same, each value from its definition.
  Rises::Lows lows;
  lows.fill(~std::uint64_t{0});
  lows.front() = 0;
  std::uint64_t live = 0;
  std::uint64_t high = 0;
  std::uint64_t grew_until_ns = 0;
  std::uint64_t longest_ns = 0;
  unsigned part = 0;
  const auto enter_part = [&](std::uint64_t ns) {
    for (; part + 1 < LeakTrend::kParts && ns * LeakTrend::kParts >= (part + 1) * end_ns; ++part)
      lows[part + 1] = live;
  };

  struct Allocation {
    std::uint64_t size, ticks;
  };
  std::vector<Allocation> blocks;
  std::mt19937 random(7);
  for (std::uint64_t ticks = 0; ticks < kTicks; ticks += random() % 4) {
    enter_part(to_ns(ticks));
    if (!blocks.empty() && random() % 100 < 48) {
      const std::size_t at = random() % blocks.size();
      const Allocation freed = blocks[at];
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
      history.freed(0, freed.size, ticks, freed.ticks);
      live -= freed.size;
      lows[part] = std::min(lows[part], live);
      longest_ns = std::max(longest_ns, to_ns(ticks) - to_ns(freed.ticks));
    } else {
      blocks.push_back({1 + random() % 100, ticks});
      history.allocated(0, blocks.back().size, ticks);
      live += blocks.back().size;
      if (live > high + high / 64) high = live, grew_until_ns = to_ns(ticks);
    }
  }
  std::uint64_t first_ns = ~std::uint64_t{0};
  for (const Allocation& left : blocks) {
    history.left(0, left.size, left.ticks);
    first_ns = std::min(first_ns, to_ns(left.ticks));
  }
  enter_part(end_ns);
  lows.back() = live;
  history.finish();
  CHECK(history.of(0).low_bytes == lows);
  CHECK(history.of(0).grew_until_ns == grew_until_ns);
  CHECK(history.of(0).longest_life_ns == longest_ns);
  CHECK(history.of(0).first_ns == first_ns);
  CHECK(history.of(0).left_blocks == blocks.size());
}
