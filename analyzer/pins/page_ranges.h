// Sets of pages as sorted ranges that neither overlap nor touch, and a collector that makes one from many blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "analyzer/allocators/allocator_model.h"
#include "analyzer/base/chosen_key_hash.h"

namespace heapprof::pins {

using allocators::AddressRange;

/// Sorted by address; neither overlapping nor touching.
using PageRanges = std::vector<AddressRange>;

/// Sorts `ranges` and joins those that overlap or touch.
PageRanges joined(std::vector<AddressRange> ranges);

/// The parts of `ranges` that are not in `without`.
PageRanges difference(const PageRanges& ranges, const PageRanges& without);

std::uint64_t bytes_of(const PageRanges& ranges) noexcept;

/// Collects pages, most of which are added many times: a bit for each page, and ranges where they are long. Takes
/// memory for the pages that are added, at most some hundred bytes for each call of add().
class PageCollector {
 public:
  /// `range` consists of whole pages.
  void add(const AddressRange& range) {
    if (range == last_) return;
    last_ = range;
    if (range.bytes() <= kChunkBytes) add_pages(range);
    else add_long(range);
  }

  /// Removes pages, as if they had not been added. `range` consists of whole pages.
  void remove(const AddressRange& range);

  PageRanges ranges() const;

 private:
  static constexpr std::uint64_t kChunkBytes = std::uint64_t{2} << 20;
  static constexpr std::size_t kWords = kChunkBytes / allocators::kPageBytes / 64;
  using Chunk = std::array<std::uint64_t, kWords>;

  static constexpr std::uint64_t kChunkPages = kWords * 64;

  void add_pages(const AddressRange& range);
  void add_long(const AddressRange& range);

  std::unordered_map<std::uint64_t, Chunk, ChosenKeyHash> chunks_;  // by address / kChunkBytes
  std::uint64_t last_chunk_ = ~std::uint64_t{0};
  Chunk* last_words_ = nullptr;
  std::vector<AddressRange> long_;
  std::size_t join_at_ = 1024;  // long ranges; then they are joined
  AddressRange last_;
};

}  // namespace heapprof::pins
