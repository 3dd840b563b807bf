// Reads the events of a compacted trace, chunk by chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/trace/compact/chunk_codec.h"
#include "analyzer/trace/events/merged_event.h"
#include "analyzer/trace/files/byte_stream.h"
#include "analyzer/trace/read_state.h"

namespace heapprof::trace {

class ChunkReader {
 public:
  /// Precondition: `file` is compacted. Both must outlive this.
  ChunkReader(const TraceFile& file, ReadState& shared);

  /// Fills storage, count and texts of `batch`; count 0: the trace has ended. Stops early at the end of a chunk once
  /// `min_events` events were read, and then returns true: only there can reading resume later.
  bool read(Batch& batch, std::uint64_t min_events);

  /// Stores the number of the next chunk. Precondition: the last read() returned true.
  void save(ByteWriter& out) const { out.number(next_); }
  /// Restores what save() stored. Throws FormatError.
  void resume(ByteReader& in);

 private:
  bool load_chunk();
  void abandon_chunk(const std::string& why);
  void mark_active(std::uint32_t stream);

  const TraceFile& file_;
  ReadState& shared_;
  std::size_t next_ = 0;  // number of the chunk after the current one
  std::vector<std::uint8_t> contents_;
  std::unique_ptr<ChunkDecoder> decoder_;  // of all chunks; null before the first one
  bool in_chunk_ = false;                  // the decoder has a chunk that is not at its end
  std::uint64_t events_left_ = 0;          // of the current chunk, by its header
  std::vector<std::uint32_t> gaps_due_;    // streams for which a gap event is still to be inserted
  // Streams with events since their last gap. Only those get a gap event; else a small file with a few damaged chunks
  // that claims many streams would take very long.
  std::vector<std::uint32_t> active_;
  std::vector<bool> is_active_;
};

}  // namespace heapprof::trace
