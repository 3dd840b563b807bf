// Merges the events of all streams by time, into batches.
//
// Each stream is decoded a block at a time when the merge reaches it, so memory is one decoded block for each stream.
// Most events come from the same stream as the one before; that path is a comparison and a copy.
//
// Events of equal time: those of one stream stay together, streams are in order of their index. That order can be
// wrong for two streams' events at one address. The replay, which knows the state of the address, corrects it, and
// for that purpose a batch never ends between events of equal time (but see Batch).
//
// A position is the end of a batch, from where another reader can resume. It consists of one position for each
// stream, or of the number of a chunk. A reader that resumes takes the definitions from the trace summary.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "analyzer/trace/chunk_reader.h"
#include "analyzer/trace/compact/trace_summary.h"
#include "analyzer/trace/events/definitions.h"
#include "analyzer/trace/events/merged_event.h"
#include "analyzer/trace/files/byte_stream.h"
#include "analyzer/trace/read_state.h"
#include "analyzer/trace/stream_decoder.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::trace {

/// One reader is used by one thread at a time. `file` must outlive it.
class MergedReader {
 public:
  /// Reads from the start. Throws TraceError when the trace has too many streams.
  explicit MergedReader(const TraceFile& file);
  /// Resumes at `position`, the Batch::position of an earlier reader of the same trace. Throws FormatError when the
  /// position cannot be one of this trace.
  MergedReader(const TraceFile& file, const TraceSummary& summary, ByteReader& position);
  MergedReader(const MergedReader&) = delete;
  MergedReader& operator=(const MergedReader&) = delete;

  /// From now on leaves out most events that are not asked for, samples and mappings too, but no texts and gaps;
  /// batches may be empty. The nodes of `asked` must outlive this, because `threads` threads read them, that which
  /// calls next() included. Precondition: nothing was read yet. Of a compacted trace, nothing is left out.
  void ask(const AskedAllocations& asked, const TraceSummary& summary,
           unsigned threads = AskedFrames::threads_of_machine());

  /// From now on about every `interval` merged events a batch has a position, never between events of one time,
  /// unless the trace is compacted. 0, the default: none has.
  void give_positions(std::uint64_t interval) noexcept {
    position_interval_ = interval;
    next_position_ = records_ + interval;
  }

  /// Replaces the contents of `batch`. False: the trace has ended; definitions() and damage() are final now.
  bool next(Batch& batch);

  /// Empty when the reader resumed at a position, or when the trace is compacted.
  const Definitions& definitions() const noexcept { return shared_.definitions; }
  /// The node id of each dense index.
  std::vector<std::uint32_t> node_ids() const { return shared_.node_index.ids(); }
  /// What was found missing within streams. TraceFile::damage() is not included.
  const Damage& damage() const noexcept { return shared_.damage; }
  std::uint64_t last_time() const noexcept { return shared_.last_time; }  ///< ticks, of the last event read
  /// Merged events since the start of the trace, with those that were left out.
  std::uint64_t records() const noexcept { return records_ + shared_.events_left_out; }
  std::uint64_t frame_bytes_read() const noexcept { return shared_.frame_bytes_read; }

 private:
  struct Head {
    std::uint64_t time;
    std::uint32_t stream;
    friend bool operator<(const Head& a, const Head& b) noexcept {
      return a.time != b.time ? a.time < b.time : a.stream < b.stream;
    }
  };
  void sift_down(std::size_t at) noexcept;
  void take_definitions(const TraceSummary& summary);
  void save_position(ByteWriter& out) const;
  bool merge(Batch& batch);

  const TraceFile& file_;
  ReadState shared_;
  std::vector<std::unique_ptr<StreamDecoder>> streams_;  // of a recording
  std::vector<Head> heads_;                              // a heap, the earliest at the front
  std::unique_ptr<ChunkReader> chunks_;                  // of a compacted trace
  std::uint64_t records_ = 0;
  std::uint64_t position_interval_ = 0;
  std::uint64_t next_position_ = 0;
};

}  // namespace heapprof::trace
