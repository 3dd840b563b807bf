#include "analyzer/allocators/jemalloc.h"

#include <numeric>

#include "analyzer/allocators/size_classes.h"
#include "analyzer/allocators/span_start.h"

namespace heapprof::allocators {
namespace {

// Blocks of larger classes have an extent of their own (SC_SMALL_MAXCLASS).
constexpr std::uint64_t kJemallocMaxSmall = 14 * 1024;

}  // namespace

/// The least number of pages that blocks of the class fill without a rest (slab_size() in src/sc.c).
std::uint64_t Jemalloc::slab_bytes(std::uint64_t class_bytes) noexcept {
  return class_bytes / std::gcd(class_bytes, kPageBytes) * kPageBytes;
}

std::uint64_t Jemalloc::usable_bytes(std::uint64_t /*address*/, std::uint64_t requested_bytes) const noexcept {
  return quarter_step_class(requested_bytes, quantum_);
}

AddressRange Jemalloc::kept_range(std::uint64_t address, std::uint64_t requested_bytes) const noexcept {
  const std::uint64_t block_bytes = quarter_step_class(requested_bytes, quantum_);
  if (block_bytes > kJemallocMaxSmall) {
    // The block begins at a random cache line of the first page (cache_oblivious).
    const std::uint64_t begin = round_down(address, kPageBytes);
    return {begin, round_up(address + block_bytes, kPageBytes)};
  }
  const std::uint64_t bytes = slab_bytes(block_bytes);
  const std::uint64_t begin = span_start(address, block_bytes, kPageBytes, bytes / kPageBytes);
  return {begin, begin + bytes};
}

}  // namespace heapprof::allocators
