// Replaces the addresses of blocks by numbers (block_number() in trace/compact/chunk_codec.h).
//
// Two events have equal numbers exactly when a replay takes their addresses for the same block. An address keeps its
// number while its block is live, and during a realloc, which may fail and leave the block as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/replay/block_table.h"
#include "analyzer/trace/events/merged_event.h"

namespace heapprof::replay {

class BlockNumbers {
 public:
  explicit BlockNumbers(std::size_t streams) : next_ordinal_(streams, 0), in_realloc_(streams) {}

  /// Replaces the address of the next event, in the order in which a replay handles them. `texts`: of the batch.
  void translate(trace::MergedEvent& event, const std::vector<trace::EventText>& texts);

 private:
  std::uint64_t allocate(std::uint32_t stream, std::uint64_t address);
  std::uint64_t free(std::uint64_t address);
  std::uint64_t begin_realloc(std::uint32_t stream, std::uint64_t address);
  void end_realloc(std::uint32_t stream, bool is_live);
  Block* find_live(std::uint64_t address);

  // Fields of an entry: size is the number of the block, thread is 1 while the block is live, node counts the pending
  // reallocs of the block.
  BlockTable entries_;
  std::vector<std::uint64_t> next_ordinal_;             // by stream
  std::vector<std::vector<std::uint64_t>> in_realloc_;  // by stream, a stack of addresses; 0: the block is unknown
};

}  // namespace heapprof::replay
