// What is read of an interpreter's thread states and frames, in the fast path (thread_frames.h) and outside of it. If
// `layout` is a constant, all offsets are constants, and what is read of each frame costs one or two instructions: so
// compilers must inline these functions, although they are called at many places.
#pragma once

#include <cstdint>

#include "preload/python/interpreter.h"
#include "preload/python/layout.h"
#include "preload/python/readable_pages.h"

namespace heapprof::python {

/// The bytes of a frame, of a code object and of a CFrame that are read.
constexpr std::uint64_t frame_bytes(const Layout& layout) noexcept {
  return (layout.instruction > layout.owner ? layout.instruction : layout.owner) + sizeof(std::uint64_t);
}
constexpr std::uint64_t code_bytes(const Layout& layout) noexcept {
  return layout.bytecode != 0 ? layout.bytecode : layout.table + sizeof(std::uint64_t);
}
constexpr std::uint64_t cframe_bytes(const Layout& layout) noexcept {
  return layout.cframe_previous + sizeof(std::uint64_t);
}

/// Stores the innermost frame's address; 0: there is none. Returns false if it cannot be read.
inline bool innermost_frame(const Layout& layout, std::uint64_t thread_state, ReadablePages& pages,
                            std::uint64_t& frame) noexcept {
  if (layout.frame != 0) {
    frame = load<std::uint64_t>(thread_state + layout.frame);
    return true;
  }
  frame = 0;
  const auto cframe = load<std::uint64_t>(thread_state + layout.cframe);
  if (cframe == 0) return true;
  if (!pages.object(cframe, cframe_bytes(layout))) return false;
  frame = load<std::uint64_t>(cframe + layout.cframe_frame);
  return true;
}

/// Identifies a PyInterpreterState: each one has versions of code objects of its own.
struct PythonIdentity {
  std::uint64_t runtime;
  std::uint64_t state;
  std::uint64_t number;  ///< id of the state, and restarts of the runtime

  bool operator==(const PythonIdentity&) const noexcept = default;
  std::uint64_t hash() const noexcept {
    std::uint64_t hash = (runtime ^ state) * 0x9fb21c651e98df25;
    hash = (hash ^ hash >> 32 ^ number) * 0xd6e8feb86659fd93;
    return hash ^ hash >> 32;
  }
};

/// The PyInterpreterState of a thread, among all that the process has, or has had. `layout`: that of `python`.
inline PythonIdentity identity_of(const Layout& layout, const Interpreter& python,
                                  std::uint64_t thread_state) noexcept {
  const auto state = load<std::uint64_t>(thread_state + layout.interpreter);
  const std::uint64_t id = python.state_id == 0 ? 0 : load<std::uint64_t>(state + python.state_id);
  return {python.runtime, state, id << 32 | __atomic_load_n(&python.restarts, __ATOMIC_RELAXED)};
}

/// Whether the process has another interpreter than that of the thread. A thread may call it, and come back, without
/// an event in between.
inline bool has_other_interpreters(const Interpreter& python, const PythonIdentity& identity) noexcept {
  if (python.first_state == 0) return false;
  return load<std::uint64_t>(python.runtime + python.first_state) != identity.state ||
         load<std::uint64_t>(identity.state + python.next_state) != 0;
}

/// The word of a frame that holds its instruction.
[[gnu::always_inline]] inline std::uint64_t instruction_word(const Layout& layout, std::uint64_t frame) noexcept {
  return layout.bytecode != 0 ? load<std::uint64_t>(frame + layout.instruction)
                              : load<std::uint32_t>(frame + layout.instruction);
}

[[gnu::always_inline]] inline std::uint64_t code_of(const Layout& layout, std::uint64_t frame) noexcept {
  return load<std::uint64_t>(frame + layout.code) & ~std::uint64_t{layout.code_tag};
}

/// Up to 3.10: a generator into which throw() was called while it delegates to another one (`yield from`, `await`) is
/// linked as a frame, but no evaluation executes it. Its operands are still stored in the frame.
[[gnu::always_inline]] inline bool may_delegate_throw(const Layout& layout, std::uint64_t frame) noexcept {
  if (layout.generator == 0 || load<std::uint64_t>(frame + layout.generator) == 0) return false;
  return layout.stack_top != 0 ? load<std::uint64_t>(frame + layout.stack_top) != 0
                               : load<std::int32_t>(frame + layout.stack_depth) >= 0;
}

}  // namespace heapprof::python
