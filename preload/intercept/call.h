// A call of a patched function. The thunk (arch/*/thunk.S) asks before it what is to be done, and tells when the
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
// A call that ends by an exception (operator new) or longjmp leaves a mark; it is recognised, as the recorder's own, by
// the next call that comes from higher up the stack.
#pragma once

#include <cstdint>

#include "intercept_call.h"
#include "preload/intercept/names.h"

namespace heapprof::intercept {

/// A patched function. Never moves, never freed: threads may be in it.
struct Target {
  const void* original;  ///< the displaced instructions and what follows them
  std::uint64_t begin;   ///< the function's code
  std::uint64_t end;
  Signature signature;
};

}  // namespace heapprof::intercept

extern "C" {
/// 0: the function is to take the thunk's place. 1: it is called, and heapprof_intercept_after then.
[[gnu::visibility("hidden")]] std::uint32_t heapprof_intercept_before(heapprof::arch::CallFrame* frame) noexcept;
[[gnu::visibility("hidden")]] void heapprof_intercept_after(heapprof::arch::CallFrame* frame) noexcept;
/// Where a patched function returns to when the thunk called it.
[[gnu::visibility("hidden")]] extern const char heapprof_intercept_returned[];
}
