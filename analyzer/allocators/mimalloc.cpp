#include "analyzer/allocators/mimalloc.h"

#include "analyzer/allocators/size_classes.h"
#include "analyzer/allocators/span_start.h"

namespace heapprof::allocators {
namespace {

// include/mimalloc-types.h and src/os.c of mimalloc 2.0.9.
constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kSlice = 64 * kKiB;  // a page of small blocks
constexpr std::uint64_t kMediumPage = 512 * kKiB;
constexpr std::uint64_t kMimallocMaxSmall = kSlice / 4;
constexpr std::uint64_t kMaxMedium = kMediumPage / 4;
constexpr std::uint64_t kMaxLarge = 16 * kMiB;  // larger blocks have a segment of their own

/// Of blocks above kMaxMedium: what the system is asked for (_mi_os_good_alloc_size), in whole slices or medium
/// pages.
std::uint64_t rounded_large(std::uint64_t bytes) {
  const std::uint64_t unit = bytes < 2 * kMiB    ? kSlice
                             : bytes < 8 * kMiB  ? 256 * kKiB
                             : bytes < 32 * kMiB ? kMiB
                                                 : 4 * kMiB;
  const std::uint64_t asked = round_up(bytes, unit);
  return round_up(asked, asked > kMediumPage ? kMediumPage : kSlice);
}

}  // namespace

std::uint64_t Mimalloc::usable_bytes(std::uint64_t /*address*/, std::uint64_t requested_bytes) const noexcept {
  return requested_bytes <= kMaxMedium ? quarter_step_class(requested_bytes) : rounded_large(requested_bytes);
}

AddressRange Mimalloc::kept_range(std::uint64_t address, std::uint64_t requested_bytes) const noexcept {
  std::uint64_t begin = round_down(address, kSlice);
  if (requested_bytes <= kMimallocMaxSmall) return {begin, begin + kSlice};
  if (requested_bytes <= kMaxMedium) {
    begin = span_start(address, quarter_step_class(requested_bytes), kSlice, kMediumPage / kSlice);
    return {begin, begin + kMediumPage};
  }
  return {begin, round_up(address + rounded_large(requested_bytes), kSlice)};
}

bool Mimalloc::is_unmapped_by_free(std::uint64_t /*address*/, std::uint64_t requested_bytes) const noexcept {
  return requested_bytes > kMaxLarge;
}

}  // namespace heapprof::allocators
