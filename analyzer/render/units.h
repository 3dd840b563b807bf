// Figures for people: sizes in binary units, counts with separators, times, and the ticks of axes.
//
// Every figure keeps three significant digits, so that columns of them stay narrow and comparable:
// 1.50 KiB, 15.0 KiB, 150 KiB. Exact values stand beside them where they matter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heapprof::render {

/// What a value counts.
enum class Unit { kBytes, kCount };

std::string human_bytes(std::uint64_t bytes);         ///< "512 B", "1.50 KiB", "12.3 MiB"
std::string exact_number(std::uint64_t value);        ///< "12,897,411"
std::string block_count(std::uint64_t count);         ///< "1 block", "12,897,411 blocks"
std::string human_value(std::uint64_t value, Unit);   ///< human_bytes, or exact_number
std::string percent(std::uint64_t part, std::uint64_t whole);  ///< "12.3%"; "0%" of nothing
std::string human_time(std::uint64_t ns);             ///< "350 µs", "1.25 s", "2 min 05 s", "3 h 02 min"

/// An axis from 0: ticks at multiples of `step`, the last at or above the largest value.
struct Axis {
  std::uint64_t top = 0;             ///< value at the end of the axis, > 0
  std::vector<std::uint64_t> ticks;  ///< ascending, none above `top`; the first is 0, of a slice of time above
};

/// Steps are powers of two, so that labels are whole numbers of a binary unit. At least 2 and at most
/// about `most` + 1 ticks; `top` is the first quarter of a step at or above `largest`.
Axis byte_axis(std::uint64_t largest, unsigned most);

/// Steps are 1, 2 or 5 times a power of ten below a minute, then whole parts of minutes, hours and days.
/// `top` is `largest` itself: a time axis ends where the recording does. Ticks begin at `least_ns`.
Axis time_axis(std::uint64_t largest_ns, unsigned most, std::uint64_t least_ns = 0);

/// Labels as short as the ticks allow: "4 MiB"; "1.5 s", "250 ms", "1:30", "2 h".
std::string byte_tick_label(std::uint64_t bytes);
std::string time_tick_label(std::uint64_t ns, const Axis& axis);

}  // namespace heapprof::render
