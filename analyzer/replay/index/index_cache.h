// Indexes in the user's cache directory: $XDG_CACHE_HOME/heapprof/index, or ~/.cache/heapprof/index.
//
// The first analysis that reads a large trace twice leaves its index there. An index that was not used for a month is
// removed, and so are the least recently used ones beyond 4 GB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/base/atomic_file.h"
#include "analyzer/replay/index/interval_writer.h"
#include "analyzer/replay/recording_totals.h"
#include "analyzer/replay/replay.h"
#include "analyzer/trace/compact/trace_summary.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::replay {

/// Traces with fewer bytes of frames get no index in the cache: reading them again is fast enough, unless there are a
/// hundred questions (`heapprof html`).
inline constexpr std::uint64_t kMinBytesForIndex = 16 << 20;

/// The path of the index of `file` in the cache; empty: there is no cache directory.
std::string index_in_cache(const trace::TraceFile& file);
std::string index_in_cache(std::uint64_t file_id);

/// Whether there is a cache directory, which is made if necessary, and an index can be written there.
bool can_keep_index();

/// Removes indexes that were not used for a month, and the least recently used ones beyond 4 GB. Call it after one
/// was written.
void remove_old_indexes();

/// The list of frames of a trace, from the index beside it or in the cache; a trace::FrameListSource.
std::optional<trace::FrameList> frames_in_indexes(const trace::InputFile& input, const FileHeader& header,
                                                  std::uint64_t trace_bytes);

/// Writes an index to the cache while a trace is replayed. Errors are ignored: then there is no index.
class CachedIndexWriter {
 public:
  /// `file` and `replay` must outlive this. Precondition: nothing was replayed yet.
  CachedIndexWriter(const trace::TraceFile& file, Replay& replay) noexcept;
  /// Call it after each batch was replayed.
  void after(const trace::Batch& batch) noexcept;
  /// As IntervalWriter::end_of_trace().
  void end_of_trace(std::uint64_t records) noexcept;
  /// Completes the index. False: there is none.
  bool finish(const trace::TraceSummary& summary, const RecordingTotals& totals) noexcept;

 private:
  const trace::TraceFile& file_;
  std::optional<AtomicFile> out_;
  std::optional<IntervalWriter> intervals_;
};

}  // namespace heapprof::replay
