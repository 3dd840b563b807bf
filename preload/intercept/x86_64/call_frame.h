// The registers of a patched function's caller, as the trampoline (trampoline.S) saves them on the stack, and the
// recorder's values for the duration of the call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/recorder/recorder.h"
#include "preload/recorder/thread/thread_state.h"

namespace heapprof::intercept {

struct PatchedFunction;

/// Its address is a multiple of 8 only, so no member may be aligned to 16.
struct CallFrame {
  std::uint64_t rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11;
  const void* original;                   ///< PatchedFunction::original; set by heapprof_intercept_begin
  std::uint32_t action;                   ///< the Action; written by the trampoline
  std::uint32_t index;                    ///< position in the thread's list of unfinished patched calls
  std::uint32_t realloc_begun;            ///< result of realloc_begin
  std::uint32_t outer_depth;              ///< ThreadLocal::allocator_depth before this call
  const void* block;                      ///< the block that the call frees or reallocates
  std::uint64_t size;                     ///< the requested size
  const void* outer_reallocating;         ///< ThreadLocal::reallocating before this call
  recorder::InterceptedCall interrupted;  ///< the entry of the thread's list that this call overwrote
  std::uint64_t alignment;                ///< the requested one; set if Signature::alignment is an argument
  recorder::AllocatorCall call;           ///< set for calls that allocate
  const PatchedFunction* function;
  // The frame that the stub created.
  std::uint64_t host_fp;
  std::uint64_t return_address;

  std::uint64_t argument(unsigned number) const noexcept {
    switch (number) {
      case 0: return rdi;
      case 1: return rsi;
      case 2: return rdx;
      case 3: return rcx;
      case 4: return r8;
      default: return r9;
    }
  }
  std::uint64_t result() const noexcept { return rax; }
  arch::EntryRegisters entry() const noexcept {
    return {ProgramCounter{return_address}, StackPointer{reinterpret_cast<std::uint64_t>(this + 1)}, host_fp};
  }
};
// trampoline.S uses these offsets as numbers.
static_assert(offsetof(CallFrame, original) == 72 && offsetof(CallFrame, action) == 80 &&
              offsetof(CallFrame, host_fp) == 176 && alignof(CallFrame) == 8);

}  // namespace heapprof::intercept
