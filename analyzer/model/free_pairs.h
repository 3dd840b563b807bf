// Who releases what whom allocated: by threads, and, where the trace has the stacks of releases, by stacks.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace heapprof::model {

struct BlockSum {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  void add(std::uint64_t size) noexcept {
    ++blocks;
    bytes += size;
  }
};

/// Sums by pair: (allocating, releasing) thread or stack. Grows with the pairs that occur.
class PairSums {
 public:
  struct Entry {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    BlockSum sum;
  };
  void add(std::uint32_t from, std::uint32_t to, std::uint64_t size) {
    const std::uint64_t key = std::uint64_t{from} << 32 | to;
    // Neighbours in a trace are often alike.
    if (key != last_key_ || entries_.empty()) {
      const auto [at, fresh] = position_.try_emplace(key, static_cast<std::uint32_t>(entries_.size()));
      if (fresh) entries_.push_back({from, to, {}});
      last_key_ = key;
      last_ = at->second;
    }
    entries_[last_].sum.add(size);
  }
  const std::vector<Entry>& entries() const noexcept { return entries_; }  ///< in order of appearance

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::uint64_t, std::uint32_t> position_;
  std::uint64_t last_key_ = 0;
  std::uint32_t last_ = 0;
};

}  // namespace heapprof::model
