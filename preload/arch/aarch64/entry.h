// Reads the host's registers at the call of a hook, where the recorded stack begins. A hook is compiled with a frame
// pointer: x29 points at the frame record {caller's x29, return address} (AAPCS64 6.4.6). The record is at the bottom
// of the frame, so the hook's CFA comes from __builtin_dwarf_cfa.
#pragma once

#include <cstdint>

#include "preload/arch/aarch64/dwarf_registers.h"
#include "preload/base/address_types.h"

namespace heapprof::arch {

/// The host's registers as they will be when the hook has returned.
struct EntryRegisters {
  ProgramCounter pc;  ///< return address into the host
  StackPointer sp;    ///< the hook's CFA
  std::uint64_t fp;   ///< x29
};

/// Precondition: inlined into the hook itself, because it reads the hook's frame.
[[gnu::always_inline]] inline EntryRegisters entry_registers() noexcept {
  const auto* record = static_cast<const std::uint64_t*>(__builtin_frame_address(0));
  return {ProgramCounter{strip(record[1])}, StackPointer{reinterpret_cast<std::uint64_t>(__builtin_dwarf_cfa())},
          record[0]};
}

/// The frame address of the function into which this is inlined, as an approximation of its stack pointer. The
/// recorder compares it to distinguish re-entry by a signal handler from a call that a longjmp abandoned.
[[gnu::always_inline]] inline StackPointer stack_pointer() noexcept {
  return StackPointer{reinterpret_cast<std::uint64_t>(__builtin_frame_address(0))};
}

}  // namespace heapprof::arch
