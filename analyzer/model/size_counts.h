// The number of allocations of each size. Small sizes are counted in an array, larger ones in a hash map; beyond
// kMaxSizes different large sizes, the others are counted by powers of two.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/model/profile.h"

namespace heapprof::model {

class SizeCounts {
 public:
  SizeCounts() : small_(kSmallSizes, 0) {}

  void count(std::uint64_t size) {
    if (size < kSmallSizes) [[likely]]
      ++small_[size];
    else count_large(size);
  }

  /// By size, ascending.
  std::vector<SizeCount> sorted() const {
    std::vector<SizeCount> result;
    for (std::uint64_t size = 0; size < kSmallSizes; ++size)
      if (small_[size] != 0) result.push_back({size, small_[size], true});
    for (const auto& [size, allocations] : large_) result.push_back({size, allocations, true});
    for (std::size_t bit = 0; bit < coarse_.size(); ++bit)
      if (coarse_[bit] != 0) result.push_back({std::uint64_t{1} << bit, coarse_[bit], false});
    std::sort(result.begin(), result.end(), [](const SizeCount& a, const SizeCount& b) {
      return a.size != b.size ? a.size < b.size : a.exact && !b.exact;
    });
    return result;
  }

  /// How many sizes a lookup compares at most, for tests.
  std::size_t max_compared() const { return max_bucket_size(large_); }

 private:
  static constexpr std::uint64_t kSmallSizes = 4096;
  static constexpr std::size_t kMaxSizes = 1'000'000;

  [[gnu::noinline]] void count_large(std::uint64_t size) {
    if (const auto at = large_.find(size); at != large_.end()) ++at->second;
    else if (large_.size() < kMaxSizes) large_.emplace(size, 1);
    else ++coarse_[static_cast<std::size_t>(std::bit_width(size - 1)) & 63];
  }

  std::vector<std::uint64_t> small_;
  std::unordered_map<std::uint64_t, std::uint64_t, ChosenKeyHash> large_;
  std::array<std::uint64_t, 64> coarse_{};
};

}  // namespace heapprof::model
