// Types of addresses. Functions have several of them as parameters; distinct types let the compiler reject swapped
// arguments. Each is a 64-bit number and has no cost at run time.
#pragma once

#include <cstdint>

namespace heapprof {

/// An address of code: a return address, or where a signal interrupted the code.
enum class ProgramCounter : std::uint64_t {};

/// A position on a stack. Stacks grow down, so on one stack, a later call has a lower position.
enum class StackPointer : std::uint64_t { kNone = 0 };

constexpr std::uint64_t to_address(ProgramCounter pc) noexcept { return static_cast<std::uint64_t>(pc); }
constexpr std::uint64_t to_address(StackPointer sp) noexcept { return static_cast<std::uint64_t>(sp); }

}  // namespace heapprof
