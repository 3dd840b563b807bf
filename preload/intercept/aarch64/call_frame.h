// The counterpart of intercept/x86_64/call_frame.h. Functions are not patched on aarch64 (patch.cpp), so no
// trampoline fills this structure.
#pragma once

#include <cstdint>

#include "preload/recorder/recorder.h"
#include "preload/recorder/thread/thread_state.h"

namespace heapprof::intercept {

struct PatchedFunction;

struct CallFrame {
  std::uint64_t x[8];                     ///< the arguments; x0 also the result
  const void* original;                   ///< PatchedFunction::original; set by heapprof_intercept_begin
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
  std::uint64_t host_fp;
  std::uint64_t return_address;

  std::uint64_t argument(unsigned number) const noexcept { return x[number & 7]; }
  std::uint64_t result() const noexcept { return x[0]; }
  arch::EntryRegisters entry() const noexcept {
    return {ProgramCounter{return_address}, StackPointer{reinterpret_cast<std::uint64_t>(this + 1)}, host_fp};
  }
};

}  // namespace heapprof::intercept
