// What the allocations and frees up to a moment show: which memory once held a block, and how much glibc keeps at the
// free end of a heap. That is twice the size of the largest mapping that was freed, since large blocks of a program
// that frees such blocks come from the heap from then on.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "analyzer/allocators/glibc.h"
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
      case Op::kFree:
      case Op::kFreeStack:
      case Op::kReallocBegin:
        if (event.address % allocators::kPageBytes == allocators::kGlibcMappedOffset) freed(event.address);
        return;
      default: return;
    }
  }

  /// Bytes of granules that once held a block and hold none, without those that glibc has returned by itself. `kept`:
  /// all granules with a live block.
  std::uint64_t returnable_bytes(const PageRanges& kept) const;

 private:
  void allocated(std::uint64_t address, std::uint64_t size);
  void freed(std::uint64_t address);

  const allocators::ProcessAllocators& allocators_;
  PageCollector once_held_;
  std::unordered_map<std::uint64_t, std::uint64_t> mappings_;  // glibc's live ones: size by address
  std::uint64_t trim_threshold_ = allocators::kGlibcTrimBytes;
};

}  // namespace heapprof::pins
