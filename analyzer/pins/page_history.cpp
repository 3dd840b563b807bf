#include "analyzer/pins/page_history.h"

#include "analyzer/pins/arena_tops.h"

namespace heapprof::pins {

using allocators::AllocatorModel;

void PageHistory::allocated(std::uint64_t address, std::uint64_t size) {
  if (address == 0 || address >= allocators::kMaxAddress || size >= allocators::kMaxAddress) return;
  const AllocatorModel& model = allocators_.of(address);
  if (!model.is_unmapped_by_free(address, size)) once_held_.add(model.kept_range(address, size));
}

PageRanges PageHistory::returnable(const PageRanges& kept) const {
  const PageRanges once_held = once_held_.ranges();
  return difference(difference(once_held, kept), arena_tops(allocators_, once_held, kept));
}

}  // namespace heapprof::pins
