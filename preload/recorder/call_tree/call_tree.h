// The call tree: every distinct call stack of the process, as nodes (parent, module, offset) that stacks share.
//
// A lookup takes no lock and costs one cache miss: a slot of the hash table holds the whole node, and its index is a
// hash of the path from the outermost frame, not of the parent's number. So the slots of all new frames of a stack
// can be prefetched before the first is read (prefetch()).
//
// Adding takes no lock either: the node's definition is committed to the adding thread's stream, and then its number
// is published in the table. If two threads add the same node at once, it may be defined twice, under two numbers.
// The same can happen to a node that is added while the table is doubled. Readers merge such nodes (common/ids.h).
//
// Memory: 16 bytes per slot of a table that is at most 5/8 full, and 8 bytes per node for doubling it: 34 to 60 bytes
// per node. The pages of a table that was replaced are freed, but stay mapped for threads that still read them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/ids.h"

namespace heapprof::recorder {

class Stream;

class CallTree {
 public:
  /// Returns the node for `offset` in `module` called from `parent`. A new node is defined in `stream`. Returns
  /// NodeId::kNone if there is no memory or the stream failed. `flags`: kNode... of common/trace_format.h. `path`: a
  /// hash of the node and all its ancestors; equal stacks have equal paths. May be called from any thread and from
  /// signal handlers; `stream` must be the caller's.
  NodeId intern(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags, std::uint64_t path,
                Stream& stream) noexcept;

  /// Prefetches the slot of the node with this path.
  void prefetch(std::uint64_t path) const noexcept {
    if (const Table* table = __atomic_load_n(&table_, __ATOMIC_RELAXED))
      __builtin_prefetch(&table->slots[path & table->mask]);
  }

  /// The number of node numbers used so far.
  std::uint32_t size() const noexcept { return __atomic_load_n(&next_, __ATOMIC_RELAXED) - 1; }

  /// Call this when a thread has left the recorder by longjmp, or has died in it: if it was doubling the table,
  /// another thread may do so now. `thread`: its kernel thread id.
  void recover_abandoned_growth(int thread) noexcept;

  /// Empties the tree, in a forked child that begins its own trace. Call it while there is one thread.
  void reset() noexcept;

 private:
  struct Slot {
    std::uint64_t key;  ///< module, offset and flags (key_of); 0: the slot is free
    std::uint32_t parent;
    std::uint32_t id;  ///< 0: not published yet
  };

  struct Table {
    std::uint32_t mask;
    std::uint32_t used;
    alignas(64) Slot slots[1];  ///< mask + 1 elements
  };

  static constexpr std::size_t table_bytes(std::uint32_t slots) noexcept {
    return offsetof(Table, slots) + std::size_t{slots} * sizeof(Slot);
  }

  static constexpr std::uint32_t kChunkNodes = 1u << 16;
  static constexpr std::uint32_t kMaxChunks = 1u << 12;
  static constexpr std::uint32_t kFirstTableSlots = 1u << 12;

  static NodeId find(const Table& table, std::uint64_t path, std::uint64_t key, NodeId parent) noexcept;
  NodeId insert(Table& table, std::uint64_t path, std::uint64_t key, NodeId parent, NodeId id) noexcept;
  NodeId allocate_id(std::uint64_t path) noexcept;
  static Table* allocate_table(std::uint32_t slots) noexcept;
  void grow(Table* full) noexcept;

  Table* table_ = nullptr;
  std::uint32_t next_ = 1;
  int growing_ = 0;                        ///< kernel thread id of the thread that doubles the table; 0: none
  std::uint64_t* paths_[kMaxChunks] = {};  ///< `path` of each node, by number
};

/// The process's call tree.
extern CallTree g_call_tree;

}  // namespace heapprof::recorder
