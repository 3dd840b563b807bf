// Unwinding with all registers, for the few program counters whose rule needs more than sp and fp: code of ld.so that
// addresses its frame by rbx, for example.
//
// In a hook, only pc, sp and fp of the caller are known. The other registers that calls preserve are found by
// unwinding the recorder's own frames: from the current registers to the frame that entered the hook. After a signal
// frame all registers are known.
//
// Nothing is cached, so a frame takes some microseconds.
#pragma once

#include <cstdint>

#include "common/trace_format.h"
#include "preload/arch/arch.h"
#include "preload/unwind/cfi.h"
#include "preload/unwind/frame_address.h"
#include "preload/unwind/rule.h"
#include "preload/unwind/stack_bounds.h"

namespace heapprof::unwind {

/// A frame with all registers; registers.value[kPcColumn] is its program counter.
struct FullFrame {
  arch::Registers registers;
  bool interrupted;  ///< see FrameAddress
  bool valid;        ///< false: everything else is undefined

  FrameAddress address() const noexcept { return {pc(), interrupted}; }
  ProgramCounter pc() const noexcept { return ProgramCounter{registers.value[arch::kPcColumn]}; }
  StackPointer sp() const noexcept { return StackPointer{registers.value[arch::kDwarfSp]}; }
  std::uint64_t fp() const noexcept {
    return (registers.known >> arch::kDwarfFp & 1) != 0 ? registers.value[arch::kDwarfFp] : 0;
  }
};

enum class StepResult : std::uint8_t {
  kCaller,     ///< the caller was found
  kOutermost,  ///< the frame has no caller
  kTruncated,  ///< the caller could not be found
};

enum class RowKind : std::uint8_t {
  kRow,        ///< a row of unwind information
  kSignal,     ///< the frame to which a signal handler returns
  kOutermost,  ///< a return address that no call pushed: the first instruction of a function
  kNone,       ///< no unwind information
  kInvalid,    ///< damaged unwind information
};

/// Finds the unwind information of a frame. `object` holds address.lookup(); null for code without a module.
RowKind find_row(const ElfObject* object, FrameAddress address, CfiRow& row) noexcept;

/// Converts a row to a rule.
Rule make_rule(const CfiRow& row, ModuleId module, std::uint64_t pc) noexcept;

/// What a frame pointer points to (System V ABI, x86-64 supplement, 3.2.2; AAPCS64, 6.4.6).
struct FrameRecord {
  std::uint64_t fp;  ///< the caller's
  std::uint64_t return_address;
};

/// Reads the frame record of a frame without unwind information. Returns false if `fp` does not point to a plausible
/// frame record.
bool read_frame_record(StackPointer sp, std::uint64_t fp, StackBounds& bounds, FrameRecord& record) noexcept;

/// Reads the registers that the kernel saved for a signal handler; `sp` is the stack pointer after the handler has
/// returned.
bool read_signal_frame(StackPointer sp, StackBounds& bounds, FullFrame& frame) noexcept;

/// Replaces `frame` by its caller. If it returns kTruncated, `reason` is set and `frame` is not valid.
StepResult step_full(FullFrame& frame, StackBounds& bounds, std::uint64_t generation, Truncation& reason) noexcept;

/// Unwinds from the current registers to the frame that entered the hook. Returns false when that fails.
bool unwind_to_entry(FullFrame& frame, const arch::EntryRegisters& entry, StackBounds& bounds,
                     std::uint64_t generation) noexcept;

}  // namespace heapprof::unwind
