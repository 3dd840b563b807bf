// What the thunk (thunk.S) leaves on the stack for the recorder: the registers of a patched function's caller.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/recorder/recorder.h"
#include "preload/recorder/thread/thread_state.h"

namespace heapprof::intercept {
struct Target;
}

namespace heapprof::arch {

struct CallFrame {
  std::uint64_t rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11;
  const void* original;           ///< the function itself, past the patch
  std::uint32_t has_after;        ///< the thunk's: what heapprof_intercept_begin decided
  std::uint32_t index;            ///< among the patched calls that the thread is in
  std::uint32_t begun;            ///< realloc_begin's result
  std::uint32_t outer_depth;      ///< what ThreadLocal held before
  const void* block;              ///< what is given up
  std::uint64_t size;             ///< what is asked for
  const void* outer_reallocating; ///< what ThreadLocal held before
  recorder::InterceptedCall interrupted;  ///< where this call stands in the list: what stood there
  /// Set for calls that allocate. The frame is a multiple of what stacks are aligned to.
  alignas(16) recorder::AllocatorCall call;
  const intercept::Target* target;
  // The frame that the stub made.
  std::uint64_t host_fp;
  std::uint64_t return_address;

  std::uint64_t argument(unsigned index) const noexcept {
    switch (index) {
      case 0: return rdi;
      case 1: return rsi;
      case 2: return rdx;
      case 3: return rcx;
      case 4: return r8;
      default: return r9;
    }
  }
  std::uint64_t result() const noexcept { return rax; }
  EntryRegisters entry() const noexcept {
    return {return_address, reinterpret_cast<std::uint64_t>(this + 1), host_fp};
  }
};
// thunk.S has these as numbers.
static_assert(offsetof(CallFrame, original) == 72 && offsetof(CallFrame, has_after) == 80 &&
              offsetof(CallFrame, host_fp) == 176);

}  // namespace heapprof::arch
