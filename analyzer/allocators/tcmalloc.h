// tcmalloc of gperftools 2.x with its default pages of 8 KiB. Google's newer tcmalloc has other size classes.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/allocators/allocator_model.h"

namespace heapprof::allocators {

class Tcmalloc final : public AllocatorModel {
 public:
  struct SizeClass {
    std::uint64_t block_bytes = 0;
    std::uint64_t span_pages = 0;  ///< tcmalloc's pages
  };
  static constexpr std::uint64_t kTcmallocPage = 8192;

  Tcmalloc();
  Allocator allocator() const noexcept override { return Allocator::kTcmalloc; }
  std::uint64_t usable_bytes(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  AddressRange kept_range(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override;
  /// Never: freed spans go to the page heap, which returns them at its own pace (TCMALLOC_RELEASE_RATE).
  bool is_unmapped_by_free(std::uint64_t, std::uint64_t) const noexcept override { return false; }

 private:
  const SizeClass* class_of(std::uint64_t requested_bytes) const noexcept;

  std::vector<SizeClass> classes_;             // by size
  std::vector<std::uint8_t> class_of_eighth_;  // by size / 8, rounded up: position in classes_
};

}  // namespace heapprof::allocators
