// The index of a trace: what only the whole trace tells (analyzer/trace/compact/trace_summary.h), and snapshots of the replay every
// so often. With it a question about a slice of time starts at the last snapshot before the slice, not at the
// beginning, and gives the same answer.
//
// It stands inside a compacted trace, beside a trace (TRACE.idx, by `heapprof index`), or in the user's cache
// folder, where the first question that reads a large trace twice leaves it. It is bound to its trace by file id,
// size and fingerprint; one that does not fit is not used.
//
//   index file = header section*      sections: analyzer/trace/compact/section.h; the last is the whole
//      0      8  magic 89 48 50 52 58 0d 0a 1a
//      8      4  version               1
//     12      4  reserved
//     16      8  file_id               of the trace
//     24      8  trace_bytes
//     32      8  fingerprint           of the trace: TraceFile::fingerprint()
//     40      8  checksum              of bytes 0 to 39
//
// Snapshots are as far apart as 2 million records, and as 16 times the blocks that live at them, so that a large heap
// does not make an index larger than its trace.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/replay/replay.h"
#include "analyzer/trace/merged_reader.h"
#include "analyzer/trace/files/atomic_file.h"
#include "analyzer/trace/compact/section.h"
#include "analyzer/trace/compact/trace_summary.h"

namespace heapprof::replay {

/// Records between two snapshots, at least.
inline constexpr std::uint64_t kSnapshotInterval = 1 << 21;

/// What a finished reading of the whole trace found.
trace::Whole whole_of(const trace::MergedReader& reader, const Replay& replay);

/// Adds snapshots to a file while a trace is replayed. The reader must give_positions(kSnapshotInterval).
class SnapshotWriter {
 public:
  SnapshotWriter(trace::NewFile& file, std::uint64_t file_id) : file_(file), file_id_(file_id) {}
  /// After each batch was replayed.
  void after(const trace::Batch& batch, const Replay& replay);
  std::uint64_t snapshots() const noexcept { return snapshots_; }

 private:
  trace::NewFile& file_;
  const std::uint64_t file_id_;
  std::uint64_t last_records_ = 0;
  std::uint64_t snapshots_ = 0;
  trace::ByteWriter state_;
};

/// Begins an index file for `file`.
void write_index_header(trace::NewFile& out, const trace::TraceFile& file);
/// And its last section.
void write_whole(trace::NewFile& out, std::uint64_t file_id, const trace::Whole& whole);

/// Adds snapshots, about `interval` records apart, and the whole to `out`, in one pass over the trace. `each`, if
/// given, is called with every batch after it was replayed. Returns the finished replay.
std::unique_ptr<Replay> add_index(trace::NewFile& out, const trace::TraceFile& file, std::uint64_t interval,
                                  const std::function<void(const trace::Batch&)>& each = {});

class Index {
 public:
  /// The index in `path`. None: there is no such file, or it is not of this trace or damaged; then `why_not` says so
  /// in a sentence (empty: no such file).
  static std::optional<Index> open(const std::string& path, const trace::TraceFile& file, std::string& why_not);

  const std::shared_ptr<const trace::Whole>& whole() const noexcept { return whole_; }
  /// What a compacted trace has of an index.
  static Index inside(const trace::TraceFile& file);

  const std::string& path() const noexcept { return input_->path(); }
  std::size_t snapshots() const noexcept { return table_.snapshots.size(); }

  /// The latest snapshot all of whose events have a time before `ticks`: its contents, a reader's position and a
  /// replay's state. Empty: there is none. Throws FormatError.
  std::vector<std::uint8_t> snapshot_before(std::uint64_t ticks) const;

 private:
  Index() = default;
  std::shared_ptr<const trace::InputFile> input_;
  std::shared_ptr<const trace::Whole> whole_;
  trace::SectionTable table_;
};

/// The beginning of a replay that goes on at a snapshot.
struct Restart {
  std::span<const std::uint8_t> position;
  std::span<const std::uint8_t> state;
};
/// Throws FormatError.
Restart parse_snapshot(std::span<const std::uint8_t> contents);

/// An index that is made by the way, while a large trace is replayed, and left in the cache. What goes wrong with
/// that is nobody's trouble: there will be no index, then.
class CachedIndex {
 public:
  explicit CachedIndex(const trace::TraceFile& file) noexcept;
  void after(const trace::Batch& batch, const Replay& replay) noexcept;
  /// True: it is there.
  bool finish(const trace::Whole& whole) noexcept;

 private:
  const trace::TraceFile& file_;
  std::optional<trace::NewFile> out_;
  std::optional<SnapshotWriter> snapshots_;
};
/// Traces with fewer bytes of frames are read again faster than it takes to think about it.
inline constexpr std::uint64_t kWorthAnIndex = 16 << 20;

/// Where an index of `file` is looked for: beside it, and in the cache folder (empty: there is none).
std::string index_beside(const trace::TraceFile& file);
std::string index_in_cache(const trace::TraceFile& file);

/// Ticks to which the recording is known to have gone on, besides its events; 0: not known. `clock`: that of the
/// whole recording, all of whose samples have been read.
std::uint64_t end_ticks(const trace::TraceFile& file, const trace::TickClock& clock);

/// Removes what has lain in the cache folder for a month without being used, and the oldest beyond 4 GB.
void tidy_index_cache();

}  // namespace heapprof::replay
