// A record of a trace as the replay handles it: 32 bytes, with its stack and its stream as indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyzer/trace/files/byte_stream.h"
#include "common/trace_format.h"

namespace heapprof::trace {

/// Definitions (nodes, modules, texts about the run) are not events: see definitions.h.
struct MergedEvent {
  std::uint64_t time;  ///< ticks; never decreases from one event to the next
  std::uint64_t address;
  std::uint64_t op_size;           ///< as in Slot
  std::uint32_t node;              ///< dense index (definitions.h); of kText: index into Batch::texts
  std::uint32_t stream_and_flags;  ///< index into TraceFile::streams(); of kMap, the kMap... flags in the upper bits

  Op op() const noexcept { return static_cast<Op>(op_size & 0xff); }
  std::uint64_t size() const noexcept { return op_size >> 8; }
  std::uint32_t stream() const noexcept { return stream_and_flags & kStreamMask; }
  std::uint32_t flags() const noexcept { return stream_and_flags >> kFlagsShift; }

  static constexpr std::uint32_t kFlagsShift = 28;
  static constexpr std::uint32_t kStreamMask = (1u << kFlagsShift) - 1;
};
static_assert(sizeof(MergedEvent) == 32);

/// The op of an event that the reader inserts where records of a stream are lost. No record of a trace has it.
inline constexpr Op kGap = static_cast<Op>(0xff);

/// A text whose order among the events matters: a thread, its name, a user's mark, the shared memory of a sample.
struct EventText {
  TextKind kind = TextKind::kNote;
  std::uint64_t number = 0;  ///< Slot::size
  std::uint64_t address = 0;
  std::string text;
};

/// Fuzzers compile with a smaller value, so that short traces reach the ends of batches too.
#ifndef HEAPPROF_BATCH_EVENTS
#define HEAPPROF_BATCH_EVENTS 4096
#endif

/// Consecutive events. A batch never ends between events of equal time, unless it reaches kMaxEvents or the limit of
/// its texts (limits.h).
struct Batch {
  static constexpr std::size_t kEvents = HEAPPROF_BATCH_EVENTS;  ///< nominal size
  static constexpr std::size_t kMaxEvents = 2 * kEvents;
  std::vector<MergedEvent> storage;  ///< kMaxEvents long; the first `count` are the batch
  std::size_t count = 0;
  std::vector<EventText> texts;
  std::uint64_t frame_bytes_read = 0;  ///< of TraceFile::frame_bytes(), so far
  std::uint64_t records = 0;           ///< merged events since the start of the trace, this batch included
  ByteWriter position;                 ///< where reading can resume after this batch; empty for most batches

  std::span<MergedEvent> events() noexcept { return {storage.data(), count}; }
};

}  // namespace heapprof::trace
