// The end of a recording.
#include "preload/recorder/trace/recording.h"

#include <catch2/catch.hpp>

#include "preload/recorder/process/settings.h"
#include "tests/unit/recorder/stream_fixture.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

namespace {

/// Stops a recording without a message.
void stop_recording() {
  g_settings.log = LogLevel::kOff;
  g_state = State::kOn;
  stop("the test's reason");
  CHECK(state() == State::kOff);
  g_state = State::kNew;
  g_settings.log = LogLevel::kWarn;
}

}  // namespace

TEST_CASE("A recording that stops writes the time and the reason") {
  StreamFixture recording;
  const std::uint64_t before_ns = sys::clock_ns(CLOCK_MONOTONIC);
  const std::uint64_t real_before_ns = sys::clock_ns(CLOCK_REALTIME);
  const Ticks before = g_clock.now();
  stop_recording();
  const FileHeader& header = recording.header();
  CHECK(header.end_kind == EndKind::kStopped);
  CHECK(std::string(header.stop_reason) == "the test's reason");
  CHECK(Ticks{header.end_ticks} >= before);
  CHECK(Ticks{header.end_ticks} <= g_clock.now());
  CHECK(header.end_monotonic_ns >= before_ns);
  CHECK(header.end_monotonic_ns <= sys::clock_ns(CLOCK_MONOTONIC));
  CHECK(header.end_realtime_ns >= real_before_ns);
}

TEST_CASE("Where system calls are forbidden, a recording that stops computes the time of its end") {
  StreamFixture recording;
  constexpr std::uint64_t kRun = 2'000'000;
  while (sys::clock_ns(CLOCK_MONOTONIC) < g_clock.origin_monotonic_ns() + kRun) {
  }
  g_clock.calibrate(g_clock.now(), sys::clock_ns(CLOCK_MONOTONIC));
  sys::g_forbidden = 1;
  stop_recording();
  sys::g_forbidden = 0;
  const FileHeader& header = recording.header();
  CHECK(header.end_kind == EndKind::kStopped);
  CHECK(header.end_monotonic_ns > g_clock.origin_monotonic_ns() + kRun / 2);
  CHECK(header.end_monotonic_ns == g_clock.monotonic_ns_at(Ticks{header.end_ticks}));
  CHECK(header.end_realtime_ns == 0);
}
