// The events of all streams, merged by time into batches.
//
// Each stream is decoded a frame at a time, when the merge reaches it, so memory is one decoded frame for
// each stream that is in the middle of one. Most events come from the stream the last one came from; that
// path is a comparison and a copy. What a hostile trace can make this ask for is bounded: limits.h.
//
// Of events of equal time, those of one stream stay together, streams in order of id. That order can be
// wrong for two streams' events at one address; the replay, which knows the address's state, puts it
// right, and for that a batch never ends between events of equal time (up to twice its nominal size, or to the limit
// of its texts).
//
// A position says where a batch ended, so that reading can go on there another time: for each stream its block and
// how many events of that were taken. Whoever goes on knows the definitions already (whole.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analyzer/trace/files/byte_stream.h"
#include "analyzer/trace/events/definitions.h"
#include "analyzer/trace/trace_file.h"
#include "analyzer/trace/compact/trace_summary.h"
#include "common/trace_format.h"

namespace heapprof::trace {

/// A record as the replay needs it. Definitions are not among them.
struct MergedEvent {
  std::uint64_t time;     ///< ticks; never decreases
  std::uint64_t address;
  std::uint64_t op_size;  ///< as in Slot
  std::uint32_t node;     ///< dense index; of kText: position in Batch::texts
  std::uint32_t stream_and_flags;  ///< position in TraceFile::streams(); above it, of kMap, the kMap... flags

  Op op() const noexcept { return static_cast<Op>(op_size & 0xff); }
  std::uint64_t size() const noexcept { return op_size >> 8; }
  std::uint32_t stream() const noexcept { return stream_and_flags & kStreamMask; }
  std::uint32_t flags() const noexcept { return stream_and_flags >> kFlagsShift; }

  static constexpr std::uint32_t kFlagsShift = 28;
  static constexpr std::uint32_t kStreamMask = (1u << kFlagsShift) - 1;
};
static_assert(sizeof(MergedEvent) == 32);

/// kGap events, of no Op of the format, say that a part of the stream is lost here.
inline constexpr Op kGap = static_cast<Op>(0xff);

/// Texts whose place among the events matters: threads and marks.
struct EventText {
  TextKind kind = TextKind::kNote;
  std::uint64_t number = 0;   ///< Slot::size
  std::uint64_t address = 0;
  std::string text;
};

/// Fuzzers have smaller ones, so that short traces meet their edges too.
#ifndef HEAPPROF_BATCH_EVENTS
#define HEAPPROF_BATCH_EVENTS 4096
#endif

struct Batch {
  static constexpr std::size_t kEvents = HEAPPROF_BATCH_EVENTS;
  static constexpr std::size_t kMost = 2 * kEvents;
  std::vector<MergedEvent> storage;     ///< kMost of them, of which the first `count` are the batch
  std::size_t count = 0;
  std::vector<EventText> texts;
  std::uint64_t frame_bytes_read = 0;  ///< of TraceFile::frame_bytes(), so far
  std::uint64_t records = 0;           ///< merged events so far, from the trace's first on
  ByteWriter position;                 ///< where this batch ended; empty for most

  std::span<MergedEvent> events() noexcept { return {storage.data(), count}; }
};

class MergedReader {
 public:
  explicit MergedReader(const TraceFile& file);
  /// Goes on at `position` as a batch of the same trace brought it. Throws FormatError when it cannot be one.
  MergedReader(const TraceFile& file, const Whole& whole, ByteReader& position);
  ~MergedReader();
  MergedReader(const MergedReader&) = delete;
  MergedReader& operator=(const MergedReader&) = delete;

  /// Lets about every so many merged events a batch have a position. 0, the default: none has.
  void give_positions(std::uint64_t interval) noexcept {
    position_interval_ = interval;
    next_position_ = records_ + interval;
  }

  /// Replaces the contents of `batch`. False: there is nothing more, and definitions and damage are final.
  bool next(Batch& batch);

  /// Of a reader that goes on at a position: none, as they are known.
  const Definitions& definitions() const noexcept { return definitions_; }
  std::vector<std::uint32_t> node_ids() const { return node_index_.ids(); }
  /// What was found missing within streams. TraceFile::damage() comes on top.
  const Damage& damage() const noexcept { return damage_; }
  std::uint64_t last_time() const noexcept { return last_time_; }
  std::uint64_t records() const noexcept { return records_; }
  std::uint64_t frame_bytes_read() const noexcept { return frame_bytes_read_; }

 private:
  class Stream;
  struct Chunks;
  struct Head {
    std::uint64_t time;
    std::uint32_t stream;
    friend bool operator<(const Head& a, const Head& b) noexcept {
      return a.time != b.time ? a.time < b.time : a.stream < b.stream;
    }
  };
  void sift_down(std::size_t at) noexcept;
  void save_position(ByteWriter& out) const;
  bool next_compacted(Batch& batch);
  bool take_module(std::uint64_t text_bytes);
  bool load_chunk();
  void give_up_chunk(const std::string& why);

  const TraceFile& file_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<Head> heads_;  // a heap: the earliest in front
  std::vector<std::vector<MergedEvent>> spare_buffers_;
  std::vector<std::uint8_t> frame_buffer_;
  std::vector<std::uint8_t> column_buffer_;
  NodeIndex node_index_;
  Definitions definitions_;
  Damage damage_;
  std::uint64_t decoded_bytes_ = 0;  // in the buffers of all streams, and texts in the blocks at hand
  std::uint64_t text_bytes_ = 0;     // text_cost_bytes() of all modules so far
  std::uint64_t frame_bytes_read_ = 0;
  std::uint64_t last_time_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t position_interval_ = 0;
  std::uint64_t next_position_ = 0;
  bool goes_on_ = false;  // definitions are known
  std::unique_ptr<Chunks> chunks_;  // of a compacted trace
};

}  // namespace heapprof::trace
