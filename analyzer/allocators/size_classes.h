// Size classes with four steps from one power of two to the next, which jemalloc and mimalloc have in common.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "analyzer/allocators/allocator_model.h"

namespace heapprof::allocators {

/// The least distance of classes above 8 bytes, unless an allocator was configured otherwise.
inline constexpr std::uint64_t kDefaultStep = 16;

/// 8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, ...: the least class that is not less than `bytes`.
/// With a `min_step` of 8: 8, 16, 24, 32, 40, 48, 56, 64, 80, ...
constexpr std::uint64_t quarter_step_class(std::uint64_t bytes, std::uint64_t min_step = kDefaultStep) noexcept {
  if (bytes <= 8) return 8;
  return round_up(bytes, std::max(std::bit_floor(bytes - 1) / 4, min_step));
}

static_assert(quarter_step_class(0) == 8 && quarter_step_class(9) == 16 && quarter_step_class(17) == 32);
static_assert(quarter_step_class(128) == 128 && quarter_step_class(129) == 160 && quarter_step_class(257) == 320);
static_assert(quarter_step_class(17, 8) == 24 && quarter_step_class(57, 8) == 64 && quarter_step_class(65, 8) == 80);
static_assert(quarter_step_class(14337) == 16384 && quarter_step_class(16385) == 20480);

}  // namespace heapprof::allocators
