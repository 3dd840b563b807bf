// Axes of charts: their ticks and labels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heapprof::render {

/// The scale of an axis.
struct Axis {
  std::uint64_t top = 0;             ///< value at the end of the axis, > 0
  std::uint64_t step = 0;            ///< between ticks, > 0
  std::vector<std::uint64_t> ticks;  ///< ascending, none above `top`
};

/// An axis of bytes from 0. Steps are powers of two, so that labels are whole numbers of a binary unit. It has at
/// least 2 and about `max_ticks` ticks; `top` is `largest`, rounded up to a quarter of a step.
Axis byte_axis(std::uint64_t largest, unsigned max_ticks);

/// An axis of times. Below a minute steps are 1, 2 or 5 times a power of ten, then fractions of minutes, hours and
/// days. `top` is `largest_ns`: the axis ends with the recording. No tick is below `smallest_ns`, the start of
/// a slice of time.
Axis time_axis(std::uint64_t largest_ns, unsigned max_ticks, std::uint64_t smallest_ns = 0);

/// Labels, as short as the steps allow: "4 MiB"; "1.5 s", "250 ms", "1:30", "2:00:30", "2 h".
std::string byte_tick_label(std::uint64_t bytes);
std::string time_tick_label(std::uint64_t ns, const Axis& axis);

}  // namespace heapprof::render
