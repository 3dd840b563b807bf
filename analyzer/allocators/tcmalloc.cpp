#include "analyzer/allocators/tcmalloc.h"

#include <algorithm>
#include <bit>

#include "analyzer/allocators/span_start.h"

namespace heapprof::allocators {
namespace {

// src/common.cc of gperftools 2.10, SizeMap.
constexpr std::uint64_t kPage = Tcmalloc::kTcmallocPage;
constexpr std::uint64_t kTcmallocMaxSmall = 256 * 1024;
constexpr std::uint64_t kTransferBytes = 64 * 1024;  // moved at once between a thread's cache and the central list,
constexpr std::uint64_t kMaxTransferBlocks = 32;     // at most so many blocks
constexpr std::uint64_t kGranularity = 8;

/// The distance from one candidate size to the next: at most an eighth of a size is lost by rounding.
std::uint64_t step_after(std::uint64_t size) {
  if (size < 16) return kGranularity;
  if (size < 128) return 16;
  return std::min(std::bit_floor(size) / 8, kPage);
}

/// The least span that loses at most an eighth at its end and has a quarter of what is transferred at once.
std::uint64_t span_bytes_of(std::uint64_t size) {
  const std::uint64_t transferred = std::clamp<std::uint64_t>(kTransferBytes / size, 2, kMaxTransferBlocks);
  std::uint64_t bytes = kPage;
  while (bytes % size > bytes / 8 || bytes / size < transferred / 4) bytes += kPage;
  return bytes;
}

}  // namespace

Tcmalloc::Tcmalloc() {
  for (std::uint64_t size = kGranularity; size <= kTcmallocMaxSmall; size += step_after(size)) {
    const std::uint64_t pages = span_bytes_of(size) / kPage;
    // A size of which a span holds as many blocks as of the one before replaces it.
    if (!classes_.empty() && classes_.back().span_pages == pages &&
        pages * kPage / classes_.back().block_bytes == pages * kPage / size)
      classes_.back().block_bytes = size;
    else classes_.push_back({size, pages});
  }
  class_of_eighth_.reserve(kTcmallocMaxSmall / kGranularity + 1);
  std::uint8_t position = 0;
  for (std::uint64_t size = 0; size <= kTcmallocMaxSmall; size += kGranularity) {
    while (classes_[position].block_bytes < size) ++position;
    class_of_eighth_.push_back(position);
  }
}

/// Null: the block has a span of its own.
const Tcmalloc::SizeClass* Tcmalloc::class_of(std::uint64_t requested_bytes) const noexcept {
  if (requested_bytes > kTcmallocMaxSmall) return nullptr;
  return &classes_[class_of_eighth_[(requested_bytes + kGranularity - 1) / kGranularity]];
}

std::uint64_t Tcmalloc::usable_bytes(std::uint64_t /*address*/, std::uint64_t requested_bytes) const noexcept {
  const SizeClass* const found = class_of(requested_bytes);
  return found != nullptr ? found->block_bytes : round_up(requested_bytes, kPage);
}

AddressRange Tcmalloc::kept_range(std::uint64_t address, std::uint64_t requested_bytes) const noexcept {
  const SizeClass* const found = class_of(requested_bytes);
  if (found == nullptr) return {round_down(address, kPage), round_up(address + requested_bytes, kPage)};
  const std::uint64_t begin = span_start(address, found->block_bytes, kPage, found->span_pages);
  return {begin, begin + found->span_pages * kPage};
}

}  // namespace heapprof::allocators
