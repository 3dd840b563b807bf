// Chunks of a compacted trace: encoder and decoder side by side (docs/concepts/trace-format.md, "Chunks").
//
// Programs repeat themselves. After an allocation, the next one usually has the same stack and size as the one that
// followed last time, and the next freed block usually has the age of the block that was freed before. Encoder and
// decoder keep the same tables of what came last in which context (Predictor), and only what differs from the
// prediction is stored. zstd compresses the columns afterwards.
//
// Unless the format is exact, a block is identified by its stream and the ordinal of its allocation in that stream
// instead of its address, so allocations need no address at all. Numbers are unique, but a realloc that stays in
// place keeps the number of its block.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "analyzer/trace/events/merged_event.h"
#include "analyzer/trace/files/byte_stream.h"

namespace heapprof::trace {

/// The number that replaces the address of the allocation `ordinal` (from 0) of the stream at index `stream`.
constexpr std::uint64_t block_number(std::uint32_t stream, std::uint64_t ordinal) noexcept {
  return (std::uint64_t{stream} + 1) << 40 | (ordinal + 1);
}

/// What all chunks of a trace have in common.
struct ChunkFormat {
  std::uint32_t streams = 0;
  std::uint32_t nodes = 0;    ///< every dense index is less
  std::uint64_t quantum = 1;  ///< ticks; times are stored as multiples of it
  bool exact = false;         ///< events keep their addresses
  /// Nodes from `nodes` on which chunks refer to, too: events that are decoded have index 0 instead.
  std::uint32_t nodes_left_out = 0;
};

class ChunkEncoder {
 public:
  explicit ChunkEncoder(const ChunkFormat& format);
  ~ChunkEncoder();

  /// Adds the next event, in order of time. Its address is a block_number() unless the format is exact. `text`: the
  /// text of a kText event, else null.
  void add(const MergedEvent& event, const EventText* text);
  std::uint64_t events() const noexcept { return events_; }          ///< in the current chunk
  std::uint64_t first_time() const noexcept { return first_time_; }  ///< ticks
  std::uint64_t last_time() const noexcept { return last_time_; }    ///< ticks
  /// Returns the bytes of the current chunk; the next event starts another one.
  std::vector<std::uint8_t> take();

 private:
  struct Stream;
  struct State;
  const ChunkFormat format_;
  std::unique_ptr<State> state_;
  std::uint64_t events_ = 0;
  std::uint64_t first_time_ = 0;
  std::uint64_t last_time_ = 0;
};

/// Decodes chunks of one trace, in any order. Each costs what it has, however many streams the trace has.
class ChunkDecoder {
 public:
  explicit ChunkDecoder(const ChunkFormat& format);
  ~ChunkDecoder();

  /// Begins with a chunk; what is left of the one before is skipped. `contents` must live until the next call. Throws
  /// FormatError; then the chunk has no events.
  void start(std::span<const std::uint8_t> contents);
  /// Decodes up to `max_events` events to `out`, fewer when their texts exceed kMaxBatchTextBytes, and returns how
  /// many; 0: the end of the chunk. Texts are appended to `texts`; the `node` of their events is the index there.
  /// Throws FormatError.
  std::size_t next(MergedEvent* out, std::size_t max_events, std::vector<EventText>& texts);
  /// Whether next() would return 0.
  bool at_end() const noexcept;

 private:
  struct Stream;
  struct State;
  const ChunkFormat format_;
  std::unique_ptr<State> state_;
};

}  // namespace heapprof::trace
