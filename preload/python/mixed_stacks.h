// The call stacks of threads that execute Python: the C frames, with the Python frames between them.
//
// The result, the mixed stack, depends only on the C stack and on the Python frames. So a thread caches its node for
// the number of the C stack (native_stacks.h) and the hash of the Python frames (thread_frames.h). Only a pair that
// is new is placed (frame_placement.h). docs/concepts/python.md explains this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/ids.h"
#include "preload/arch/arch.h"
#include "preload/python/interpreter.h"
#include "preload/python/native_stacks.h"
#include "preload/recorder/trace/stream.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::python {

struct MixedStackData;

/// The state of a thread. Zeroed memory is a valid object. One thread at a time may use it, and not while one of its
/// own calls is in progress.
class MixedStacks {
 public:
  /// Whether begin() must be called before the next capture.
  bool must_begin() const noexcept;
  /// Whether find() may be called for a stack that ThreadUnwinder::find_cached() returns. Then must_begin() is false,
  /// or true only because there are few numbers left, of which a cached stack needs none.
  bool is_ready() const noexcept { return ready_for_ == found_interpreters() + 1; }
  /// Maps the data, or else forgets all numbers of C stacks. Call it when the thread's unwinder has none. Returns
  /// false if there is no memory, or was none at one of the last kSuspendedEvents calls: then no Python frames can be
  /// placed in this event.
  bool begin() noexcept;
  /// Whether begin() returns false without asking for memory.
  bool suspended() const noexcept { return suspended_ > 1; }
  /// The numbers of the thread's C stacks. Precondition: begin() has returned true.
  NativeStacks& native_stacks() noexcept;
  /// native_stacks().intern(), for most frames of a capture by one function.
  NodeId intern_native(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t node_flags,
                       recorder::Stream& stream) noexcept;

  /// The fast path of place(): the node of the calling thread's stack. `native`: as for place(). kNone: place() must
  /// be called. kFramesRead: place_read() must be called. Precondition: as place(), or is_ready().
  NodeId find(NodeId native, recorder::Stream& stream) noexcept;
  /// Instead of a node: the Python frames have been read, but the stack is not cached.
  static constexpr NodeId kFramesRead{~0u};
  static constexpr bool is_node(NodeId found) noexcept { return found != NodeId::kNone && found != kFramesRead; }

  /// Returns the node of the calling thread's stack with its Python frames. `native`: the C stack, which begins with
  /// `entry`, and which `unwinder` has just captured with native_stacks(), in the way that `captured` says.
  /// `definitions`: those of the call tree. If Python frames are left out, they are counted (left_out.h). kNone: the
  /// call tree cannot grow. nullopt: there is no memory; the stack must be captured again, in the call tree, after
  /// the unwinder has forgotten what it has. Preconditions: is_on(), and begin() has returned true.
  std::optional<NodeId> place(NodeId native, const arch::EntryRegisters& entry,
                              const unwind::ThreadUnwinder& unwinder, unwind::Captured captured,
                              const unwind::Definitions& definitions, recorder::Stream& stream) noexcept;
  /// As place(), directly after find() has returned kFramesRead for `native`.
  std::optional<NodeId> place_read(NodeId native, const arch::EntryRegisters& entry,
                                   const unwind::ThreadUnwinder& unwinder, unwind::Captured captured,
                                   const unwind::Definitions& definitions, recorder::Stream& stream) noexcept;

  /// Drops what depends on the thread. Call it before another thread uses the object, and when a longjmp has
  /// abandoned place(), or a thread has died during it.
  void thread_changed() noexcept;

 private:
  static constexpr std::uint32_t kSuspendedEvents = 1u << 12;

  void suspend() noexcept;

  MixedStackData* data_;
  std::uint32_t suspended_;  ///< calls of begin() until one asks for memory again; 0: begin() has returned true
  std::uint32_t ready_for_;  ///< 1 + found_interpreters() at the last begin(); 0: begin() must be called
};

/// Whether a frame of an interpreter's module is on the stack that begins with `entry`. Needs no memory.
bool interpreter_is_on_stack(const arch::EntryRegisters& entry, const unwind::Definitions& definitions) noexcept;

}  // namespace heapprof::python
