// Where a stack begins: the host's side of the call into a hook. A hook is compiled with a frame
// pointer, so from its frame: the word at rbp is the host's rbp, the one above it the return address,
// and above that begins the host's frame.
#pragma once

#include <cstdint>

namespace heapprof::arch {

/// Registers of the host as they are just after the hook will have returned.
struct EntryRegisters {
  std::uint64_t pc;  ///< return address into the host
  std::uint64_t sp;  ///< the hook's CFA
  std::uint64_t fp;  ///< rbp
};

/// Must be inlined into the hook itself.
[[gnu::always_inline]] inline EntryRegisters entry_registers() noexcept {
  const auto* frame = static_cast<const std::uint64_t*>(__builtin_frame_address(0));
  return {frame[1], reinterpret_cast<std::uint64_t>(frame + 2), frame[0]};
}

/// Approximate stack pointer here: to tell re-entry from a mark that a longjmp left behind.
[[gnu::always_inline]] inline std::uint64_t stack_pointer() noexcept {
  return reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
}

}  // namespace heapprof::arch
