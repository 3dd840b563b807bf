// The live blocks by address.
//
// Each lookup in a large table costs cache misses. But blocks that are close to each other are often allocated, and
// freed, one soon after the other. So the table's entries are clusters, the blocks within 1 KB of addresses:
//
//   one live block        it is the entry
//   several live blocks   they are in an array (block_arrays.h), in order of address; the entry says where
//
// Entries are found by open addressing in groups of eight, with a control byte for each in an array of its own, which
// a cache can hold (the idea of Abseil's Swiss tables). The replay prefetches control bytes and entries for the next
// events. docs/concepts/analysis.md#table-of-live-blocks describes growth, the use of memory, and the protection
// against addresses whose hashes were chosen.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "analyzer/base/count_bits.h"
#include "analyzer/base/mix_bits.h"
#include "analyzer/base/random_seed.h"
#include "analyzer/replay/block.h"
#include "analyzer/replay/block_arrays.h"
#include "analyzer/replay/growing_memory.h"

namespace heapprof::replay {

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

  /// The hash that the other functions take, of the address's cluster; a caller that prefetches computes it once.
  static std::uint64_t hash_of(std::uint64_t address) noexcept {
    return mix_bits(address >> 10 << 4 | (address & 15));
  }

  /// Prefetches the control bytes. Call it first, some events ahead.
  void prefetch_group(std::uint64_t hash) const noexcept {
    __builtin_prefetch(&control_[group_of(place_of(hash))], 1);
  }
  /// Prefetches the entry of the cluster, or the one that it will probably get, and returns which one that is. Call
  /// it some events after prefetch_group(). Has no branch that depends on the entry, because half of them would be
  /// mispredicted.
  std::size_t prefetch_entry(std::uint64_t hash) const noexcept {
    const std::uint64_t place = place_of(hash);
    const std::size_t group = group_of(place);
    const std::uint64_t control = control_[group];
    const std::uint64_t found = matches(control, tag_of(place));
    const std::uint64_t if_none = found == 0 ? ~std::uint64_t{0} : 0;
    const std::size_t entry = entry_of(group, found | (control & kTopBits & if_none) | kLastTopBit);
    __builtin_prefetch(&entries_[entry], 1);
    return entry;
  }
  /// Whether prefetch_block() is worth its time: the arrays do not fit into a cache of one core.
  bool has_many_arrays() const noexcept { return arrays_.all_blocks() > kManyBlocks; }
  /// Prefetches the block at `address`, or where it will probably be put. `entry`: what prefetch_entry() returned
  /// some events before, without a call of reset() since then.
  void prefetch_block(std::uint64_t address, std::size_t entry) const noexcept {
    __builtin_prefetch(expected_block(address, entry), 1);
  }
  /// The node of the block at `address` if it is where it is expected, else 0; any number if it was freed.
  /// `entry`: as for prefetch_block(), without which a block in an array may be a cache miss.
  std::uint32_t peek_node(std::uint64_t address, std::size_t entry) const noexcept {
    const Block& block = *expected_block(address, entry);
    return block.node & (block.address == address ? ~std::uint32_t{0} : 0);
  }

  /// The block at `address`, or null. The pointer is valid until the next insert(), find() or erase().
  Block* find(std::uint64_t address) { return find(address, hash_of(address)); }
  Block* find(std::uint64_t address, std::uint64_t hash) {
    const std::uint64_t place = place_of(hash);
    std::size_t entry = entry_with(address, place, kMaxProbed);
    if (entry == kTooFar) [[unlikely]]
      entry = look_further(address, place);
    return block_in(entry, address);
  }
  bool contains(std::uint64_t address) const noexcept {
    return block_in(entry_with(address, place_of(hash_of(address))), address) != nullptr;
  }

  /// Returns the block at `address`, and adds it if there is none (`fresh`); then only its address is set.
  Block& insert(std::uint64_t address, bool& fresh) { return insert(address, hash_of(address), fresh); }
  Block& insert(std::uint64_t address, std::uint64_t hash, bool& fresh) {
    if (unused_left_ == 0) [[unlikely]]
      rehash();
    const std::uint64_t place = place_of(hash);
    const std::size_t group = group_of(place);
    const std::uint64_t control = control_[group];
    fresh = true;
    Block* block;
    if (matches(control, tag_of(place)) == 0 && never_used(control) != 0)
      block = &put(entry_of(group, control & kTopBits), place, kIsBlock);
    else block = &insert_from(address, place, fresh);
    size_ += fresh;
    block->address = address;
    return *block;
  }

