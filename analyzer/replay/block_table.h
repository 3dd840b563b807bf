// The live blocks by address: an open-addressing hash table in groups of eight, with one byte of each entry's hash in
// a separate array (the idea of Abseil's Swiss tables).
//
// A trace accesses blocks all over the heap, so a lookup costs cache misses and mispredicted branches. Here nearly
// every lookup loads eight control bytes, which stay in the cache for a million blocks, has one match among them, and
// loads one entry. The replay prefetches both for the next events.
//
//   control byte   0x80 free, not used since the last rehash   0xfe free, was used (a probe continues)
//                  0x00..0x7f the low bits of the entry's hash
//
// Invariant: a group with a never-used entry was never full, so no block was put into a later group because of it,
// and a probe ends there. An erased entry of such a group becomes never-used again; of any other, a tombstone.
//
// Large tables are fuller, and grow by an eighth and in place, so that they need no memory for a second table:
// entries are sorted by the upper bits of their hash, so those of a group move to groups near the same fraction of a
// larger table. A block then takes 44 to 50 bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "analyzer/base/mix_bits.h"
#include "analyzer/replay/growing_memory.h"

namespace heapprof::replay {

/// A live block.
struct Block {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t time = 0;  ///< of its allocation, ticks
  std::uint32_t node = 0;  ///< dense index
  std::uint32_t thread = 0;
  bool operator==(const Block&) const = default;
};
static_assert(sizeof(Block) == 32);

class BlockTable {
 public:
  BlockTable() { clear(kMinGroups); }
  // The empty table that is left in `other` needs memory.
  BlockTable(BlockTable&& other) : BlockTable() { swap(other); }  // NOLINT(performance-noexcept-move-constructor)
  BlockTable& operator=(BlockTable&& other) noexcept {
    swap(other);
    return *this;
  }

  std::size_t size() const noexcept { return size_; }

  /// The hash that the other functions take; a caller that prefetches computes it once. Eight consecutive numbers
  /// share a group: in compacted traces, where blocks are numbered consecutively, an allocation finds its group in
  /// the cache. Addresses are multiples of eight, so each has its own hash.
  static std::uint64_t hash_of(std::uint64_t address) noexcept { return mix_bits(address >> 3) ^ (address & 7); }

  /// Prefetches the control bytes. Call it first, some events ahead.
  void prefetch_group(std::uint64_t hash) const noexcept { __builtin_prefetch(&control_[group_of(hash)], 1); }
  /// Prefetches the entry with the address, or the one that it will probably get. Call it some events after
  /// prefetch_group(). Has no branch, because half of them would be mispredicted.
  void prefetch_entry(std::uint64_t hash) const noexcept {
    const std::size_t group = group_of(hash);
    const std::uint64_t control = control_[group];
    const std::uint64_t found = matches(control, tag_of(hash));
    const std::uint64_t if_none = found == 0 ? ~std::uint64_t{0} : 0;
    __builtin_prefetch(&entries_[entry_of(group, found | (control & kTopBits & if_none) | kLastTopBit)], 1);
  }
  /// The node of the block at `address` if it is in the expected entry, else 0. Call it some events after
  /// prefetch_entry().
  std::uint32_t peek_node(std::uint64_t address, std::uint64_t hash) const noexcept {
    const std::size_t group = group_of(hash);
    const Block& block = entries_[entry_of(group, matches(control_[group], tag_of(hash)) | kLastTopBit)];
    return block.node & (block.address == address ? ~std::uint32_t{0} : 0);
  }

  /// The block at `address`, or null. The pointer is valid until the next insert() or erase().
  Block* find(std::uint64_t address) noexcept { return find(address, hash_of(address)); }
  Block* find(std::uint64_t address, std::uint64_t hash) noexcept { return lookup(address, hash); }
  bool contains(std::uint64_t address) const noexcept { return lookup(address, hash_of(address)) != nullptr; }

  /// Returns the block at `address`, and adds it if there is none (`fresh`); then only its address is set.
  Block& insert(std::uint64_t address, bool& fresh) { return insert(address, hash_of(address), fresh); }
  Block& insert(std::uint64_t address, std::uint64_t hash, bool& fresh) {
    if (unused_left_ == 0) [[unlikely]]
      rehash();
    const std::size_t group = group_of(hash);
    const std::uint64_t control = control_[group];
    fresh = true;
    Block* block;
    if (matches(control, tag_of(hash)) == 0 && never_used(control) != 0) [[likely]]
      block = &put(entry_of(group, control & kTopBits), hash);
    else block = &insert_from(group, address, hash, fresh);
    block->address = address;
    return *block;
  }

