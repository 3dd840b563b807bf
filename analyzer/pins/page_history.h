// What the allocations and frees up to a moment show: which memory once held a block.
#pragma once

#include <cstdint>

#include "analyzer/allocators/process_allocators.h"
#include "analyzer/pins/page_ranges.h"
#include "analyzer/trace/events/merged_event.h"

namespace heapprof::pins {

class PageHistory {
 public:
  /// `allocators` must outlive this.
  explicit PageHistory(const allocators::ProcessAllocators& allocators) : allocators_(allocators) {}

  /// Adds a record of the trace; those of equal time in any order.
  void add(const trace::MergedEvent& event) {
    switch (event.op()) {
      case Op::kAlloc:
      case Op::kReallocEnd: return allocated(event.address, event.size());
      default: return;
    }
  }

  /// Granules that once held a block and hold none, without the tops of glibc's arenas (arena_tops.h), which
  /// malloc_trim does not return. The allocator may have returned some of them already. `kept`: all granules with a
  /// live block.
  PageRanges returnable(const PageRanges& kept) const;

 private:
  void allocated(std::uint64_t address, std::uint64_t size);

  const allocators::ProcessAllocators& allocators_;
  PageCollector once_held_;
};

}  // namespace heapprof::pins
