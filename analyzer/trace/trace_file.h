// A trace as a set of streams: where each frame lies, and a copy of what the staging blocks held.
//
// Opening a trace fixes what it holds. A running program's trace goes on growing, so the order matters:
// first the moment of the cut is taken, then the staging blocks are copied, then the frames are indexed.
// A frame newer than its stream's copied block is left out, and so is, at replay, every event after the
// cut. What is left is a state the program was really in: a release is committed before the block can be
// given out again, so no allocation is seen whose release is not.
//
// Nothing read is trusted. Extents are found at units, frames at multiples of 8; after damage the reader
// looks for the next header whose file id, place and checksum fit. Memory: 24 bytes a frame.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/trace/events/damage.h"
#include "analyzer/trace/files/input_file.h"
#include "analyzer/trace/compact/section.h"
#include "analyzer/trace/compact/trace_summary.h"
#include "analyzer/trace/embedded_symbols.h"
#include "analyzer/trace/recorder_process.h"
#include "common/trace_format.h"

namespace heapprof::trace {

/// A frame whose header was sound when the trace was indexed.
struct FrameRef {
  std::uint64_t offset = 0;      ///< of its header in the file
  std::uint64_t first_time = 0;  ///< ticks
  std::uint32_t sequence = 0;
  std::uint32_t bytes = 0;       ///< header and payload
};

struct StreamIndex {
  StreamId id = StreamId::kNone;
  std::vector<FrameRef> frames;  ///< by sequence; of equal ones the first that decodes counts
  bool has_staging = false;
  std::uint32_t staging_sequence = 0;
  std::vector<Slot> staging;     ///< what its commit word covered, as it was; empty: nothing
  std::uint64_t staging_offset = 0;
};

inline constexpr std::uint64_t kNoCut = std::numeric_limits<std::uint64_t>::max();

/// What a trace that `heapprof compact` wrote has instead of streams.
struct Compacted {
  SectionTable sections;
  std::shared_ptr<const Whole> whole;
  std::uint64_t original_bytes = 0;   ///< of the file it was made from
  std::uint64_t quantum = 1;          ///< ticks that times were rounded down to
  bool exact = false;                 ///< nothing was rounded, and addresses are what they were
};

/// The section of kind kOrigin.
struct Origin {
  Damage damage;                      ///< of the original as a file
  Writer writer = Writer::kGone;      ///< kRecording: it ran when this snapshot of it was made
  std::uint64_t cut_ticks = kNoCut;   ///< likewise
  std::uint32_t streams = 0;
  std::uint64_t bytes = 0;
  std::uint64_t quantum = 1;
};
void save(const Origin& origin, ByteWriter& out);
/// Throws FormatError.
Origin load_origin(ByteReader& in);

/// True when `header`, read from `offset`, is a frame of the file `file_id` that fits before `end`.
bool is_frame(const FrameHeader& header, std::uint64_t file_id, std::uint64_t offset, std::uint64_t end) noexcept;

class TraceFile {
 public:
  /// Throws TraceError when `path` is not a trace this program can read.
  explicit TraceFile(const std::string& path);

  const InputFile& input() const noexcept { return input_; }
  const FileHeader& header() const noexcept { return header_; }
  std::uint64_t file_id() const noexcept { return header_.file_id; }
  const std::vector<StreamIndex>& streams() const noexcept {
    return streams_;
  }  ///< by id; of a compacted one: empty ones
  /// Null: as the recorder wrote it.
  const Compacted* compacted() const noexcept { return compacted_.get(); }
  /// Length of the file as recorded.
  std::uint64_t original_bytes() const noexcept { return compacted_ != nullptr ? compacted_->original_bytes : size_; }
  std::uint64_t bytes() const noexcept { return size_; }  ///< of the recording, without symbols() behind it
  const std::optional<SymbolSection>& symbols() const noexcept { return symbols_; }  ///< those that it carries
  std::uint64_t frame_bytes() const noexcept { return frame_bytes_; }  ///< of all frames: for progress

  /// Events later than this (ticks) do not belong to what was opened; kNoCut when the writer is gone.
  std::uint64_t cut_ticks() const noexcept { return cut_ticks_; }
  Writer writer() const noexcept { return writer_; }

  /// Of header, frame headers (and so of payloads, whose checksums they hold) and staging blocks: two files with the
  /// same are the same, as far as nobody forges them.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

  /// What was found missing while indexing. Gaps within streams show when they are read.
  const Damage& damage() const noexcept { return damage_; }

  /// "exit", "exec", "signal", "stopped", "running" or "unknown".
  std::string ended_by() const;
  std::vector<std::pair<std::string, std::string>> settings() const;

 private:
  void read_header();
  void recover_header();
  void open_compacted();
  bool recover_file_id();
  void walk(bool staging_pass);
  void copy_staging(const ExtentHeader& extent);
  /// Indexes frames in [begin, end); 'stream' kNone: of any stream. Returns how many there were.
  std::size_t index_frames(std::uint64_t begin, std::uint64_t end, StreamId stream);
  void search_unclaimed(std::uint64_t begin, std::uint64_t end);
  bool is_extent(const ExtentHeader& header, std::uint64_t offset) const noexcept;
  void add_to_fingerprint(const void* bytes, std::size_t size) noexcept;
  StreamIndex& stream(StreamId id) { return by_id_[raw(id)]; }

  InputFile input_;
  FileHeader header_{};
  std::uint64_t size_now() const noexcept { return symbols_ ? symbols_->offset : input_.size(); }

  std::uint64_t size_ = 0;
  std::optional<SymbolSection> symbols_;
  std::uint64_t frame_bytes_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::uint64_t cut_ticks_ = kNoCut;
  Writer writer_ = Writer::kGone;
  std::map<std::uint32_t, StreamIndex> by_id_;  // while indexing
  std::vector<StreamIndex> streams_;
  Damage damage_;
  std::shared_ptr<const Compacted> compacted_;
};

}  // namespace heapprof::trace
