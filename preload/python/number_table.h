// A hash table of numbers that grows, for any number of threads. Lookups and additions take no lock. One thread makes
// a table of twice the size and copies the numbers to it while the others use the old one; if that has little room
// left, they help to copy. An addition may be lost meanwhile, or when there is no memory: the caller then adds again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/sys/kernel.h"

namespace heapprof::python {

class NumberTable {
 public:
  static constexpr std::uint64_t kFirstSlots = 1u << 11;

  /// Returns the number that was stored for `key`, not 0, with this `check`; 0: there is none.
  std::uint32_t find(std::uint64_t key, std::uint32_t check) const noexcept {
    const Table* const table = __atomic_load_n(&table_, __ATOMIC_ACQUIRE);
    if (table == nullptr) return 0;
    for (std::uint64_t at = hash(key);; ++at) {
      const Slot& slot = table->slots[at & table->mask];
      const std::uint64_t other = __atomic_load_n(&slot.key, __ATOMIC_RELAXED);
      if (other == 0) return 0;
      if (other != key) continue;
      const std::uint64_t value = __atomic_load_n(&slot.value, __ATOMIC_ACQUIRE);
      return value >> 32 == check ? static_cast<std::uint32_t>(value) : 0;
    }
  }

  /// Stores `number`, not 0, for `key`. It replaces the number that was stored for `key` before, with any `check`.
  void store(std::uint64_t key, std::uint32_t check, std::uint32_t number) noexcept {
    Table* table = __atomic_load_n(&table_, __ATOMIC_ACQUIRE);
    if (table == nullptr) provide_table(&table_, kFirstSlots);
    else if (__atomic_load_n(&table->used, __ATOMIC_RELAXED) > table->mask / 8 * 5) grow(*table);
    table = __atomic_load_n(&table_, __ATOMIC_ACQUIRE);
    if (table != nullptr) put(*table, key, std::uint64_t{check} << 32 | number);
  }

  /// Removes everything. Call it while there is one thread.
  void reset() noexcept {
    if (table_ == nullptr) return;
    if (table_->larger != nullptr) sys::unmap_private(table_->larger, table_bytes((table_->mask + 1) * 2));
    sys::unmap_private(table_, table_bytes(table_->mask + 1));
    table_ = nullptr;
  }

  /// The most slots that find() reads for a number of the table, for tests.
  std::uint64_t longest_search() const noexcept {
    std::uint64_t longest = 0;
    for (std::uint64_t at = 0; table_ != nullptr && at <= table_->mask; ++at) {
      if (table_->slots[at].key == 0) continue;
      const std::uint64_t slots = ((at - hash(table_->slots[at].key)) & table_->mask) + 1;
      if (slots > longest) longest = slots;
    }
    return longest;
  }

  /// The size of the mapping of a table, for tests.
  static constexpr std::size_t table_bytes(std::uint64_t slots) noexcept {
    return offsetof(Table, slots) + slots * sizeof(Slot);
  }

 private:
  struct Slot {
    std::uint64_t key;    ///< 0: the slot is free
    std::uint64_t value;  ///< check and number
  };
  struct Table {
    std::uint64_t mask;
    std::uint64_t used;
    Table* larger;         ///< the table of twice the size that replaces this one; null: there is none yet
    std::uint64_t copied;  ///< the first slot of which no thread has begun to copy the number to the larger table
    Slot slots[1];         ///< mask + 1 elements
  };
  /// The slots that a thread copies to a larger table at a time. If it ends meanwhile, their numbers are lost.
  static constexpr std::uint64_t kCopiedSlots = 64;

  /// Its lower bits, as many as a table has, must depend on all bits of the key: those of one code object differ in
  /// the upper 16 only, in different interpreters.
  static constexpr std::uint64_t hash(std::uint64_t key) noexcept {
    return (key ^ key >> 32) * 0x9e3779b97f4a7c15 >> 32;
  }

  /// Makes `*place`, which was null, point to a new table. Returns false if another thread did that first, or if
  /// there is no memory. Pages are faulted in after that, so a table that is not used has none. Numbers are spread
  /// over all pages, and each page would be faulted in twice: a lookup reads it before a number is added.
  static bool provide_table(Table** place, std::uint64_t slots) noexcept {
    auto* const made = static_cast<Table*>(sys::map_private(table_bytes(slots)));
    if (made == nullptr) return false;
    made->mask = slots - 1;
    Table* other = nullptr;
    if (!__atomic_compare_exchange_n(place, &other, made, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
      sys::unmap_private(made, table_bytes(slots));
      return false;
    }
    sys::populate(made, table_bytes(slots));
    return true;
  }

  static void put(Table& table, std::uint64_t key, std::uint64_t value) noexcept {
    for (std::uint64_t at = hash(key);; ++at) {
      Slot& slot = table.slots[at & table.mask];
      std::uint64_t other = __atomic_load_n(&slot.key, __ATOMIC_RELAXED);
      if (other == 0) {
        // At least one slot stays free, so that every search ends.
        if (__atomic_fetch_add(&table.used, 1, __ATOMIC_RELAXED) >= table.mask - table.mask / 8) {
          __atomic_fetch_sub(&table.used, 1, __ATOMIC_RELAXED);
          return;
        }
        if (__atomic_compare_exchange_n(&slot.key, &other, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
          other = key;
        else __atomic_fetch_sub(&table.used, 1, __ATOMIC_RELAXED);
      }
      if (other != key) continue;
      __atomic_store_n(&slot.value, value, __ATOMIC_RELEASE);
      return;
    }
  }

  /// Doubles the table:
  ///   1. The thread whose larger table is the first one copies the numbers to it, kCopiedSlots slots at a time. The
  ///      others use the old table.
  ///   2. If the old table becomes 3/4 full meanwhile, because that thread is slow, has stopped, or has left the
  ///      recorder, each thread with an addition copies, too: slots that no thread has begun to copy.
  ///   3. The thread that finds none left replaces the table. It waits for no other thread: numbers that another one
  ///      has not copied yet are missing in the larger table.
  /// The old table stays mapped, because other threads may still read it.
  void grow(Table& full) noexcept {
    const bool is_urgent = __atomic_load_n(&full.used, __ATOMIC_RELAXED) > full.mask / 4 * 3;
    const bool has_larger = __atomic_load_n(&full.larger, __ATOMIC_RELAXED) != nullptr;
    const bool is_first = !has_larger && provide_table(&full.larger, (full.mask + 1) * 2);
    Table* const larger = __atomic_load_n(&full.larger, __ATOMIC_ACQUIRE);
    if (larger == nullptr || !(is_first || is_urgent)) return;
    while (__atomic_load_n(&full.copied, __ATOMIC_RELAXED) <= full.mask) {
      const std::uint64_t first = __atomic_fetch_add(&full.copied, kCopiedSlots, __ATOMIC_RELAXED);
      for (std::uint64_t at = first; at != first + kCopiedSlots && at <= full.mask; ++at) {
        const Slot& slot = full.slots[at];
        const std::uint64_t value = __atomic_load_n(&slot.value, __ATOMIC_ACQUIRE);
        if (value != 0) put(*larger, __atomic_load_n(&slot.key, __ATOMIC_RELAXED), value);
      }
    }
    Table* expected = &full;
    __atomic_compare_exchange_n(&table_, &expected, larger, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  }

  Table* table_ = nullptr;
};

}  // namespace heapprof::python
