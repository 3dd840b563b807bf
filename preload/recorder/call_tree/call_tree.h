// The call tree: every stack seen, as nodes (parent, module, offset). One for the process.
//
// Reading takes no lock and finds a node with one cache miss: the hash table's slots hold the whole node, and
// where to look depends on the frames from the outermost to this one, not on the parent's number. So a stack
// with many new frames can have all its places fetched before the first is looked at (expect()).
//
// Adding takes no lock either: a node's definition is committed to the adding thread's stream, and only then
// is its number stored in the table for others to find. Two threads that add the same node at the same
// moment may both succeed, under two numbers; so may one that adds while the table is being doubled. That is
// allowed: readers of the trace merge nodes by content (common/ids.h), and the tree stays correct for the
// price of a duplicate now and then.
//
// Memory: 16 bytes a slot in a table that is at most 5/8 full, and 8 bytes a node for the time when it is
// doubled: 34 to 60 bytes a node. A table that was outgrown is given back to the kernel, but stays mapped for
// late readers, who find it empty and at worst make a duplicate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/ids.h"

namespace heapprof::recorder {

class Stream;

class CallTree {
 public:
  /// The node for `offset` in `module` called from `parent`, made and defined in `stream` when it is new.
  /// NodeId::kNone when there is no memory for it. `flags`: kNode... of common/trace_format.h. `path`: a hash of
  /// the node and all its ancestors; nodes that are equal but for it count as two.
  NodeId child(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags, std::uint64_t path,
               Stream& stream) noexcept;

  /// A node with this path will be asked for soon.
  void expect(std::uint64_t path) const noexcept {
    if (const Table* table = __atomic_load_n(&table_, __ATOMIC_RELAXED))
      __builtin_prefetch(&table->slots[path & table->mask]);
  }

  /// Nodes made so far.
  std::uint32_t size() const noexcept { return __atomic_load_n(&next_, __ATOMIC_RELAXED) - 1; }

  /// The kernel's thread `thread` has left the recorder by a longjmp, or died there: if it was doubling the table,
  /// another thread may.
  void growth_left(int thread) noexcept;

  /// Empties the tree, in a forked child that begins a trace of its own. The parent's pages are dropped
  /// from this process as far as they were copied; no other thread exists.
  void reset() noexcept;

 private:
  struct Slot {
    std::uint64_t key;  ///< module, offset and flags (key_of); 0: free
    std::uint32_t parent;
    std::uint32_t id;  ///< 0: taken, but not ready to be found
  };

  struct Table {
    std::uint32_t mask;
    std::uint32_t used;
    alignas(64) Slot slots[1];  ///< mask + 1
  };

  static constexpr std::size_t table_bytes(std::uint32_t slots) noexcept {
    return offsetof(Table, slots) + std::size_t{slots} * sizeof(Slot);
  }

  static constexpr std::uint32_t kChunkNodes = 1u << 16;
  static constexpr std::uint32_t kMaxChunks = 1u << 12;
  static constexpr std::uint32_t kFirstTableSlots = 1u << 12;

  static NodeId find(const Table& table, std::uint64_t path, std::uint64_t key, NodeId parent) noexcept;
  NodeId insert(Table& table, std::uint64_t path, std::uint64_t key, NodeId parent, NodeId id) noexcept;
  NodeId make_id(std::uint64_t path) noexcept;
  static Table* make_table(std::uint32_t slots) noexcept;
  void grow(Table* full) noexcept;

  Table* table_ = nullptr;
  std::uint32_t next_ = 1;
  int growing_ = 0;  ///< the kernel's number of the thread that is doubling the table
  std::uint64_t* paths_[kMaxChunks] = {};  ///< by node
};

/// The process's call tree.
extern CallTree g_call_tree;

}  // namespace heapprof::recorder
