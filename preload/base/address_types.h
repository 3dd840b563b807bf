// Types of addresses. They are passed side by side, and swapping two of them does not compile. Each is a 64-bit
// number and costs nothing.
#pragma once

#include <cstdint>

namespace heapprof {

/// An address of code: a return address, or where a signal interrupted the code.
enum class ProgramCounter : std::uint64_t {};

/// A position on a stack. Stacks grow down: of two positions on one stack, the lower one belongs to the later call.
enum class StackPointer : std::uint64_t { kNone = 0 };

constexpr std::uint64_t to_address(ProgramCounter pc) noexcept { return static_cast<std::uint64_t>(pc); }
constexpr std::uint64_t to_address(StackPointer sp) noexcept { return static_cast<std::uint64_t>(sp); }

}  // namespace heapprof
