#include "analyzer/render/palette.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace heapprof::render {
namespace {

/// OKLCH to sRGB (Björn Ottosson, "A perceptual color space for image processing", 2020), clipped.
std::string oklch(double lightness, double chroma, double hue_degrees) {
  const double angle = hue_degrees * std::numbers::pi / 180;
  const double a = chroma * std::cos(angle);
  const double b = chroma * std::sin(angle);
  const auto cube = [](double x) { return x * x * x; };
  const double l = cube(lightness + 0.3963377774 * a + 0.2158037573 * b);
  const double m = cube(lightness - 0.1055613458 * a - 0.0638541728 * b);
  const double s = cube(lightness - 0.0894841775 * a - 1.2914855480 * b);
  const double linear[3] = {
      +4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
      -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
      -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
  };
  unsigned channel[3];
  for (int i = 0; i < 3; ++i) {
    const double x = std::clamp(linear[i], 0.0, 1.0);
    const double encoded = x <= 0.0031308 ? 12.92 * x : 1.055 * std::pow(x, 1 / 2.4) - 0.055;
    channel[i] = static_cast<unsigned>(std::lround(encoded * 255));
  }
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", channel[0], channel[1], channel[2]);
  return text;
}

/// Neighbouring numbers are far apart on the wheel (5 and 12 have no common factor), so that a name moved
/// to the next free hue looks different, not similar.
constexpr double degrees_of(unsigned hue) noexcept { return 25 + 360.0 / kHues * (hue * 5 % kHues); }

}  // namespace

std::uint32_t stable_hash(std::string_view name) noexcept {
  std::uint32_t hash = 2166136261;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  return hash ^ hash >> 15;
}

std::vector<unsigned> hues_of(std::span<const std::string> names) {
  std::array<bool, kHues> taken{};
  unsigned free_hues = kHues;
  std::vector<unsigned> hues;
  hues.reserve(names.size());
  for (const std::string& name : names) {
    if (name.empty()) {
      hues.push_back(kGrey);
      continue;
    }
    unsigned hue = stable_hash(name) % kHues;
    while (free_hues > 0 && taken[hue]) hue = (hue + 1) % kHues;
    if (!taken[hue]) --free_hues;
    taken[hue] = true;
    hues.push_back(hue);
  }
  return hues;
}

std::string fill_colour(unsigned hue, unsigned shade, bool dark) {
  // Shades differ in hue as well, by less than half the way to the next one.
  struct Shade {
    double lightness, degrees;
  };
  constexpr Shade kShade[kShades] = {{0, 0}, {-0.045, 6}, {0.03, -6}, {-0.02, -10}, {0.015, 10}, {-0.065, -2}};
  const double lightness = (dark ? 0.465 : 0.865) + kShade[shade].lightness;
  if (hue == kGrey) return oklch(lightness, 0.008, 260);
  return oklch(lightness, dark ? 0.085 : 0.08, degrees_of(hue) + kShade[shade].degrees);
}

std::string area_colour(unsigned hue, bool dark) {
  return oklch(dark ? 0.6 : 0.77, hue == kGrey ? 0.012 : 0.105, hue == kGrey ? 260 : degrees_of(hue));
}

std::string line_colour(unsigned hue, bool dark) {
  return oklch(dark ? 0.72 : 0.58, hue == kGrey ? 0.012 : 0.13, hue == kGrey ? 260 : degrees_of(hue));
}

int grade_of(std::uint64_t before, std::uint64_t after) noexcept {
  const std::uint64_t larger = std::max(before, after);
  if (larger == 0) return 0;
  const double share = static_cast<double>(larger - std::min(before, after)) / static_cast<double>(larger);
  const int grade = share < 0.01 ? 0 : share < 0.1 ? 1 : share < 0.35 ? 2 : share < 0.75 ? 3 : kGrades;
  return after < before ? -grade : grade;
}

std::string change_colour(int grade, bool dark) {
  const int strength = grade < 0 ? -grade : grade;
  if (strength == 0) return oklch(dark ? 0.40 : 0.91, 0.008, 260);
  const double lightness = dark ? 0.40 + 0.035 * strength : 0.92 - 0.045 * strength;
  return oklch(lightness, 0.02 + 0.03 * strength, grade > 0 ? 25 : 250);
}

}  // namespace heapprof::render
