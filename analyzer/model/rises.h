// Whether a sum of live bytes rises until the end: what a leak looks like, and a cache without a limit.
//
// The time is divided into equal parts, and each part has the lowest value of the sum in it: memory that comes and
// goes does not raise it, a leak raises it part by part.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace heapprof::model {

struct Rises {
  static constexpr unsigned kParts = 16;
  /// The lowest value of each part; last: the value at the end.
  using Lows = std::array<std::uint64_t, kParts + 1>;

  unsigned count = 0;      ///< parts whose lowest value is above that of all earlier ones, by 1/64 of the last value
  unsigned latest = 0;     ///< the last one of these
  std::uint64_t high = 0;  ///< its value
  std::uint64_t last = 0;  ///< the value at the end

  static constexpr unsigned kMinCount = 4;

  static Rises of(const Lows& low) noexcept {
    constexpr std::uint64_t kMinShare = 64;
    const std::uint64_t min_rise = std::max<std::uint64_t>(low.back() / kMinShare, 1);
    Rises rises;
    rises.high = low[0];
    rises.last = low.back();
    for (unsigned part = 1; part <= kParts; ++part) {
      if (low[part] < rises.high + min_rise) continue;
      rises.high = low[part];
      ++rises.count;
      rises.latest = part;
    }
    return rises;
  }

  /// The value rose in at least kMinCount parts, the last time in the last quarter, and at least three quarters of it
  /// are left at the end.
  bool until_end() const noexcept { return count >= kMinCount && latest > kParts * 3 / 4 && last >= high - high / 4; }
};

}  // namespace heapprof::model
