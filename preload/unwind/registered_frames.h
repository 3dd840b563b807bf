// Unwind information that the host registered at run time (__register_frame), for code that no loaded
// object holds. Compilers at run time do so, to let exceptions pass through their code.
#pragma once

#include "preload/unwind/modules.h"

namespace heapprof::unwind {

/// The registered entries that cover `pc`; empty: none.
Span find_registered(std::uint64_t pc) noexcept;

}  // namespace heapprof::unwind
