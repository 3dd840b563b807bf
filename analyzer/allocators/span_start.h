// Finds the beginning of a span from the address of one of its blocks.
#pragma once

#include <cstdint>

namespace heapprof::allocators {

/// A span consists of `units` units of `unit_bytes`, begins at a multiple of `unit_bytes`, and has blocks of
/// `block_bytes` side by side from its beginning. The position of a block within its unit nearly always determines
/// the first unit. Where several are possible (sizes that are powers of two), the one that is a multiple of the
/// span's length is taken, else the last one. If no beginning is possible (an aligned block within a larger one), the
/// block's own unit is.
inline std::uint64_t span_start(std::uint64_t address, std::uint64_t block_bytes, std::uint64_t unit_bytes,
                                std::uint64_t units) noexcept {
  const std::uint64_t own_unit = address / unit_bytes * unit_bytes;
  const std::uint64_t span_bytes = unit_bytes * units;
  std::uint64_t found = own_unit;
  bool any = false;
  for (std::uint64_t before = 0; before < units && before * unit_bytes <= own_unit; ++before) {
    const std::uint64_t start = own_unit - before * unit_bytes;
    const std::uint64_t distance = address - start;
    if (distance % block_bytes != 0 || distance + block_bytes > span_bytes) continue;
    if (start % span_bytes == 0) return start;
    if (!any) found = start;
    any = true;
  }
  return found;
}

}  // namespace heapprof::allocators
