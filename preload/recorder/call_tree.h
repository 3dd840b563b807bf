// The call tree: every stack seen, as nodes (parent, module, offset). One for the process.
//
// Reading takes no lock and finds a node in one probe sequence. Adding takes none either: a node is
// written, its definition committed to the adding thread's stream, and only then is its number stored
// in the hash table for others to find. Two threads that add the same node at the same moment may both
// succeed, under two numbers; so may one that adds while the table is being doubled. That is allowed:
// readers of the trace merge nodes by content (common/ids.h), and the tree stays correct for the price
// of a duplicate now and then.
//
// Memory: 16 bytes a node, never moved, and 16 to 32 bytes of table, which is at most half full. A
// table that was outgrown is given back to the kernel, but stays mapped for late readers, who find it
// empty and at worst make a duplicate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/ids.h"

namespace heapprof::recorder {

class Stream;

class CallTree {
 public:
  /// The node for `offset` in `module` called from `parent`, made and defined in `stream` when it is new.
  /// NodeId::kNone when there is no memory for it. `flags`: kNode... of common/trace_format.h.
  NodeId child(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags,
               Stream& stream) noexcept;

  /// Nodes made so far.
  std::uint32_t size() const noexcept { return __atomic_load_n(&next_, __ATOMIC_RELAXED) - 1; }

  /// `stream`'s owner was left by a longjmp: if that was while it doubled the table, another may.
  void growth_left(const Stream& stream) noexcept;

  /// Empties the tree, in a forked child that begins a trace of its own. The parent's pages are dropped
  /// from this process as far as they were copied; no other thread exists.
  void reset() noexcept;

 private:
  struct Node {
    std::uint32_t parent;
    std::uint32_t module_flags;  ///< module | flags << 24
    std::uint64_t offset;
  };
  static_assert(sizeof(Node) == 16);

  /// Slots: upper half of the hash in the upper 32 bits, node number in the lower; 0 is empty.
  struct Table {
    std::uint32_t mask;
    std::uint32_t used;
    std::uint64_t slots[];
  };

  static constexpr std::uint32_t kChunkNodes = 1u << 16;
  static constexpr std::uint32_t kMaxChunks = 1u << 12;
  static constexpr std::uint32_t kFirstTableSlots = 1u << 13;

  NodeId find(const Table* table, std::uint64_t hash, const Node& node) const noexcept;
  NodeId insert(Table* table, std::uint64_t hash, const Node& node, NodeId id) noexcept;
  const Node& at(std::uint32_t id) const noexcept { return chunks_[id / kChunkNodes][id % kChunkNodes]; }
  Node* allocate(std::uint32_t& id) noexcept;
  Table* make_table(std::uint32_t slots) noexcept;
  void grow(Table* full, const Stream& stream) noexcept;

  Table* table_ = nullptr;
  std::uint32_t next_ = 1;
  const Stream* growing_ = nullptr;  ///< whose owner is doubling the table
  Node* chunks_[kMaxChunks] = {};
};

/// The process's call tree.
extern CallTree g_call_tree;

}  // namespace heapprof::recorder
