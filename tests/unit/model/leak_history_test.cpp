// How stacks that leak are classified.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "analyzer/model/leak_history.h"
#include "tests/support/seed.h"

using namespace heapprof::model;

namespace {

constexpr std::uint64_t kWidth = 10;

// Its ticks are nanoseconds.
const heapprof::trace::TickClock kClock;

/// Steps of kWidth up to `end`, in each of which the program allocated `allocations(begin of the step)` times.
template <typename Allocations>
LeakSteps steps_with(std::uint64_t end, Allocations&& allocations) {
  Timeline timeline;
  for (std::uint64_t start = 0; start < end; start += kWidth) {
    Timeline::Bucket& bucket = timeline.buckets.emplace_back();
    bucket.start_ns = start;
    bucket.allocations = allocations(start);
  }
  return LeakSteps::of(timeline, 0, kWidth, end);
}
LeakSteps steps(std::uint64_t end = 1600) {
  return steps_with(end, [](std::uint64_t) { return 1; });
}

}  // namespace

TEST_CASE("Growing, stable and in-use stacks are distinguished") {
  LeakHistory history(5, steps(), kClock);
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
  LeakHistory history(5, steps(), kClock);
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
    LeakHistory history(5, steps(), kClock);
    for (std::uint64_t time = 900; time < 1300; time += 10) history.allocated(1, 10, time);
    if (freed)
      for (std::uint64_t time = 1400; time < 1550; time += 5) history.freed(1, 10, time, time - 500);
    for (std::uint64_t time = freed ? 1200 : 900; time < 1300; time += 10) history.left(1, 10, time);
    history.finish();
    CHECK(history.of(1).rises == 4);
    CHECK((history.of(1).growth == Growth::kGrowing) == !freed);
  }
}

TEST_CASE("A table that is replaced by a larger one within a step is growing") {
  LeakHistory history(1, steps(), kClock);
  history.allocated(0, 10, 0);
  for (std::uint64_t step = 1; step < 16; ++step) {
    history.freed(0, step * 10, step * 100 + 2, step * 100 - 96);
    history.allocated(0, step * 10 + 10, step * 100 + 4);
  }
  history.left(0, 160, 1504);
  history.finish();
  CHECK(history.of(0).growth == Growth::kGrowing);
}

