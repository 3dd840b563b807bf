#include "preload/recorder/call_tree.h"

#include "preload/recorder/stream.h"
#include "preload/sys/kernel.h"

namespace heapprof::recorder {

constinit CallTree g_call_tree;

namespace {

/// Multiply and fold (the mixer of wyhash, public domain): the low half indexes, the high half is the tag.
std::uint64_t hash_node(std::uint32_t parent, std::uint32_t module_flags, std::uint64_t offset) noexcept {
  const auto product = static_cast<unsigned __int128>(offset ^ 0x9e3779b97f4a7c15) *
                       ((std::uint64_t{parent} << 32 | module_flags) ^ 0xd6e8feb86659fd93);
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

constexpr std::uint64_t kTagMask = 0xffffffff00000000;

}  // namespace

NodeId CallTree::child(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags,
                       Stream& stream) noexcept {
  const Node wanted{raw(parent), (raw(module) & 0xffffff) | flags << 24, offset};
  const std::uint64_t hash = hash_node(wanted.parent, wanted.module_flags, wanted.offset);
  Table* table = __atomic_load_n(&table_, __ATOMIC_ACQUIRE);
  if (table == nullptr) [[unlikely]] {
    Table* first = make_table(kFirstTableSlots);
    if (first == nullptr) return NodeId::kNone;
    if (!__atomic_compare_exchange_n(&table_, &table, first, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      sys::unmap(first, sizeof(Table) + kFirstTableSlots * sizeof(std::uint64_t));
    else
      table = first;
  }
  if (const NodeId found = find(table, hash, wanted); found != NodeId::kNone) [[likely]] return found;

  std::uint32_t id;
  Node* node = allocate(id);
  if (node == nullptr) return NodeId::kNone;
  *node = wanted;
  if (!stream.define_node(NodeId{id}, parent, module, offset, flags)) return NodeId::kNone;
  if (__atomic_load_n(&table->used, __ATOMIC_RELAXED) > table->mask / 2) grow(table, stream);
  return insert(__atomic_load_n(&table_, __ATOMIC_ACQUIRE), hash, wanted, NodeId{id});
}

NodeId CallTree::find(const Table* table, std::uint64_t hash, const Node& node) const noexcept {
  for (std::uint32_t at = static_cast<std::uint32_t>(hash) & table->mask;; at = (at + 1) & table->mask) {
    const std::uint64_t slot = __atomic_load_n(&table->slots[at], __ATOMIC_ACQUIRE);
    if (slot == 0) return NodeId::kNone;
    if (((slot ^ hash) & kTagMask) != 0) continue;
    const Node& other = this->at(static_cast<std::uint32_t>(slot));
    if (other.offset == node.offset && other.parent == node.parent && other.module_flags == node.module_flags)
      return NodeId{static_cast<std::uint32_t>(slot)};
  }
}

/// Publishes `id`, or returns the number under which another thread was first. A table that could not be
/// doubled is filled to 7/8 and then no further: nodes beyond are not found again, and defined each time.
NodeId CallTree::insert(Table* table, std::uint64_t hash, const Node& node, NodeId id) noexcept {
  if (__atomic_fetch_add(&table->used, 1, __ATOMIC_RELAXED) > table->mask - table->mask / 8) {
    __atomic_fetch_sub(&table->used, 1, __ATOMIC_RELAXED);
    return id;
  }
  for (std::uint32_t at = static_cast<std::uint32_t>(hash) & table->mask;; at = (at + 1) & table->mask) {
    std::uint64_t slot = __atomic_load_n(&table->slots[at], __ATOMIC_ACQUIRE);
    if (slot == 0 && __atomic_compare_exchange_n(&table->slots[at], &slot, (hash & kTagMask) | raw(id), false,
                                                 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      return id;
    if (((slot ^ hash) & kTagMask) != 0) continue;
    const Node& other = this->at(static_cast<std::uint32_t>(slot));
    if (other.offset == node.offset && other.parent == node.parent && other.module_flags == node.module_flags)
      return NodeId{static_cast<std::uint32_t>(slot)};
  }
}

CallTree::Node* CallTree::allocate(std::uint32_t& id) noexcept {
  id = __atomic_fetch_add(&next_, 1, __ATOMIC_RELAXED);
  const std::uint32_t chunk = id / kChunkNodes;
  if (chunk >= kMaxChunks) {
    __atomic_fetch_sub(&next_, 1, __ATOMIC_RELAXED);
    return nullptr;
  }
  Node* nodes = __atomic_load_n(&chunks_[chunk], __ATOMIC_ACQUIRE);
  if (nodes == nullptr) {
    auto* fresh = static_cast<Node*>(sys::map_private(kChunkNodes * sizeof(Node)));
    if (fresh == nullptr) return nullptr;
    if (__atomic_compare_exchange_n(&chunks_[chunk], &nodes, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      nodes = fresh;
    else
      sys::unmap(fresh, kChunkNodes * sizeof(Node));
  }
  return nodes + id % kChunkNodes;
}

CallTree::Table* CallTree::make_table(std::uint32_t slots) noexcept {
  auto* table = static_cast<Table*>(sys::map_private(sizeof(Table) + std::size_t{slots} * sizeof(std::uint64_t)));
  if (table != nullptr) table->mask = slots - 1;
  return table;
}

/// Doubles the table. One thread does it, while the others go on with the old one.
void CallTree::grow(Table* full, const Stream& stream) noexcept {
  if (__atomic_load_n(&table_, __ATOMIC_ACQUIRE) != full || full->mask > kChunkNodes * kMaxChunks) return;
  const Stream* nobody = nullptr;
  if (!__atomic_compare_exchange_n(&growing_, &nobody, &stream, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
  if (__atomic_load_n(&table_, __ATOMIC_ACQUIRE) == full) {
    if (Table* larger = make_table((full->mask + 1) * 2)) {
      for (std::uint32_t from = 0; from <= full->mask; ++from) {
        const std::uint64_t slot = __atomic_load_n(&full->slots[from], __ATOMIC_ACQUIRE);
        if (slot == 0) continue;
        const Node& node = at(static_cast<std::uint32_t>(slot));
        std::uint32_t to = static_cast<std::uint32_t>(hash_node(node.parent, node.module_flags, node.offset));
        while (larger->slots[to &= larger->mask] != 0) ++to;
        larger->slots[to] = slot;
        ++larger->used;
      }
      __atomic_store_n(&table_, larger, __ATOMIC_RELEASE);
      // Whole pages of slots only: the mask in front stays valid for readers that are still inside.
      constexpr std::size_t kPage = 4096;
      const std::size_t bytes = sizeof(Table) + (std::size_t{full->mask} + 1) * sizeof(std::uint64_t);
      sys::advise(reinterpret_cast<char*>(full) + kPage, bytes - kPage, MADV_DONTNEED);
    }
  }
  __atomic_store_n(&growing_, nullptr, __ATOMIC_RELEASE);
}

void CallTree::growth_left(const Stream& stream) noexcept {
  const Stream* owner = &stream;
  __atomic_compare_exchange_n(&growing_, &owner, nullptr, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

void CallTree::reset() noexcept {
  if (table_ != nullptr) {
    sys::unmap(table_, sizeof(Table) + (std::size_t{table_->mask} + 1) * sizeof(std::uint64_t));
    table_ = nullptr;
  }
  for (std::uint32_t chunk = 0; chunk < kMaxChunks && chunks_[chunk] != nullptr; ++chunk) {
    sys::unmap(chunks_[chunk], kChunkNodes * sizeof(Node));
    chunks_[chunk] = nullptr;
  }
  next_ = 1;
  growing_ = nullptr;
}

}  // namespace heapprof::recorder
