// The C stacks of a thread that has an interpreter on its stack. The trace has only the stacks in which Python frames
// have been placed, so these C stacks are no nodes of the call tree. They only have numbers, by which a thread caches
// mixed stacks: 1. Different stacks have different numbers. 2. Equal stacks have equal numbers as long as a cache
// holds them; what it has lost gets a new number, and is placed again.
//
// A number has what matters for Python about its stack. A thread reads the data of an interpreter only while a frame
// of the interpreter's module is on its own stack: the module cannot be unloaded then. And it reads none in a signal
// handler that has interrupted the interpreter, whose data may be half-written. Stacks with neither an interpreter
// nor a signal handler are nodes of the call tree, as in every program, unless they are deeper than the maximum: the
// mixed stack may have C frames that a truncated C stack has lost, so its number stands for these frames, too.
#pragma once

#include <cstdint>

#include "common/ids.h"
#include "common/trace_format.h"
#include "preload/python/checks.h"
#include "preload/python/interpreter.h"
#include "preload/recorder/trace/stream.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::python {

/// A C stack, as the ThreadUnwinder of a thread with Python has it in place of a node of the call tree.
class NativeStack {
 public:
  constexpr explicit NativeStack(NodeId id) noexcept : bits_(raw(id)) {}
  /// `number`: at most kMaxNumber.
  constexpr NativeStack(std::uint32_t number, std::uint32_t interpreter, bool in_handler) noexcept
      : bits_(kNumbered | number << kNumberShift | (in_handler ? kHandler : 0) | interpreter) {}

  constexpr NodeId id() const noexcept { return NodeId{bits_}; }
  /// Whether it has a number, and is no node of the call tree.
  constexpr bool numbered() const noexcept { return (bits_ & kNumbered) != 0; }
  constexpr std::uint32_t number() const noexcept { return (bits_ & ~kNumbered) >> kNumberShift; }
  /// The number of the interpreter in whose module the innermost one of such frames is; 0: there is no such frame.
  constexpr std::uint32_t interpreter() const noexcept { return numbered() ? bits_ & kInterpreter : 0; }
  /// Whether a signal handler is on the stack.
  constexpr bool in_handler() const noexcept { return numbered() && (bits_ & kHandler) != 0; }

  /// Whether it is numbered, `wanted` is its interpreter, and it has no signal handler: three conditions at once.
  constexpr bool executes(std::uint32_t wanted) const noexcept {
    return (bits_ & (kNumbered | kHandler | kInterpreter)) == (kNumbered | wanted);
  }

  static constexpr std::uint32_t kMaxNumber = (1u << 26) - 1;

 private:
  static constexpr std::uint32_t kNumbered = 1u << 31;  // the call tree has fewer nodes
  static constexpr unsigned kNumberShift = 5;
  static constexpr std::uint32_t kHandler = 0x10;
  static constexpr std::uint32_t kInterpreter = 0x0f;

  std::uint32_t bits_;
};

/// A frame in one word; 0: its values exceed these bits, and its stacks are never found again. From the highest bit:
///   anonymous code   1, signal, by frame pointer, 61 bits of offset
///   modules          0, signal, by frame pointer, 16 bits of module, 45 bits of offset
inline std::uint64_t frame_word(ModuleId module, std::uint64_t offset, std::uint32_t node_flags) noexcept {
  static_assert(kNodeByFramePointer == 1);
  const std::uint64_t flags = std::uint64_t{node_flags & kNodeByFramePointer} << 61 |
                              ((node_flags & unwind::kSignalNode) != 0 ? std::uint64_t{1} << 62 : 0);
  if (module == ModuleId::kAnonymous) return offset >> 61 != 0 ? 0 : std::uint64_t{1} << 63 | flags | offset;
  if (offset >> 45 != 0 || raw(module) >> 16 != 0) return 0;
  return flags | std::uint64_t{raw(module)} << 45 | offset;
}

/// Numbers the stacks of one thread. Zeroed memory is a valid object.
class NativeStacks {
 public:
  /// As unwind::Definitions::intern. `parent`: kNone or a result.
  NodeId intern(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t node_flags,
                recorder::Stream& stream) noexcept;
  /// As unwind::Definitions::intern_omitted.
  NodeId intern_omitted(std::uint64_t omitted, bool signal, recorder::Stream& stream) noexcept;

  /// Whether begin() must be called before the next capture, after everything that has numbers was forgotten: at
  /// first, if the next capture may use up the numbers, or if an interpreter was found in a module whose frames may
  /// have numbers.
  bool is_outdated() const noexcept {
    return found_interpreters_ != found_interpreters() || last_number_ > NativeStack::kMaxNumber - kMaxCaptured;
  }
  void begin() noexcept;
  /// found_interpreters() at begin().
  std::uint32_t interpreters() const noexcept { return found_interpreters_; }

 private:
  struct Slot {
    std::uint64_t frame;  ///< module, offset and flags in one word; or a hash of omitted frames
    NodeId parent;        ///< of omitted frames: kOmitted
    NodeId stack;         ///< kNone: the slot is free

    bool is(NodeId wanted_parent, std::uint64_t wanted_frame) const noexcept {
      return frame == wanted_frame && parent == wanted_parent && stack != NodeId::kNone;
    }
  };
  using Set = Slot[2];  ///< the second one holds what the first one held before
  static constexpr unsigned kSetBits = 12;
  static constexpr NodeId kOmitted{~0u};                   ///< no stack: there are not so many interpreters
  static constexpr std::uint32_t kMaxCaptured = 1u << 20;  ///< more than the frames of one capture

  /// The number of the interpreter of a stack: that of its innermost frame's module, or else that of the outer stack.
  static std::uint32_t interpreter_within(ModuleId module, NativeStack outer) noexcept {
    const std::uint32_t interpreter = interpreter_number(module);
    return interpreter != 0 ? interpreter : outer.interpreter();
  }

  Set& set_of(NodeId parent, std::uint64_t frame) noexcept {
    std::uint64_t hash = (frame ^ std::uint64_t{raw(parent)} << 29) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
    return slots_[hash * 0x9e3779b97f4a7c15 >> (64 - kSetBits)];
  }
  /// intern() of a frame whose outer stack has no number.
  NodeId intern_outermost(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t node_flags,
                          recorder::Stream& stream) noexcept;
  NodeId add(Set& set, NodeId parent, std::uint64_t frame, std::uint32_t interpreter, bool in_handler) noexcept;

  std::uint32_t last_number_;
  std::uint32_t found_interpreters_;       ///< found_interpreters() at begin()
  alignas(64) Set slots_[1u << kSetBits];  // two sets in each cache line
};

inline NodeId NativeStacks::intern(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t node_flags,
                                   recorder::Stream& stream) noexcept {
  const NativeStack outer(parent);
  if (!outer.numbered() || kCheckFrames) [[unlikely]]
    return intern_outermost(parent, module, offset, node_flags, stream);
  const std::uint64_t frame = frame_word(module, offset, node_flags);
  Set& set = set_of(parent, frame);
  if (set[0].is(parent, frame)) return set[0].stack;
  if (set[1].is(parent, frame)) return set[1].stack;
  return add(set, parent, frame, interpreter_within(module, outer),
             outer.in_handler() || (node_flags & unwind::kSignalNode) != 0);
}

}  // namespace heapprof::python
