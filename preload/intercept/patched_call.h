// A call of a patched function. The thunk (intercept/*/trampoline.S) asks before it what is to be done, and tells when the
// function has returned.
//
// One allocation counts once, though allocators are made of functions that call each other, all of them patched:
//
//  - A function called by the code of a patched function, or jumped to in its place, is that function's own business:
//    the outer call reports, with the program's stack and what the program asked for. Code of the program that runs
//    in between (a new_handler, a signal handler) calls from elsewhere and is recorded.
//  - One that is reached through other functions of the allocator records; the outer call then finds its own block
//    recorded and is silent (recorder::AllocatorCall). A release of the block that an outer call gives up is silent.
//
// A call that ends by an exception (operator new) or longjmp leaves a mark; it is recognised, as the recorder's own,
// by the next call that comes from higher up the stack.
#pragma once

#include <cstdint>

#include "call_frame.h"
#include "preload/intercept/allocator_functions.h"

namespace heapprof::intercept {

/// A patched function. Never moves, never freed: threads may be in it.
struct Target {
  const void* original;  ///< the displaced instructions and what follows them
  std::uint64_t begin;   ///< the function's code
  std::uint64_t end;
  Signature signature;
  /// A function behind the hooks, or of a libc. Those who reach it otherwise are recorded, but not what allocators do
  /// among themselves: a call made while the thread is in any allocator's function is that one's own business.
  bool behind;
  /// Of a function of the program's libc: libc itself. What it wants recorded it calls by the hooks; when a thread
  /// ends, it gives back by free what had been released before (malloc.c, tcache_thread_shutdown).
  std::uint64_t silent_begin;
  std::uint64_t silent_end;
};

/// What the thunk is to do with a call.
enum class Begin : std::uint32_t {
  kReplace = 0,  ///< the function takes the thunk's place
  kCall = 1,     ///< it is called, and heapprof_intercept_end then
  kRecord = 2,   ///< heapprof_intercept_begin_recorded, with all registers saved, will say
};

}  // namespace heapprof::intercept

// The first of each pair uses no vector register and calls nothing that does (this file's code is compiled so, and
// tests/abi looks): the thunk saves those only for the second, which records.
extern "C" {
[[gnu::visibility("hidden")]] heapprof::intercept::Begin heapprof_intercept_begin(
    heapprof::arch::CallFrame* frame) noexcept;
[[gnu::visibility("hidden")]] heapprof::intercept::Begin heapprof_intercept_begin_recorded(
    heapprof::arch::CallFrame* frame) noexcept;
/// False: that was all.
[[gnu::visibility("hidden")]] bool heapprof_intercept_end(heapprof::arch::CallFrame* frame) noexcept;
[[gnu::visibility("hidden")]] void heapprof_intercept_end_recorded(heapprof::arch::CallFrame* frame) noexcept;
/// Where a patched function returns to when the thunk called it.
[[gnu::visibility("hidden")]] extern const char heapprof_intercept_returned[];
}
