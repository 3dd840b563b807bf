// Positions in a trace at which a structure may begin.
#pragma once

#include <cstdint>

namespace heapprof::trace {

/// The smallest multiple of `to` that is not below `value`. Precondition: the result is less than 2^64.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t to) noexcept {
  return (value + to - 1) / to * to;
}

}  // namespace heapprof::trace
