// Walks the stack frame by frame, until what is left of it is verified by the shadow stack.
#pragma once

#include <cstdint>

#include "preload/unwind/shadow_stack.h"
#include "preload/unwind/step.h"

namespace heapprof::unwind {

struct ThreadData;

/// Walks from walk.state to the outermost frame, or to a frame of the shadow stack from which all is verified.
/// `candidates`: how many frames of the shadow stack, from the outermost, may be used. The walked frames are left in
/// data.arrays.
Walked walk_stack(ThreadData& data, Walk& walk, std::uint32_t candidates) noexcept;

}  // namespace heapprof::unwind
