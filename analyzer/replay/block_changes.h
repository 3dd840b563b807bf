// The live blocks of a snapshot by changes: how they differ from those of the snapshot before, or all of them.
//
//   changes = whole, number of removed blocks, their addresses ascending, each as its distance from the one before,
//             number of added blocks, then their columns in order of time: times, addresses, sizes, nodes, threads
//
// Columns compress better than rows. A whole state lists removed blocks too, so that those of its interval are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "analyzer/replay/block_table.h"
#include "analyzer/trace/files/byte_stream.h"

namespace heapprof::replay {

/// Blocks in the order in which snapshots have them.
bool precedes_in_snapshot(const Block& a, const Block& b) noexcept;

/// `removed` and `added` may be in any order and contain duplicates.
void save_block_changes(bool whole, std::vector<std::uint64_t> removed, std::vector<Block> added,
                        trace::ByteWriter& out);

class BlockChangesReader {
 public:
  /// Moves `in` to the end of the changes. Its bytes must outlive this. Throws FormatError, as the other functions.
  explicit BlockChangesReader(trace::ByteReader& in);

  bool whole() const noexcept { return whole_; }
  /// Before they are visited.
  std::size_t removed() const noexcept { return removed_; }
  std::size_t added() const noexcept { return added_; }
  /// How many of the added blocks were allocated at `ticks` or later.
  std::size_t added_since(std::uint64_t ticks) const;
  /// Calls visit(address) for each removed block. Call it once.
  template <typename Visit>
  void for_each_removed(Visit&& visit) {
    std::uint64_t address = 0;
    for (; removed_ != 0; --removed_) visit(address += removed_addresses_.number());
  }
  /// Calls visit(blocks) with all added blocks, some at a time. Call it once.
  template <typename Visit>
  void for_each_added(Visit&& visit) {
    while (added_ != 0) visit(next_blocks());
  }

 private:
  static constexpr std::size_t kBlocks = 128;
  std::span<const Block> next_blocks();

  bool whole_ = false;
  std::size_t removed_ = 0;  // not yet visited, as added_
  std::size_t added_ = 0;
  trace::ByteReader removed_addresses_{{}};
  trace::ByteReader times_{{}};
  trace::ByteReader addresses_{{}};
  trace::ByteReader sizes_{{}};
  trace::ByteReader nodes_{{}};
  trace::ByteReader threads_{{}};
  Block last_;
  std::vector<Block> blocks_;
};

/// Which live blocks a replay needs that continues at a snapshot: those that its events free or replace, and those
/// that it counts as leaked.
struct NeededBlocks {
  BlockTable addresses;  ///< of each of these blocks; the other fields are not set
  /// Blocks that were allocated then or later, ticks.
  std::uint64_t from_ticks = std::numeric_limits<std::uint64_t>::max();

  bool contain(const Block& block) const noexcept {
    return block.time >= from_ticks || addresses.contains(block.address);
  }
};

/// Sums of live blocks that no event changes any more.
struct LeftSums {
  struct Sum {
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 0;
  };
  std::vector<Sum> nodes;    ///< by dense index; empty: there are no such blocks
  std::vector<Sum> threads;  ///< by index; likewise
};

/// The live blocks of a snapshot, which a replay that continues there takes.
struct BlocksOfSnapshot {
  BlockTable table;
  bool all = true;             ///< false: only those that the replay needs
  LeftSums left;               ///< of blocks that are not in the table
  trace::ByteReader rest{{}};  ///< the state after the blocks
};

/// Of a whole state, and those that followed, up to the wanted one. Moves each of `states` to the end of its changes.
/// `needed`: the blocks to read; null: all. Throws trace::FormatError.
BlocksOfSnapshot read_blocks(std::span<trace::ByteReader> states, const NeededBlocks* needed);

/// The same, but blocks that are needed only because of their time are summed. Takes 13 bytes for each block that was
/// removed, instead of a table of those that are live. Also throws FormatError when a block has a node or thread that
/// is not less than its count.
BlocksOfSnapshot sum_blocks(std::span<trace::ByteReader> states, const NeededBlocks& needed, std::size_t node_count,
                            std::size_t thread_count);

}  // namespace heapprof::replay
