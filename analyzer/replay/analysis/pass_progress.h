// Reports the progress of several passes over a trace as one share from 0 to 1.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "analyzer/replay/progress.h"
#include "analyzer/replay/resolved_filter.h"
#include "analyzer/trace/events/merged_event.h"
#include "analyzer/trace/merged_reader.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::replay {

/// Calls in order for each pass: begin(), show() after each batch, end(). The constructor's arguments must outlive
/// this.
class PassProgress {
 public:
  PassProgress(const trace::TraceFile& file, const Progress& progress, unsigned passes)
      : file_(file), progress_(progress), passes_(passes) {}

  /// A pass that was announced is not needed.
  void skip_pass() noexcept { --passes_; }
  /// Another pass is needed.
  void add_pass() noexcept { ++passes_; }
  void begin(const trace::MergedReader& reader, const ResolvedFilter& filter = {}) {
    first_bytes_ = reader.frame_bytes_read();
    first_records_ = reader.records();
    first_time_ = reader.last_time();
    filter_ = filter;
  }
  void show(const trace::Batch& batch, const std::optional<SumsSoFar>& sums = {}) {
    if (!progress_) return;
    const auto part = [](std::uint64_t at, std::uint64_t from, std::uint64_t to) {
      return at <= from || to <= from
                 ? 0
                 : std::min(1.0, static_cast<double>(at - from) / static_cast<double>(to - from));
    };
    double share = part(batch.frame_bytes_read, first_bytes_, file_.frame_bytes());
    if (filter_.has_end() && batch.count != 0)
      share = std::max(share, part(batch.storage[batch.count - 1].time, first_time_, filter_.end_ticks));
    progress_({(done_ + share) / passes_, records_before_ + batch.records - first_records_, sums});
  }
  void end(const trace::MergedReader& reader) {
    records_before_ += reader.records() - first_records_;
    ++done_;
  }

 private:
  const trace::TraceFile& file_;
  const Progress& progress_;
  unsigned passes_;
  unsigned done_ = 0;
  ResolvedFilter filter_;
  std::uint64_t first_bytes_ = 0;
  std::uint64_t first_records_ = 0;
  std::uint64_t first_time_ = 0;
  std::uint64_t records_before_ = 0;
};

}  // namespace heapprof::replay
