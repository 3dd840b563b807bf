// Defines hooks. HEAPPROF_HOOK(result, name, (parameters)) { body } defines hook_name, which the library
// exports as `name`. The names differ so that code of the library that calls `name` never reaches the hook, and so
// that libc's declarations (attributes, variadic functions) need not be matched.
//
// exports.map lists exactly the hooks; tests/abi compares both with the built library.
//
// Rules for a hook that reports an event to the recorder:
//   1. It reads entry_registers() in its own body.
//   2. It calls the real function exactly once, with the arguments that it received, and returns its result.
//   3. Nothing between that call and the return sets errno.
#pragma once

#include <cstdint>

#include "preload/arch/arch.h"
#include "preload/real/functions.h"
#include "preload/recorder/recorder.h"

#define HEAPPROF_HOOK(result, name, parameters)                                                \
  extern "C" [[gnu::visibility("default")]] result hook_##name parameters noexcept asm(#name); \
  extern "C" result hook_##name parameters noexcept

// The first byte of this library, and the byte after its last one (defined by the linker).
extern "C" {
[[gnu::visibility("hidden")]] extern const char __ehdr_start[];
[[gnu::visibility("hidden")]] extern const char _end[];
}

namespace heapprof::hooks {

/// Whether `address` is in this library.
inline bool is_in_this_library(std::uint64_t address) noexcept {
  return address >= reinterpret_cast<std::uint64_t>(__ehdr_start) && address < reinterpret_cast<std::uint64_t>(_end);
}

/// Ends a hook whose last statement calls the recorder, and keeps the compiler from replacing that call with a jump.
/// The recorder recognises an unfinished event by the return address into a hook (recorder/thread/thread_state.h).
[[gnu::always_inline]] inline void prevent_tail_call() noexcept { asm volatile("" ::: "memory"); }

}  // namespace heapprof::hooks