TEST_CASE("Memory that was gone for a step is not growing, whatever it is at other times") {
  LeakHistory history(1, steps(), kClock);
  for (std::uint64_t part = 0; part < 16; ++part) {
    history.allocated(0, 1000 * part + 1000, part * 100 + 5);
    history.freed(0, 1000 * part + 1000, part * 100 + 55, part * 100 + 5);  // gone at 60, not at 50
  }
  history.allocated(0, 20'000, 1590);
  history.left(0, 20'000, 1590);
  history.finish();
  CHECK(history.of(0).low_bytes[3] == 0);
  CHECK(history.of(0).growth == Growth::kInUse);
}

TEST_CASE("A block that is gone counts no more") {
  LeakHistory history(1, steps(), kClock);
  history.allocated(0, 10, 0);
  history.freed(0, 10, 550, 0);
  history.allocated(0, 3, 1300);
  history.left(0, 3, 1300);
  history.finish();
  CHECK(history.of(0).low_bytes[4] == 10);
  CHECK(history.of(0).low_bytes[5] == 0);
  CHECK(history.of(0).low_bytes[6] == 0);
}

TEST_CASE("a leak that grew as long as there was load differs from memory allocated at the start") {
  const LeakSteps with_load =  // then hardly any
      steps_with(1600, [](std::uint64_t start) { return start < 320        ? 100
                                                        : start % 100 == 0 ? 1
                                                                           : 0; });
  LeakHistory history(2, with_load, kClock);
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
  CHECK(history.of(0).grew_until_ns == 320);
  CHECK(history.of(1).growth == Growth::kStable);
  CHECK_FALSE(history.of(1).grew_with_load);
  CHECK(history.of(1).grew_until_ns == 20);
}

TEST_CASE("Load divides the allocations, time the steps in which there are any") {
  const LeakSteps none = LeakSteps::of({}, 0, kWidth, 0);
  CHECK(none.by_load.front() == 0);
  CHECK(none.by_time.back() == 0);
  const LeakSteps half = steps_with(320, [](std::uint64_t start) { return start < 160 ? 10 : 0; });
  CHECK(half.by_load[1] == 1);
  CHECK(half.by_load.back() == 15);
  CHECK(half.by_time.back() == 15);
  CHECK(half.to == 16);
  const LeakSteps late = steps_with(1600, [](std::uint64_t start) { return start < 800 ? 0 : start < 960 ? 1 : 9; });
  CHECK(late.by_time[0] == 80);
  CHECK(late.by_time[8] == 120);
  CHECK(late.by_load[8] > 120);
}

TEST_CASE("A cache that has filled stopped growing when it was full") {
  LeakHistory history(1, steps(), kClock);
  for (std::uint64_t time = 0; time < 1600; ++time) {
    history.allocated(0, 10, time);
    if (time >= 400) history.freed(0, 10, time, time - 400);
  }
  for (std::uint64_t time = 1200; time < 1600; ++time) history.left(0, 10, time);
  history.finish();
  CHECK(history.of(0).growth == Growth::kInUse);
  CHECK(history.of(0).grew_until_ns <= 410);
  CHECK(history.of(0).grew_until_ns > 380);
}

TEST_CASE("With fewer steps than parts, a part without a step has the live bytes at its begin") {
  const LeakSteps few = steps(40);
  LeakHistory history(1, few, kClock);
  for (std::uint64_t time = 0; time < 40; ++time) history.allocated(0, 1, time);
  history.finish();
  for (unsigned part = 0; part < LeakTrend::kParts; ++part) CHECK(history.of(0).low_bytes[part] == part / 4 * 10);
  CHECK(history.of(0).low_bytes.back() == 40);
}

TEST_CASE("Trends are those of the live bytes at the ends of the steps, from events and from changes") {
  // The rate of the clock changes several times, from 1/3 to 3 ns in a tick.
  std::vector<heapprof::trace::TickClock::Point> points{{0, 0}};
  constexpr std::uint64_t kTicks = 16'000;
  for (const std::uint64_t ns_per_3_ticks : {3, 9, 1, 4, 2, 9, 3, 7})
    points.push_back({points.back().ticks + kTicks / 8, points.back().ns + kTicks / 8 * ns_per_3_ticks / 3});
  const heapprof::trace::TickClock clock(heapprof::FileHeader{}, points);
  const auto to_ns = [&](std::uint64_t ticks) { return clock.to_ns(heapprof::trace::Ticks{ticks}); };
  constexpr std::uint64_t kStart = 77, kStep = 29;

  struct Allocation {
    std::uint64_t size, ticks;
  };
  std::vector<Allocation> blocks;
  std::vector<std::uint64_t> live_before((kTicks + kStep) / kStep + 1);  // each step
  Timeline timeline;
  timeline.buckets.resize(live_before.size());
  std::mt19937 random(heapprof::test::seed(7));
  struct Event {
    bool frees;
    Allocation block;
    std::uint64_t ticks;
  };
  std::vector<Event> events;
  LongestLife longest;
  for (std::uint64_t ticks = kStart; ticks < kTicks; ticks += random() % 4) {
    const std::size_t step = (ticks - kStart) / kStep;
    std::int64_t change;
    if (!blocks.empty() && random() % 100 < 48) {
      const std::size_t at = random() % blocks.size();
      events.push_back({true, blocks[at], ticks});
      change = -static_cast<std::int64_t>(blocks[at].size);
      if (ticks - blocks[at].ticks > longest.ticks) longest = {ticks - blocks[at].ticks, ticks};
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      blocks.push_back({1 + random() % 100, ticks});
      events.push_back({false, blocks.back(), ticks});
      change = static_cast<std::int64_t>(blocks.back().size);
      ++timeline.buckets[step].allocations;
    }
    for (std::size_t later = step + 1; later < live_before.size(); ++later)
      live_before[later] += static_cast<std::uint64_t>(change);
  }
  const LeakSteps steps = LeakSteps::of(timeline, kStart, kStep, to_ns(kTicks));
  std::uint64_t grew_until = 0, high = 0;
  for (std::size_t step = 0; step < live_before.size(); ++step)
    if (live_before[step] > high + high / 64) high = live_before[step], grew_until = step;

  LeakHistory by_event(1, steps, clock), by_change(1, steps, clock);
  LeftBlocks left;
  std::uint64_t frees = 0;
  for (const Event& event : events) {
    if (event.frees) by_event.freed(0, event.block.size, event.ticks, event.block.ticks);
    else by_event.allocated(0, event.block.size, event.ticks);
    frees += event.frees;
  }
  for (const Allocation& block : blocks) {
    by_event.left(0, block.size, block.ticks);
    left.add(block.size, block.ticks);
  }
  for (std::uint32_t step = 0; step + 1 < live_before.size(); ++step)
    if (live_before[step + 1] != live_before[step])
      by_change.changed(0, static_cast<std::int64_t>(live_before[step + 1] - live_before[step]), step);
  by_change.add_lives(0, {longest, {}}, frees);
  by_change.add_lives(0, {{}, left}, 0);
  for (LeakHistory* const history : {&by_event, &by_change}) {
    history->finish();
    const LeakTrend& trend = history->of(0);
    for (unsigned part = 0; part < LeakTrend::kParts; ++part) {
      const auto end =
          part + 1 == LeakTrend::kParts ? live_before.end() : live_before.begin() + steps.by_time[part + 1];
      CHECK(trend.low_bytes[part] == *std::min_element(live_before.begin() + steps.by_time[part], end));
    }
    CHECK(trend.low_bytes.back() == live_before.back());
    // The last step ends with the profile.
    CHECK(trend.grew_until_ns == std::min(to_ns(kStart + grew_until * kStep), to_ns(kTicks)));
    CHECK(trend.longest_life_ns == to_ns(longest.end) - to_ns(longest.end - longest.ticks));
    CHECK(trend.freed_blocks == frees);
    CHECK(trend.first_ns == to_ns(left.first));
    CHECK(trend.left_blocks == blocks.size());
  }
}
