// Conversion of ticks to nanoseconds.
#include <catch2/catch.hpp>

#include <random>

#include "analyzer/trace/events/tick_clock.h"
#include "analyzer/trace/events/tick_cursor.h"
#include "tests/support/seed.h"

using heapprof::Clock;
using heapprof::FileHeader;
using heapprof::trace::TickClock;
using heapprof::trace::TickCursor;
using heapprof::trace::Ticks;

namespace {

FileHeader header_of(Clock clock, std::uint64_t rate) {
  FileHeader header{};
  header.clock = clock;
  header.ticks_per_second = rate;
  header.start_monotonic_ns = 1'000'000;
  return header;
}

}  // namespace

TEST_CASE("Without samples the clock has the rate of the header") {
  TickClock clock(header_of(Clock::kTsc, 2'000'000'000));
  clock.finish();
  CHECK(clock.to_ns(Ticks{0}) == 0);
  CHECK(clock.to_ns(Ticks{3'000'000'000}) == 1'500'000'000);
  TickClock monotonic(header_of(Clock::kMonotonic, 0));
  CHECK(monotonic.to_ns(Ticks{12345}) == 12345);
}

TEST_CASE("If the header has no rate, the first sample gives it") {
  TickClock clock(header_of(Clock::kTsc, 0));
  CHECK(clock.to_ns(Ticks{2'500'000}) == 2'500'000);
  clock.add_sample(750'000, 1'000'000 + 300'000);
  clock.finish();
  CHECK(clock.to_ns(Ticks{2'500'000}) == 1'000'000);
  CHECK(clock.ticks_per_us() == 2'500);
}

TEST_CASE("A sample of the first milliseconds does not replace the rate of the header") {
  TickClock clock(header_of(Clock::kTsc, 2'000'000'000));
  clock.add_sample(750'000, 1'000'000 + 300'000);
  clock.finish();
  CHECK(clock.to_ns(Ticks{2'750'000}) == 1'300'000);
  CHECK(clock.ticks_per_us() == 2'000);
}

TEST_CASE("Between samples the clock is interpolated; after the last it has the mean rate") {
  TickClock clock(header_of(Clock::kTsc, 5'000'000'000));  // a wrong estimate
  clock.add_sample(1'000, 1'000'000 + 500);
  clock.add_sample(1'000'000'000, 1'000'000 + 400'000'000);
  clock.add_sample(2'000'000'000, 1'000'000 + 1'000'000'000);
  clock.finish();
  CHECK(clock.to_ns(Ticks{500}) == 250);
  CHECK(clock.to_ns(Ticks{1'000'000'000}) == 400'000'000);
  CHECK(clock.to_ns(Ticks{1'500'000'000}) == 700'000'000);
  CHECK(clock.to_ns(Ticks{4'000'000'000}) == 2'000'000'000);
}

TEST_CASE("Samples that go backwards, or are from before the start, are ignored") {
  TickClock clock(header_of(Clock::kTsc, 1'000'000'000));
  clock.add_sample(100, 5);
  clock.add_sample(1'000'000'000, 1'000'000 + 1'000'000'000);
  clock.add_sample(500'000'000, 1'000'000 + 2'000'000'000);
  clock.add_sample(1'500'000'000, 1'000'000 + 700'000'000);
  clock.finish();
  CHECK(clock.to_ns(Ticks{100}) == 100);
  CHECK(clock.to_ns(Ticks{2'000'000'000}) == 2'000'000'000);
}

TEST_CASE("Many samples need bounded memory, and the last one stays exact") {
  TickClock clock(header_of(Clock::kTsc, 1'000'000'000));
  const std::uint64_t samples = 1'000'000;
  // The clock drifts: 3 ns a tick at first, 2 ns later.
  std::uint64_t ns = 0;
  for (std::uint64_t i = 1; i <= samples; ++i) {
    ns += i <= samples / 2 ? 3000 : 2000;
    clock.add_sample(i * 1000, 1'000'000 + ns);
  }
  clock.finish();
  CHECK(clock.to_ns(Ticks{samples * 1000}) == ns);
  CHECK(clock.to_ns(Ticks{samples * 1000 / 4}) == Approx(samples / 4 * 3000).epsilon(0.001));
  CHECK(clock.to_ns(Ticks{samples * 1000 / 4 * 3}) == Approx(samples / 2 * 3000 + samples / 4 * 2000).epsilon(0.001));
}

TEST_CASE("Extreme tick values do not overflow") {
  TickClock clock(header_of(Clock::kTsc, 1));
  clock.finish();
  CHECK(clock.to_ns(Ticks{UINT64_MAX}) == UINT64_MAX / 2);
}

TEST_CASE("A sample of an impossible time is ignored") {
  TickClock clock(header_of(Clock::kTsc, 1'000'000'000));
  clock.add_sample(1'000'000'000, 1'000'000 + 2'000'000'000);
  clock.add_sample(2'000'000'000, 1'000'000 + UINT64_MAX / 2 + 1);
  clock.add_sample(3'000'000'000, UINT64_MAX);
  clock.add_sample(4'000'000'000, 1'000'000 + 8'000'000'000);
  clock.finish();
  CHECK(clock.to_ns(Ticks{2'000'000'000}) == 4'000'000'000);
  CHECK(clock.to_ns(Ticks{5'000'000'000}) == 10'000'000'000);
}

TEST_CASE("A cursor gives the same times as the clock, in any order") {
  for (const bool far_apart : {false, true}) {  // products of more than 64 bits
    std::mt19937_64 random(heapprof::test::seed(21));
    const std::uint64_t step = far_apart ? std::uint64_t{1} << 45 : 30'000;
    TickClock clock(header_of(Clock::kTsc, 0));
    std::uint64_t ticks = 0;
    std::uint64_t ns = 0;
    for (int i = 0; i < 300; ++i) {
      ticks += 1 + random() % step;
      ns += random() % step;
      clock.add_sample(ticks, 1'000'000 + ns);
    }
    clock.finish();
    TickCursor cursor(clock);
    std::uint64_t at = 0;
    for (int i = 0; i < 5'000; ++i) {
      at = i % 10 == 0 ? random() % (ticks + 3 * step) : at + random() % (step / 4);
      if (cursor.to_ns(at) != clock.to_ns(Ticks{at})) FAIL(at);
    }
    CHECK(cursor.to_ns(0) == 0);
    CHECK(cursor.to_ns(ticks) == clock.to_ns(Ticks{ticks}));
  }
}
