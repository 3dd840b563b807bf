// What matters for Python about a native call stack, by its node of the call tree.
//
// A thread reads the data of an interpreter only while a frame of the interpreter's module is on its own call stack:
// the module cannot be unloaded then. And it reads none in a signal handler that has interrupted the interpreter,
// whose data may be half-written. Both are properties of the stack, so each node has them from its parent and its own
// frame, and they are stored when the node is interned. Lookups and stores take no lock.
#pragma once

#include <cstdint>

#include "common/ids.h"

namespace heapprof::python {

class StackTraits {
 public:
  constexpr StackTraits() noexcept = default;
  constexpr explicit StackTraits(std::uint8_t bits) noexcept : bits_(bits) {}

  /// The number of the interpreter in whose module the innermost one of such frames is; 0: there is no such frame.
  constexpr std::uint32_t interpreter() const noexcept { return bits_ & kInterpreter; }
  /// Whether a signal handler is on the stack.
  constexpr bool in_handler() const noexcept { return (bits_ & kSignal) != 0; }
  constexpr std::uint8_t bits() const noexcept { return bits_; }

  static constexpr std::uint8_t kInterpreter = 0x0f;
  static constexpr std::uint8_t kSignal = 0x80;

 private:
  std::uint8_t bits_ = 0;
};

namespace detail {
inline constexpr std::uint32_t kTraitsChunk = 1u << 16;
inline constexpr std::uint32_t kTraitsChunks = 1u << 12;  // as the call tree has
/// By the node's number. Null: no node of the chunk is on a stack with an interpreter.
extern std::uint8_t* traits_chunks[kTraitsChunks] [[gnu::visibility("hidden")]];
}  // namespace detail

inline StackTraits traits_of(NodeId node) noexcept {
  const std::uint32_t number = raw(node);
  const std::uint8_t* const chunk =
      __atomic_load_n(&detail::traits_chunks[number / detail::kTraitsChunk], __ATOMIC_ACQUIRE);
  return StackTraits{chunk == nullptr ? std::uint8_t{0}
                                      : __atomic_load_n(chunk + number % detail::kTraitsChunk, __ATOMIC_RELAXED)};
}

/// Stores the traits of `node`, which the call tree has just returned for a frame in `module` called from `parent`.
/// `signal`: see unwind::kSignalNode. Must be called for every node as soon as there is an interpreter.
void store_traits(NodeId node, NodeId parent, ModuleId module, bool signal) noexcept;

}  // namespace heapprof::python
