// What a replay counts between two moments, so that a later analysis can add it instead of replaying the events.
//
// The sums are those of everything that happened in the interval, whatever the age of the blocks. A slice that begins
// earlier, but after the allocation of such a block, counts fewer temporary and moved blocks; therefore those of
// blocks that are older than the interval are listed one by one.
//
//   live at the end of the interval = live at its begin + NodeSums::live_...
//   live at the peak                = live at its begin + NodeSums::peak_...
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/model/profile.h"
#include "analyzer/replay/block_table.h"
#include "analyzer/trace/files/byte_stream.h"

namespace heapprof::replay {

/// Mappings that were made.
struct MappingSums {
  std::uint64_t mappings = 0;
  std::uint64_t mapped_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t from_allocator = 0;  ///< of `mappings`: requested by an allocator
  std::uint64_t from_allocator_bytes = 0;
};

/// Fields that add up over time.
inline constexpr std::array kSummedHeapFields = {
    &model::HeapTotals::allocations,  &model::HeapTotals::allocated_bytes,       &model::HeapTotals::frees,
    &model::HeapTotals::failed,       &model::HeapTotals::temporary_allocations, &model::HeapTotals::unmatched_frees,
    &model::HeapTotals::implied_frees};
inline constexpr std::array kMappingFields = {&MappingSums::mappings, &MappingSums::mapped_bytes,
                                              &MappingSums::reserved_bytes, &MappingSums::from_allocator,
                                              &MappingSums::from_allocator_bytes};

/// The highest live sum after an allocation in an interval; 0 bytes: there is none.
struct IntervalPeak {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  std::uint64_t ticks = 0;
  std::uint64_t allocations = 0;  ///< as EventPosition::allocations; of mappings 0
};

/// Of a stack, or of a thread, which has no moved blocks.
struct NodeSums {
  std::uint32_t node = 0;  ///< dense index; of a thread: its index
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t temporary = 0;
  std::uint64_t temporary_bytes = 0;
  std::uint64_t moved_blocks = 0;
  std::uint64_t moved_bytes = 0;
  std::int64_t live_blocks = 0;
  std::int64_t live_bytes = 0;
  std::int64_t peak_blocks = 0;
  std::int64_t peak_bytes = 0;
};

struct ThreadSums {
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
};

struct LiveSums {
  std::uint64_t bytes = 0;
  std::uint32_t blocks = 0;
};

/// A block that was freed in the interval and allocated before it.
struct OlderBlock {
  std::uint32_t node = 0;  ///< dense index
  std::uint32_t thread = 0;
  std::uint64_t size = 0;
  std::uint64_t time = 0;  ///< of its allocation, ticks
};

struct IntervalSums {
  model::HeapTotals heap;  ///< peaks and leaks are 0
  MappingSums mappings;
  IntervalPeak heap_peak;
  IntervalPeak mmap_peak;
  std::uint64_t samples = 0;
  std::uint64_t snapshots = 0;
  std::uint64_t peak_rss_bytes = 0;
  std::vector<NodeSums> threads;  ///< heap only, of all threads
  std::vector<NodeSums> nodes;    ///< heap only, nodes ascending
  std::vector<OlderBlock> older_temporary;
  std::vector<OlderBlock> older_moved;
};

void save(const IntervalSums& sums, trace::ByteWriter& out);
/// Throws trace::FormatError, also when a node is not less than `node_count`.
IntervalSums load_interval_sums(trace::ByteReader& in, std::uint32_t node_count);

/// What a replay keeps during an interval for its sums and its older blocks. Memory: a few words for each
/// block that was live at the begin of the interval and was freed since, and for each node.
struct IntervalLog {
  using Key = std::pair<std::uint64_t, std::uint64_t>;  ///< address and time of a block
  static Key key_of(const Block& block) noexcept { return {block.address, block.time}; }

  std::uint64_t begin_ticks = 0;         ///< of the last event before it; its own blocks are younger
  std::vector<Block> removed;            ///< older blocks that left the table of live blocks, except:
  std::map<Key, Block> given;            ///< those that were given to a realloc
  std::vector<Block> freed_by_reallocs;  ///< older blocks that were freed by the realloc that had them
  std::vector<OlderBlock> older_temporary;
  std::vector<OlderBlock> older_moved;
  // Of the replay, at the begin of the interval:
  model::HeapTotals heap;
  MappingSums mappings;
  std::uint64_t samples = 0;
  std::uint64_t snapshots = 0;
  std::vector<LiveSums> live;  ///< by node
  std::vector<LiveSums> live_of_threads;
};

}  // namespace heapprof::replay
