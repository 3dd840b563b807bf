// DWARF expressions (DWARF 5, section 2.5), as far as unwind information uses them: arithmetic on registers,
// and words of the stack.
#pragma once

#include <cstdint>

#include "preload/arch/arch.h"
#include "preload/unwind/cfi.h"
#include "preload/unwind/stack_bounds.h"

namespace heapprof::unwind {

/// Evaluates the expression at `distance` in `row`. `initial`, when given, is on the stack at the start
/// (rules of registers: the CFA). False: it needs a register that is not known, an address that may not be
/// read, or what is not implemented.
bool evaluate(const CfiRow& row, std::int64_t distance, const arch::Registers& registers, StackBounds& bounds,
              const std::uint64_t* initial, std::uint64_t& result) noexcept;

/// The outcome of an expression as a formula, for one program counter.
struct Formula {
  enum Kind : std::uint8_t {
    kNone,      ///< none of these
    kConstant,  ///< offset
    kSp,        ///< sp + offset
    kFp,        ///< fp + offset
    kAtFp,      ///< the word at fp + offset
  } kind = kNone;
  std::int64_t offset = 0;
};

/// What the expression at `distance` in `row` comes to when the program counter is `pc`, registers unknown.
/// For a register's rule: the address where it is saved, which must not depend on the CFA.
Formula simplify(const CfiRow& row, std::int64_t distance, std::uint64_t pc) noexcept;

}  // namespace heapprof::unwind
