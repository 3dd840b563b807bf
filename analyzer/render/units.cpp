#include "analyzer/render/units.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <iterator>

namespace heapprof::render {
namespace {

constexpr const char* kByteUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
constexpr std::uint64_t kMicrosecond = 1'000;
constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kMinute = 60 * kSecond;
constexpr std::uint64_t kHour = 60 * kMinute;
constexpr std::uint64_t kDay = 24 * kHour;

template <typename... Args>
std::string format(const char* pattern, Args... args) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

/// Three significant digits. Rounding is considered: 9.996 is 10.0.
std::string three_digits(double value) {
  if (value < 9.995) return format("%.2f", value);
  if (value < 99.95) return format("%.1f", value);
  return format("%.0f", value);
}

std::string without_trailing_zeros(std::string digits) {
  if (digits.find('.') == std::string::npos) return digits;
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits;
}

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return format("%u B", static_cast<unsigned>(bytes));
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < std::size(kByteUnits)) {
    value /= 1024;
    ++unit;
  }
  return three_digits(value) + " " + kByteUnits[unit];
}

std::string block_count(std::uint64_t count) { return exact_number(count) + (count == 1 ? " block" : " blocks"); }

std::string exact_number(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string human_value(std::uint64_t value, Unit unit) {
  return unit == Unit::kBytes ? human_bytes(value) : exact_number(value);
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0 || part == 0) return "0%";
  const double share = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  if (part == whole) return "100%";
  if (share < 0.01) return "<0.01%";
  return (share < 10 ? format("%.2f", share) : format("%.1f", share)) + "%";
}

std::string human_time(std::uint64_t ns) {
  if (ns == 0) return "0 s";
  if (ns < kMicrosecond) return format("%u ns", static_cast<unsigned>(ns));
  const double value = static_cast<double>(ns);
  if (ns < kMillisecond) return three_digits(value / kMicrosecond) + " \xc2\xb5s";
  if (ns < kSecond) return three_digits(value / kMillisecond) + " ms";
  if (ns < kMinute) return three_digits(value / kSecond) + " s";
  if (ns < kHour)
    return format("%u min %02u s", static_cast<unsigned>(ns / kMinute),
                  static_cast<unsigned>(ns % kMinute / kSecond));
  return format("%u h %02u min", static_cast<unsigned>(ns / kHour), static_cast<unsigned>(ns % kHour / kMinute));
}

Axis byte_axis(std::uint64_t largest, unsigned most) {
  largest = std::clamp<std::uint64_t>(largest, 1, std::uint64_t{1} << 62);
  const std::uint64_t least_step = std::max<std::uint64_t>(1, (largest + most - 1) / most);
  const std::uint64_t step = std::bit_ceil(least_step);
  const std::uint64_t quarter = std::max<std::uint64_t>(1, step / 4);
  Axis axis;
  axis.top = std::max((largest + quarter - 1) / quarter * quarter, step);
  for (std::uint64_t tick = 0; tick <= axis.top; tick += step) axis.ticks.push_back(tick);
  return axis;
}

Axis time_axis(std::uint64_t largest_ns, unsigned most, std::uint64_t least_ns) {
  largest_ns = std::max<std::uint64_t>(largest_ns, least_ns + 1);
  const std::uint64_t least_step = (largest_ns - least_ns + most - 1) / most;
  std::uint64_t step = 0;
  if (least_step <= 30 * kSecond) {
    for (std::uint64_t ten = 1; step == 0; ten *= 10)
      for (const std::uint64_t factor : {1, 2, 5})
        if (step == 0 && factor * ten >= least_step) step = factor * ten;
    if (step > 10 * kSecond) step = step <= 20 * kSecond ? 15 * kSecond : 30 * kSecond;
    if (step < least_step) step = 30 * kSecond;
  } else {
    for (const std::uint64_t candidate :
         {kMinute, 2 * kMinute, 5 * kMinute, 10 * kMinute, 15 * kMinute, 30 * kMinute, kHour, 2 * kHour, 3 * kHour,
          6 * kHour, 12 * kHour})
      if (step == 0 && candidate >= least_step) step = candidate;
    if (step == 0) step = (least_step + kDay - 1) / kDay * kDay;
  }
  Axis axis;
  axis.top = largest_ns;
  for (std::uint64_t tick = (least_ns + step - 1) / step * step; tick <= largest_ns; tick += step)
    axis.ticks.push_back(tick);
  return axis;
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
  const std::uint64_t step = axis.ticks.size() > 1 ? axis.ticks[1] : axis.top;
  if (step >= kDay) return format("%u d", static_cast<unsigned>(ns / kDay));
  if (step >= kHour) return format("%u h", static_cast<unsigned>(ns / kHour));
  const auto minutes = static_cast<unsigned>(ns / kMinute);
  const auto seconds = static_cast<unsigned>(ns % kMinute / kSecond);
  if (step >= kMinute)
    return axis.top >= 2 * kHour ? format("%u:%02u h", minutes / 60, minutes % 60) : format("%u min", minutes);
  if (axis.top >= 2 * kMinute) return format("%u:%02u", minutes, seconds);
  const double value = static_cast<double>(ns);
  if (axis.top >= kSecond) return without_trailing_zeros(format("%.3f", value / kSecond)) + " s";
  if (axis.top >= kMillisecond) return without_trailing_zeros(format("%.3f", value / kMillisecond)) + " ms";
  return without_trailing_zeros(format("%.3f", value / kMicrosecond)) + " \xc2\xb5s";
}

}  // namespace heapprof::render
