// Records the calls of patched functions. The trampoline (intercept/*/trampoline.S) calls heapprof_intercept_begin
// before the function and heapprof_intercept_end after it.
//
// One allocation counts once, although an allocator's functions call each other and all of them are patched:
//
//  - A call from the code of a patched function, or a jump from there, is part of that outer call. Only the outer one
//    is recorded, with the program's stack and the size that the program asked for. Program code that runs inside the
//    outer call (a new_handler, a signal handler) calls from its own code, and is recorded.
//  - A call that comes through functions that are not patched is recorded. The outer call then finds that its block
//    has been recorded (recorder::AllocatorCall). An inner free of the block that the outer call frees or reallocates
//    is not recorded.
//
// A call that an exception or a longjmp abandoned stays in the thread's list until the next call from an outer frame
// removes it.
#pragma once

#include <cstdint>

#include "call_frame.h"
#include "preload/base/alignment.h"
#include "preload/intercept/allocator_functions.h"

namespace heapprof::intercept {

/// A patched function. Never moved and never unmapped: threads may be in it.
struct PatchedFunction {
  const void* original;  ///< the displaced instructions, which lead back into the function
  std::uint64_t begin;   ///< the function's code
  std::uint64_t end;
  Signature signature;
  /// One of the real functions, or a function of a libc. Calls that bypass the hooks are recorded, but not those that
  /// are made while the thread is in any allocator's function.
  bool is_real_function;
  ZeroAlignment zero_alignment;  ///< only if Signature::alignment is an argument
  /// Calls from this code are not recorded. For functions of the program's libc, it is libc's own code. libc
  /// allocates for the program through the hooks. At a thread's end, it calls free for blocks that the program has
  /// freed already (malloc.c, tcache_thread_shutdown).
  std::uint64_t unrecorded_callers_begin;
  std::uint64_t unrecorded_callers_end;
};

/// What the trampoline does with a call. The values are those in trampoline.S.
enum class Action : std::uint32_t {
  kJump = 0,         ///< jump to the function: the call is not recorded
  kCall = 1,         ///< call the function, and heapprof_intercept_end afterwards
  kBeginRecord = 2,  ///< save the vector registers, and call heapprof_intercept_begin_recorded
};

}  // namespace heapprof::intercept

// heapprof_intercept_begin and _end use no vector registers, and call no function that does (-mgeneral-regs-only;
// tests/abi checks it). The trampoline saves vector registers only around the other two, which record the call.
extern "C" {
[[gnu::visibility("hidden")]] heapprof::intercept::Action heapprof_intercept_begin(
    heapprof::intercept::CallFrame* frame) noexcept;
[[gnu::visibility("hidden")]] heapprof::intercept::Action heapprof_intercept_begin_recorded(
    heapprof::intercept::CallFrame* frame) noexcept;
/// Returns whether heapprof_intercept_end_recorded is to be called.
[[gnu::visibility("hidden")]] bool heapprof_intercept_end(heapprof::intercept::CallFrame* frame) noexcept;
[[gnu::visibility("hidden")]] void heapprof_intercept_end_recorded(heapprof::intercept::CallFrame* frame) noexcept;
/// The return address of the trampoline's call of a function.
[[gnu::visibility("hidden")]] extern const char heapprof_intercept_returned[];
}
