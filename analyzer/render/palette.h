// Colours: a hue for each module, the same one in every picture where possible.
//
// Hues are evenly spaced in OKLCH, so that text is equally readable on all of them. Each has fills for light and for
// dark pages, in several shades, so that neighbours differ.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heapprof::render {

inline constexpr unsigned kHues = 12;
inline constexpr unsigned kShades = 6;

/// The hue of frames and areas without a module.
inline constexpr unsigned kGrey = kHues;

/// A number from 0 for a name, the same on every machine and in every run.
std::uint32_t stable_hash(std::string_view name) noexcept;

/// A hue for each of `names`, which are ordered by importance. A name's hue is derived from the name; if a more
/// important name has that hue, the name gets the next free one. When no hue is free, hues repeat. An empty name is
/// grey.
std::vector<unsigned> hues_of(std::span<const std::string> names);

/// Grades of change in a comparison: -kGrades (all removed), 0 (unchanged), kGrades (all new).
inline constexpr int kGrades = 4;
int grade_of(std::uint64_t before, std::uint64_t after) noexcept;
/// Blue for less than before, red for more, grey for no change.
std::string change_colour(int grade, bool dark);

/// "#rrggbb" of a frame or an area.
std::string fill_colour(unsigned hue, unsigned shade, bool dark);
/// An area of a chart, without text on it.
std::string area_colour(unsigned hue, bool dark);
/// The same hue, strong enough for a line, a swatch or a border.
std::string line_colour(unsigned hue, bool dark);

}  // namespace heapprof::render
