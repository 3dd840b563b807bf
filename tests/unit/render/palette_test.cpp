#include "analyzer/render/palette.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

using namespace heapprof::render;

TEST_CASE("hues: derived from the name, distinct while there are enough") {
  const std::vector<std::string> names = {"redis-server", "libc.so.6", "libcrypto.so.3", "",
                                          "libssl.so.3",  "libm.so.6"};
  const auto hues = hues_of(names);
  CHECK(hues[3] == kGrey);
  std::set<unsigned> different(hues.begin(), hues.end());
  CHECK(different.size() == names.size());
  // The first name always has the hue that its hash selects.
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
