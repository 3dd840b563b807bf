#include "analyzer/replay/index/interval_writer.h"

#include <algorithm>

namespace heapprof::replay {
namespace {

constexpr std::uint64_t kMaxShareOfTrace = 20;        // one part in 20
constexpr std::uint64_t kSmallestBudget = 256 << 10;  // bytes
constexpr std::uint64_t kShareForEnd = 16;            // of the budget, one part in 16 is left for end_of_trace()
constexpr std::uint64_t kShareForHistory = 8;         // and one in 8 for write_history()
constexpr std::uint64_t kSmallestHistory = 1 << 20;   // bytes: room for it in an index of a short trace
constexpr std::uint64_t kMinBytesPerLiveChange = 2;   // of the history, compressed
constexpr std::uint64_t kMaxLivesShare = 100;         // write_lives(): one part in 100 of the trace
constexpr std::uint64_t kSmallestLives = 64 << 10;    // bytes
constexpr std::uint64_t kChangesPerWhole = 2;         // how much larger the changes are before a whole snapshot
constexpr int kIntervalCompressionLevel = 3;
constexpr int kHistoryCompressionLevel = 9;

// Bytes of a block, until some have been written: of a change, and in a whole snapshot of blocks that were allocated
// one after the other, or at all times.
constexpr std::uint64_t kBytesPerChange = 6;
constexpr std::uint64_t kMaxBytesPerChange = 12;
constexpr std::uint64_t kBytesPerNewBlock = 3;
constexpr std::uint64_t kBytesPerBlock = 6;

}  // namespace

IntervalWriter::IntervalWriter(AtomicFile& file, const trace::TraceFile& trace, Replay& replay)
    : file_(file), replay_(replay), file_id_(trace.file_id()), trace_bytes_(trace.frame_bytes()),
      budget_(std::max(trace_bytes_ / kMaxShareOfTrace, kSmallestBudget)),
      history_log_(max_history() / kMinBytesPerLiveChange), bytes_per_change_(kBytesPerChange) {
  replay_.log_intervals(log_);
  replay_.log_history(history_log_);
}

/// How many blocks were removed from the table of live blocks, or added to it, since the last snapshot, without those
/// that were both.
std::uint64_t IntervalWriter::changed_blocks() const noexcept {
  const std::uint64_t removed = log_.removed.size();
  return removed + std::max(removed + replay_.live_blocks(), live_at_last_) - live_at_last_;
}

std::uint64_t IntervalWriter::history_budget() const noexcept { return budget_ / kShareForHistory; }

std::uint64_t IntervalWriter::max_history() const noexcept { return std::max(history_budget(), kSmallestHistory); }

/// The budget of all snapshots but the one at the end.
std::uint64_t IntervalWriter::available() const noexcept {
  return budget_ - budget_ / kShareForEnd - history_budget();
}

/// Whether it is time for a snapshot of `bytes`: as many as there is room for are spread over the rest of the trace.
bool IntervalWriter::is_due(std::uint64_t frame_bytes_read, std::uint64_t bytes) const noexcept {
  if (written_bytes_ + bytes > available()) return false;
  // Without a first one no other is of use.
  if (whole_bytes_ == 0 && bytes <= available() / 4) return true;
  const std::uint64_t count = (available() - written_bytes_) / (bytes + 1);
  const std::uint64_t rest = std::max(trace_bytes_, last_position_) - last_position_;
  return frame_bytes_read - last_position_ >= rest / (count + 1);
}

void IntervalWriter::after(const trace::Batch& batch) {
  if (batch.position.size() == 0 || stopped_) return;
  const std::uint64_t live = replay_.live_blocks();
  const std::uint64_t changed = changed_blocks();
  const std::uint64_t changes_bytes = changed * bytes_per_change_ + other_bytes_;
  const std::uint64_t read = std::max(batch.frame_bytes_read, last_position_);
  if (!is_due(read, whole_bytes_ == 0 ? live * kBytesPerNewBlock : changes_bytes)) return;

  // A whole snapshot must leave room for the changes that follow: otherwise the next snapshots would be far apart.
  const auto leaves_room = [&] {
    const std::uint64_t to_come =
        (std::max(trace_bytes_, read) - read) / std::max<std::uint64_t>(read - last_position_, 1);
    return written_bytes_ + live * kBytesPerBlock + (to_come + 1) * changes_bytes <= available();
  };
  const bool whole = whole_bytes_ == 0 || (changes_bytes_ >= kChangesPerWhole * whole_bytes_ && leaves_room());
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
  } else {
    changes_bytes_ += snapshot_bytes;
    bytes_per_change_ = std::min(snapshot_bytes / std::max<std::uint64_t>(changed, 1) + 1, kMaxBytesPerChange);
    other_bytes_ = snapshot_bytes + sums_bytes - std::min(changed * bytes_per_change_, snapshot_bytes);
  }
  last_position_ = read;
  live_at_last_ = live;
}

void IntervalWriter::end_of_trace(std::uint64_t records) {
  if (stopped_ || whole_bytes_ == 0) return;
  contents_.clear();
  contents_.number(0);  // no position
  replay_.save_changes(contents_, false);
  std::vector<std::uint8_t> changes = section(trace::SectionKind::kChanges, records, kEndOfTrace);
  contents_.clear();
  save(replay_.end_interval(), contents_);
  const std::vector<std::uint8_t> sums = section(trace::SectionKind::kSums, records);
  const auto fits = [&] {
    return !changes.empty() && !sums.empty() &&
           written_bytes_ + changes.size() + sums.size() <= budget_ - history_budget();
  };
  if (!fits()) {
    contents_.clear();
    contents_.number(0);
    replay_.save_without_blocks(contents_);
    changes = section(trace::SectionKind::kChanges, records, kEndOfTrace | kWithoutBlocks);
    if (!fits()) return;
  }
  append(changes);
  append(sums);
}

void IntervalWriter::write_history(std::uint64_t records) {
  LiveHistory history = history_log_.take(replay_.timeline());
  contents_.clear();
  save(history, contents_);
  if (append_if_fits(trace::SectionKind::kHistory, records, max_history()) || !history.has_changes) return;
  // The timeline alone still saves a pass.
  history.nodes.clear();
  history.threads.clear();
  history.has_changes = false;
  contents_.clear();
  save(history, contents_);
  append_if_fits(trace::SectionKind::kHistory, records, max_history());
}

void IntervalWriter::write_lives(std::uint64_t records) {
  contents_.clear();
  save(replay_.lives(), contents_);
  append_if_fits(trace::SectionKind::kLives, records, std::max(trace_bytes_ / kMaxLivesShare, kSmallestLives));
}

/// Appends the contents as a section about the whole recording. False: there is no room for it.
bool IntervalWriter::append_if_fits(trace::SectionKind kind, std::uint64_t records, std::uint64_t max_bytes) {
  if (contents_.size() > trace::kMaxSectionBytes) return false;
  trace::SectionHeader header{};
  header.kind = kind;
  header.file_id = file_id_;
  header.number = records;
  header.last_time = replay_.last_time();
  const std::vector<std::uint8_t> section = trace::make_section(header, contents_.bytes(), kHistoryCompressionLevel);
  if (section.size() > max_bytes) return false;
  file_.append(section);
  return true;
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
  return trace::make_section(header, contents_.bytes(), kIntervalCompressionLevel);
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
