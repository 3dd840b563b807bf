// Index types of the trace. Each is a distinct type, so that an index of a stream cannot be used as an index of a
// module. All have 32 bits in the file; 0 is never a real object.
#pragma once

#include <cstdint>

namespace heapprof {

/// A sequence of blocks that is written by one thread at a time. Streams are numbered from 1 in order of creation.
enum class StreamId : std::uint32_t { kNone = 0 };

/// A node of the call tree. Numbers may be skipped, and two numbers may be the same node (two threads added it at the
/// same moment), so readers merge nodes by content. kNone is the parent of outermost frames; as an event's stack it
/// means that no stack was recorded.
enum class NodeId : std::uint32_t { kNone = 0 };

/// A loaded object. Numbers below kFirst are reserved.
enum class ModuleId : std::uint32_t {
  /// Not code: the root of truncated stacks. The node's offset is a Truncation, the reason; its children are the
  /// outermost frames that the recorder could find.
  kTruncationRoot = 0,
  /// Code that no loaded object holds (JIT, trampolines); the node's offset is the absolute address.
  kAnonymous = 1,
  kFirst = 2,
  /// A line of a Python program; the node's offset is a code object and an instruction (python_offset).
  kPython = 0xffff,
};

template <typename Id>
constexpr std::uint32_t raw(Id id) noexcept {
  return static_cast<std::uint32_t>(id);
}

}  // namespace heapprof
