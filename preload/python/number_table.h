// A hash table of numbers that grows, for any number of threads. Lookups and additions take no lock. An addition may
// be lost while another thread doubles the table, or when there is no memory: the caller then adds again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/sys/kernel.h"

namespace heapprof::python {

class NumberTable {
 public:
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
    Table* const table = table_with_room();
    if (table != nullptr) put(*table, key, std::uint64_t{check} << 32 | number);
  }

  /// Removes everything. Call it while there is one thread.
  void reset() noexcept {
    if (table_ != nullptr) sys::unmap_private(table_, table_bytes(table_->mask + 1));
    table_ = nullptr;
  }

 private:
  struct Slot {
    std::uint64_t key;    ///< 0: the slot is free
    std::uint64_t value;  ///< check and number
  };
  struct Table {
    std::uint64_t mask;
    std::uint64_t used;
    Slot slots[1];  ///< mask + 1 elements
  };
  static constexpr std::uint64_t kFirstSlots = 1u << 11;

  static constexpr std::size_t table_bytes(std::uint64_t slots) noexcept {
    return offsetof(Table, slots) + slots * sizeof(Slot);
  }
  static constexpr std::uint64_t hash(std::uint64_t key) noexcept { return key * 0x9e3779b97f4a7c15 >> 32; }

  static Table* allocate(std::uint64_t slots) noexcept {
    auto* const table = static_cast<Table*>(sys::map_private(table_bytes(slots)));
    if (table != nullptr) table->mask = slots - 1;
    return table;
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
      }
      if (other != key) continue;
      __atomic_store_n(&slot.value, value, __ATOMIC_RELEASE);
      return;
    }
  }

  /// The table, doubled if it is more than 5/8 full; null: there is no memory. Another thread may double it too: then
  /// one of the two new tables is used. The old table stays mapped, because other threads may still read it.
  Table* table_with_room() noexcept {
    Table* table = __atomic_load_n(&table_, __ATOMIC_ACQUIRE);
    if (table != nullptr && __atomic_load_n(&table->used, __ATOMIC_RELAXED) <= table->mask / 8 * 5) return table;
    const std::uint64_t slots = table == nullptr ? kFirstSlots : (table->mask + 1) * 2;
    Table* const larger = allocate(slots);
    if (larger == nullptr) return table;
    if (table != nullptr) {
      for (std::uint64_t i = 0; i <= table->mask; ++i) {
        const Slot& slot = table->slots[i];
        const std::uint64_t value = __atomic_load_n(&slot.value, __ATOMIC_ACQUIRE);
        if (value != 0) put(*larger, __atomic_load_n(&slot.key, __ATOMIC_RELAXED), value);
      }
    }
    if (__atomic_compare_exchange_n(&table_, &table, larger, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      return larger;
    sys::unmap_private(larger, table_bytes(slots));
    return table;
  }

  Table* table_ = nullptr;
};

}  // namespace heapprof::python
