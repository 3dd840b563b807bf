// jemalloc 4 and 5 with pages of 4 KiB: Debian's library, Rust's crates, redis.
#pragma once

#include "analyzer/allocators/allocator_model.h"
#include "analyzer/allocators/size_classes.h"

namespace heapprof::allocators {

class Jemalloc final : public AllocatorModel {
 public:
  /// `quantum`: 16, or 8 in builds with --with-lg-quantum=3, such as that of redis.
  explicit Jemalloc(std::uint64_t quantum = kDefaultStep) noexcept : quantum_(quantum) {}

  Allocator allocator() const noexcept override { return Allocator::kJemalloc; }
  std::uint64_t usable_bytes(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  AddressRange kept_range(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  /// Never: jemalloc keeps the memory of freed blocks until it decays (opt.dirty_decay_ms) or is purged.
  bool is_unmapped_by_free(std::uint64_t, std::uint64_t) const noexcept override { return false; }

  /// Length of the slabs for blocks of a class.
  static std::uint64_t slab_bytes(std::uint64_t class_bytes) noexcept;

 private:
  std::uint64_t quantum_;
};

}  // namespace heapprof::allocators
