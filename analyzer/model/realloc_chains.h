// Buffers that grow by realloc, step by step. A chain begins with an allocation and has a step for each realloc of
// that block; it ends when the block is released or the trace ends. Chains count for the stack of their last step.
//
// Bytes copied are those that a step carries to another address: the smaller of the two sizes. A step that stays
// where it is copies nothing. (Blocks that have a mapping of their own move by their page tables; what the kernel
// does then is not in the trace, and counts as copied.)
//
// Memory: one record for each live block that was ever reallocated, one for each stack.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/model/profile.h"

namespace heapprof::model {

struct ChainCosts {
  std::uint64_t steps = 0;              ///< reallocs made by this stack
  std::uint64_t moved = 0;              ///< of those, to another address
  std::uint64_t copied_bytes = 0;
  std::uint64_t chains = 0;             ///< whose last step this stack made
  std::uint64_t longest = 0;            ///< steps of the longest of them,
  std::uint64_t longest_first_bytes = 0;  ///< the size it began with,
  std::uint64_t longest_last_bytes = 0;   ///< and its last one

  ChainCosts& operator+=(const ChainCosts& other) noexcept {
    steps += other.steps;
    moved += other.moved;
    copied_bytes += other.copied_bytes;
    chains += other.chains;
    if (other.longest > longest) {
      longest = other.longest;
      longest_first_bytes = other.longest_first_bytes;
      longest_last_bytes = other.longest_last_bytes;
    }
    return *this;
  }
};

class ReallocChains {
 public:
  explicit ReallocChains(std::size_t nodes) : costs_(nodes) {}

  /// realloc takes the block at `address`; what it gives for it comes next, or it gives nothing.
  void taken(std::uint64_t address, std::uint64_t size) {
    Chain chain{size, size, 0, kNoIndex};
    if (const auto at = live_.find(address); at != live_.end()) {
      chain = at->second;
      chain.last_bytes = size;
      live_.erase(at);
    }
    taken_.emplace_back(address, chain);
    if (taken_.size() > kMostTaken) settle_oldest();
  }
  /// `node`'s realloc gave this block for the one at `old_address`.
  void stepped(std::uint64_t old_address, std::uint64_t address, std::uint64_t size, std::uint32_t node) {
    const auto at =
        std::find_if(taken_.rbegin(), taken_.rend(), [&](const auto& entry) { return entry.first == old_address; });
    if (at == taken_.rend()) return;  // its block does not count
    Chain chain = at->second;
    taken_.erase(std::next(at).base());
    ChainCosts& costs = costs_[node];
    ++costs.steps;
    if (address != old_address) {
      ++costs.moved;
      costs.copied_bytes += std::min(chain.last_bytes, size);
    }
    ++chain.steps;
    chain.last_bytes = size;
    chain.node = node;
    live_[address] = chain;
  }
  void released(std::uint64_t address) {
    const auto at = live_.find(address);
    if (at == live_.end()) return;
    settle(at->second);
    live_.erase(at);
  }
  /// After the last event.
  void finish() {
    while (!taken_.empty()) settle_oldest();
    for (const auto& [address, chain] : live_) settle(chain);
    live_.clear();
  }

  const std::vector<ChainCosts>& costs() const noexcept { return costs_; }  ///< by node

 private:
  static constexpr std::size_t kMostTaken = 64;  // threads in the middle of a realloc at one moment of the trace

  struct Chain {
    std::uint64_t first_bytes;
    std::uint64_t last_bytes;
    std::uint64_t steps;
    std::uint32_t node;
  };

  void settle(const Chain& chain) noexcept {
    if (chain.node == kNoIndex) return;
    ChainCosts ended;
    ended.chains = 1;
    ended.longest = chain.steps;
    ended.longest_first_bytes = chain.first_bytes;
    ended.longest_last_bytes = chain.last_bytes;
    costs_[chain.node] += ended;
  }
  void settle_oldest() {
    settle(taken_.front().second);
    taken_.erase(taken_.begin());
  }

  std::unordered_map<std::uint64_t, Chain> live_;                  // by address
  std::vector<std::pair<std::uint64_t, Chain>> taken_;             // by the old address, in order
  std::vector<ChainCosts> costs_;
};

}  // namespace heapprof::model
