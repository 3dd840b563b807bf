// The index of a trace: its trace summary, and snapshots of the replay. With it the analysis of a slice of time
// starts at the last snapshot before the slice instead of the beginning, with the same result.
//
// A compacted trace contains its index. Other traces have one in a file beside them (TRACE.idx, by `heapprof index`)
// or in the user's cache directory (index_cache.h). An index file belongs to one trace by file id, size and
// fingerprint, and is not used for another.
//
//   index file = header snapshot* summary      header: index.cpp; sections: analyzer/trace/compact/section.h
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/base/atomic_file.h"
#include "analyzer/replay/index/snapshot_writer.h"
#include "analyzer/trace/compact/section.h"
#include "analyzer/trace/compact/trace_summary.h"
#include "analyzer/trace/files/input_file.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::replay {

/// Writes the header of an index file for the trace `file`. Throws FileError.
void write_index_header(AtomicFile& out, const trace::TraceFile& file);
/// Writes the section with the trace summary. Throws FileError.
void write_summary(AtomicFile& out, std::uint64_t file_id, const trace::TraceSummary& summary);

/// Replays the trace once and writes snapshots, about `interval` records apart, and the summary. `each`, if given, is
/// called after each batch was replayed. Throws trace::TraceError or FileError.
void add_index(AtomicFile& out, const trace::TraceFile& file, std::uint64_t interval,
               const std::function<void(const trace::Batch&)>& each = {});

class Index {
 public:
  /// Opens the index of `file` in `path`. nullopt: there is none (`why_not` is empty), or it is damaged or of another
  /// trace (`why_not` is a sentence).
  static std::optional<Index> open(const std::string& path, const trace::TraceFile& file, std::string& why_not);
  /// The index that a compacted trace contains.
  static Index inside(const trace::TraceFile& file);

  const std::shared_ptr<const trace::TraceSummary>& summary() const noexcept { return summary_; }
  const std::string& path() const noexcept { return input_->path(); }

  /// The contents of the latest snapshot whose events are all before `ticks` (parse_snapshot). Empty: there is none.
  /// Throws trace::FormatError.
  std::vector<std::uint8_t> snapshot_before(std::uint64_t ticks) const;

 private:
  Index() = default;
  std::shared_ptr<const trace::InputFile> input_;
  std::shared_ptr<const trace::TraceSummary> summary_;
  trace::SectionTable table_;
};

/// The path of the index file beside a trace.
std::string index_beside(const trace::TraceFile& file);

}  // namespace heapprof::replay
