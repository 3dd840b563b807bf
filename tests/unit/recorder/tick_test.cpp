// The word that the kernel changes at each tick of its timer.
#include "preload/recorder/clock/tick.h"

#include <time.h>

#include <catch2/catch.hpp>

#include "preload/sys/proc_maps.h"

using namespace heapprof;
using namespace heapprof::recorder;

namespace {

std::uint64_t coarse_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

/// The kernel's page may have no such word here (a time namespace, an emulator): then nothing is known, always.
bool find_or_say() {
  find_tick();
  if (tick_is_known()) return true;
  WARN("no word of the kernel's timer in this process: each event reads the clock");
  CHECK(tick() == 0);
  return false;
}

const void* before_word(std::uint64_t bytes) { return reinterpret_cast<const char*>(g_tick) - bytes; }

}  // namespace

TEST_CASE("The tick is another one after each tick of the coarse clock, and the same in between") {
  if (!find_or_say()) return;
  unsigned ticks = 0, compared = 0;
  std::uint64_t last_tick = 0, last_ns = 0;
  while (ticks < 5) {
    // Where the clock stood still around it, the word is of that time.
    const std::uint64_t ns = coarse_ns();
    const std::uint64_t now = tick();
    if (coarse_ns() != ns) continue;
    if (last_ns != 0) {
      REQUIRE((now == last_tick) == (ns == last_ns));
      ++compared;
      if (ns != last_ns) ++ticks;
    }
    last_tick = now;
    last_ns = ns;
  }
  CHECK(compared > ticks);
}

TEST_CASE("The tick lies in the kernel's own page") {
  if (!find_or_say()) return;
  sys::Mapping mapping;
  REQUIRE(sys::find_mapping("[vvar]", mapping));
  const auto word = reinterpret_cast<std::uint64_t>(g_tick);
  CHECK(word >= mapping.begin);
  CHECK(word + sizeof *g_tick <= mapping.end);
}

TEST_CASE("A tick whose memory the host unmaps is not read any more") {
  if (!find_or_say()) return;
  SECTION("the range begins at the word") {
    forget_tick_in(g_tick, 1);
    CHECK_FALSE(tick_is_known());
  }
  SECTION("the word is the last in the range") {
    forget_tick_in(before_word(4096), 4096 + sizeof *g_tick);
    CHECK_FALSE(tick_is_known());
  }
  SECTION("the range ends before the word") {
    forget_tick_in(before_word(4096), 4096);
    CHECK(tick_is_known());
  }
  SECTION("the range begins behind the word") {
    forget_tick_in(g_tick + 1, 4096);
    CHECK(tick_is_known());
  }
  SECTION("the range is empty") {
    forget_tick_in(g_tick, 0);
    CHECK(tick_is_known());
  }
  if (!tick_is_known()) CHECK(tick() == 0);
  find_tick();
  CHECK(tick_is_known());
}

TEST_CASE("What stands for an unknown tick cannot be forgotten") {
  if (find_or_say()) forget_tick_in(g_tick, sizeof *g_tick);
  REQUIRE_FALSE(tick_is_known());
  forget_tick_in(g_tick, sizeof *g_tick);
  CHECK_FALSE(tick_is_known());
  CHECK(tick() == 0);
  find_tick();
}
