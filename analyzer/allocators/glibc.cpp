#include "analyzer/allocators/glibc.h"

#include <algorithm>

namespace heapprof::allocators {
namespace {

// malloc/malloc.c of glibc 2.36.
constexpr std::uint64_t kHeaderBytes = 16;   // CHUNK_HDR_SZ: from the chunk to the block
constexpr std::uint64_t kOverheadBytes = 8;  // the last 8 bytes of a block are the next chunk's prev_size
constexpr std::uint64_t kAlignment = 16;
constexpr std::uint64_t kMinChunk = 32;
// mtrim() keeps the header of the free chunk that follows: sizeof(struct malloc_chunk).
constexpr std::uint64_t kFreeChunkHeader = 48;
constexpr std::uint64_t kArenaHeapBytes = 64 << 20;  // HEAP_MAX_SIZE, to which heaps of arenas are aligned

std::uint64_t chunk_bytes(std::uint64_t requested) {
  return std::max(kMinChunk, round_up(requested + kOverheadBytes, kAlignment));
}

std::uint64_t mapped_bytes(std::uint64_t requested) {
  return round_up(chunk_bytes(requested) + kOverheadBytes, kPageBytes);
}

}  // namespace

/// A large block is a mapping of its own, unless the threshold was raised: then it begins behind the header at the
/// beginning of a page. One in 256 large blocks within a heap begins there, too, and keeps the same pages, but one.
bool Glibc::is_unmapped_by_free(std::uint64_t address, std::uint64_t requested_bytes) const noexcept {
  return address % kPageBytes == kHeaderBytes && chunk_bytes(requested_bytes) >= kMinMmapThreshold;
}

std::uint64_t Glibc::usable_bytes(std::uint64_t address, std::uint64_t requested_bytes) const noexcept {
  if (is_unmapped_by_free(address, requested_bytes)) return mapped_bytes(requested_bytes) - kHeaderBytes;
  // One chunk in 200 is 16 bytes longer, because what would be left of a free chunk is too short.
  return chunk_bytes(requested_bytes) - kOverheadBytes;
}

/// The size before the block; a mapping of its own begins with 8 unused bytes more.
std::uint64_t Glibc::header_bytes(std::uint64_t address, std::uint64_t requested_bytes) const noexcept {
  return is_unmapped_by_free(address, requested_bytes) ? kHeaderBytes : kOverheadBytes;
}

AddressRange Glibc::kept_range(std::uint64_t address, std::uint64_t requested_bytes) const noexcept {
  const std::uint64_t begin = address - std::min(address, kHeaderBytes);
  if (is_unmapped_by_free(address, requested_bytes)) return {begin, begin + mapped_bytes(requested_bytes)};
  return {round_down(begin, kPageBytes),
          round_up(begin + chunk_bytes(requested_bytes) + kFreeChunkHeader, kPageBytes)};
}

/// Not of the main heap, which brk extends: its memory has no such boundaries.
AddressRange Glibc::arena_heap(std::uint64_t address) const noexcept {
  const std::uint64_t begin = round_down(address, kArenaHeapBytes);
  return {begin, begin + kArenaHeapBytes};
}

}  // namespace heapprof::allocators
