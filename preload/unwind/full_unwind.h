// Unwinding with all registers: for the few program counters whose rule needs more than the stack and the
// frame pointer (code of ld.so that addresses its frame by rbx, say). A hook only knows pc, sp and fp of its
// caller; the other registers that calls preserve are found by unwinding the recorder's own frames, from
// the registers at hand up to the hook's entry, like any others. After a signal frame all are known.
//
// Slow, some microseconds a frame: nothing is cached.
#pragma once

#include <cstdint>

#include "common/trace_format.h"
#include "preload/arch/arch.h"
#include "preload/unwind/cfi.h"
#include "preload/unwind/modules.h"
#include "preload/unwind/rule.h"
#include "preload/unwind/stack_bounds.h"

namespace heapprof::unwind {

/// A frame as it stands: registers.value[kPcColumn] is its program counter.
struct FullFrame {
  arch::Registers registers;
  bool exact;  ///< interrupted there: the program counter is not a return address
  bool valid;

  std::uint64_t pc() const noexcept { return registers.value[arch::kPcColumn]; }
  std::uint64_t sp() const noexcept { return registers.value[arch::kDwarfSp]; }
  std::uint64_t fp() const noexcept {
    return (registers.known >> arch::kDwarfFp & 1) != 0 ? registers.value[arch::kDwarfFp] : 0;
  }
};

enum class StepResult : std::uint8_t {
  kCaller,     ///< went to the caller
  kOutermost,  ///< there is none
  kTruncated,
};

enum class Lookup : std::uint8_t {
  kRow,
  kSignal,     ///< the frame that a signal handler returns to
  kOutermost,  ///< a return address that no call made: the first instruction of a function
  kNone,       ///< no unwind information
  kBad,
};

/// The unwind information of a program counter; `module`: that of pc, or of pc - 1 for a return address.
/// Null: code without module.
Lookup look_up(const Module* module, std::uint64_t pc, bool exact, CfiRow& row) noexcept;

/// The rule that a row comes to.
Rule compact(const CfiRow& row, ModuleId module, std::uint64_t pc) noexcept;

/// Frame pointers: the caller of a frame without unwind information, if the frame pointer points to what
/// can be a frame record. `record[0]` is the caller's frame pointer, `record[1]` the return address.
bool read_frame_record(std::uint64_t sp, std::uint64_t fp, StackBounds& bounds, std::uint64_t (&record)[2]) noexcept;

/// The registers that the kernel saved for a signal handler, which returns with `sp`.
bool read_signal_frame(std::uint64_t sp, StackBounds& bounds, FullFrame& frame) noexcept;

/// Goes to the caller of `frame`. At kTruncated `reason` says why, and `frame` is no longer valid.
StepResult step_full(FullFrame& frame, StackBounds& bounds, std::uint64_t generation, Truncation& reason) noexcept;

/// From the registers at hand to the frame that entered the hook.
bool unwind_to_entry(FullFrame& frame, const arch::EntryRegisters& entry, StackBounds& bounds,
                     std::uint64_t generation) noexcept;

}  // namespace heapprof::unwind
