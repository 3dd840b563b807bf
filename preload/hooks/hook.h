// How a hook is written. HEAPPROF_HOOK(result, name, (parameters)) { body } defines hook_name, which the
// library exports as `name`. The two names differ so that nothing in the library reaches a hook by calling
// what it takes for libc's function, and so that libc's declarations (attributes, variadic ones) do not
// have to be matched.
//
// Every hook on this list must be on exports.map, and the other way round: tests/abi compares both with the
// library.
//
// A hook that reports to the recorder reads entry_registers() in its own body. It makes exactly one
// call of the real function, with the arguments it got, and returns what that returned; between that call
// and the return nothing sets errno.
#pragma once

#include <cstdint>

#include "preload/arch/arch.h"
#include "preload/real/functions.h"
#include "preload/recorder/recorder.h"

#define HEAPPROF_HOOK(result, name, parameters)                                           \
  extern "C" [[gnu::visibility("default")]] result hook_##name parameters noexcept asm(#name); \
  extern "C" result hook_##name parameters noexcept

// The linker's names for the library's own first and last byte.
extern "C" {
[[gnu::visibility("hidden")]] extern const char __ehdr_start[];
[[gnu::visibility("hidden")]] extern const char _end[];
}

namespace heapprof::hooks {

/// Whether `address` lies in this library.
inline bool is_own(std::uint64_t address) noexcept {
  return address >= reinterpret_cast<std::uint64_t>(__ehdr_start) && address < reinterpret_cast<std::uint64_t>(_end);
}

/// At the end of a hook whose last act is to tell the recorder: keeps that a call. The recorder knows that somebody
/// is inside it by the return address into a hook (recorder/thread/thread_state.h), and a jump would leave none.
[[gnu::always_inline]] inline void return_here() noexcept { asm volatile("" ::: "memory"); }

}  // namespace heapprof::hooks
