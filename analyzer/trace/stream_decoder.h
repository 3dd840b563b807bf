// Decodes one stream of a recording, a block at a time: its frames in order, then the copy of its staging block.
//
// Reading can resume in a later run: save() stores the position of the next event that was not yet taken.
//
// The index may grow between two calls of load(), when the trace is followed while it is written. A staging block
// that was decoded in part has then more slots, or has become a frame; its records are counted, so that each is taken
// once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/trace/events/merged_event.h"
#include "analyzer/trace/files/byte_stream.h"
#include "analyzer/trace/read_state.h"
#include "analyzer/trace/trace_file.h"
#include "common/event_codec.h"
#include "common/trace_format.h"

namespace heapprof::trace {

class StreamDecoder {
 public:
  /// `stream_index`: index of the stream in TraceFile::streams(), which its events contain. `shared` and `index` must
  /// outlive this.
  StreamDecoder(ReadState& shared, const StreamIndex& index, std::uint32_t stream_index)
      : shared_(shared), index_(index), stream_index_(stream_index) {}

  const MergedEvent* at = nullptr;  ///< [at, end): events of the current block that were not yet taken
  const MergedEvent* end = nullptr;
  std::vector<EventText> texts;  ///< of the current block

  /// A lower bound, in ticks, of the time of the first event that load() would decode.
  std::uint64_t next_time() const noexcept {
    std::uint64_t time = state_.last_time;
    if (state_.next_frame < index_.frames.size()) time = std::max(time, index_.frames[state_.next_frame].first_time);
    else if (!index_.staging.empty()) time = std::max(time, index_.staging.front().time);
    return time;
  }

  /// Decodes the next block that has events; the next one of any kind if only some allocations are asked for. False:
  /// the stream has ended.
  bool load();

  /// The index has got further frames, or a later copy of the staging block; load() may find events again. Frames
  /// that were read may have been removed from its front, `removed` of them.
  void index_has_grown(std::size_t removed) noexcept {
    state_.next_frame -= removed;
    state_.over = false;
  }
  /// How many frames of the index were read.
  std::size_t frames_read() const noexcept { return state_.next_frame; }

  /// Stores the position of `at`.
  void save(ByteWriter& out) const;
  /// Restores a position that save() stored. Throws FormatError.
  void resume(ByteReader& in);

 private:
  struct State {
    std::size_t next_frame = 0;  // in index_.frames
    std::uint32_t next_sequence = 0;
    std::uint64_t events_seen = 0;    // of the stream so far, lost ones included
    std::uint64_t expected_end = 0;   // events_seen after the last frame, by the frame headers read so far
    std::uint64_t last_time = 0;      // ticks
    bool over = false;                // the staging block was decoded
    std::uint64_t records_taken = 0;  // of the block `next_sequence`, from a copy of its staging block
    std::uint64_t events_taken = 0;   // of these records
  };

  void begin_block();
  void free_buffer();
  bool reserve(std::size_t events);
  void give_up_partial_block();
  void close_gap(std::uint32_t sequence, std::uint64_t events_before);
  bool is_taken_in_part(const FrameRef& ref) const noexcept {
    return ref.sequence == state_.next_sequence && state_.records_taken != 0;
  }
  bool take_asked(const FrameRef& ref);
  void load_frame(const FrameRef& ref);
  template <ColumnFormat kFormat>
  DecodeError take_records(const std::uint8_t* columns, const FrameHeader& header, std::uint64_t& events_taken);
  void end_frame(const FrameHeader& header);
  void load_staging();
  void report_lost_at_end();
  void push(const MergedEvent& event) noexcept { *out_++ = event; }
  void take_slot(const Slot& slot, const std::uint8_t* text);
  void take_other(const Slot& slot, const std::uint8_t* text);
  void define_node(const Slot& slot);
  void take_text(const Slot& slot, const std::uint8_t* bytes);
  bool admit_module(std::uint64_t text_bytes);
  bool admit_python(std::uint64_t text_bytes);
  void define_module(const Slot& slot, const std::string& text);

  ReadState& shared_;
  const StreamIndex& index_;
  const std::uint32_t stream_index_;
  State state_;
  State state_before_;  // when the current block was loaded
  std::vector<MergedEvent> buffer_;
  MergedEvent* out_ = nullptr;
  std::uint64_t records_to_skip_ = 0;  // of the frame that is being decoded
  std::uint64_t text_bytes_ = 0;       // of the texts of the current block; part of ReadState::decoded_bytes
};

}  // namespace heapprof::trace
