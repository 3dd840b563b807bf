// Colours: one hue for each module, in every picture the same one where that is possible.
//
// Hues are evenly spaced in OKLCH, so that none shouts and text is equally readable on all of them; each has
// a fill for a light and one for a dark page, in shades so that neighbours can be told apart.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heapprof::render {

inline constexpr unsigned kHues = 12;
inline constexpr unsigned kShades = 6;

/// What belongs to no module (unknown code, "other") is grey: the hue after the last.
inline constexpr unsigned kGrey = kHues;

/// A number from 0 for a name, the same on every machine and in every run.
std::uint32_t stable_hash(std::string_view name) noexcept;

/// A hue for each of `names`, which are ordered by importance. A name's hue follows from the name alone,
/// unless a more important one has it already: then the next free one. When all are taken, hues repeat.
/// An empty name is grey.
std::vector<unsigned> hues_of(std::span<const std::string> names);

/// Grades of change in a comparison: from -kGrades, all gone, over 0, the same, to kGrades, all new.
inline constexpr int kGrades = 4;
int grade_of(std::uint64_t before, std::uint64_t after) noexcept;
/// Blue where less became of it, red where more, grey where nothing changed.
std::string change_colour(int grade, bool dark);

/// "#rrggbb" of a frame or an area.
std::string fill_colour(unsigned hue, unsigned shade, bool dark);
/// An area of a chart, where no text stands on it.
std::string area_colour(unsigned hue, bool dark);
/// The same hue, strong enough for a line, a swatch or a border.
std::string line_colour(unsigned hue, bool dark);

}  // namespace heapprof::render
