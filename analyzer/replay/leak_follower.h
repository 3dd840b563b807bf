// Gives the blocks of a replay to the histories of the leaking stacks and of their call sites.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/model/leak_history.h"

namespace heapprof::replay {

/// Times are ticks.
class LeakFollower {
 public:
  /// Positions in the histories; kNoIndex: it is not followed there.
  struct Followed {
    std::uint32_t stack = model::kNoIndex;
    std::uint32_t site = model::kNoIndex;
  };

  /// `followed`: by dense index of the node. The histories must outlive this.
  LeakFollower(model::LeakHistory& stacks, model::LeakHistory& sites, std::vector<Followed> followed)
      : stacks_(stacks), sites_(sites), followed_(std::move(followed)) {}

  std::size_t node_count() const noexcept { return followed_.size(); }
  void prefetch(std::uint32_t node) const noexcept {
    if (node >= followed_.size()) return;
    const Followed& one = followed_[node];
    if (one.stack != model::kNoIndex) stacks_.prefetch(one.stack);
    if (one.site != model::kNoIndex) sites_.prefetch(one.site);
  }

  void allocated(std::uint32_t node, std::uint64_t size, std::uint64_t ticks) {
    if (node >= followed_.size()) return;
    const Followed& one = followed_[node];
    if (one.stack != model::kNoIndex) stacks_.allocated(one.stack, size, ticks);
    if (one.site != model::kNoIndex) sites_.allocated(one.site, size, ticks);
  }
  void freed(std::uint32_t node, std::uint64_t size, std::uint64_t ticks, std::uint64_t allocated_ticks) {
    if (node >= followed_.size()) return;
    const Followed& one = followed_[node];
    if (one.stack != model::kNoIndex) stacks_.freed(one.stack, size, ticks, allocated_ticks);
    if (one.site != model::kNoIndex) sites_.freed(one.site, size, ticks, allocated_ticks);
  }
  void left(std::uint32_t node, std::uint64_t size, std::uint64_t allocated_ticks) {
    if (node >= followed_.size()) return;
    const Followed& one = followed_[node];
    if (one.stack != model::kNoIndex) stacks_.left(one.stack, size, allocated_ticks);
    if (one.site != model::kNoIndex) sites_.left(one.site, size, allocated_ticks);
  }

 private:
  model::LeakHistory& stacks_;
  model::LeakHistory& sites_;
  std::vector<Followed> followed_;
};

}  // namespace heapprof::replay
