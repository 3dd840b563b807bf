#include "analyzer/replay/index/interval_writer.h"

#include <algorithm>

namespace heapprof::replay {
namespace {

constexpr std::uint64_t kMaxShareOfTrace = 20;        // one part in 20
constexpr std::uint64_t kSmallestBudget = 256 << 10;  // bytes
constexpr int kCompressionLevel = 3;

}  // namespace

IntervalWriter::IntervalWriter(AtomicFile& file, const trace::TraceFile& trace, Replay& replay)
    : file_(file), replay_(replay), file_id_(trace.file_id()), trace_bytes_(trace.frame_bytes()) {
  replay_.log_intervals(log_);
}

void IntervalWriter::after(const trace::Batch& batch) {
  if (batch.position.size() == 0 || stopped_) return;
  const std::uint64_t budget =
      (trace_bytes_ / 4 + std::min(batch.frame_bytes_read, trace_bytes_) / 4 * 3) / kMaxShareOfTrace;
  if (written_bytes_ + last_bytes_ > std::max(budget, kSmallestBudget)) return;

  const bool whole =
      whole_bytes_ == 0 || (changes_bytes_ >= whole_bytes_ && written_bytes_ + whole_bytes_ + last_bytes_ <= budget);
  contents_.clear();
  contents_.number(batch.position.size());
  contents_.raw(batch.position.bytes());
  replay_.save_changes(contents_, whole);
  const std::uint64_t snapshot_bytes = append(trace::SectionKind::kChanges, batch, whole);
  contents_.clear();
  save(replay_.end_interval(), contents_);
  const std::uint64_t sums_bytes = append(trace::SectionKind::kSums, batch);
  if (whole) {
    whole_bytes_ = snapshot_bytes;
    changes_bytes_ = 0;
    last_bytes_ = std::max(last_bytes_, sums_bytes);
  } else {
    changes_bytes_ += snapshot_bytes;
    last_bytes_ = snapshot_bytes + sums_bytes;
  }
}

/// Returns the bytes of the section.
std::uint64_t IntervalWriter::append(trace::SectionKind kind, const trace::Batch& batch, bool whole) {
  if (contents_.size() > trace::kMaxSectionBytes) stopped_ = true;
  if (stopped_) return 0;
  trace::SectionHeader header{};
  header.kind = kind;
  header.file_id = file_id_;
  header.number = batch.records;
  header.last_time = replay_.now();
  header.events = whole ? 1 : 0;
  const std::vector<std::uint8_t> section = trace::make_section(header, contents_.bytes(), kCompressionLevel);
  file_.append(section);
  written_bytes_ += section.size();
  return section.size();
}

}  // namespace heapprof::replay
