// glibc's malloc (ptmalloc) on 64-bit systems; the rules are the same from version 2.26 on.
#pragma once

#include "analyzer/allocators/allocator_model.h"

namespace heapprof::allocators {

class Glibc final : public AllocatorModel {
 public:
  /// Chunks from this size on are mappings of their own, unless the threshold was raised: DEFAULT_MMAP_THRESHOLD.
  static constexpr std::uint64_t kMinMmapThreshold = 128 * 1024;

  Allocator allocator() const noexcept override { return Allocator::kGlibc; }
  std::uint64_t usable_bytes(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  std::uint64_t header_bytes(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  AddressRange kept_range(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  bool is_unmapped_by_free(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  AddressRange arena_heap(std::uint64_t address) const noexcept override;
};

}  // namespace heapprof::allocators
