// Chunks of a compacted trace: merged events, in the order in which the replay handled them, by columns that hold
// only what could not be guessed. Encoder and decoder side by side.
//
// A program repeats itself: after an allocation by one stack comes one by the stack that followed it last time, of
// the size that it had there, and the block released next is as old as it was. Encoder and decoder keep the same
// small tables of what came last in which context (Guesses); an event whose guess was right costs its kind byte, and
// zstd, which comes behind, finds repetitions in those.
//
//   chunk      = time_before stream_count stream* column*        numbers are varints
//   stream     = position next_ordinal sizes of its five columns
//   columns    time_runs time_steps switch_streams switch_runs, their sizes in front; then of each stream:
//              kinds     a byte an event: what it is, and which guesses were right
//              nodes     stacks not guessed, less the stack before, zigzag
//              sizes     sizes not guessed
//              blocks    blocks released and not guessed: ordinal less that expected, zigzag; of other streams'
//                        blocks position and ordinal. In exact traces: all addresses, rotated right by 4 bits, less
//                        the one before
//              rare      all other events, whole
//
// Times are counted in the trace's quantum of ticks (1 in exact traces) and stand as steps: so many events have this
// time, then it goes on by so much. Which stream an event is of stands likewise, as runs.
//
// A block's number, where addresses are not kept, is that of its stream and of its allocation in that: the allocation
// need not name it. No two blocks share one, but for a realloc that stays in place, whose block keeps its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "analyzer/trace/files/byte_stream.h"
#include "analyzer/trace/merged_reader.h"

namespace heapprof::trace {

/// The "address" of the allocation `ordinal` (from 0) of the stream at `position`.
constexpr std::uint64_t block_number(std::uint32_t position, std::uint64_t ordinal) noexcept {
  return (std::uint64_t{position} + 1) << 40 | (ordinal + 1);
}

/// What all chunks of a trace have in common.
struct ChunkFormat {
  std::uint32_t streams = 0;
  std::uint32_t nodes = 0;     ///< dense indices lie below
  std::uint64_t quantum = 1;   ///< ticks
  bool exact = false;          ///< addresses as they were
};

class ChunkEncoder {
 public:
  explicit ChunkEncoder(const ChunkFormat& format);
  ~ChunkEncoder();

  /// The next event. Addresses are block_number()s unless the format is exact; of a text, `text` is it.
  void add(const MergedEvent& event, const EventText* text);
  std::uint64_t events() const noexcept { return events_; }
  std::uint64_t first_time() const noexcept { return first_time_; }
  std::uint64_t last_time() const noexcept { return last_time_; }
  /// The chunk's bytes; the next event begins another one.
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

class ChunkDecoder {
 public:
  /// `contents` must outlive this. Throws FormatError.
  ChunkDecoder(const ChunkFormat& format, std::span<const std::uint8_t> contents);
  ~ChunkDecoder();

  /// Writes up to `most` events to `out`, fewer when their texts exceed kMaxBatchTextBytes, and returns how many; 0:
  /// the chunk is over. Texts are appended to `texts`, and their events point there.
  /// Throws FormatError.
  std::size_t next(MergedEvent* out, std::size_t most, std::vector<EventText>& texts);
  /// next() has nothing more.
  bool at_end() const noexcept;

 private:
  struct Stream;
  struct State;
  const ChunkFormat format_;
  std::unique_ptr<State> state_;
};

}  // namespace heapprof::trace
