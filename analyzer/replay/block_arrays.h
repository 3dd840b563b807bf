// Memory for small arrays of blocks, in one large array that grows in place.
//
// A freed array is used again for one of the same capacity. Arrays that all grow, or all shrink, leave many of the
// other capacities unused. So the owner, which knows where the arrays are, moves them together when unused_blocks()
// is large: begin_packing(), then pack() for each array, in ascending order.
//
//   all_blocks() = blocks of arrays that are in use + unused_blocks()
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "analyzer/replay/block.h"
#include "analyzer/replay/growing_memory.h"

namespace heapprof::replay {

/// By capacity class. Even numbers, so that what a smaller array leaves of a larger one can be divided into others.
inline constexpr std::array<std::uint8_t, 10> kArrayCapacities = {2, 4, 8, 12, 16, 20, 24, 32, 48, 64};
inline constexpr std::uint32_t kMaxArrayCapacity = 64;

/// By number of blocks: the class of the least capacity that is enough for them.
inline constexpr std::array<std::uint8_t, kMaxArrayCapacity + 1> kArrayClasses = [] {
  std::array<std::uint8_t, kMaxArrayCapacity + 1> classes{};
  std::uint8_t capacity_class = 0;
  for (std::uint32_t blocks = 0; blocks <= kMaxArrayCapacity; ++blocks) {
    if (blocks > kArrayCapacities[capacity_class]) ++capacity_class;
    classes[blocks] = capacity_class;
  }
  return classes;
}();

class BlockArrays {
 public:
  using Index = std::uint32_t;  ///< of an array's first block

  BlockArrays() { clear(); }
  BlockArrays(const BlockArrays&) = delete;
  BlockArrays& operator=(const BlockArrays&) = delete;

  /// The block at an index. Also the one after the last array can be read; its contents have no meaning.
  Block* at(std::size_t index) const noexcept { return blocks_ + index; }

  bool has_free(std::uint32_t capacity_class) const noexcept { return first_free_[capacity_class] != kNone; }
  std::size_t all_blocks() const noexcept { return end_; }
  std::size_t unused_blocks() const noexcept { return unused_; }

  /// Returns an array, whose contents have no meaning. Pointers to all blocks become invalid.
  Index allocate(std::uint32_t capacity_class) {
    const std::uint32_t capacity = kArrayCapacities[capacity_class];
    if (has_free(capacity_class)) {
      const Index array = first_free_[capacity_class];
      first_free_[capacity_class] = at(array)->node;
      unused_ -= capacity;
      return array;
    }
    if (end_ + capacity >= mapped_) [[unlikely]]
      grow(end_ + capacity);
    const auto array = static_cast<Index>(end_);
    end_ += capacity;
    return array;
  }

  void free(Index array, std::uint32_t capacity_class) noexcept {
    at(array)->node = std::exchange(first_free_[capacity_class], array);
    unused_ += kArrayCapacities[capacity_class];
  }

  /// Gives an array a smaller capacity; its first blocks stay.
  void shrink(Index array, std::uint32_t from_class, std::uint32_t to_class) noexcept {
    Index rest = array + kArrayCapacities[to_class];
    std::uint32_t left = std::uint32_t{kArrayCapacities[from_class]} - kArrayCapacities[to_class];
    while (left != 0) {
      std::uint32_t part = kArrayClasses[left];
      if (kArrayCapacities[part] > left) --part;
      free(rest, part);
      rest += kArrayCapacities[part];
      left -= kArrayCapacities[part];
    }
  }

  /// Forgets all arrays. Their contents stay for pack().
  void begin_packing() noexcept {
    end_ = unused_ = 0;
    first_free_.fill(kNone);
  }
  /// Returns where the array is now.
  Index pack(Index array, std::uint32_t capacity_class) noexcept {
    const auto to = static_cast<Index>(end_);
    const std::uint32_t capacity = kArrayCapacities[capacity_class];
    if (to != array) std::copy(at(array), at(array) + capacity, at(to));
    end_ += capacity;
    return to;
  }

  /// Frees all arrays, and returns most of the memory.
  void clear() {
    begin_packing();
    map(kMinBlocks);
  }

  void swap(BlockArrays& other) noexcept {
    memory_.swap(other.memory_);
    std::swap(blocks_, other.blocks_);
    std::swap(mapped_, other.mapped_);
    std::swap(end_, other.end_);
    std::swap(unused_, other.unused_);
    std::swap(first_free_, other.first_free_);
  }

 private:
  static constexpr Index kNone = 0xffffffff;
  static constexpr std::size_t kMinBlocks = 1 << 10;
  static constexpr std::size_t kHugeBlocks = (std::size_t{2} << 20) / sizeof(Block);  // a huge page

  /// Makes room for more than this many blocks.
  [[gnu::noinline]] void grow(std::size_t blocks) {
    if (blocks >= kNone) throw std::bad_alloc();
    std::size_t mapped = mapped_;
    while (mapped <= blocks)
      mapped = mapped < kHugeBlocks / 2 ? mapped * 2 : (mapped / 4 * 5 + kHugeBlocks) / kHugeBlocks * kHugeBlocks;
    map(mapped);
  }
  void map(std::size_t blocks) {
    memory_.resize(blocks * sizeof(Block));
    blocks_ = static_cast<Block*>(memory_.begin());
    mapped_ = blocks;
  }

  GrowingMemory memory_;
  Block* blocks_ = nullptr;
  std::size_t mapped_ = 0;                                   // blocks
  std::size_t end_ = 0;                                      // of the last array
  std::size_t unused_ = 0;                                   // blocks of free arrays
  std::array<Index, kArrayCapacities.size()> first_free_{};  // by class: a list, linked by Block::node
};

}  // namespace heapprof::replay
