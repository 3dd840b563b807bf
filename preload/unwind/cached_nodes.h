// Cached nodes: the nodes that a thread looked up recently, in front of the call tree. A lookup in a large call tree
// costs two or three cache misses.
#pragma once

#include <cstdint>

#include "common/ids.h"
#include "preload/unwind/step.h"

namespace heapprof::unwind {

struct CachedNode {
  std::uint64_t key;  ///< CachedNodes::key_of()
  NodeId parent;
  NodeId node;               ///< kNone: empty
  std::uint64_t generation;  ///< the module of a program counter may change with the generation
};

inline constexpr std::uint32_t kCachedNodeBits = 10;

/// Two-way set-associative: the second entry of a set holds what the first one held before.
struct CachedNodes {
  CachedNode entries[1u << kCachedNodeBits];

  /// Returns the program counter, which has at most 57 bits, with the flags on which the node depends in the bits
  /// above.
  static constexpr std::uint64_t key_of(ProgramCounter pc, unsigned flags) noexcept {
    return to_address(pc) | static_cast<std::uint64_t>(flags & (kInterrupted | kByFramePointer | kSignalFrame)) << 58;
  }

  CachedNode* set_of(std::uint64_t key, NodeId parent) noexcept {
    const std::uint64_t hash = (key ^ std::uint64_t{raw(parent)} << 32) * 0x9e3779b97f4a7c15;
    return &entries[(hash >> (65 - kCachedNodeBits)) * 2];
  }

  /// Returns the node of `key` called from `parent`, or kNone. `at`: set_of(key, parent).
  static NodeId find(const CachedNode* at, std::uint64_t key, NodeId parent, std::uint64_t generation) noexcept {
    if (at[0].key == key && at[0].parent == parent && at[0].generation == generation) [[likely]]
      return at[0].node;
    if (at[1].key == key && at[1].parent == parent && at[1].generation == generation) return at[1].node;
    return NodeId::kNone;
  }

  static void add(CachedNode* at, const CachedNode& node) noexcept {
    at[1] = at[0];
    at[0] = node;
  }
};

}  // namespace heapprof::unwind
