// Return paths on aarch64: none are found yet.
#include "preload/unwind/return_path.h"

namespace heapprof::unwind {

// Not written: frames without unwind information are unwound by the frame pointer.
ReturnPath find_return_path(const FollowedCode&, std::uint64_t) noexcept { return {}; }

}  // namespace heapprof::unwind
