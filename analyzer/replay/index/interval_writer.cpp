#include "analyzer/replay/index/interval_writer.h"

#include <algorithm>
#include <utility>

#include "analyzer/replay/index/interval_state.h"

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
constexpr std::uint64_t kIntervalsPerBlocks = 2;      // how much larger intervals are before all live blocks come
constexpr int kIntervalCompressionLevel = 3;
constexpr int kHistoryCompressionLevel = 9;

// Bytes of a block, until some have been written.
constexpr std::uint64_t kBytesPerOlder = 6;
constexpr std::uint64_t kMaxBytesPerOlder = 12;
constexpr std::uint64_t kManyOlder = 1000;  // fewer say nothing about the next ones
constexpr std::uint64_t kBytesPerBlock = 6;

}  // namespace

IntervalWriter::IntervalWriter(AtomicFile& file, const trace::TraceFile& trace, Replay& replay)
    : file_(file), replay_(replay), file_id_(trace.file_id()), trace_bytes_(trace.frame_bytes()),
      budget_(std::max(trace_bytes_ / kMaxShareOfTrace, kSmallestBudget)),
      history_log_(max_history() / kMinBytesPerLiveChange), bytes_per_older_(kBytesPerOlder),
      bytes_per_block_(kBytesPerBlock) {
  replay_.log_intervals(log_);
  replay_.log_history(history_log_);
}

/// Of the interval so far.
std::uint64_t IntervalWriter::older_blocks() const noexcept { return log_.removed.size() + log_.given.size(); }

/// Of a section with all live blocks.
std::uint64_t IntervalWriter::bytes_of_blocks() const noexcept { return replay_.live_blocks() * bytes_per_block_; }

std::uint64_t IntervalWriter::history_budget() const noexcept { return budget_ / kShareForHistory; }

std::uint64_t IntervalWriter::max_history() const noexcept { return std::max(history_budget(), kSmallestHistory); }

/// The budget of all intervals but the one at the end.
std::uint64_t IntervalWriter::available() const noexcept {
  return budget_ - budget_ / kShareForEnd - history_budget();
}

/// What is left for the live blocks at the end, without which no others are known. Where they are too many, the
/// intervals do without.
std::uint64_t IntervalWriter::reserved() const noexcept {
  const std::uint64_t bytes = bytes_of_blocks();
  return bytes <= available() / 2 ? bytes : 0;
}

/// Whether it is time for an interval of `bytes`: there will be room for the rest of the trace, if it is divided into
/// intervals like this one. Longer intervals have fewer older blocks, because more blocks come and go in one.
bool IntervalWriter::is_due(std::uint64_t frame_bytes_read, std::uint64_t bytes) const noexcept {
  const std::uint64_t used = written_bytes_ + reserved();
  if (used + bytes > available()) return false;
  const std::uint64_t length = std::max<std::uint64_t>(frame_bytes_read - last_position_, 1);
  const std::uint64_t rest = std::max(trace_bytes_, frame_bytes_read) - last_position_;
  constexpr double kMargin = 1.25;  // later ones can be larger
  const double expected =
      kMargin * static_cast<double>(bytes) * static_cast<double>(rest) / static_cast<double>(length);
  return static_cast<double>(used) + expected <= static_cast<double>(budget_ - history_budget());
}

void IntervalWriter::after(const trace::Batch& batch) {
  if (batch.position.size() == 0 || stopped_) return;
  const std::uint64_t older = older_blocks();
  const std::uint64_t expected_bytes = older * bytes_per_older_ + other_bytes_;
  const std::uint64_t read = std::max(batch.frame_bytes_read, last_position_);
  if (!is_due(read, expected_bytes)) return;

  const std::uint64_t state_bytes =
      append(state_section(batch.position.bytes(), batch.records, 0, replay_.take_older_blocks()));
  contents_.clear();
  save(replay_.end_interval(), contents_);
  const std::uint64_t bytes = state_bytes + append(section(trace::SectionKind::kSums, batch.records));
  since_blocks_ += bytes;
  if (older >= kManyOlder) bytes_per_older_ = std::min(state_bytes / older + 1, kMaxBytesPerOlder);
  other_bytes_ = bytes - std::min(older * bytes_per_older_, state_bytes);

  // All live blocks must leave room for the intervals that follow: otherwise these would be long.
  const std::uint64_t to_come =
      (std::max(trace_bytes_, read) - read) / std::max<std::uint64_t>(read - last_position_, 1);
  last_position_ = read;
  const std::uint64_t blocks_bytes = bytes_of_blocks();
  if (since_blocks_ < kIntervalsPerBlocks * blocks_bytes ||
      written_bytes_ + blocks_bytes + reserved() + (to_come + 1) * bytes > available())
    return;
  const std::vector<std::uint8_t> blocks = blocks_section(batch.records);
  since_blocks_ = 0;
  if (blocks.empty()) return;  // too many for a section
  bytes_per_block_ = append(blocks) / std::max<std::uint64_t>(replay_.live_blocks(), 1) + 1;
}

void IntervalWriter::end_of_trace(std::uint64_t records) {
  if (stopped_ || written_bytes_ == 0) return;
  const auto fits = [&](const std::vector<std::uint8_t>& section, std::uint64_t more = 0) {
    return !section.empty() && written_bytes_ + section.size() + more <= budget_ - history_budget();
  };
  std::vector<std::uint8_t> state = state_section({}, records, kEndOfTrace, replay_.take_older_blocks());
  contents_.clear();
  save(replay_.end_interval(), contents_);
  const std::vector<std::uint8_t> sums = section(trace::SectionKind::kSums, records);
  if (sums.empty()) return;
  const bool has_older = fits(state, sums.size());
  if (!has_older) state = state_section({}, records, kEndOfTrace | kWithoutOlder, {});
  if (!fits(state, sums.size())) return;
  append(state);
  append(sums);
  if (!has_older) return;
  const std::vector<std::uint8_t> blocks = blocks_section(records);
  if (fits(blocks)) append(blocks);
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

/// A section with the state of the replay. `position`: empty at the end of the trace.
std::vector<std::uint8_t> IntervalWriter::state_section(std::span<const std::uint8_t> position, std::uint64_t records,
                                                        std::uint64_t flags, OlderBlocks older) {
  trace::ByteWriter state;
  replay_.save_other_state(state);
  contents_.clear();
  save_interval_state(position, state, std::move(older), contents_);
  return section(trace::SectionKind::kState, records, flags);
}

std::vector<std::uint8_t> IntervalWriter::blocks_section(std::uint64_t records) {
  contents_.clear();
  replay_.save_live_blocks(contents_);
  return section(trace::SectionKind::kBlocks, records);
}

/// A section with the contents. `flags`: of a state.
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
