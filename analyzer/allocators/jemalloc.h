// jemalloc 4 and 5 with pages of 4 KiB: Debian's library, Rust's crates, redis.
#pragma once

#include "analyzer/allocators/allocator_model.h"

namespace heapprof::allocators {

class Jemalloc final : public AllocatorModel {
 public:
  Allocator allocator() const noexcept override { return Allocator::kJemalloc; }
  std::uint64_t usable_bytes(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  AddressRange kept_range(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  /// Never: jemalloc keeps the memory of freed blocks until it decays (opt.dirty_decay_ms) or is purged.
  bool is_unmapped_by_free(std::uint64_t, std::uint64_t) const noexcept override { return false; }

  /// Length of the slabs for blocks of a class.
  static std::uint64_t slab_bytes(std::uint64_t class_bytes) noexcept;
};

}  // namespace heapprof::allocators
