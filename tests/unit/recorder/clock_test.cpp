// The clock of events, and what happens when it must not be read.
#include "preload/recorder/clock/clock.h"

#include <catch2/catch.hpp>
#include <ctime>

#include "tests/support/single_step.h"

using namespace heapprof;
using namespace heapprof::recorder;

namespace {

/// Two readings differ unless the clock is frozen: the coarsest clock in use counts nanoseconds.
bool is_frozen(const TickClock& clock) {
  const Ticks first = clock.now();
  timespec before{}, now{};
  clock_gettime(CLOCK_MONOTONIC, &before);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while (now.tv_sec == before.tv_sec && now.tv_nsec == before.tv_nsec);
  return clock.now() == first;
}

}  // namespace

TEST_CASE("A clock begins at 0 and runs") {
  TickClock clock;
  clock.start();
  const Ticks first = clock.now();
  CHECK(first < clock.ticks_in(60'000'000'000));
  CHECK_FALSE(is_frozen(clock));
  CHECK(clock.now() > first);
}

TEST_CASE("A frozen clock does not advance until it was thawed as often as it was frozen") {
  TickClock clock;
  clock.start();
  const Clock kind = clock.kind();
  const Ticks before = clock.now();
  clock.freeze();
  CHECK(is_frozen(clock));
  const Ticks frozen = clock.now();
  CHECK(frozen >= before);
  CHECK(clock.kind() == kind);  // the clock in the trace's header does not change
  clock.freeze();
  CHECK(clock.now() == frozen);
  clock.thaw();
  CHECK(is_frozen(clock));
  clock.thaw();
  CHECK_FALSE(is_frozen(clock));
  CHECK(clock.now() > frozen);
}

TEST_CASE("A clock stays frozen however often the program freezes it") {
  TickClock clock;
  clock.start();
  for (std::uint32_t i = 0; i < std::uint32_t{1} << 24; ++i) clock.freeze();
  CHECK(is_frozen(clock));
}

#ifdef HEAPPROF_SINGLE_STEP
namespace {
TickClock g_subject;
Ticks g_reading;
}  // namespace

TEST_CASE("A clock that is frozen or thawed while it is read returns a time of this moment") {
  const auto check = [](bool frozen_before, void (*interrupt)()) {
    for (unsigned steps = 0;; ++steps) {
      g_subject = TickClock();
      g_subject.start();
      const Ticks before = g_subject.now();
      if (frozen_before) g_subject.freeze();
      const bool interrupted = heapprof::test::interrupt_after(
          steps, [] { g_reading = g_subject.now(); }, interrupt);
      const Ticks reading = g_reading;
      if (!interrupted) {
        CHECK(steps > 3);
        return;
      }
      if (!frozen_before) g_subject.thaw();
      INFO("interrupted after " << steps << " instructions");
      REQUIRE(reading >= before);
      REQUIRE(reading <= g_subject.now());
    }
  };
  SECTION("thawed") {
    check(true, [] { g_subject.thaw(); });
  }
  SECTION("frozen") {
    check(false, [] { g_subject.freeze(); });
  }
}

TEST_CASE("A clock stays frozen when one thread freezes it while another thaws it") {
  // At the end the clock was frozen once more often than thawed, wherever one call interrupted the other.
  const auto check = [](void (*body)(), void (*interrupt)()) {
    for (unsigned steps = 0;; ++steps) {
      g_subject = TickClock();
      g_subject.start();
      g_subject.freeze();
      if (!heapprof::test::interrupt_after(steps, body, interrupt)) {
        CHECK(steps > 10);
        return;
      }
      INFO("interrupted after " << steps << " instructions");
      REQUIRE(is_frozen(g_subject));
    }
  };
  const auto freeze = [] { g_subject.freeze(); };
  const auto thaw = [] { g_subject.thaw(); };
  SECTION("thaw is interrupted") { check(thaw, freeze); }
  SECTION("freeze is interrupted") { check(freeze, thaw); }
}
#endif

TEST_CASE("A clock is calibrated with two readings taken together") {
  TickClock clock;
  clock.start();
  const std::uint64_t origin = clock.origin_monotonic_ns();
  if (clock.kind() == Clock::kMonotonic) {
    clock.calibrate(Ticks{1'000'000}, origin + 3'000'000);
    CHECK(clock.ticks_in(1024) == Ticks{1024});
    CHECK(clock.monotonic_ns_at(Ticks{5'000'000}) == origin + 5'000'000);
    return;
  }
  clock.calibrate(Ticks{3'000'000'000}, origin + 1'000'000'000);  // 3 ticks a nanosecond
  const auto near = [](std::uint64_t value, std::uint64_t expected) {
    return value >= expected - expected / 100 && value <= expected + expected / 100;
  };
  CHECK(near(tick_count(clock.ticks_in(1'000'000)), 3'000'000));
  CHECK(near(clock.monotonic_ns_at(Ticks{6'000'000'000}) - origin, 2'000'000'000));
  // A hundred days do not overflow.
  constexpr std::uint64_t kLong = 100ull * 86400 * 1'000'000'000;
  CHECK(near(clock.monotonic_ns_at(Ticks{3 * kLong}) - origin, kLong));
}
