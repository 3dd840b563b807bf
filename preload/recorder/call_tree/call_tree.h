// The call tree: every distinct call stack of the process, as nodes (parent, module, offset) that stacks share.
//
// Nodes are stored by number, and numbers are given in the order in which nodes are added. The children of a node are
// a list, so nodes that a program visits one after another are near each other in memory; with many different stacks,
// cache misses are most of the cost of a lookup. A list has its oldest child first: what a program calls often it
// also calls early, and the first child was usually added directly after its parent, so it is in the same cache line.
// The few nodes with more than kMaxListed children have the others in a hash table (child_table.h).
//
// Adding takes no lock: the node's definition is committed to the adding thread's stream, and then one
// compare-and-swap makes it the last child in the parent's list. If two threads add the same node at once, it may be
// defined twice, under two numbers. Readers merge such nodes (common/ids.h).
//
// Memory: 16 bytes per node, and 26 to 52 bytes per child in the table.
#pragma once

#include <cstdint>

#include "common/ids.h"
#include "preload/recorder/call_tree/child_table.h"

namespace heapprof::recorder {

class Stream;

class CallTree {
 public:
  /// A node has at most this many children in its list, or a few more if threads add them at once.
  static constexpr std::uint32_t kMaxListed = 8;

  /// Returns the node for `offset` in `module` called from `parent`, a node of this tree or kNone. A new node is
  /// defined in `stream`. Returns NodeId::kNone if there is no memory or the stream failed. `flags`: kNode... of
  /// common/trace_format.h. May be called from any thread and from signal handlers; `stream` must be the caller's.
  NodeId intern(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags, Stream& stream) noexcept;

  /// The number of node numbers used so far.
  std::uint32_t size() const noexcept { return __atomic_load_n(&next_, __ATOMIC_RELAXED) - 1; }

  /// Empties the tree, in a forked child that begins its own trace. Call it while there is one thread.
  void reset() noexcept;

 private:
  struct Node {
    std::uint64_t key;      ///< module, offset and flags (key_of)
    std::uint32_t child;    ///< number of the first child in the list: the one that was added first; 0: none
    std::uint32_t sibling;  ///< number of the next child of the parent; 0: none yet. Changes once
  };
  static_assert(sizeof(Node) == 16);

  static constexpr std::uint32_t kChunkNodes = 1u << 16;
  static constexpr std::uint32_t kMaxChunks = 1u << 12;

  Node& node(std::uint32_t number) const noexcept { return chunks_[number / kChunkNodes][number % kChunkNodes]; }
  bool have_chunk(std::uint32_t chunk) noexcept;
  NodeId define(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags, Stream& stream) noexcept;
  NodeId append(std::uint32_t* link, std::uint64_t key, NodeId id) noexcept;

  std::uint32_t next_ = 1;
  Node* chunks_[kMaxChunks] = {};  ///< node 0 has the nodes without a parent as children
  ChildTable table_;
};

/// The process's call tree.
extern CallTree g_call_tree;

}  // namespace heapprof::recorder
