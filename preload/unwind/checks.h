// Checks of a checked build (HEAPPROF_CHECK_STACKS): each stack that was captured by means of remembered data is
// walked again in full. The program ends at the first difference.
#pragma once

#include <cstdint>

#include "common/ids.h"
#include "preload/arch/arch.h"
#include "preload/unwind/definitions.h"

namespace heapprof::unwind {

#ifdef HEAPPROF_CHECK_STACKS
inline constexpr bool kCheckStacks = true;
#else
inline constexpr bool kCheckStacks = false;
#endif

struct ThreadData;

/// Checks that the stack that begins with `entry` is the shadow stack.
void check_shadow_stack(ThreadData& data, const arch::EntryRegisters& entry, const Definitions& definitions) noexcept;

/// Checks that the stack that begins with `entry` consists of `steps` frames and of the shadow stack up to and
/// including `anchor`, and that `expected` is its node.
void check_steps(ThreadData& data, const arch::EntryRegisters& entry, const Definitions& definitions,
                 std::uint32_t anchor, std::uint32_t steps, NodeId expected) noexcept;

}  // namespace heapprof::unwind
