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
/// the tree; it is defined again each time.
constexpr std::uint64_t key_of(ModuleId module, std::uint64_t offset, std::uint32_t flags) noexcept {
  static_assert(kNodeByFramePointer == 1);
  const std::uint64_t flag = std::uint64_t{flags & kNodeByFramePointer} << 62;
  if (module == ModuleId::kAnonymous) return offset >> 62 != 0 ? 0 : std::uint64_t{1} << 63 | flag | offset;
  if (offset >> 46 != 0 || raw(module) >> 16 != 0) return 0;
  return flag | std::uint64_t{raw(module)} << 46 | offset;
}

}  // namespace

NodeId CallTree::intern(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags,
                        Stream& stream) noexcept {
  const std::uint64_t key = key_of(module, offset, flags);
  if (!have_chunk(0)) [[unlikely]]
    return NodeId::kNone;
  if (key == 0) [[unlikely]]
    return define(parent, module, offset, flags, stream);
  std::uint32_t* link = &node(raw(parent)).child;
  std::uint32_t listed = 0;
  while (const std::uint32_t child = __atomic_load_n(link, __ATOMIC_ACQUIRE)) {
    Node& at = node(child);
    if (at.key == key) return NodeId{child};
    link = &at.sibling;
    ++listed;
  }
  if (listed < kMaxListed) [[likely]] {
    const NodeId id = define(parent, module, offset, flags, stream);
    return id == NodeId::kNone ? id : append(link, key, id);
  }
  if (const NodeId found = table_.find(parent, key); found != NodeId::kNone) [[likely]]
    return found;
  const NodeId id = define(parent, module, offset, flags, stream);
  return id == NodeId::kNone ? id : table_.insert(parent, key, id);
}

/// Appends the node `id`, whose own link is 0, to the list whose last link was `link`. Returns the node of `key` that
/// another thread has appended meanwhile, if there is one.
NodeId CallTree::append(std::uint32_t* link, std::uint64_t key, NodeId id) noexcept {
  node(raw(id)).key = key;
  for (;;) {
    std::uint32_t other = 0;
    if (__atomic_compare_exchange_n(link, &other, raw(id), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return id;
    Node& at = node(other);
    if (at.key == key) return NodeId{other};
    link = &at.sibling;
  }
}

/// Gives a new node its number and defines it in `stream`. Returns kNone if that fails.
NodeId CallTree::define(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags,
                        Stream& stream) noexcept {
  const std::uint32_t number = __atomic_fetch_add(&next_, 1, __ATOMIC_RELAXED);
  if (number / kChunkNodes >= kMaxChunks) {
    __atomic_fetch_sub(&next_, 1, __ATOMIC_RELAXED);
    return NodeId::kNone;
  }
  if (!have_chunk(number / kChunkNodes)) return NodeId::kNone;
  return stream.define_node(NodeId{number}, parent, module, offset, flags) ? NodeId{number} : NodeId::kNone;
}

/// Maps the chunk if it is not mapped yet. Returns false if there is no memory.
inline bool CallTree::have_chunk(std::uint32_t chunk) noexcept {
  if (__atomic_load_n(&chunks_[chunk], __ATOMIC_ACQUIRE) != nullptr) [[likely]]
    return true;
  constexpr std::size_t kBytes = kChunkNodes * sizeof(Node);
  auto* mapped = static_cast<Node*>(sys::map_private(kBytes));
  if (mapped == nullptr) return false;
  Node* other = nullptr;
  if (!__atomic_compare_exchange_n(&chunks_[chunk], &other, mapped, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    sys::unmap_private(mapped, kBytes);
  return true;
}

void CallTree::reset() noexcept {
  table_.reset();
  for (std::uint32_t chunk = 0; chunk < kMaxChunks && chunks_[chunk] != nullptr; ++chunk) {
    sys::unmap_private(chunks_[chunk], kChunkNodes * sizeof(Node));
    chunks_[chunk] = nullptr;
  }
  next_ = 1;
}

}  // namespace heapprof::recorder
