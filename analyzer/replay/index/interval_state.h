// How an interval of an index ends: where the reading of the trace resumes, the state of the replay without its live
// blocks, and the older blocks that left in the interval. With it a slice resumes there without the live blocks, of
// which it needs few.
//
//   contents = position of the reader, state (Replay::save_other_state()), older blocks (stored_blocks.h);
//   the first two each with its length in bytes before it
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "analyzer/replay/stored_blocks.h"
#include "analyzer/trace/files/byte_stream.h"

namespace heapprof::replay {

inline void save_interval_state(std::span<const std::uint8_t> position, const trace::ByteWriter& state,
                                OlderBlocks older, trace::ByteWriter& out) {
  out.number(position.size());
  out.raw(position);
  out.number(state.size());
  out.raw(state.bytes());
  save(std::move(older), out);
}

class IntervalState {
 public:
  /// Throws trace::FormatError, as the others.
  explicit IntervalState(std::vector<std::uint8_t> contents) : contents_(std::move(contents)) {
    trace::ByteReader in(contents_);
    position_ = part(in);
    state_ = part(in);
    older_ = in;
  }
  IntervalState(const IntervalState&) = delete;  // its parts have addresses in it
  IntervalState& operator=(const IntervalState&) = delete;

  /// For MergedReader.
  trace::ByteReader position() const noexcept { return position_; }
  trace::ByteReader of_replay() const noexcept { return state_; }
  OlderBlocks older(std::size_t node_count) const {
    trace::ByteReader in = older_;
    OlderBlocks blocks = load_older_blocks(in, node_count);
    in.expect_end();
    return blocks;
  }

 private:
  static trace::ByteReader part(trace::ByteReader& in) {
    const std::size_t bytes = in.count();
    return trace::ByteReader(in.raw(bytes));
  }

  std::vector<std::uint8_t> contents_;
  trace::ByteReader position_{{}};
  trace::ByteReader state_{{}};
  trace::ByteReader older_{{}};
};

}  // namespace heapprof::replay
