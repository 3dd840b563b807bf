// A selection in the terms of the trace: ticks, node indices, ordinals of allocations.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace heapprof::replay {

/// Which allocations count. The replay follows all others too, so that their frees are known, but leaves them out of
/// every figure.
struct ResolvedFilter {
  std::uint64_t from_ticks = 0;  ///< the slice: [from_ticks, end_ticks)
  std::uint64_t end_ticks = std::numeric_limits<std::uint64_t>::max();
  bool has_end() const noexcept { return end_ticks != std::numeric_limits<std::uint64_t>::max(); }
  /// The slice ends after so many allocations at end_ticks - 1, whether they count or not; 0: after all events then.
  std::uint64_t allocations_at_end = 0;
  /// Every event before it is before the end of the slice.
  std::uint64_t certain_end_ticks() const noexcept { return allocations_at_end == 0 ? end_ticks : end_ticks - 1; }
  /// Only the slice's own blocks count, those that are allocated in [from_ticks, allocated_end_ticks).
  bool own_blocks_only = false;
  std::uint64_t allocated_end_ticks = std::numeric_limits<std::uint64_t>::max();
  bool only_blocks = false;                          ///< neither mappings nor failed allocations count
  const std::vector<std::uint8_t>* nodes = nullptr;  ///< by dense index: 1 counts; null: all
  const std::vector<bool>* blocks = nullptr;         ///< by ordinal of the allocation in the trace; null: all
};

}  // namespace heapprof::replay
