#include "preload/recorder/call_tree/child_table.h"

#include "preload/sys/kernel.h"

namespace heapprof::recorder {

namespace {

constexpr std::uint32_t kMaxSlots = 1u << 29;

/// The low bits index the table, so they must depend on all input bits; that takes two rounds of multiply and shift.
inline std::uint64_t hash_of(std::uint32_t parent, std::uint64_t key) noexcept {
  std::uint64_t hash = (key ^ std::uint64_t{parent} << 32) * 0x9e3779b97f4a7c15;
  hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93;
  return hash ^ hash >> 32;
}

}  // namespace

NodeId ChildTable::find(NodeId parent, std::uint64_t key) const noexcept {
  const Table* const table = __atomic_load_n(&table_, __ATOMIC_ACQUIRE);
  if (table == nullptr) return NodeId::kNone;
  for (std::uint64_t at = hash_of(raw(parent), key);; ++at) {
    const Slot& slot = table->slots[at & table->mask];
    const std::uint64_t other = __atomic_load_n(&slot.key, __ATOMIC_RELAXED);
    if (other == 0) return NodeId::kNone;
    if (other != key) continue;
    const std::uint32_t id = __atomic_load_n(&slot.id, __ATOMIC_ACQUIRE);
    if (id != 0 && __atomic_load_n(&slot.parent, __ATOMIC_RELAXED) == raw(parent)) return NodeId{id};
  }
}

/// A table that could not be doubled is filled to 7/8: further nodes are not published, and are defined again each
/// time.
NodeId ChildTable::insert(NodeId parent, std::uint64_t key, NodeId id) noexcept {
  Table* table = __atomic_load_n(&table_, __ATOMIC_ACQUIRE);
  if (table == nullptr) [[unlikely]] {
    Table* const first = allocate_table(kFirstSlots);
    if (first == nullptr) return id;
    if (__atomic_compare_exchange_n(&table_, &table, first, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) table = first;
    else sys::unmap_private(first, table_bytes(kFirstSlots));
  }
  if (__atomic_load_n(&table->used, __ATOMIC_RELAXED) > table->mask / 8 * 5) {
    grow(table);
    table = __atomic_load_n(&table_, __ATOMIC_ACQUIRE);
  }
  if (__atomic_fetch_add(&table->used, 1, __ATOMIC_RELAXED) > table->mask - table->mask / 8) {
    __atomic_fetch_sub(&table->used, 1, __ATOMIC_RELAXED);
    return id;
  }
  for (std::uint64_t at = hash_of(raw(parent), key);; ++at) {
    Slot& slot = table->slots[at & table->mask];
    std::uint64_t other = __atomic_load_n(&slot.key, __ATOMIC_RELAXED);
    if (other == 0 &&
        __atomic_compare_exchange_n(&slot.key, &other, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      __atomic_store_n(&slot.parent, raw(parent), __ATOMIC_RELAXED);
      __atomic_store_n(&slot.id, raw(id), __ATOMIC_RELEASE);
      return id;
    }
    if (other != key) continue;
    const std::uint32_t first = __atomic_load_n(&slot.id, __ATOMIC_ACQUIRE);
    if (first != 0 && __atomic_load_n(&slot.parent, __ATOMIC_RELAXED) == raw(parent)) return NodeId{first};
  }
}

ChildTable::Table* ChildTable::allocate_table(std::uint32_t slots) noexcept {
  auto* table = static_cast<Table*>(sys::map_private(table_bytes(slots)));
  if (table == nullptr) return table;
  sys::populate(table, table_bytes(slots));
  table->mask = slots - 1;
  return table;
}

/// Doubles the table. One thread does it, while the others use the old table. If the table becomes 3/4 full
/// meanwhile, each new node costs a system call that checks whether that thread is alive; if it has died, another
/// thread doubles the table. At 7/8, where no node could be added, another thread does it in any case: a main thread
/// that has ended counts as alive while others run. growing_ only avoids needless work: the compare-and-swap of
/// table_ decides which thread's new table is used.
void ChildTable::grow(Table* full) noexcept {
  if (__atomic_load_n(&table_, __ATOMIC_ACQUIRE) != full || full->mask >= kMaxSlots) return;
  const int self = sys::thread_id();
  if (sys::failed(self)) return;  // system calls are forbidden: without a thread id, no other thread could take over
  int owner = 0;
  if (!__atomic_compare_exchange_n(&growing_, &owner, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    const std::uint32_t used = __atomic_load_n(&full->used, __ATOMIC_RELAXED);
    const bool has_no_room = used > full->mask - full->mask / 8;
    if (!has_no_room && (used <= full->mask / 4 * 3 || sys::thread_exists(owner))) return;
    if (!__atomic_compare_exchange_n(&growing_, &owner, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
  }
  if (__atomic_load_n(&table_, __ATOMIC_ACQUIRE) == full) {
    if (Table* larger = allocate_table((full->mask + 1) * 2)) {
      for (std::uint32_t from = 0; from <= full->mask; ++from) {
        const Slot& slot = full->slots[from];
        const std::uint32_t id = __atomic_load_n(&slot.id, __ATOMIC_ACQUIRE);
        if (id == 0) continue;
        // Atomic loads: another thread may have emptied the old table already (below), and late writers may refill
        // it.
        const std::uint64_t key = __atomic_load_n(&slot.key, __ATOMIC_RELAXED);
        const std::uint32_t parent = __atomic_load_n(&slot.parent, __ATOMIC_RELAXED);
        std::uint64_t to = hash_of(parent, key);
        while (larger->slots[to & larger->mask].key != 0) ++to;
        larger->slots[to & larger->mask] = {key, parent, id};
        ++larger->used;
      }
      Table* expected = full;
      if (__atomic_compare_exchange_n(&table_, &expected, larger, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        // Not the first page: its mask stays valid for threads that still read this table.
        constexpr std::size_t kPageBytes = 4096;
        sys::advise(reinterpret_cast<char*>(full) + kPageBytes, table_bytes(full->mask + 1) - kPageBytes,
                    MADV_DONTNEED);
      } else {
        sys::unmap_private(larger, table_bytes(larger->mask + 1));
      }
    }
  }
  recover_abandoned_growth(self);  // growing_ = 0: no thread doubles the table now
}

void ChildTable::recover_abandoned_growth(int thread) noexcept {
  __atomic_compare_exchange_n(&growing_, &thread, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

void ChildTable::reset() noexcept {
  if (table_ != nullptr) {
    sys::unmap_private(table_, table_bytes(table_->mask + 1));
    table_ = nullptr;
  }
  growing_ = 0;
}

}  // namespace heapprof::recorder
