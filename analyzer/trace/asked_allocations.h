// The allocations of a frame that a reader is asked for, instead of all its events.
//
// Sizes and stacks say which ones these are. Most frames have none of a rare stack or size, and then times and
// addresses are not read; otherwise they are only summed up to the last one. Addresses that are not asked for are not
// read at all. docs/concepts/experiments.md has what that saves ("SQL").
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "analyzer/trace/events/definitions.h"
#include "analyzer/trace/events/merged_event.h"
#include "common/event_codec.h"

namespace heapprof::trace {

struct AskedAllocations {
  std::uint64_t min_size = 0;
  std::uint64_t max_size = std::numeric_limits<std::uint64_t>::max();
  std::span<const std::uint8_t>
      nodes{};                 ///< by dense index: 0 excludes; a node beyond the end is asked for; empty: all
  bool with_addresses = true;  ///< false: they may be wrong, except that 0 still means: no block

  bool are_all() const noexcept { return has_all_sizes() && nodes.empty(); }
  bool has_all_sizes() const noexcept {
    return min_size == 0 && max_size == std::numeric_limits<std::uint64_t>::max();
  }
  bool has_size(std::uint64_t size) const noexcept { return size >= min_size && size <= max_size; }
  bool has_node(std::uint32_t node) const noexcept { return node >= nodes.size() || nodes[node] != 0; }
};

/// For one frame after another, in one thread.
class AskedReader {
 public:
  /// `node_index`: of the nodes that are known; must outlive this, as the nodes of `asked`.
  AskedReader(const AskedAllocations& asked, const NodeIndex& node_index) : asked_(asked), node_index_(node_index) {}

  /// Replaces `events` by the allocations, without a stream. False: the frame must be decoded as a whole, because it
  /// has texts or unknown nodes, or is malformed.
  bool read(ColumnFormat format, const std::uint8_t* columns, std::size_t size, std::uint64_t first_time,
            std::uint32_t record_count, std::vector<MergedEvent>& events);

 private:
  struct Place {
    std::uint32_t records;    ///< before the allocation and with it
    std::uint32_t addresses;  ///< likewise, numbers in their column
  };
  bool may_have_any(ColumnFormat format, const FrameColumns& columns) const;
  bool find(ColumnFormat format, const FrameColumns& columns, std::uint32_t record_count,
            std::vector<MergedEvent>& events);

  const AskedAllocations asked_;
  const NodeIndex& node_index_;
  std::vector<Place> places_;  ///< by event
  bool has_empty_realloc_;     ///< an event that is asked for may be of a realloc to no bytes, which has no block
};

}  // namespace heapprof::trace
