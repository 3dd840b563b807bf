#include "preload/unwind/invalidation.h"

namespace heapprof::unwind::detail {
constinit std::atomic<std::uint64_t> invalidation_epoch{0};
}  // namespace heapprof::unwind::detail
