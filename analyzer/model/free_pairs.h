// Frees by allocating and freeing thread or, where the trace has the stacks of frees, by allocating and freeing
// stack.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"

namespace heapprof::model {

struct BlockSum {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  void add(std::uint64_t size) noexcept {
    ++blocks;
    bytes += size;
  }
};

/// Sums by pair of (allocating, freeing) threads or stacks. Memory grows with the number of pairs.
class PairSums {
 public:
  struct Entry {
    std::uint32_t from = 0;  ///< allocating
    std::uint32_t to = 0;    ///< freeing
    BlockSum sum;
  };
  void add(std::uint32_t from, std::uint32_t to, std::uint64_t size) {
    const std::uint64_t key = std::uint64_t{from} << 32 | to;
    // Consecutive frees often have the same pair.
    if (key != last_key_ || entries_.empty()) {
      const auto [at, fresh] = index_.try_emplace(key, static_cast<std::uint32_t>(entries_.size()));
      if (fresh) entries_.push_back({from, to, {}});
      last_key_ = key;
      last_ = at->second;
    }
    entries_[last_].sum.add(size);
  }
  const std::vector<Entry>& entries() const noexcept { return entries_; }  ///< in order of appearance

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::uint64_t, std::uint32_t, ChosenKeyHash> index_;
  std::uint64_t last_key_ = 0;
  std::uint32_t last_ = 0;
};

}  // namespace heapprof::model