  /// Removes a block that find() or insert() returned.
  void erase(Block* block) noexcept { erase(block, hash_of(block->address)); }
  void erase(Block* block, std::uint64_t hash) noexcept {
    --size_;
    const std::uintptr_t bytes = reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(entries_);
    if (bytes < groups_ * kGroup * sizeof(Block)) erase_entry(bytes / sizeof(Block));
    else erase_from_array(*block, place_of(hash));
  }

  /// Removes all blocks and makes room for `blocks`, if most of them are close to others: if not, the table grows.
  void reset(std::size_t blocks) {
    std::size_t groups = kMinGroups;
    while (max_used(groups) < blocks / kUsualClusterSize) groups = next_size(groups);
    clear(groups);
  }

  /// How many groups find(address) loads, for tests.
  std::size_t groups_probed(std::uint64_t address) const noexcept {
    const std::uint64_t place = place_of(hash_of(address));
    std::size_t probed = 1;
    while (entry_with(address, place, probed) == kTooFar) ++probed;
    return probed;
  }
  /// For tests.
  std::size_t entries() const noexcept { return used_entries_; }
  std::size_t entry_capacity() const noexcept { return groups_ * kGroup; }
  const BlockArrays& arrays() const noexcept { return arrays_; }

  /// Calls visit(Block&), which does not change the address.
  template <typename Visit>
  void for_each_entry(Visit&& visit) {
    for_each([&](const Block& block) { visit(const_cast<Block&>(block)); });
  }
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t entry = 0; entry < groups_ * kGroup; ++entry) {
      if ((*control_byte(entry) & 0x80) != 0) continue;
      if (!is_cluster(entry)) {
        visit(static_cast<const Block&>(entries_[entry]));
        continue;
      }
      const Cluster cluster(entries_[entry]);
      const Block* block = arrays_.at(cluster.array());
      for (std::uint64_t elements = cluster.elements(); elements != 0; elements &= elements - 1, ++block)
        if ((cluster.live() & lowest_bit(elements)) != 0) visit(*block);
    }
  }

  void swap(BlockTable& other) noexcept {
    entry_memory_.swap(other.entry_memory_);
    control_memory_.swap(other.control_memory_);
    std::swap(entries_, other.entries_);
    std::swap(control_, other.control_);
    arrays_.swap(other.arrays_);
    std::swap(groups_, other.groups_);
    std::swap(size_, other.size_);
    std::swap(used_entries_, other.used_entries_);
    std::swap(unused_left_, other.unused_left_);
    std::swap(seed_, other.seed_);
  }

 private:
  static constexpr std::size_t kGroup = 8;
  static constexpr std::size_t kMinGroups = 1 << 9;
  static constexpr std::size_t kLargeGroups = 1 << 18;  // 69 MB
  static constexpr std::size_t kUsualClusterSize = 16;  // of small blocks
  static constexpr std::size_t kManyBlocks = 1 << 14;   // 512 KB
  static constexpr std::size_t kNoEntry = ~std::size_t{0};
  static constexpr std::size_t kTooFar = kNoEntry - 1;
  /// Groups that one operation loads before the hashes are taken for chosen ones. By chance it is more in one of 10^9
  /// tables of a billion entries.
  static constexpr std::size_t kMaxProbed = 128;
  // Control bytes. Of an entry in use: its kind, and the tag, which is the lowest 6 bits of the hash.
  static constexpr std::uint8_t kIsBlock = 0;
  static constexpr std::uint8_t kIsCluster = 0x40;
  static constexpr std::uint8_t kNeverUsed = 0x80;  // since the last rehash
  static constexpr std::uint8_t kUsed = 0xfe;       // free, but was used: a tombstone
  static constexpr std::uint64_t kTopBits = 0x8080808080808080;
  static constexpr std::uint64_t kLastTopBit = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kLowBits = 0x0101010101010101;

  /// An entry that is not a block: its fields say where the blocks of a cluster are. Its address is that of the
  /// cluster, whose cell bits are 0.
  ///
  ///   elements   the cells of the blocks in the array, which are in this order
  ///   live       the cells of live blocks; other elements were freed, and are kept for the next block at the address
  ///   live_count <= element_count <= capacity
  class Cluster {
   public:
    explicit Cluster(Block& entry) noexcept : entry_(entry) {}
    std::uint64_t& elements() const noexcept { return entry_.size; }
    std::uint64_t& live() const noexcept { return entry_.time; }
    BlockArrays::Index& array() const noexcept { return entry_.node; }
    std::uint32_t capacity_class() const noexcept { return entry_.thread & 0xff; }
    std::uint32_t capacity() const noexcept { return kArrayCapacities[capacity_class()]; }
    std::uint32_t element_count() const noexcept { return entry_.thread >> 8 & 0xff; }
    std::uint32_t live_count() const noexcept { return entry_.thread >> 16; }
    void set(std::uint32_t capacity_class, std::uint32_t element_count, std::uint32_t live_count) const noexcept {
      entry_.thread = capacity_class | element_count << 8 | live_count << 16;
    }
    void add_live() const noexcept { entry_.thread += 1u << 16; }
    void remove_live() const noexcept { entry_.thread -= 1u << 16; }

   private:
    Block& entry_;
  };

  /// The bits of an address that distinguish the blocks of a cluster: the number of a cell of 16 bytes. The lowest
  /// four bits do not: of blocks that a compacted trace numbers consecutively, each sixteenth is in the same cluster.
  static constexpr std::uint64_t kCellBits = 0x3f0;
  static std::uint64_t cell_of(std::uint64_t address) noexcept { return std::uint64_t{1} << (address >> 4 & 63); }
  static bool are_in_one_cluster(std::uint64_t a, std::uint64_t b) noexcept { return ((a ^ b) & ~kCellBits) == 0; }
  static std::uint64_t lowest_bit(std::uint64_t number) noexcept { return number & (0 - number); }

  /// The number that decides in which group a cluster is, and its tag: the hash, until spread() was called.
  std::uint64_t place_of(std::uint64_t hash) const noexcept {
    if (seed_ != 0) [[unlikely]]
      return mix_bits(seed_ + mix_bits(seed_ ^ hash));
    return hash;
  }
  // The group is the upper half of the place, as a fraction of 2^32, times the number of groups (less than 2^32).
  std::size_t group_of(std::uint64_t place) const noexcept {
    return static_cast<std::size_t>((place >> 32) * groups_ >> 32);
  }
  std::size_t group_after(std::size_t group) const noexcept { return group + 1 == groups_ ? 0 : group + 1; }
  static std::uint64_t tag_of(std::uint64_t place) noexcept { return place & 0x3f; }

  /// The top bit of each byte of `control` that has `tag`; rarely also of a byte in use above such a byte.
  static std::uint64_t matches(std::uint64_t control, std::uint64_t tag) noexcept {
    const std::uint64_t different = (control & ~(kIsCluster * kLowBits)) ^ (tag * kLowBits);
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

  bool is_cluster(std::size_t entry) const noexcept { return (*control_byte(entry) & 0xc0) == kIsCluster; }

  /// At this load one group in eight is full, of a large table one in four.
  static std::size_t max_used(std::size_t groups) noexcept {
    return groups * kGroup / 8 * (groups < kLargeGroups ? 5 : 6);
  }
  static std::size_t next_size(std::size_t groups) noexcept {
    return groups < kLargeGroups ? groups * 2 : groups / 8 * 9;
  }

  Block& put(std::size_t entry, std::uint64_t place, std::uint8_t kind) noexcept {
    std::uint8_t* const control = control_byte(entry);
    unused_left_ -= *control == kNeverUsed;
    *control = static_cast<std::uint8_t>(kind | tag_of(place));
    ++used_entries_;
    return entries_[entry];
  }

  void erase_entry(std::size_t entry) noexcept {
    const bool was_never_full = never_used(control_[entry / kGroup]) != 0;
    *control_byte(entry) = was_never_full ? kNeverUsed : kUsed;
    unused_left_ += was_never_full;
    --used_entries_;
  }

  /// An empty table with this many groups.
  void clear(std::size_t groups) {
    resize(groups);
    std::memset(control_, kNeverUsed, groups * kGroup);
    arrays_.clear();
    unused_left_ = max_used(groups);
    size_ = used_entries_ = 0;
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
    struct Moved {
      Block entry;
      std::uint8_t kind = kIsBlock;
    };
    const std::size_t old_groups = groups_;
    const std::size_t groups = used_entries_ > max_used(old_groups) / 8 * 7 ? next_size(old_groups) : old_groups;
    resize(groups);
    std::memset(control_ + old_groups, kNeverUsed, (groups - old_groups) * kGroup);
    used_entries_ = 0;
    unused_left_ = max_used(groups);
    // Entries that were put into a group after theirs, and now belong to one that has not been emptied.
    std::vector<Moved> displaced;
    for (std::size_t group = old_groups; group-- != 0;) {
      Moved moved[kGroup];
      std::size_t count = 0;
      for (std::uint64_t used = ~control_[group] & kTopBits; used != 0; used &= used - 1) {
        const std::size_t entry = entry_of(group, used);
        moved[count++] = {entries_[entry], is_cluster(entry) ? kIsCluster : kIsBlock};
      }
      control_[group] = kNeverUsed * kLowBits;
      for (const Moved* one = moved; one != moved + count; ++one)
        if (group_of(place_of(hash_of(one->entry.address))) < group || !move_up(one->entry, one->kind))
          displaced.push_back(*one);
    }
    for (const Moved& one : displaced) put_anywhere(one.entry, one.kind);
  }

  /// Puts an entry into its group or one after it.
  void put_anywhere(const Block& entry, std::uint8_t kind) noexcept {
    const std::uint64_t place = place_of(hash_of(entry.address));
    std::size_t group = group_of(place);
    while ((control_[group] & kTopBits) == 0) group = group_after(group);
    put(entry_of(group, control_[group] & kTopBits), place, kind) = entry;
  }

  /// Moves all entries to groups that nobody can know beforehand. Without it, a recording whose addresses were chosen
  /// so that their hashes have equal upper bits would make each operation load most of the table. Tables of other
  /// recordings are never spread: the order of their blocks is the same in each run.
  [[gnu::noinline]] void spread() {
    GrowingMemory entry_memory, control_memory;
    entry_memory.resize(groups_ * kGroup * sizeof(Block));
    control_memory.resize(groups_ * kGroup);
    const Block* const old_entries = entries_;
    const auto* const old_control = reinterpret_cast<const std::uint8_t*>(control_);
    entry_memory_.swap(entry_memory);
    control_memory_.swap(control_memory);
    entries_ = static_cast<Block*>(entry_memory_.begin());
    control_ = static_cast<std::uint64_t*>(control_memory_.begin());
    std::memset(control_, kNeverUsed, groups_ * kGroup);
    seed_ = random_seed();
    used_entries_ = 0;
    unused_left_ = max_used(groups_);
    for (std::size_t entry = 0; entry < groups_ * kGroup; ++entry)
      if ((old_control[entry] & 0x80) == 0)
        put_anywhere(old_entries[entry], static_cast<std::uint8_t>(old_control[entry] & kIsCluster));
  }

  /// Puts an entry into its group or one after it, but not into the first one after the last. False: all are full.
  bool move_up(const Block& entry, std::uint8_t kind) noexcept {
    const std::uint64_t place = place_of(hash_of(entry.address));
    for (std::size_t group = group_of(place); group != groups_; ++group)
      if (const std::uint64_t free = control_[group] & kTopBits; free != 0) {
        put(entry_of(group, free), place, kind) = entry;
        return true;
      }
    return false;
  }

  /// insert() where the first group may have the cluster, or has no unused entry. Precondition: `fresh`.
  [[gnu::noinline]] Block& insert_from(std::uint64_t address, std::uint64_t place, bool& fresh) {
    std::size_t free_entry = kNoEntry;
    std::size_t probed = 0;
    for (std::size_t group = group_of(place);; group = group_after(group)) {
      const std::uint64_t control = control_[group];
      for (std::uint64_t found = matches(control, tag_of(place)); found != 0; found &= found - 1) {
        const std::size_t entry = entry_of(group, found);
        if (are_in_one_cluster(entries_[entry].address, address)) [[likely]]
          return insert_into(entry, address, fresh);
      }
      if (const std::uint64_t free = control & kTopBits; free != 0 && free_entry == kNoEntry)
        free_entry = entry_of(group, free);
      if (never_used(control) != 0) return put(free_entry, place, kIsBlock);
      if (++probed == kMaxProbed && seed_ == 0) [[unlikely]] {
        spread();
        return insert_from(address, place_of(hash_of(address)), fresh);
      }
    }
  }

  /// insert() where the entry is of the address's cluster.
  Block& insert_into(std::size_t entry, std::uint64_t address, bool& fresh) {
    if (!is_cluster(entry)) {
      if (entries_[entry].address == address) {
        fresh = false;
        return entries_[entry];
      }
      make_cluster(entry);
    }
    const Cluster cluster(entries_[entry]);
    const std::uint64_t cell = cell_of(address);
    fresh = (cluster.live() & cell) == 0;
    if (fresh) {
      if ((cluster.elements() & cell) == 0) add_element(cluster, cell);
      cluster.live() |= cell;
      cluster.add_live();
    }
    return *element_of(cluster, cell);
  }

  void make_cluster(std::size_t entry) {
    const BlockArrays::Index array = allocate_array(0);
    Block& block = entries_[entry];
    *arrays_.at(array) = block;
    const std::uint64_t cell = cell_of(block.address);
    block.address &= ~kCellBits;
    const Cluster cluster(block);
    cluster.elements() = cluster.live() = cell;
    cluster.array() = array;
    cluster.set(0, 1, 1);
    *control_byte(entry) |= kIsCluster;
  }

  /// Adds an element for a cell. The caller sets its fields.
  void add_element(const Cluster& cluster, std::uint64_t cell) {
    if (cluster.element_count() == cluster.capacity()) make_room(cluster);
    const std::uint32_t count = cluster.element_count();
    Block* const array = arrays_.at(cluster.array());
    std::copy_backward(array + count_bits(cluster.elements() & (cell - 1)), array + count, array + count + 1);
    cluster.elements() |= cell;
    cluster.set(cluster.capacity_class(), count + 1, cluster.live_count());
  }

  /// Removes freed elements from a full array, or gives it a larger capacity if there are none.
  void make_room(const Cluster& cluster) {
    const std::uint32_t old_class = cluster.capacity_class();
    const std::uint32_t capacity_class = kArrayClasses[cluster.live_count() + 1];
    if (capacity_class <= old_class) return keep_live(cluster, old_class);
    const BlockArrays::Index array = allocate_array(capacity_class);
    const BlockArrays::Index old_array = cluster.array();  // allocate_array() may have moved it
    std::copy(arrays_.at(old_array), arrays_.at(old_array) + cluster.element_count(), arrays_.at(array));
    arrays_.free(old_array, old_class);
    cluster.array() = array;
    cluster.set(capacity_class, cluster.element_count(), cluster.live_count());
  }

  /// Removes freed elements, and gives the array a capacity that is not greater.
  void keep_live(const Cluster& cluster, std::uint32_t capacity_class) noexcept {
    const Block* from = arrays_.at(cluster.array());
    Block* to = arrays_.at(cluster.array());
    for (std::uint64_t elements = cluster.elements(); elements != 0; elements &= elements - 1, ++from)
      if ((cluster.live() & lowest_bit(elements)) != 0) *to++ = *from;
    arrays_.shrink(cluster.array(), cluster.capacity_class(), capacity_class);
    cluster.elements() = cluster.live();
    cluster.set(capacity_class, cluster.live_count(), cluster.live_count());
  }

  /// A block that becomes the only one of its cluster becomes the entry. An array that becomes half empty shrinks.
  [[gnu::noinline]] void erase_from_array(const Block& block, std::uint64_t place) noexcept {
    const std::size_t entry = entry_with(block.address, place);
    const Cluster cluster(entries_[entry]);
    cluster.live() &= ~cell_of(block.address);
    cluster.remove_live();
    const std::uint32_t live = cluster.live_count();
    if (live == 1) {
      const Block left = *element_of(cluster, cluster.live());
      arrays_.free(cluster.array(), cluster.capacity_class());
      entries_[entry] = left;
      *control_byte(entry) &= static_cast<std::uint8_t>(~kIsCluster);
    } else if (live * 2 <= cluster.capacity() && kArrayClasses[live + 1] < cluster.capacity_class()) {
      keep_live(cluster, kArrayClasses[live + 1]);
    }
  }

  /// Moves all arrays together first when many are unused, but not so often that visiting all groups takes long.
  BlockArrays::Index allocate_array(std::uint32_t capacity_class) {
    if (!arrays_.has_free(capacity_class) && arrays_.unused_blocks() > arrays_.all_blocks() / 4 &&
        arrays_.unused_blocks() > groups_) [[unlikely]]
      pack_arrays();
    return arrays_.allocate(capacity_class);
  }

  [[gnu::noinline]] void pack_arrays() {
    struct Found {
      BlockArrays::Index array;  // beside the pointer, so that sorting does not read all entries again and again
      Block* entry;
    };
    std::vector<Found> clusters;
    for (std::size_t group = 0; group < groups_; ++group)
      for (std::uint64_t found = (control_[group] << 1) & ~control_[group] & kTopBits; found != 0;
           found &= found - 1) {
        Block& entry = entries_[entry_of(group, found)];
        clusters.push_back({Cluster(entry).array(), &entry});
      }
    std::sort(clusters.begin(), clusters.end(), [](const Found& a, const Found& b) { return a.array < b.array; });
    arrays_.begin_packing();
    for (const Found& found : clusters) {
      const Cluster cluster(*found.entry);
      cluster.array() = arrays_.pack(found.array, cluster.capacity_class());
    }
  }

  /// Precondition: the cell has an element.
  Block* element_of(const Cluster& cluster, std::uint64_t cell) const noexcept {
    return arrays_.at(std::size_t{cluster.array()} + count_bits(cluster.elements() & (cell - 1)));
  }

  /// The entry of the address's cluster, or kNoEntry; kTooFar: neither was found in the first `max_groups`.
  std::size_t entry_with(std::uint64_t address, std::uint64_t place,
                         std::size_t max_groups = ~std::size_t{0}) const noexcept {
    for (std::size_t group = group_of(place);; group = group_after(group)) {
      const std::uint64_t control = control_[group];
      for (std::uint64_t found = matches(control, tag_of(place)); found != 0; found &= found - 1) {
        const std::size_t entry = entry_of(group, found);
        if (are_in_one_cluster(entries_[entry].address, address)) [[likely]]
          return entry;
      }
      if (never_used(control) != 0) [[likely]]
        return kNoEntry;
      if (--max_groups == 0) [[unlikely]]
        return kTooFar;
    }
  }

  /// entry_with() where it is not in the first kMaxProbed groups.
  [[gnu::noinline]] std::size_t look_further(std::uint64_t address, std::uint64_t place) {
    if (seed_ == 0) {
      spread();
      place = place_of(hash_of(address));
    }
    return entry_with(address, place);
  }

  /// The block at `address`, or null. `entry`: that of its cluster, or kNoEntry.
  Block* block_in(std::size_t entry, std::uint64_t address) const noexcept {
    if (entry == kNoEntry) return nullptr;
    if (!is_cluster(entry)) return entries_[entry].address == address ? &entries_[entry] : nullptr;
    const Cluster cluster(entries_[entry]);
    const std::uint64_t cell = cell_of(address);
    return (cluster.live() & cell) != 0 ? element_of(cluster, cell) : nullptr;
  }

  /// Where the block at `address` is, or will be, if the entry is of its cluster, else any block. Has no branch, like
  /// prefetch_entry().
  const Block* expected_block(std::uint64_t address, std::size_t entry) const noexcept {
    const Cluster cluster(entries_[entry]);
    const std::uint64_t position = count_bits(cluster.elements() & (cell_of(address) - 1));
    const std::uint64_t index = cluster.array() + position;
    const auto in_entries = reinterpret_cast<std::uintptr_t>(&entries_[entry]);
    const std::uintptr_t in_arrays = reinterpret_cast<std::uintptr_t>(arrays_.at(0)) + index * sizeof(Block);
    const std::uintptr_t if_cluster = is_cluster(entry) ? ~std::uintptr_t{0} : 0;
    return reinterpret_cast<const Block*>(in_entries ^ ((in_entries ^ in_arrays) & if_cluster));
  }

  GrowingMemory entry_memory_;
  GrowingMemory control_memory_;
  BlockArrays arrays_;
  Block* entries_ = nullptr;
  std::uint64_t* control_ = nullptr;  // one word for each group
  std::size_t groups_ = 0;
  std::size_t size_ = 0;          // blocks
  std::size_t used_entries_ = 0;  // blocks and clusters
  std::size_t unused_left_ = 0;   // entries
  std::uint64_t seed_ = 0;        // of place_of(); 0: spread() was not called
};

}  // namespace heapprof::replay
