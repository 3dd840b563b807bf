// Unwind information that the host registers at run time (__register_frame), for code that no loaded object holds.
// JIT compilers register their code so that exceptions can pass through it.
#pragma once

#include "preload/unwind/elf_object.h"

namespace heapprof::unwind {

/// Returns the registered entries that cover `pc`; empty: none.
Span find_registered(std::uint64_t pc) noexcept;

}  // namespace heapprof::unwind
