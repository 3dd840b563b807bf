// The blocks that were recorded inside the call of the real allocator that a thread is in. What the call returns may
// be one of them: then a hook that the allocator called has told of it, and the outer hook keeps silent.
//
// Signal handlers may allocate between any two instructions of this. Their blocks are listed too, which is harmless:
// as long as one of them lives, the call they interrupted returns another. So all that matters is that they do not
// drive out what the call itself has listed: a place is taken before it is filled, and what is given back leaves the
// list.
#pragma once

#include <cstdint>

namespace heapprof::recorder {

class InnerBlocks {
 public:
  void clear() noexcept { count_ = 0; }
  /// How many there are: those of later come after them.
  std::uint32_t count() const noexcept { return count_; }

  /// When the list is full, in place of the last: an allocator's functions lie two or three deep in each other.
  void add(const void* block) noexcept {
    const std::uint32_t place = count_ < kMost ? count_ : kMost - 1;
    count_ = place + 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    blocks_[place] = block;
  }

  /// `block` was given back: the next one at its place is another.
  void remove(const void* block) noexcept {
    for (std::uint32_t place = 0; place < count_; ++place) {
      if (blocks_[place] != block) continue;
      blocks_[place] = nullptr;
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      if (place + 1 == count_) count_ = place;
      return;
    }
  }

  /// `block` is among those after the first `count`. The last place of a full list may have another since.
  bool has(const void* block, std::uint32_t count) const noexcept {
    for (std::uint32_t place = count < kMost ? count : kMost - 1; place < count_; ++place)
      if (blocks_[place] == block) return true;
    return false;
  }

 private:
  static constexpr std::uint32_t kMost = 4;
  const void* blocks_[kMost];
  std::uint32_t count_;
};

}  // namespace heapprof::recorder
