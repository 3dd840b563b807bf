// Whether live bytes rose all the time until a moment.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "analyzer/model/rises.h"

namespace heapprof::findings {

/// `live`: live bytes at equal distances, at least one for each part of model::Rises; the last value is that of the
/// moment. False if there are fewer.
inline bool is_rising(std::span<const std::uint64_t> live) noexcept {
  constexpr std::size_t kParts = model::Rises::kParts;
  if (live.size() < kParts) return false;
  model::Rises::Lows low{};
  low.fill(std::numeric_limits<std::uint64_t>::max());
  for (std::size_t i = 0; i < live.size(); ++i) {
    std::uint64_t& lowest = low[i * kParts / live.size()];
    lowest = std::min(lowest, live[i]);
  }
  low.back() = live.back();
  return model::Rises::of(low).until_end();
}

}  // namespace heapprof::findings
