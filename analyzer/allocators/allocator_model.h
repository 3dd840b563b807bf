// What is known of an allocator from its rules alone: how many bytes of a block can be used, and which memory stays
// in use as long as the block is live.
//
// A *granule* is the least memory that an allocator returns to the system: a page of glibc's heap, a slab of
// jemalloc, a span of tcmalloc, a page of mimalloc (64 KiB or more). One live block keeps its whole granule.
// docs/concepts/pinned-memory.md has the rules of each allocator, and the functions of this directory apply them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "analyzer/base/address_range.h"

namespace heapprof::allocators {

enum class Allocator : std::uint8_t { kGlibc, kJemalloc, kTcmalloc, kMimalloc, kUnknown };

/// Pages of the recorded system. The allocators' own units are multiples of it.
inline constexpr std::uint64_t kPageBytes = 4096;

/// Addresses and sizes below this do not overflow in the functions of a model. User space ends here, also with page
/// tables of five levels.
inline constexpr std::uint64_t kMaxAddress = std::uint64_t{1} << 57;

constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) noexcept { return value / unit * unit; }
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) noexcept {
  return round_down(value + unit - 1, unit);
}

/// Precondition of all functions: `address` and `requested_bytes` are below kMaxAddress.
class AllocatorModel {
 public:
  virtual ~AllocatorModel() = default;
  virtual Allocator allocator() const noexcept = 0;

  /// What malloc_usable_size() returns for a block of malloc(requested_bytes).
  virtual std::uint64_t usable_bytes(std::uint64_t address, std::uint64_t requested_bytes) const noexcept = 0;

  /// Bytes before the block that belong to it, for the allocator's use.
  virtual std::uint64_t header_bytes(std::uint64_t /*address*/, std::uint64_t /*requested_bytes*/) const noexcept {
    return 0;
  }

  /// The memory that cannot be returned while the block is live: whole pages. Blocks of one slab or span have equal
  /// ranges; where single pages are returned, the ranges of neighbours have pages in common.
  virtual AddressRange kept_range(std::uint64_t address, std::uint64_t requested_bytes) const noexcept = 0;

  /// Whether freeing the block unmaps its memory at once.
  virtual bool is_unmapped_by_free(std::uint64_t address, std::uint64_t requested_bytes) const noexcept = 0;

  /// For an allocator whose arenas consist of heaps, of which a trim does not return every free end: the heap that
  /// contains `address`, if that is in one. Else an empty range.
  virtual AddressRange arena_heap(std::uint64_t /*address*/) const noexcept { return {}; }
};

/// The model of an allocator; of kUnknown one in which a block keeps the pages that its bytes are on.
std::unique_ptr<const AllocatorModel> make_model(Allocator allocator);

/// "glibc", "jemalloc", ..., "unknown".
const char* name_of(Allocator allocator) noexcept;

/// The call with which a program makes the allocator return free memory to the system.
std::string trim_call(Allocator allocator);

/// Whether the allocator returns free memory after a while without such a call.
bool returns_memory_by_itself(Allocator allocator) noexcept;

}  // namespace heapprof::allocators
