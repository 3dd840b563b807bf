// The blocks that hooks have recorded while their thread is inside a call of the real allocator. The allocator may
// call hooks itself (calloc calls malloc), and the outer call may return one of these blocks: then the outer hook
// does not record it again.
//
// Used by one thread and its signal handlers. A handler may allocate between any two instructions here. Its blocks
// are added to the list too. They are not mistaken for the block of the interrupted call: while such a block is live,
// that call returns another address. They must not displace the blocks of the interrupted call either; therefore an
// index is reserved before it is filled, and freed blocks are removed.
#pragma once

#include <cstdint>

namespace heapprof::recorder {

class InnerBlocks {
 public:
  void clear() noexcept { count_ = 0; }
  /// The number of blocks; blocks that are added later have this index or a higher one.
  std::uint32_t count() const noexcept { return count_; }

  /// Adds `block`; in a full list, it replaces the last block. Calls of an allocator nest two or three deep.
  void add(const void* block) noexcept {
    const std::uint32_t index = count_ < kMaxBlocks ? count_ : kMaxBlocks - 1;
    count_ = index + 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    blocks_[index] = block;
  }

  /// Removes `block`, which was freed: the address may be allocated again, as another block.
  void remove(const void* block) noexcept {
    for (std::uint32_t index = 0; index < count_; ++index) {
      if (blocks_[index] != block) continue;
      blocks_[index] = nullptr;
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      if (index + 1 == count_) count_ = index;
      return;
    }
  }

  /// Whether `block` was added after count() returned `first`. In a full list the last index may have been reused.
  bool has(const void* block, std::uint32_t first) const noexcept {
    for (std::uint32_t index = first < kMaxBlocks ? first : kMaxBlocks - 1; index < count_; ++index)
      if (blocks_[index] == block) return true;
    return false;
  }

 private:
  static constexpr std::uint32_t kMaxBlocks = 4;
  const void* blocks_[kMaxBlocks];
  std::uint32_t count_;
};

}  // namespace heapprof::recorder
