// Size classes with four steps from one power of two to the next, which jemalloc and mimalloc have in common.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "analyzer/allocators/allocator_model.h"

namespace heapprof::allocators {

/// 8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, ...: the least class that is not less than `bytes`.
constexpr std::uint64_t quarter_step_class(std::uint64_t bytes) noexcept {
  if (bytes <= 8) return 8;
  constexpr std::uint64_t kMinStep = 16;
  const std::uint64_t step = std::bit_floor(bytes - 1) / 4;
  return round_up(bytes, std::max(step, kMinStep));
}

static_assert(quarter_step_class(0) == 8 && quarter_step_class(9) == 16 && quarter_step_class(17) == 32);
static_assert(quarter_step_class(128) == 128 && quarter_step_class(129) == 160 && quarter_step_class(257) == 320);
static_assert(quarter_step_class(14337) == 16384 && quarter_step_class(16385) == 20480);

}  // namespace heapprof::allocators
