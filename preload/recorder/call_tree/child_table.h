// The children of call-tree nodes that have too many for a list, in a hash table by (parent, key).
//
// Neither a lookup nor an insertion takes a lock. One thread makes a table of twice the size and moves the nodes to
// it while the others use the old one; if that has little room left, they help to move. A node that is inserted
// meanwhile may be missing in the new table: it is then defined again, under another number, and readers merge the
// two (common/ids.h).
//
// Memory: 16 bytes per slot of a table that is 5/16 to 5/8 full. The pages of a table that was replaced are freed,
// but stay mapped for threads that still read them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/ids.h"

namespace heapprof::recorder {

class ChildTable {
 public:
  static constexpr std::uint32_t kFirstSlots = 1u << 12;

  /// Returns the child of `parent` with `key`, or kNone. `key` is not 0, here and in insert().
  NodeId find(NodeId parent, std::uint64_t key) const noexcept;

  /// Inserts `id` as the child of `parent` with `key`. Returns the child that another thread has inserted meanwhile,
  /// if there is one. Without memory the child may be missing in the table.
  NodeId insert(NodeId parent, std::uint64_t key, NodeId id) noexcept;

  /// Empties the table. Call it while there is one thread.
  void reset() noexcept;

  /// The size of the mapping of a table, for tests.
  static constexpr std::size_t table_bytes(std::uint32_t slots) noexcept {
    return offsetof(Table, slots) + std::size_t{slots} * sizeof(Slot);
  }

 private:
  struct Slot {
    std::uint64_t key;  ///< 0: the slot is free
    std::uint32_t parent;
    std::uint32_t id;  ///< 0: not published yet
  };

  struct Table {
    std::uint32_t mask;
    std::uint32_t used;         ///< slots with a node, or that soon have one
    Table* larger;              ///< the table of twice the size that replaces this one; null: there is none yet
    std::uint32_t claimed;      ///< not 0: a thread makes the larger table
    std::uint32_t moved;        ///< the first slot of which no thread has begun to move the node to the larger table
    alignas(64) Slot slots[1];  ///< mask + 1 elements
  };

  static std::uint32_t id_in(const Slot& slot, NodeId parent) noexcept;
  static Table* provide_table(Table** place, std::uint32_t slots) noexcept;
  bool is_current(const Table* table) const noexcept;
  NodeId put(Table& table, NodeId parent, std::uint64_t key, NodeId id) noexcept;
  bool move(const Table& full, std::uint32_t first, Table& larger) noexcept;
  void grow(Table* full) noexcept;

  Table* table_ = nullptr;
};

}  // namespace heapprof::recorder
