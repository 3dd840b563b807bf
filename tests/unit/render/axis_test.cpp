#include "analyzer/render/axis.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "tests/support/seed.h"

using namespace heapprof::render;

TEST_CASE("byte axes: steps are powers of two, the largest value is within the axis, there are few ticks") {
  std::mt19937_64 random(heapprof::test::seed(5));
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t largest = random() >> (random() % 60 + 2);
    const unsigned most = 2 + static_cast<unsigned>(random() % 10);
    const Axis axis = byte_axis(largest, most);
    INFO(largest << " in " << most);
    REQUIRE(axis.top >= largest);
    REQUIRE(axis.top > 0);
    REQUIRE(axis.ticks.front() == 0);
    REQUIRE(axis.ticks.size() >= 2);
    REQUIRE(axis.ticks.size() <= most + 2);
    const std::uint64_t step = axis.ticks[1];
    REQUIRE((step & (step - 1)) == 0);
    REQUIRE(axis.ticks.back() <= axis.top);
    REQUIRE(axis.top < std::max(largest, step) + step);
  }
  CHECK(byte_tick_label(0) == "0");
  CHECK(byte_tick_label(48 << 20) == "48 MiB");
  CHECK(byte_tick_label(512) == "512 B");
}

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kHour = 3600 * kSecond;

void check_time_axis(std::uint64_t start, std::uint64_t end) {
  const Axis axis = time_axis(end, 8, start);
  INFO(start << " to " << end);
  REQUIRE(axis.ticks.size() <= 10);
  REQUIRE(axis.top == end);
  std::set<std::string> labels;
  for (const std::uint64_t tick : axis.ticks) {
    REQUIRE((start <= tick && tick <= end));
    labels.insert(time_tick_label(tick, axis));
  }
  REQUIRE(labels.size() == axis.ticks.size());
}

TEST_CASE("time axes: few ticks and different labels for every length") {
  for (std::uint64_t length = 1; length < 400 * 24 * kHour; length = length * 17 / 10 + 1) {
    check_time_axis(0, length);
    for (const std::uint64_t start : {kSecond / 2, 100 * kSecond, kHour, 5 * kHour / 2, 30 * 24 * kHour})
      check_time_axis(start, start + length);
  }
  const auto labels = [](std::uint64_t duration, unsigned most) {
    const Axis axis = time_axis(duration, most);
    std::string all;
    for (const std::uint64_t tick : axis.ticks) all += time_tick_label(tick, axis) + " | ";
    return all;
  };
  CHECK(labels(31'000'000'000, 8) == "0 | 5 s | 10 s | 15 s | 20 s | 25 s | 30 s | ");
  CHECK(labels(1'000'000, 4) == "0 | 0.5 ms | 1 ms | ");
  CHECK(labels(180'000'000'000, 8) == "0 | 0:30 | 1:00 | 1:30 | 2:00 | 2:30 | 3:00 | ");
}

TEST_CASE("axes end, however large their values are") {
  for (const std::uint64_t start :
       {std::uint64_t{0}, UINT64_MAX / 2, UINT64_MAX - 30 * kSecond, UINT64_MAX - 8, UINT64_MAX - 1})
    for (const std::uint64_t end : {UINT64_MAX - 3, UINT64_MAX})
      if (start < end) check_time_axis(start, end);
  CHECK(time_axis(UINT64_MAX, 8, UINT64_MAX).ticks.size() == 2);
  CHECK(time_axis(UINT64_MAX, 1).ticks.size() <= 2);
  CHECK(byte_axis(UINT64_MAX, 8).ticks.size() == 9);
}

TEST_CASE("time axes of a slice that starts late") {
  const auto labels = [](std::uint64_t start, std::uint64_t end) {
    const Axis axis = time_axis(end, 4, start);
    std::string all;
    for (const std::uint64_t tick : axis.ticks) all += time_tick_label(tick, axis) + " | ";
    return all;
  };
  CHECK(labels(kHour, kHour + 30 * kSecond) == "60:00 | 60:10 | 60:20 | 60:30 | ");
  CHECK(labels(3 * kHour, 3 * kHour + 30 * kSecond) == "3:00:00 | 3:00:10 | 3:00:20 | 3:00:30 | ");
  CHECK(labels(200 * kSecond, 201 * kSecond) == "3:20 | 3:20.5 | 3:21 | ");
  CHECK(labels(kSecond, kSecond + 40'000) == "1 s | 1.00001 s | 1.00002 s | 1.00003 s | 1.00004 s | ");
}
