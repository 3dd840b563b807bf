// glibc's malloc (ptmalloc) on 64-bit systems; the rules are the same from version 2.26 on.
#pragma once

#include "analyzer/allocators/allocator_model.h"

namespace heapprof::allocators {

/// What glibc keeps at the free end of a heap until malloc_trim is called (M_TRIM_THRESHOLD), unless it has raised
/// the threshold.
inline constexpr std::uint64_t kGlibcTrimBytes = 128 * 1024;
/// A freed mapping of at most this size raises the threshold to twice its size (DEFAULT_MMAP_THRESHOLD_MAX).
inline constexpr std::uint64_t kGlibcMaxMmapThreshold = 32 << 20;

/// A block with a mapping of its own begins so many bytes behind the beginning of its first page.
inline constexpr std::uint64_t kGlibcMappedOffset = 16;

class Glibc final : public AllocatorModel {
 public:
  Allocator allocator() const noexcept override { return Allocator::kGlibc; }
  std::uint64_t usable_bytes(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  std::uint64_t header_bytes(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  AddressRange kept_range(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  bool is_unmapped_by_free(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  std::uint64_t trimmed_region(std::uint64_t address) const noexcept override;
};

}  // namespace heapprof::allocators
