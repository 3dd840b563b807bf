// The live blocks, by address: an open-addressing hash table with linear probing and no tombstones (a
// removal moves the entries behind it up), 32 bytes an entry, at most five eighths full.
//
// A trace visits its blocks all over the heap, so the price of a look-up is a cache miss; the replay knows
// its next events and asks for them ahead with prefetch().
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <sys/mman.h>

namespace heapprof::replay {

struct Block {
  std::uint64_t address = 0;  ///< 0: the entry is free
  std::uint64_t size = 0;
  std::uint64_t time = 0;     ///< of its allocation, ticks
  std::uint32_t node = 0;     ///< dense index
  std::uint32_t thread = 0;
};
static_assert(sizeof(Block) == 32);

class BlockTable {
 public:
  BlockTable() { allocate(1 << 12); }
  ~BlockTable() { release(); }
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  std::size_t size() const noexcept { return size_; }

  /// Asks for the entry of `address` and the one after it, which erase() looks at.
  void prefetch(std::uint64_t address) const noexcept {
    const Block* const entry = &entries_[home(address)];
    __builtin_prefetch(entry, 1);
    __builtin_prefetch(entry + 1, 1);
  }

  /// The block at `address`, or null. Valid until the next change.
  Block* find(std::uint64_t address) noexcept {
    for (std::size_t i = home(address);; i = (i + 1) & mask_) {
      if (entries_[i].address == address) return &entries_[i];
      if (entries_[i].address == 0) return nullptr;
    }
  }

  /// The entry for `address`, which must not be 0. A fresh one has that address, the rest is zero.
  Block& insert(std::uint64_t address, bool& fresh) {
    if (size_ >= limit_) [[unlikely]] grow();
    for (std::size_t i = home(address);; i = (i + 1) & mask_) {
      if (entries_[i].address == address) {
        fresh = false;
        return entries_[i];
      }
      if (entries_[i].address == 0) {
        fresh = true;
        ++size_;
        entries_[i].address = address;
        return entries_[i];
      }
    }
  }

  /// Removes what find() returned.
  void erase(Block* block) noexcept {
    std::size_t hole = static_cast<std::size_t>(block - entries_);
    for (std::size_t i = (hole + 1) & mask_; entries_[i].address != 0; i = (i + 1) & mask_) {
      // An entry may move up to the hole when its home is not behind it.
      if (((i - home(entries_[i].address)) & mask_) >= ((i - hole) & mask_)) {
        entries_[hole] = entries_[i];
        hole = i;
      }
    }
    entries_[hole] = Block{};
    --size_;
  }

  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i <= mask_; ++i)
      if (entries_[i].address != 0) visit(static_cast<const Block&>(entries_[i]));
  }

 private:
  std::size_t home(std::uint64_t address) const noexcept {
    return static_cast<std::size_t>(address * 0x9e3779b97f4a7c15u >> shift_);
  }

  void allocate(std::size_t capacity) {
    const std::size_t bytes = capacity * sizeof(Block);
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    if (bytes >= std::size_t{4} << 20) ::madvise(memory, bytes, MADV_HUGEPAGE);
    entries_ = static_cast<Block*>(memory);  // zero pages are free entries
    mask_ = capacity - 1;
    limit_ = capacity / 8 * 5;
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(capacity));
  }
  void release() noexcept { ::munmap(entries_, (mask_ + 1) * sizeof(Block)); }

  [[gnu::noinline]] void grow() {
    Block* const old = entries_;
    const std::size_t old_capacity = mask_ + 1;
    allocate(old_capacity * 2);
    for (std::size_t i = 0; i < old_capacity; ++i) {
      if (old[i].address == 0) continue;
      std::size_t at = home(old[i].address);
      while (entries_[at].address != 0) at = (at + 1) & mask_;
      entries_[at] = old[i];
    }
    ::munmap(old, old_capacity * sizeof(Block));
  }

  Block* entries_ = nullptr;
  std::size_t mask_ = 0;
  std::size_t limit_ = 0;
  std::size_t size_ = 0;
  unsigned shift_ = 0;
};

}  // namespace heapprof::replay
