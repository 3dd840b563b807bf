// mimalloc 2.x, in release builds without padding.
#pragma once

#include "analyzer/allocators/allocator_model.h"

namespace heapprof::allocators {

class Mimalloc final : public AllocatorModel {
 public:
  Allocator allocator() const noexcept override { return Allocator::kMimalloc; }
  std::uint64_t usable_bytes(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  AddressRange kept_range(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  bool is_unmapped_by_free(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
};

}  // namespace heapprof::allocators