  /// Removes a block that find() or insert() returned.
  void erase(Block* block) noexcept {
    const auto entry = static_cast<std::size_t>(block - entries_);
    const bool was_never_full = never_used(control_[entry / kGroup]) != 0;
    *control_byte(entry) = was_never_full ? kNeverUsed : kUsed;
    unused_left_ += was_never_full;
    --size_;
  }

  /// Removes all blocks and makes room for `blocks`.
  void reset(std::size_t blocks) {
    std::size_t groups = kMinGroups;
    while (max_used(groups) < blocks) groups = next_size(groups);
    clear(groups);
  }

  /// How many groups find(address) loads, for tests. Precondition: there is a block at `address`.
  std::size_t groups_probed(std::uint64_t address) noexcept {
    const auto found = static_cast<std::size_t>(find(address) - entries_) / kGroup;
    std::size_t probed = 1;
    for (std::size_t group = group_of(hash_of(address)); group != found; group = group_after(group)) ++probed;
    return probed;
  }

  /// Calls visit(Block&), which does not change the address.
  template <typename Visit>
  void for_each_entry(Visit&& visit) {
    for_each([&](const Block& block) { visit(const_cast<Block&>(block)); });
  }
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t entry = 0; entry < groups_ * kGroup; ++entry)
      if ((*control_byte(entry) & 0x80) == 0) visit(static_cast<const Block&>(entries_[entry]));
  }

  void swap(BlockTable& other) noexcept {
    entry_memory_.swap(other.entry_memory_);
    control_memory_.swap(other.control_memory_);
    std::swap(entries_, other.entries_);
    std::swap(control_, other.control_);
    std::swap(groups_, other.groups_);
    std::swap(size_, other.size_);
    std::swap(unused_left_, other.unused_left_);
  }

 private:
  static constexpr std::size_t kGroup = 8;
  static constexpr std::size_t kMinGroups = 1 << 9;
  static constexpr std::size_t kLargeGroups = 1 << 18;  // 69 MB
  static constexpr std::size_t kNoEntry = ~std::size_t{0};
  static constexpr std::uint8_t kNeverUsed = 0x80;
  static constexpr std::uint8_t kUsed = 0xfe;
  static constexpr std::uint64_t kTopBits = 0x8080808080808080;
  static constexpr std::uint64_t kLastTopBit = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kLowBits = 0x0101010101010101;

  // The group is the upper half of the hash, as a fraction of 2^32, times the number of groups (less than 2^32); the
  // tag is the lowest bits.
  static std::size_t group_of(std::uint64_t hash, std::size_t groups) noexcept {
    return static_cast<std::size_t>((hash >> 32) * groups >> 32);
  }
  std::size_t group_of(std::uint64_t hash) const noexcept { return group_of(hash, groups_); }
  std::size_t group_after(std::size_t group) const noexcept { return group + 1 == groups_ ? 0 : group + 1; }
  static std::uint64_t tag_of(std::uint64_t hash) noexcept { return hash & 0x7f; }

  /// The top bit of each byte of `control` that equals `tag`; rarely also of a byte above such a byte.
  static std::uint64_t matches(std::uint64_t control, std::uint64_t tag) noexcept {
    const std::uint64_t different = control ^ (tag * kLowBits);
    return (different - kLowBits) & ~different & kTopBits;
  }
  /// The top bit of each byte that is kNeverUsed.
  static std::uint64_t never_used(std::uint64_t control) noexcept { return control & ~(control << 6) & kTopBits; }
  /// The entry of the lowest byte whose top bit is set in `marked`.
  static std::size_t entry_of(std::size_t group, std::uint64_t marked) noexcept {
    return group * kGroup + static_cast<std::size_t>(std::countr_zero(marked)) / 8;
  }
  std::uint8_t* control_byte(std::size_t entry) const noexcept {
    static_assert(std::endian::native == std::endian::little);
    return reinterpret_cast<std::uint8_t*>(control_) + entry;
  }

  /// At this load one group in eight is full, of a large table one in four.
  static std::size_t max_used(std::size_t groups) noexcept {
    return groups * kGroup / 8 * (groups < kLargeGroups ? 5 : 6);
  }
  static std::size_t next_size(std::size_t groups) noexcept {
    return groups < kLargeGroups ? groups * 2 : groups / 8 * 9;
  }

  Block& put(std::size_t entry, std::uint64_t hash) noexcept {
    std::uint8_t* const control = control_byte(entry);
    unused_left_ -= *control == kNeverUsed;
    *control = static_cast<std::uint8_t>(tag_of(hash));
    ++size_;
    return entries_[entry];
  }

  /// An empty table with this many groups.
  void clear(std::size_t groups) {
    resize(groups);
    std::memset(control_, kNeverUsed, groups * kGroup);
    unused_left_ = max_used(groups);
    size_ = 0;
  }

  /// Changes the number of groups. Their control bytes, and where entries belong, are not changed.
  void resize(std::size_t groups) {
    entry_memory_.resize(groups * kGroup * sizeof(Block));
    control_memory_.resize(groups * kGroup);
    entries_ = static_cast<Block*>(entry_memory_.begin());
    control_ = static_cast<std::uint64_t*>(control_memory_.begin());
    groups_ = groups;
  }

  /// Enlarges the table, or keeps its size when most used entries are tombstones. Goes from the last group to the
  /// first, so that the groups to which entries move have been emptied.
  [[gnu::noinline]] void rehash() {
    const std::size_t old_groups = groups_;
    const std::size_t groups = size_ > max_used(old_groups) / 8 * 7 ? next_size(old_groups) : old_groups;
    resize(groups);
    std::memset(control_ + old_groups, kNeverUsed, (groups - old_groups) * kGroup);
    size_ = 0;
    unused_left_ = max_used(groups);
    // Blocks that were put into a group after theirs, and now belong to one that has not been emptied.
    std::vector<Block> displaced;
    for (std::size_t group = old_groups; group-- != 0;) {
      Block blocks[kGroup];
      std::size_t count = 0;
      for (std::uint64_t used = ~control_[group] & kTopBits; used != 0; used &= used - 1)
        blocks[count++] = entries_[entry_of(group, used)];
      control_[group] = kNeverUsed * kLowBits;
      for (const Block* block = blocks; block != blocks + count; ++block)
        if (group_of(hash_of(block->address)) < group || !move_up(*block)) displaced.push_back(*block);
    }
    for (const Block& block : displaced) {
      bool fresh;
      insert(block.address, fresh) = block;
    }
  }

  /// Puts a block into its group or one after it, but not into the first one after the last. False: all are full.
  bool move_up(const Block& block) noexcept {
    const std::uint64_t hash = hash_of(block.address);
    for (std::size_t group = group_of(hash); group != groups_; ++group)
      if (const std::uint64_t free = control_[group] & kTopBits; free != 0) {
        put(entry_of(group, free), hash) = block;
        return true;
      }
    return false;
  }

  /// insert() where the first group may have the address, or has no unused entry.
  [[gnu::noinline]] Block& insert_from(std::size_t group, std::uint64_t address, std::uint64_t hash, bool& fresh) {
    std::size_t free_entry = kNoEntry;
    for (;; group = group_after(group)) {
      const std::uint64_t control = control_[group];
      for (std::uint64_t found = matches(control, tag_of(hash)); found != 0; found &= found - 1) {
        Block& block = entries_[entry_of(group, found)];
        if (block.address == address) [[likely]] {
          fresh = false;
          return block;
        }
      }
      if (const std::uint64_t free = control & kTopBits; free != 0 && free_entry == kNoEntry)
        free_entry = entry_of(group, free);
      if (never_used(control) != 0) return put(free_entry, hash);
    }
  }

  Block* lookup(std::uint64_t address, std::uint64_t hash) const noexcept {
    for (std::size_t group = group_of(hash);; group = group_after(group)) {
      const std::uint64_t control = control_[group];
      for (std::uint64_t found = matches(control, tag_of(hash)); found != 0; found &= found - 1) {
        Block& block = entries_[entry_of(group, found)];
        if (block.address == address) [[likely]]
          return &block;
      }
      if (never_used(control) != 0) [[likely]]
        return nullptr;
    }
  }

  GrowingMemory entry_memory_;
  GrowingMemory control_memory_;
  Block* entries_ = nullptr;
  std::uint64_t* control_ = nullptr;  // one word for each group
  std::size_t groups_ = 0;
  std::size_t size_ = 0;
  std::size_t unused_left_ = 0;
};

}  // namespace heapprof::replay
