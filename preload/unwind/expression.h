// DWARF expressions (DWARF 5, section 2.5), as far as unwind information uses them: arithmetic on registers and on
// words of the stack.
#pragma once

#include <cstdint>

#include "preload/arch/arch.h"
#include "preload/unwind/cfi.h"
#include "preload/unwind/stack_bounds.h"

namespace heapprof::unwind {

/// Evaluates the expression at `distance` in `row`. `initial`, if not null, is pushed first: the CFA for the rule of
/// a register. Returns false when the expression needs a register that is unknown, an address that may not be read,
/// or an operation that is not implemented.
bool evaluate(const CfiRow& row, std::int64_t distance, const arch::Registers& registers, StackBounds& bounds,
              const std::uint64_t* initial, std::uint64_t& result) noexcept;

/// The result of an expression for one program counter, as a formula.
struct Formula {
  enum Kind : std::uint8_t {
    kNone,      ///< any other result
    kConstant,  ///< offset
    kSp,        ///< sp + offset
    kFp,        ///< fp + offset
    kAtFp,      ///< the word at fp + offset
  } kind = kNone;
  std::int64_t offset = 0;
};

/// Simplifies the expression at `distance` in `row` for the program counter `pc`, without the values of registers.
/// For the rule of a register the formula is the address where it is saved; an expression that uses the CFA is not
/// simplified.
Formula simplify(const CfiRow& row, std::int64_t distance, std::uint64_t pc) noexcept;

}  // namespace heapprof::unwind
