#include "analyzer/render/axis.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "analyzer/render/unit_text.h"

namespace heapprof::render {
namespace {

std::string without_trailing_zeros(std::string digits) {
  if (digits.find('.') == std::string::npos) return digits;
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits;
}

std::uint64_t divide_rounding_up(std::uint64_t dividend, std::uint64_t divisor) {
  return dividend / divisor + (dividend % divisor != 0 ? 1 : 0);
}

/// `ns` in `unit`, with as many decimals as multiples of `step` need to differ.
std::string decimal(std::uint64_t ns, std::uint64_t unit, std::uint64_t step) {
  int decimals = 0;
  for (std::uint64_t place = unit; place > step; place /= 10) ++decimals;
  return without_trailing_zeros(format("%.*f", decimals, static_cast<double>(ns) / static_cast<double>(unit)));
}

}  // namespace

Axis byte_axis(std::uint64_t largest, unsigned max_ticks) {
  largest = std::clamp<std::uint64_t>(largest, 1, std::uint64_t{1} << 62);
  const std::uint64_t min_step = std::max<std::uint64_t>(1, (largest + max_ticks - 1) / max_ticks);
  const std::uint64_t step = std::bit_ceil(min_step);
  const std::uint64_t quarter = std::max<std::uint64_t>(1, step / 4);
  Axis axis;
  axis.step = step;
  axis.top = std::max((largest + quarter - 1) / quarter * quarter, step);
  for (std::uint64_t tick = 0; tick <= axis.top; tick += step) axis.ticks.push_back(tick);
  return axis;
}

Axis time_axis(std::uint64_t largest_ns, unsigned max_ticks, std::uint64_t smallest_ns) {
  // A damaged clock sample gives times near the end of 64 bits: no sum here may exceed them.
  smallest_ns = std::min(smallest_ns, UINT64_MAX - 1);
  largest_ns = std::max(largest_ns, smallest_ns + 1);
  const std::uint64_t min_step = divide_rounding_up(largest_ns - smallest_ns, max_ticks);
  std::uint64_t step = 0;
  if (min_step <= 30 * kSecond) {
    for (std::uint64_t ten = 1; step == 0; ten *= 10)
      for (const std::uint64_t factor : {1, 2, 5})
        if (step == 0 && factor * ten >= min_step) step = factor * ten;
    if (step > 10 * kSecond) step = step <= 20 * kSecond ? 15 * kSecond : 30 * kSecond;
    if (step < min_step) step = 30 * kSecond;
  } else {
    for (const std::uint64_t candidate : {kMinute, 2 * kMinute, 5 * kMinute, 10 * kMinute, 15 * kMinute, 30 * kMinute,
                                          kHour, 2 * kHour, 3 * kHour, 6 * kHour, 12 * kHour})
      if (step == 0 && candidate >= min_step) step = candidate;
    if (step == 0) step = std::min(divide_rounding_up(min_step, kDay), UINT64_MAX / kDay) * kDay;
  }
  Axis axis;
  axis.step = step;
  axis.top = largest_ns;
  const std::uint64_t first = divide_rounding_up(smallest_ns, step);
  if (first > largest_ns / step) return axis;
  for (std::uint64_t tick = first * step;; tick += step) {
    axis.ticks.push_back(tick);
    if (largest_ns - tick < step) return axis;
  }
}

std::string byte_tick_label(std::uint64_t bytes) {
  if (bytes == 0) return "0";
  std::size_t unit = 0;
  double value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < std::size(kByteUnits)) {
    value /= 1024;
    ++unit;
  }
  return without_trailing_zeros(format("%.3f", value)) + " " + kByteUnits[unit];
}

std::string time_tick_label(std::uint64_t ns, const Axis& axis) {
  if (ns == 0) return "0";
  if (axis.step >= kDay) return format("%u d", static_cast<unsigned>(ns / kDay));
  if (axis.step >= kHour) return format("%u h", static_cast<unsigned>(ns / kHour));
  const auto minutes = static_cast<unsigned>(ns / kMinute);
  if (axis.step >= kMinute)
    return axis.top >= 2 * kHour ? format("%u:%02u h", minutes / 60, minutes % 60) : format("%u min", minutes);
  if (axis.top >= 2 * kMinute) {
    const std::string seconds = decimal(ns % kMinute, kSecond, axis.step);
    const char* zero = ns % kMinute < 10 * kSecond ? "0" : "";
    return (axis.top >= 2 * kHour ? format("%u:%02u:", minutes / 60, minutes % 60) : format("%u:", minutes)) + zero +
           seconds;
  }
  if (axis.top >= kSecond) return decimal(ns, kSecond, axis.step) + " s";
  if (axis.top >= kMillisecond) return decimal(ns, kMillisecond, axis.step) + " ms";
  return decimal(ns, kMicrosecond, axis.step) + " \xc2\xb5s";
}

}  // namespace heapprof::render
