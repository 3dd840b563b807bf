#include "analyzer/replay/index/interval_writer.h"

#include <algorithm>

namespace heapprof::replay {
namespace {

constexpr std::uint64_t kMaxShareOfTrace = 20;        // one part in 20
constexpr std::uint64_t kSmallestBudget = 256 << 10;  // bytes
// A whole snapshot follows when the changes since the last one are this many times as large, and only if it leaves
// room for some more changes: a budget that it used up would make the next snapshots far apart.
constexpr std::uint64_t kChangesPerWhole = 2;
constexpr std::uint64_t kSpareChanges = 8;
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

  const bool whole = whole_bytes_ == 0 || (changes_bytes_ >= kChangesPerWhole * whole_bytes_ &&
                                           written_bytes_ + whole_bytes_ + kSpareChanges * last_bytes_ <= budget);
  contents_.clear();
  contents_.number(batch.position.size());
  contents_.raw(batch.position.bytes());
  replay_.save_changes(contents_, whole);
  const std::uint64_t snapshot_bytes =
      append(section(trace::SectionKind::kChanges, batch.records, whole ? kWholeSnapshot : 0));
  contents_.clear();
  save(replay_.end_interval(), contents_);
  const std::uint64_t sums_bytes = append(section(trace::SectionKind::kSums, batch.records));
  if (whole) {
    whole_bytes_ = snapshot_bytes;
    changes_bytes_ = 0;
    last_bytes_ = std::max(last_bytes_, sums_bytes);
  } else {
    changes_bytes_ += snapshot_bytes;
    last_bytes_ = snapshot_bytes + sums_bytes;
  }
}

void IntervalWriter::end_of_trace(std::uint64_t records) {
  if (stopped_ || whole_bytes_ == 0) return;
  contents_.clear();
  contents_.number(0);
  replay_.save_changes(contents_, false);
  const std::vector<std::uint8_t> changes = section(trace::SectionKind::kChanges, records, kEndOfTrace);
  contents_.clear();
  save(replay_.end_interval(), contents_);
  const std::vector<std::uint8_t> sums = section(trace::SectionKind::kSums, records);
  const std::uint64_t budget = std::max(trace_bytes_ / kMaxShareOfTrace, kSmallestBudget);
  if (changes.empty() || sums.empty() || written_bytes_ + changes.size() + sums.size() > budget) return;
  append(changes);
  append(sums);
}

/// A section with the contents. `flags`: of a snapshot.
std::vector<std::uint8_t> IntervalWriter::section(trace::SectionKind kind, std::uint64_t records,
                                                  std::uint64_t flags) const {
  if (contents_.size() > trace::kMaxSectionBytes) return {};
  trace::SectionHeader header{};
  header.kind = kind;
  header.file_id = file_id_;
  header.number = records;
  header.last_time = replay_.now();
  header.events = flags;
  return trace::make_section(header, contents_.bytes(), kCompressionLevel);
}

/// Returns the bytes of the section. An empty one was too large: then nothing is written any more.
std::uint64_t IntervalWriter::append(const std::vector<std::uint8_t>& section) {
  if (section.empty()) stopped_ = true;
  if (stopped_) return 0;
  file_.append(section);
  written_bytes_ += section.size();
  return section.size();
}

}  // namespace heapprof::replay
