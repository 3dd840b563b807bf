#include "preload/recorder/call_tree/call_tree.h"

#include "preload/recorder/trace/stream.h"
#include "preload/sys/kernel.h"

namespace heapprof::recorder {

constinit CallTree g_call_tree;

namespace {

/// Module, offset and flag of a node in one word, from the highest bit:
///   anonymous code   1, the flag, 62 bits of offset (the address)
///   modules          0, the flag, 16 bits of module, 46 bits of offset
/// The result is 0 if the values exceed these bits, which no file that a linker wrote causes. Such a node is not in
/// the table; it is defined again each time.
constexpr std::uint64_t key_of(ModuleId module, std::uint64_t offset, std::uint32_t flags) noexcept {
  static_assert(kNodeByFramePointer == 1);
  const std::uint64_t flag = std::uint64_t{flags & kNodeByFramePointer} << 62;
  if (module == ModuleId::kAnonymous) return offset >> 62 != 0 ? 0 : std::uint64_t{1} << 63 | flag | offset;
  if (offset >> 46 != 0 || raw(module) >> 16 != 0) return 0;
  return flag | std::uint64_t{raw(module)} << 46 | offset;
}

}  // namespace

NodeId CallTree::intern(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags, std::uint64_t path,
                        Stream& stream) noexcept {
  const std::uint64_t key = key_of(module, offset, flags);
  Table* table = __atomic_load_n(&table_, __ATOMIC_ACQUIRE);
  if (table == nullptr) [[unlikely]] {
    Table* first = allocate_table(kFirstTableSlots);
    if (first == nullptr) return NodeId::kNone;
    if (!__atomic_compare_exchange_n(&table_, &table, first, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      sys::unmap_private(first, table_bytes(kFirstTableSlots));
    else table = first;
  }
  if (key != 0) [[likely]]
    if (const NodeId found = find(*table, path, key, parent); found != NodeId::kNone) [[likely]]
      return found;

  const NodeId id = allocate_id(path);
  if (id == NodeId::kNone || !stream.define_node(id, parent, module, offset, flags)) return NodeId::kNone;
  if (key == 0) [[unlikely]]
    return id;
  if (__atomic_load_n(&table->used, __ATOMIC_RELAXED) > table->mask / 8 * 5) grow(table);
  return insert(*__atomic_load_n(&table_, __ATOMIC_ACQUIRE), path, key, parent, id);
}

NodeId CallTree::find(const Table& table, std::uint64_t path, std::uint64_t key, NodeId parent) noexcept {
  for (std::uint64_t at = path;; ++at) {
    const Slot& slot = table.slots[at & table.mask];
    const std::uint64_t other = __atomic_load_n(&slot.key, __ATOMIC_RELAXED);
    if (other == 0) return NodeId::kNone;
    if (other != key) continue;
    const std::uint32_t id = __atomic_load_n(&slot.id, __ATOMIC_ACQUIRE);
    if (id != 0 && __atomic_load_n(&slot.parent, __ATOMIC_RELAXED) == raw(parent)) return NodeId{id};
  }
}

/// Publishes `id`, or returns the number of the same node that another thread published first. A table that could not
/// be doubled is filled to 7/8: further nodes are not published, and are defined again each time.
NodeId CallTree::insert(Table& table, std::uint64_t path, std::uint64_t key, NodeId parent, NodeId id) noexcept {
  if (__atomic_fetch_add(&table.used, 1, __ATOMIC_RELAXED) > table.mask - table.mask / 8) {
    __atomic_fetch_sub(&table.used, 1, __ATOMIC_RELAXED);
    return id;
  }
  for (std::uint64_t at = path;; ++at) {
    Slot& slot = table.slots[at & table.mask];
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

NodeId CallTree::allocate_id(std::uint64_t path) noexcept {
  const std::uint32_t id = __atomic_fetch_add(&next_, 1, __ATOMIC_RELAXED);
  const std::uint32_t chunk = id / kChunkNodes;
  if (chunk >= kMaxChunks) {
    __atomic_fetch_sub(&next_, 1, __ATOMIC_RELAXED);
    return NodeId::kNone;
  }
  std::uint64_t* paths = __atomic_load_n(&paths_[chunk], __ATOMIC_ACQUIRE);
  if (paths == nullptr) {
    auto* fresh = static_cast<std::uint64_t*>(sys::map_private(kChunkNodes * sizeof *paths));
    if (fresh == nullptr) return NodeId::kNone;
    if (__atomic_compare_exchange_n(&paths_[chunk], &paths, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      paths = fresh;
    else sys::unmap_private(fresh, kChunkNodes * sizeof *paths);
  }
  paths[id % kChunkNodes] = path;
  return NodeId{id};
}

CallTree::Table* CallTree::allocate_table(std::uint32_t slots) noexcept {
  auto* table = static_cast<Table*>(sys::map_private(table_bytes(slots)));
  if (table != nullptr) table->mask = slots - 1;
  return table;
}

/// Doubles the table. One thread does it, while the others use the old table. If the table becomes 3/4 full
/// meanwhile, each new node costs a system call that checks whether that thread is alive; if it has died, another
/// thread doubles the table. growing_ only avoids needless work: the compare-and-swap of table_ decides which
/// thread's new table is used.
void CallTree::grow(Table* full) noexcept {
  if (__atomic_load_n(&table_, __ATOMIC_ACQUIRE) != full || full->mask > kChunkNodes * kMaxChunks) return;
  const int self = sys::thread_id();
  if (sys::failed(self)) return;  // system calls are forbidden: without a thread id, no other thread could take over
  int owner = 0;
  if (!__atomic_compare_exchange_n(&growing_, &owner, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED) &&
      (__atomic_load_n(&full->used, __ATOMIC_RELAXED) <= full->mask / 4 * 3 || sys::thread_exists(owner) ||
       !__atomic_compare_exchange_n(&growing_, &owner, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
    return;
  if (__atomic_load_n(&table_, __ATOMIC_ACQUIRE) == full) {
    if (Table* larger = allocate_table((full->mask + 1) * 2)) {
      for (std::uint32_t from = 0; from <= full->mask; ++from) {
        const Slot& slot = full->slots[from];
        const std::uint32_t id = __atomic_load_n(&slot.id, __ATOMIC_ACQUIRE);
        if (id == 0) continue;
        std::uint64_t to = paths_[id / kChunkNodes][id % kChunkNodes];
        while (larger->slots[to & larger->mask].key != 0) ++to;
        // Atomic loads: another thread may have emptied the old table already (below), and late writers may refill
        // it.
        larger->slots[to & larger->mask] = {__atomic_load_n(&slot.key, __ATOMIC_RELAXED),
                                            __atomic_load_n(&slot.parent, __ATOMIC_RELAXED), id};
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

void CallTree::recover_abandoned_growth(int thread) noexcept {
  __atomic_compare_exchange_n(&growing_, &thread, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

void CallTree::reset() noexcept {
  if (table_ != nullptr) {
    sys::unmap_private(table_, table_bytes(table_->mask + 1));
    table_ = nullptr;
  }
  for (std::uint32_t chunk = 0; chunk < kMaxChunks && paths_[chunk] != nullptr; ++chunk) {
    sys::unmap_private(paths_[chunk], kChunkNodes * sizeof *paths_[chunk]);
    paths_[chunk] = nullptr;
  }
  next_ = 1;
  growing_ = 0;
}

}  // namespace heapprof::recorder
