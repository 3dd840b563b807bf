#include "preload/recorder/call_tree/child_table.h"

#include <sys/auxv.h>

#include "preload/sys/kernel.h"

namespace heapprof::recorder {

namespace {

constexpr std::uint32_t kMaxSlots = 1u << 29;
/// The slots that a thread moves to a larger table at a time. If the thread ends meanwhile, their nodes are defined
/// again.
constexpr std::uint32_t kMovedSlots = 64;
static_assert(ChildTable::kFirstSlots % kMovedSlots == 0);
/// That of aarch64, where pages have 4, 16 or 64 KB.
constexpr std::size_t kMaxPageBytes = 1u << 16;
static_assert(ChildTable::table_bytes(ChildTable::kFirstSlots) > kMaxPageBytes);

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
    const std::uint64_t other = __atomic_load_n(&slot.key, __ATOMIC_ACQUIRE);
    if (other == 0) return NodeId::kNone;
    if (other == key)
      if (const std::uint32_t id = id_in(slot, parent); id != 0 && is_current(table)) return NodeId{id};
  }
}

NodeId ChildTable::insert(NodeId parent, std::uint64_t key, NodeId id) noexcept {
  Table* table = __atomic_load_n(&table_, __ATOMIC_ACQUIRE);
  if (table == nullptr) [[unlikely]] {
    table = provide_table(&table_, kFirstSlots);
    if (table == nullptr) return id;
  }
  if (__atomic_load_n(&table->used, __ATOMIC_RELAXED) > table->mask / 8 * 5) {
    grow(table);
    table = __atomic_load_n(&table_, __ATOMIC_ACQUIRE);
  }
  return put(*table, parent, key, id);
}

/// A table that could not be doubled is filled to 7/8, so that every search ends. Further nodes are not published,
/// and are defined again each time.
NodeId ChildTable::put(Table& table, NodeId parent, std::uint64_t key, NodeId id) noexcept {
  if (__atomic_fetch_add(&table.used, 1, __ATOMIC_RELAXED) > table.mask - table.mask / 8) {
    __atomic_fetch_sub(&table.used, 1, __ATOMIC_RELAXED);
    return id;
  }
  for (std::uint64_t at = hash_of(raw(parent), key);; ++at) {
    Slot& slot = table.slots[at & table.mask];
    std::uint64_t other = __atomic_load_n(&slot.key, __ATOMIC_ACQUIRE);
    if (other == 0 &&
        __atomic_compare_exchange_n(&slot.key, &other, key, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
      __atomic_store_n(&slot.parent, raw(parent), __ATOMIC_RELAXED);
      __atomic_store_n(&slot.id, raw(id), __ATOMIC_RELEASE);
      return id;
    }
    if (other == key)
      if (const std::uint32_t first = id_in(slot, parent); first != 0 && is_current(&table)) return NodeId{first};
  }
}

/// The published node of a slot with the key that is searched, if it is a child of `parent`; 0: it is not.
std::uint32_t ChildTable::id_in(const Slot& slot, NodeId parent) noexcept {
  const std::uint32_t id = __atomic_load_n(&slot.id, __ATOMIC_ACQUIRE);
  return id != 0 && __atomic_load_n(&slot.parent, __ATOMIC_ACQUIRE) == raw(parent) ? id : 0;
}

/// Whether the words that were read from a slot of `table` (by loads with __ATOMIC_ACQUIRE, so that this load is the
/// last) are those of one node. The pages of a table that was replaced are freed, and threads that still have it put
/// other nodes there.
bool ChildTable::is_current(const Table* table) const noexcept {
  return __atomic_load_n(&table_, __ATOMIC_RELAXED) == table;
}

/// Makes `*place`, which was null, point to a new table, unless another thread does that first. Returns the table to
/// which it points; null: there is no memory. Pages are faulted in after that, so a table that is not used has none.
ChildTable::Table* ChildTable::provide_table(Table** place, std::uint32_t slots) noexcept {
  auto* const made = static_cast<Table*>(sys::map_private(table_bytes(slots)));
  if (made == nullptr) return __atomic_load_n(place, __ATOMIC_ACQUIRE);
  made->mask = slots - 1;
  Table* other = nullptr;
  if (!__atomic_compare_exchange_n(place, &other, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    sys::unmap_private(made, table_bytes(slots));
    return other;
  }
  sys::populate(made, table_bytes(slots));
  return made;
}

/// Doubles the table:
///   1. One thread makes the larger table, and moves the nodes, kMovedSlots slots at a time. The others use the old
///      table.
///   2. If the old table becomes 3/4 full meanwhile, because that thread is slow, has stopped, or has left the
///      recorder, each thread with a new node moves slots, too: those that no thread has begun to move.
///   3. The thread that finds none left replaces the table. It waits for no other thread: nodes that another one has
///      not moved yet are missing in the larger table.
/// Two threads can only make a larger table at once if the first one has not published its own when the old one is
/// 3/4 full.
void ChildTable::grow(Table* full) noexcept {
  if (full->mask >= kMaxSlots) return;
  const bool is_urgent = __atomic_load_n(&full->used, __ATOMIC_RELAXED) > full->mask / 4 * 3;
  Table* larger = __atomic_load_n(&full->larger, __ATOMIC_ACQUIRE);
  if (larger == nullptr) {
    if (__atomic_exchange_n(&full->claimed, 1, __ATOMIC_RELAXED) != 0 && !is_urgent) return;
    larger = provide_table(&full->larger, (full->mask + 1) * 2);
    if (larger == nullptr) {
      __atomic_store_n(&full->claimed, 0, __ATOMIC_RELAXED);
      return;
    }
  } else if (!is_urgent) {
    return;
  }
  while (__atomic_load_n(&full->moved, __ATOMIC_RELAXED) <= full->mask) {
    const std::uint32_t first = __atomic_fetch_add(&full->moved, kMovedSlots, __ATOMIC_RELAXED);
    if (first <= full->mask && !move(*full, first, *larger)) return;
  }
  Table* expected = full;
  if (!__atomic_compare_exchange_n(&table_, &expected, larger, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return;
  // Not the first page: its mask stays valid for threads that still read this table.
  const std::size_t page_bytes = getauxval(AT_PAGESZ);
  sys::advise(reinterpret_cast<char*>(full) + page_bytes, table_bytes(full->mask + 1) - page_bytes, MADV_DONTNEED);
}

/// Moves the nodes of kMovedSlots slots. Returns false if another thread has replaced `full` meanwhile.
bool ChildTable::move(const Table& full, std::uint32_t first, Table& larger) noexcept {
  for (std::uint32_t at = first; at != first + kMovedSlots; ++at) {
    const Slot& slot = full.slots[at];
    const std::uint32_t id = __atomic_load_n(&slot.id, __ATOMIC_ACQUIRE);
    if (id == 0) continue;
    const std::uint64_t key = __atomic_load_n(&slot.key, __ATOMIC_ACQUIRE);
    const std::uint32_t parent = __atomic_load_n(&slot.parent, __ATOMIC_ACQUIRE);
    if (!is_current(&full)) return false;
    put(larger, NodeId{parent}, key, NodeId{id});
  }
  return true;
}

void ChildTable::reset() noexcept {
  if (table_ == nullptr) return;
  if (table_->larger != nullptr) sys::unmap_private(table_->larger, table_bytes((table_->mask + 1) * 2));
  sys::unmap_private(table_, table_bytes(table_->mask + 1));
  table_ = nullptr;
}

}  // namespace heapprof::recorder
