// A trace as a set of streams: where each frame is in the file, and a copy of what the staging blocks held.
//
// Opening a trace fixes its contents, although a running program's file keeps growing. The order makes that
// consistent:
//
//   1. take the time of the cut,
//   2. copy the staging blocks,
//   3. index the frames; those newer than the copied block of their stream are ignored.
//
// The reader ignores events after the cut. The rest is a state that the program really had: a free is committed
// before its block can be reused, so no allocation is seen without the free before it. Memory: 24 bytes a frame.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/trace/compact/section.h"
#include "analyzer/trace/compact/trace_summary.h"
#include "analyzer/trace/embedded_symbols.h"
#include "analyzer/trace/events/damage.h"
#include "analyzer/trace/events/recorder_state.h"
#include "analyzer/trace/files/input_file.h"
#include "common/trace_format.h"

namespace heapprof::trace {

/// A frame whose header was valid when the trace was indexed.
struct FrameRef {
  std::uint64_t offset = 0;      ///< of its header in the file
  std::uint64_t first_time = 0;  ///< ticks
  std::uint32_t sequence = 0;
  std::uint32_t bytes = 0;  ///< header and payload
};

struct StreamIndex {
  StreamId id = StreamId::kNone;
  std::vector<FrameRef> frames;  ///< by sequence; if two are equal, the first that can be decoded is used
  bool has_staging = false;
  std::uint32_t staging_sequence = 0;
  std::vector<Slot> staging;         ///< a copy of the slots that its commit word covered
  std::uint64_t staging_offset = 0;  ///< of slot 0 in the file
};

/// What opening found in a recording that is not damaged and does not change any more.
struct FrameList {
  std::uint64_t modified_ns = 0;  ///< InputFile::modified_ns() of the trace: if it differs, the list is not used
  std::uint64_t fingerprint = 0;
  std::vector<StreamIndex> streams;  ///< as TraceFile::streams(), but the staging blocks have only their sizes
};

/// Finds the list of a trace with this header and TraceFile::bytes(); nullopt: there is none.
using FrameListSource =
    std::function<std::optional<FrameList>(const InputFile& input, const FileHeader& header, std::uint64_t bytes)>;

/// What a trace written by `heapprof compact` has instead of frames and staging blocks.
struct Compacted {
  SectionTable sections;
  std::shared_ptr<const TraceSummary> summary;
  std::uint64_t original_bytes = 0;  ///< size of the original file
  std::uint64_t quantum = 1;         ///< ticks; times are rounded down to multiples of it
  bool exact = false;                ///< times were not rounded, and addresses were kept
};

/// Whether `header`, read from file offset `offset`, is a valid frame header of the file `file_id` whose payload ends
/// at or before `end`.
bool is_frame(const FrameHeader& header, std::uint64_t file_id, std::uint64_t offset, std::uint64_t end) noexcept;

/// The offset of the first valid frame at a multiple of 8 in [begin, end), or `end`.
std::uint64_t find_frame(const InputFile& input, std::uint64_t file_id, std::uint64_t begin, std::uint64_t end);

/// Whether `extent`, read from file offset `offset`, is a valid extent of the file with the header `of`.
bool is_extent(const ExtentHeader& extent, const FileHeader& of, std::uint64_t offset) noexcept;

/// Copies what a staging block holds, which may be written meanwhile, and its sequence. False: its commit word is
/// damaged or cannot be read; `damage` has the reason. `note_truncation`: the reason is noted if the file is too
/// short. Slots at or after `end`, where embedded symbols may follow a truncated recording, are not there.
bool copy_staging_block(const InputFile& input, const ExtentHeader& extent, StreamIndex& into, Damage& damage,
                        bool note_truncation, std::uint64_t end = ~std::uint64_t{0});

/// Thread safety: const members may be called by several threads at once.
class TraceFile {
 public:
  /// Opens and indexes a trace. Throws TraceError, with what is wrong, when `path` is not a trace that this program
  /// can read. Damage that leaves something to read does not throw: see damage(). `find_list`, if given, is asked for
  /// the list of frames, which saves reading all frame headers. They are checked when the frames are read.
  explicit TraceFile(const std::string& path, const FrameListSource& find_list = {});

  const InputFile& input() const noexcept { return input_; }
  const FileHeader& header() const noexcept { return header_; }
  /// False: the header is damaged, and its version is only one that implies a recording.
  bool is_version_known() const noexcept { return is_version_known_; }
  std::uint64_t file_id() const noexcept { return header_.file_id; }
  /// By id. A compacted trace has as many as the original, all empty.
  const std::vector<StreamIndex>& streams() const noexcept { return streams_; }
  /// Null: the trace is as the recorder wrote it.
  const Compacted* compacted() const noexcept { return compacted_.get(); }
  /// Size of the recording, before it was compacted.
  std::uint64_t original_bytes() const noexcept { return compacted_ != nullptr ? compacted_->original_bytes : size_; }
  std::uint64_t bytes() const noexcept { return size_; }  ///< size of the file without the symbols() at its end
  const std::optional<EmbeddedSymbols>& symbols() const noexcept { return symbols_; }
  std::uint64_t frame_bytes() const noexcept { return frame_bytes_; }  ///< of all frames or chunks: for progress

  /// Events later than this (ticks) are not part of the trace as it was opened. kNoCut: its recorder is gone.
  std::uint64_t cut_ticks() const noexcept { return cut_ticks_; }
  RecorderState recorder() const noexcept { return recorder_; }  ///< when the trace was opened

  /// A checksum over the header, all frame headers (which contain the payloads' checksums) and the staging blocks.
  /// Two files with the same fingerprint have the same contents, unless somebody forged them.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

  /// What was found missing while indexing. Gaps within streams are found when they are read (MergedReader::damage).
  const Damage& damage() const noexcept { return damage_; }

  /// The list of all frames; nullopt: there is damage, or the file may still change.
  std::optional<FrameList> frame_list() const;
  bool opened_with_list() const noexcept { return opened_with_list_; }

  /// "exit", "exec", "signal", "stopped", "running" or "unknown".
  std::string ended_by() const;
  /// The recorder's settings in force, by name.
  std::vector<std::pair<std::string, std::string>> settings() const;

 private:
  void read_header();
  void recover_header();
  bool recover_file_id();
  void open_recording(const FrameListSource& find_list);
  bool is_final() const noexcept;
  bool take(FrameList list);
  void open_compacted();
  void visit_extents(bool staging_pass);
  void copy_staging(const ExtentHeader& extent);
  std::size_t index_frames(std::uint64_t begin, std::uint64_t end, StreamId of_stream);
  void search_unclaimed(std::uint64_t begin, std::uint64_t end);
  void add_to_fingerprint(const void* bytes, std::size_t size) noexcept;
  StreamIndex& stream(StreamId id) { return by_id_[raw(id)]; }
  std::uint64_t size_now() const noexcept { return symbols_ ? symbols_->offset : input_.size(); }

  InputFile input_;
  FileHeader header_{};
  bool is_version_known_ = true;
  std::uint64_t size_ = 0;
  const std::uint64_t modified_ns_;  // when it was opened
  bool opened_with_list_ = false;
  std::optional<EmbeddedSymbols> symbols_;
  std::uint64_t frame_bytes_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::uint64_t cut_ticks_ = kNoCut;
  RecorderState recorder_ = RecorderState::kGone;
  std::map<std::uint32_t, StreamIndex> by_id_;  // only while indexing
  std::vector<StreamIndex> streams_;
  Damage damage_;
  std::shared_ptr<const Compacted> compacted_;
};

}  // namespace heapprof::trace
