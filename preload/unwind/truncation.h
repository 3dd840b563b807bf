// Which outermost frames a stack loses that is deeper than Settings::max_depth.
#pragma once

#include <cstdint>

namespace heapprof::unwind {

/// Stacks deeper than max_depth lose a multiple of this number of frames.
constexpr std::uint32_t truncation_step(std::uint32_t max_depth) noexcept {
  constexpr std::uint32_t kMaxStep = 512;
  const std::uint32_t half = (max_depth + 1) / 2;
  return half < kMaxStep ? half : kMaxStep;
}

/// How many outermost frames a stack of `depth` frames loses.
constexpr std::uint32_t frames_to_omit(std::uint32_t depth, std::uint32_t max_depth) noexcept {
  const std::uint32_t step = truncation_step(max_depth);
  return depth <= max_depth ? 0 : (depth - max_depth + step - 1) / step * step;
}

}  // namespace heapprof::unwind
