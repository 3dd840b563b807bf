// Walks the stack frame by frame, until the remaining frames are those of the verified shadow stack.
#pragma once

#include <cstdint>

#include "preload/unwind/shadow_stack.h"
#include "preload/unwind/step.h"

namespace heapprof::unwind {

struct ThreadData;

/// Walks from walk.state to the outermost frame, or to a frame of the shadow stack from which on all outer frames are
/// verified. `candidates`: the number of frames of the shadow stack, from the outermost, that may be used. The walked
/// frames are then in data.arrays->walked. `max_cached`: the number of steps, from the innermost one on, that are
/// added to the cached steps.
Walked walk_stack(ThreadData& data, Walk& walk, std::uint32_t candidates, std::uint32_t max_cached) noexcept;

}  // namespace heapprof::unwind
