// Sets of pages as sorted ranges that neither overlap nor touch, and a collector that makes one from many blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "analyzer/allocators/allocator_model.h"
#include "analyzer/base/chosen_key_hash.h"

namespace heapprof::pins {

/// Sorted by address; neither overlapping nor touching.
using PageRanges = std::vector<AddressRange>;

/// Sorts `ranges` and joins those that overlap or touch.
PageRanges joined(std::vector<AddressRange> ranges);

/// The parts of `ranges` that are not in `without`.
PageRanges difference(const PageRanges& ranges, const PageRanges& without);

std::uint64_t bytes_of(const PageRanges& ranges) noexcept;

/// Collects pages, most of which are added many times: a bit for each page, and ranges where they are long. Takes
/// memory for the pages that are added, at most some hundred bytes for each call of add(). What remove() visits is
/// gone then, but for two chunks and two parts of ranges: all calls together take a time in proportion to what was
/// added.
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

  /// For tests: chunks and long ranges that have memory.
  std::size_t chunks() const noexcept { return chunks_.size(); }
  std::size_t long_ranges() const noexcept { return long_.size(); }

 private:
  static constexpr std::uint64_t kChunkBytes = std::uint64_t{2} << 20;
  static constexpr std::size_t kWords = kChunkBytes / allocators::kPageBytes / 64;
  using Chunk = std::array<std::uint64_t, kWords>;

  static constexpr std::uint64_t kChunkPages = kWords * 64;

  void add_pages(const AddressRange& range);
  void add_long(const AddressRange& range);

  static constexpr std::uint64_t kNoChunk = ~std::uint64_t{0};
  std::unordered_map<std::uint64_t, Chunk, ChosenKeyHash> chunks_;  // by address / kChunkBytes
  std::set<std::uint64_t> chunk_numbers_;                           // the keys of chunks_, in order
  std::uint64_t last_chunk_ = kNoChunk;
  Chunk* last_words_ = nullptr;
  std::map<std::uint64_t, std::uint64_t> long_;  // begin and end; neither overlapping nor touching
  AddressRange last_;
};

}  // namespace heapprof::pins
