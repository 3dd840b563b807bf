#include "analyzer/render/units.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "analyzer/render/palette.h"
#include "tests/support/seed.h"

using namespace heapprof::render;

TEST_CASE("sizes with three digits") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1024) == "1.00 KiB");
  CHECK(human_bytes(1536) == "1.50 KiB");
  CHECK(human_bytes(10 * 1024 - 1) == "10.0 KiB");       // not 10.00
  CHECK(human_bytes(1024 * 1024 - 1) == "1.00 MiB");     // not 1024 KiB
  CHECK(human_bytes(12'897'411) == "12.3 MiB");
  CHECK(human_bytes(std::uint64_t{1} << 56) == "64.0 PiB");
  CHECK(human_bytes(UINT64_MAX) == "16.0 EiB");
}

TEST_CASE("counts and shares") {
  CHECK(exact_number(0) == "0");
  CHECK(block_count(1) == "1 block");
  CHECK(block_count(1000) == "1,000 blocks");
  CHECK(exact_number(999) == "999");
  CHECK(exact_number(1000) == "1,000");
  CHECK(exact_number(1234567890) == "1,234,567,890");
  CHECK(percent(1, 3) == "33.3%");
  CHECK(percent(1, 1000000) == "<0.01%");
  CHECK(percent(5, 5) == "100%");
  CHECK(percent(0, 5) == "0%");
  CHECK(percent(0, 0) == "0%");
}

TEST_CASE("times") {
  CHECK(human_time(0) == "0 s");
  CHECK(human_time(350) == "350 ns");
  CHECK(human_time(350'000) == "350 \xc2\xb5s");
  CHECK(human_time(1'250'000'000) == "1.25 s");
  CHECK(human_time(125'000'000'000) == "2 min 05 s");
  CHECK(human_time(2ull * 3600 * 1'000'000'000 + 120'000'000'000) == "2 h 02 min");
}

TEST_CASE("byte axes: whole powers of two, the largest value inside, few ticks") {
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

TEST_CASE("time axes: readable at every length, labels all different") {
  for (std::uint64_t duration = 1; duration < 400ull * 24 * 3600 * 1'000'000'000; duration = duration * 17 / 10 + 1) {
    const Axis axis = time_axis(duration, 8);
    INFO(duration);
    REQUIRE(axis.ticks.size() <= 10);
    REQUIRE(axis.top == duration);
    REQUIRE(axis.ticks.back() <= duration);
    std::set<std::string> labels;
    for (const std::uint64_t tick : axis.ticks) labels.insert(time_tick_label(tick, axis));
    REQUIRE(labels.size() == axis.ticks.size());
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

TEST_CASE("hues: from the name, distinct while there are enough") {
  const std::vector<std::string> names = {"redis-server", "libc.so.6", "libcrypto.so.3", "",
                                          "libssl.so.3",  "libm.so.6"};
  const auto hues = hues_of(names);
  CHECK(hues[3] == kGrey);
  std::set<unsigned> different(hues.begin(), hues.end());
  CHECK(different.size() == names.size());
  // The most important name always has the hue of its own.
  for (const std::string& name : names)
    if (!name.empty()) CHECK(hues_of({&name, 1})[0] == stable_hash(name) % kHues);
  std::vector<std::string> many;
  for (int i = 0; i < 40; ++i) many.push_back("lib" + std::to_string(i));
  for (const unsigned hue : hues_of(many)) CHECK(hue < kHues);
}

TEST_CASE("text is readable on every colour (contrast of 4.5 or more, WCAG 2.1 section 1.4.3)") {
  const auto luminance = [](const std::string& colour) {
    const auto channel = [&](std::size_t at) {
      const double x = std::stoi(colour.substr(at, 2), nullptr, 16) / 255.0;
      return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
  };
  const auto contrast = [&](const std::string& a, const std::string& b) {
    const double x = luminance(a);
    const double y = luminance(b);
    return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
  };
  for (unsigned hue = 0; hue <= kGrey; ++hue) {
    for (unsigned shade = 0; shade < kShades; ++shade) {
      INFO("hue " << hue << " shade " << shade);
      CHECK(contrast(fill_colour(hue, shade, false), "#1b2330") >= 4.5);
      CHECK(contrast(fill_colour(hue, shade, true), "#e7eaf0") >= 4.5);
    }
  }
}
