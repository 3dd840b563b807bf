// Reads from a trace what live blocks keep, and what could be returned to the system.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/allocators/process_allocators.h"
#include "analyzer/pins/holder_sets.h"
#include "analyzer/pins/page_history.h"
#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/progress.h"

namespace heapprof::pins {

struct PinnedMemory {
  allocators::Allocator allocator = allocators::Allocator::kUnknown;
  KeptMemory kept;
  std::uint64_t pinned_bytes = 0;  ///< of granules with a live block
  std::uint64_t usable_bytes = 0;  ///< of all live blocks
  /// Granules that once held a block and hold none; empty if read from a compacted trace.
  PageRanges returnable;
  /// Their bytes. What can be returned is less if the allocator has returned some by itself.
  std::uint64_t returnable_bytes = 0;
  std::string note;  ///< about the allocator; empty: nothing to note

  /// What is pinned beyond the blocks themselves.
  std::uint64_t overhead_bytes() const noexcept {
    return pinned_bytes - (usable_bytes < pinned_bytes ? usable_bytes : pinned_bytes);
  }
  /// Sets pinned_bytes and usable_bytes from `kept`.
  void add_up() noexcept;
};

/// Adapts `allocators` to the blocks that are live at a moment.
void see_blocks(allocators::ProcessAllocators& allocators, const std::vector<PinningBlock>& live);

/// What `live` pins. `allocators` was adapted to these blocks; `history` has the records up to the moment.
PinnedMemory pinned_memory_of(std::vector<PinningBlock> live, const allocators::ProcessAllocators& allocators,
                              const PageHistory& history, std::size_t node_count);

/// Reads the trace again, to the end of the analysis's slice. `live` are the blocks that are live there. Every
/// granule with a live block counts as resident. Precondition: has_addresses(analysis.profile()), and no block is
/// excluded by the selection.
PinnedMemory find_pinned_memory(const replay::Analysis& analysis, std::vector<PinningBlock> live,
                                const replay::Progress& progress = {});

/// False: the trace was compacted, and its blocks have numbers instead of addresses. Then pinned_tables.h has what is
/// known.
inline bool has_addresses(const model::Profile& profile) noexcept { return !profile.recording.rounded; }

}  // namespace heapprof::pins
