#include "analyzer/pins/page_ranges.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace heapprof::pins {

using allocators::kPageBytes;

PageRanges joined(std::vector<AddressRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const AddressRange& a, const AddressRange& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::size_t count = 0;
  for (const AddressRange& range : ranges) {
    if (range.begin >= range.end) continue;
    if (count != 0 && range.begin <= ranges[count - 1].end)
      ranges[count - 1].end = std::max(ranges[count - 1].end, range.end);
    else ranges[count++] = range;
  }
  ranges.resize(count);
  return ranges;
}

PageRanges difference(const PageRanges& ranges, const PageRanges& without) {
  PageRanges result;
  auto hole = without.begin();
  for (AddressRange range : ranges) {
    while (hole != without.end() && hole->end <= range.begin) ++hole;
    for (auto at = hole; at != without.end() && at->begin < range.end; ++at) {
      if (at->begin > range.begin) result.push_back({range.begin, at->begin});
      range.begin = std::min(at->end, range.end);
    }
    if (range.begin < range.end) result.push_back(range);
  }
  return result;
}

std::uint64_t bytes_of(const PageRanges& ranges) noexcept {
  std::uint64_t bytes = 0;
  for (const AddressRange& range : ranges) bytes += range.bytes();
  return bytes;
}

void PageCollector::add_pages(const AddressRange& range) {
  for (std::uint64_t page = range.begin / kPageBytes; page < range.end / kPageBytes; ++page) {
    const std::uint64_t chunk = page / kChunkPages;
    if (chunk != last_chunk_) {
      last_chunk_ = chunk;
      const auto [at, fresh] = chunks_.try_emplace(chunk);
      if (fresh) chunk_numbers_.insert(chunk);
      last_words_ = &at->second;  // references to elements stay valid
    }
    const std::uint64_t bit = page % kChunkPages;
    (*last_words_)[bit / 64] |= std::uint64_t{1} << bit % 64;
  }
}

void PageCollector::add_long(const AddressRange& range) {
  if (range.begin >= range.end) return;
  AddressRange one = range;
  auto at = long_.upper_bound(one.begin);
  if (at != long_.begin() && std::prev(at)->second >= one.begin) {
    --at;
    if (at->second >= one.end) return;
    one.begin = at->first;
  }
  while (at != long_.end() && at->first <= one.end) {
    one.end = std::max(one.end, at->second);
    at = long_.erase(at);
  }
  long_.emplace_hint(at, one.begin, one.end);
}

void PageCollector::remove(const AddressRange& range) {
  if (range.begin >= range.end) return;
  last_ = {};
  auto cut = long_.upper_bound(range.begin);
  if (cut != long_.begin() && std::prev(cut)->second > range.begin) --cut;
  while (cut != long_.end() && cut->first < range.end) {
    const AddressRange one{cut->first, cut->second};
    cut = long_.erase(cut);
    if (one.begin < range.begin) long_.emplace_hint(cut, one.begin, range.begin);
    if (one.end > range.end) long_.emplace_hint(cut, range.end, one.end);
  }

  const std::uint64_t first_page = range.begin / kPageBytes;
  const std::uint64_t end_page = range.end / kPageBytes;
  last_chunk_ = kNoChunk;
  auto number = chunk_numbers_.lower_bound(first_page / kChunkPages);
  while (number != chunk_numbers_.end() && *number * kChunkPages < end_page) {
    const std::uint64_t chunk_begin = *number * kChunkPages;
    const std::uint64_t chunk_end = chunk_begin + kChunkPages;
    if (first_page <= chunk_begin && chunk_end <= end_page) {
      chunks_.erase(*number);
      number = chunk_numbers_.erase(number);
      continue;
    }
    Chunk& words = chunks_.find(*number)->second;
    for (std::uint64_t page = std::max(first_page, chunk_begin); page < std::min(end_page, chunk_end); ++page) {
      const std::uint64_t bit = page % kChunkPages;
      words[bit / 64] &= ~(std::uint64_t{1} << bit % 64);
    }
    ++number;
  }
}

PageRanges PageCollector::ranges() const {
  std::vector<AddressRange> all;
  for (const auto& [begin, end] : long_) all.push_back({begin, end});
  for (const auto& [chunk, words] : chunks_)
    for (std::size_t bit = 0; bit < kWords * 64; ++bit) {
      if ((words[bit / 64] >> bit % 64 & 1) == 0) continue;
      const std::uint64_t begin = chunk * kChunkBytes + bit * kPageBytes;
      if (!all.empty() && all.back().end == begin) all.back().end += kPageBytes;
      else all.push_back({begin, begin + kPageBytes});
    }
  return joined(std::move(all));
}

}  // namespace heapprof::pins
