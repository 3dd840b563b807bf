// Buffers that grow by realloc, step by step. A chain begins with an allocation, has a step for each realloc of the
// block and ends when the block is freed or the trace ends. It counts for the stack of its last step.
//
// A step copies the smaller of the two sizes when the address changes, and nothing when it does not. This is an upper
// limit: the kernel moves blocks that have a mapping of their own by their page tables, which the trace does not
// show.
//
// Memory: one record for each live block that was ever reallocated, and one for each stack.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/model/profile.h"

namespace heapprof::model {

struct ChainCosts {
  std::uint64_t steps = 0;  ///< reallocs by this stack
  std::uint64_t moved = 0;  ///< of those, to another address
  std::uint64_t copied_bytes = 0;
  std::uint64_t chains = 0;               ///< whose last step is of this stack
  std::uint64_t longest = 0;              ///< steps of the longest chain
  std::uint64_t longest_first_bytes = 0;  ///< its first size
  std::uint64_t longest_last_bytes = 0;   ///< its last size

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
  /// A realloc frees this block. stepped() follows, unless the call returns no block.
  void begin_step(std::uint64_t address, std::uint64_t allocated_ns, std::uint64_t size) {
    Chain chain{size, size, 0, kNoIndex};
    if (const auto at = live_.find(address); at != live_.end()) {
      chain = at->second;
      chain.last_bytes = size;
      live_.erase(at);
    }
    pending_.push_back({address, allocated_ns, chain});
    if (pending_.size() > kMaxPending) settle_oldest();
  }
  /// A realloc by `node` returned this block for the one at `old_address`, which was allocated at `old_ns`.
  void stepped(std::uint64_t old_address, std::uint64_t old_ns, std::uint64_t address, std::uint64_t size,
               std::uint32_t node) {
    const auto is_old_block = [&](const Step& step) {
      return step.old_address == old_address && step.old_ns == old_ns;
    };
    const auto at = std::find_if(pending_.rbegin(), pending_.rend(), is_old_block);
    if (at == pending_.rend()) return;  // the block is not selected
    Chain chain = at->chain;
    pending_.erase(std::next(at).base());
    ChainCosts& costs = costs_of(node);
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
  void freed(std::uint64_t address) {
    const auto at = live_.find(address);
    if (at == live_.end()) return;
    settle(at->second);
    live_.erase(at);
  }
  /// After the last event.
  void finish() {
    while (!pending_.empty()) settle_oldest();
    // Of chains with equally many steps the first one counts, so that their order must not depend on addresses.
    std::vector<Chain> left;
    left.reserve(live_.size());
    for (const auto& [address, chain] : live_) left.push_back(chain);
    std::sort(left.begin(), left.end(), [](const Chain& a, const Chain& b) {
      return a.last_bytes != b.last_bytes ? a.last_bytes > b.last_bytes : a.first_bytes > b.first_bytes;
    });
    for (const Chain& chain : left) settle(chain);
    live_.clear();
  }

  const std::vector<ChainCosts>& costs() const noexcept { return costs_; }  ///< by node, up to the last that has any

  /// How many blocks a lookup compares at most, for tests.
  std::size_t max_compared() const { return max_bucket_size(live_); }

 private:
  static constexpr std::size_t kMaxPending = 64;  // threads that are inside a realloc at the same time

  struct Chain {
    std::uint64_t first_bytes;
    std::uint64_t last_bytes;
    std::uint64_t steps;
    std::uint32_t node;
  };

  /// That has begun.
  struct Step {
    std::uint64_t old_address;
    std::uint64_t old_ns;  // when the old block was allocated
    Chain chain;
  };

  ChainCosts& costs_of(std::uint32_t node) {
    if (node >= costs_.size()) costs_.resize(node + std::size_t{1});
    return costs_[node];
  }
  void settle(const Chain& chain) {
    if (chain.node == kNoIndex) return;
    ChainCosts ended;
    ended.chains = 1;
    ended.longest = chain.steps;
    ended.longest_first_bytes = chain.first_bytes;
    ended.longest_last_bytes = chain.last_bytes;
    costs_of(chain.node) += ended;
  }
  void settle_oldest() {
    settle(pending_.front().chain);
    pending_.erase(pending_.begin());
  }

  std::unordered_map<std::uint64_t, Chain, ChosenKeyHash> live_;  // by address
  std::vector<Step> pending_;                                     // in order
  std::vector<ChainCosts> costs_;
};

}  // namespace heapprof::model
