// A position on a stack. A distinct type, so that it cannot be mixed up with an address of code or data.
#pragma once

#include <cstdint>

namespace heapprof {

/// Stacks grow down: of two positions on one stack, the lower one belongs to the later call.
enum class StackPointer : std::uint64_t { kNone = 0 };

constexpr std::uint64_t to_address(StackPointer position) noexcept { return static_cast<std::uint64_t>(position); }

}  // namespace heapprof
