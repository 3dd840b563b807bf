#include "analyzer/render/units.h"

#include <iterator>

#include "analyzer/render/unit_text.h"

namespace heapprof::render {
namespace {

/// Three significant digits of the rounded value: 9.996 is 10.0.
std::string three_digits(double value) {
  if (value < 9.995) return format("%.2f", value);
  if (value < 99.95) return format("%.1f", value);
  return format("%.0f", value);
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

std::string percent(std::uint64_t part, std::uint64_t total) {
  if (total == 0 || part == 0) return "0%";
  const double share = 100.0 * static_cast<double>(part) / static_cast<double>(total);
  if (part == total) return "100%";
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

}  // namespace heapprof::render
