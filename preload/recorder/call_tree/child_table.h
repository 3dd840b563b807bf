// The children of call-tree nodes that have too many for a list, in a hash table by (parent, key).
//
// Neither a lookup nor an insertion takes a lock. One thread doubles the table (another one, too, if no node can be
// added any more) while the others use the old one, so a node that is inserted meanwhile may be missing in the new
// table: it is then defined again, under another number, and readers merge the two (common/ids.h).
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

  /// Call this when a thread has left the recorder by longjmp, or has died in it: if it was doubling the table,
  /// another thread may do so now. `thread`: its kernel thread id.
  void recover_abandoned_growth(int thread) noexcept;

  /// Empties the table. Call it while there is one thread.
  void reset() noexcept;

 private:
  struct Slot {
    std::uint64_t key;  ///< 0: the slot is free
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

  static Table* allocate_table(std::uint32_t slots) noexcept;
  void grow(Table* full) noexcept;

  Table* table_ = nullptr;
  int growing_ = 0;  ///< kernel thread id of the thread that doubles the table; 0: none
};

}  // namespace heapprof::recorder
