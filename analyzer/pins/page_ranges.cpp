#include "analyzer/pins/page_ranges.h"

#include <algorithm>
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
      last_words_ = &chunks_[chunk];  // references to elements stay valid
    }
    const std::uint64_t bit = page % kChunkPages;
    (*last_words_)[bit / 64] |= std::uint64_t{1} << bit % 64;
  }
}

void PageCollector::add_long(const AddressRange& range) {
  long_.push_back(range);
  if (long_.size() < join_at_) return;
  long_ = joined(std::move(long_));
  join_at_ = std::max<std::size_t>(1024, 2 * long_.size());
}

void PageCollector::remove(const AddressRange& range) {
  if (range.begin >= range.end) return;
  last_ = {};
  const auto is_cut = [&](const AddressRange& one) { return one.begin < range.end && range.begin < one.end; };
  if (std::ranges::any_of(long_, is_cut)) long_ = difference(joined(std::move(long_)), {range});
  const auto clear = [&](std::uint64_t chunk, Chunk& words) {
    const std::uint64_t first = std::max(range.begin / kPageBytes, chunk * kChunkPages);
    const std::uint64_t end = std::min(range.end / kPageBytes, (chunk + 1) * kChunkPages);
    for (std::uint64_t page = first; page < end; ++page) {
      const std::uint64_t bit = page % kChunkPages;
      words[bit / 64] &= ~(std::uint64_t{1} << bit % 64);
    }
  };
  const std::uint64_t first_chunk = range.begin / kChunkBytes;
  const std::uint64_t last_chunk = (range.end - 1) / kChunkBytes;
  // A range of the whole address space has more chunks than there are.
  if (last_chunk - first_chunk >= chunks_.size()) {
    for (auto& [chunk, words] : chunks_)
      if (chunk >= first_chunk && chunk <= last_chunk) clear(chunk, words);
    return;
  }
  for (std::uint64_t chunk = first_chunk; chunk <= last_chunk; ++chunk)
    if (const auto at = chunks_.find(chunk); at != chunks_.end()) clear(chunk, at->second);
}

PageRanges PageCollector::ranges() const {
  std::vector<AddressRange> all = long_;
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
