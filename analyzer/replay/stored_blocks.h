// Blocks in an index: those that are live at the end of an interval, and those from before an interval that leave the
// table of live blocks in it. A block that leaves in a later interval was live before, so the former of a later
// moment and the latter of the intervals up to it are the live blocks of any earlier one.
//
//   blocks = number, then columns in order of time: times, addresses, sizes, nodes, threads
//   older  = blocks * 2, as in OlderBlocks
//
// Columns compress better than rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/replay/block_table.h"
#include "analyzer/trace/files/byte_stream.h"

namespace heapprof::replay {

/// Blocks in the order in which snapshots have them.
bool precedes_in_snapshot(const Block& a, const Block& b) noexcept;

/// Of `blocks`, which may be in any order and contain duplicates.
void save_blocks(std::vector<Block> blocks, trace::ByteWriter& out);

/// Blocks from before an interval that were in the table of live blocks when it began, or that a realloc had then.
/// With the state of the calls, which has the latter, a replay of the interval needs no others.
struct OlderBlocks {
  std::vector<Block> freed;
  std::vector<Block> given;  ///< to a realloc, which did not free them in the interval
};

/// Each in any order.
void save(OlderBlocks blocks, trace::ByteWriter& out);
/// Throws FormatError, also when a node is not less than its count. Threads are not checked.
OlderBlocks load_older_blocks(trace::ByteReader& in, std::size_t node_count);

/// A table of these blocks; of those at one address the youngest one.
BlockTable table_of(std::span<const Block> blocks);

/// Sums of live blocks that are not in the table of live blocks.
struct LeftSums {
  struct Sum {
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 0;
    void add(std::uint64_t size) noexcept { bytes += size, ++blocks; }
    void remove(std::uint64_t size) noexcept { bytes -= size, --blocks; }
  };
  std::vector<Sum> nodes;    ///< by dense index; may be shorter than the call tree
  std::vector<Sum> threads;  ///< by index; likewise
};

/// The blocks of save_blocks() that were allocated at `ticks` or before. Throws trace::FormatError.
BlockTable blocks_up_to(std::uint64_t ticks, trace::ByteReader in);
/// Adds such blocks.
void add_up_to(std::uint64_t ticks, std::span<const Block> blocks, BlockTable& table);

}  // namespace heapprof::replay
