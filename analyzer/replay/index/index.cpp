#include "analyzer/replay/index/index.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <unistd.h>
#include <utility>

#include "analyzer/replay/batch_pump.h"
#include "analyzer/replay/replay.h"
#include "analyzer/replay/summarize.h"
#include "analyzer/trace/frame_list.h"
#include "analyzer/trace/merged_reader.h"
#include "common/checksum.h"

namespace heapprof::replay {
namespace {

struct IndexHeader {
  unsigned char magic[8];
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t file_id;  ///< of the trace
  std::uint64_t trace_bytes;
  std::uint64_t fingerprint;  ///< TraceFile::fingerprint()
  std::uint64_t checksum;     ///< of all bytes before it
};
static_assert(sizeof(IndexHeader) == 48);

constexpr unsigned char kIndexMagic[8] = {0x89, 'H', 'P', 'R', 'X', '\r', '\n', 0x1a};
constexpr std::uint32_t kIndexVersion = 10;
constexpr int kSummaryLevel = 9;
constexpr int kFramesLevel = 1;
constexpr std::uint64_t kMaxFramesShare = 100;  // one part in 100 of the trace

/// Throws trace::FormatError.
IndexHeader read_index_header(const trace::InputFile& input) {
  IndexHeader header{};
  if (!input.read_all(0, &header, sizeof header) ||
      std::memcmp(header.magic, kIndexMagic, sizeof header.magic) != 0 || header.version != kIndexVersion ||
      header.checksum != checksum(&header, offsetof(IndexHeader, checksum)))
    throw trace::FormatError("is not an index that this heapprof can read");
  return header;
}

}  // namespace

void write_index_header(AtomicFile& out, const trace::TraceFile& file) {
  IndexHeader header{};
  std::memcpy(header.magic, kIndexMagic, sizeof header.magic);
  header.version = kIndexVersion;
  header.file_id = file.file_id();
  header.trace_bytes = file.bytes();
  header.fingerprint = file.fingerprint();
  header.checksum = checksum(&header, offsetof(IndexHeader, checksum));
  out.append({reinterpret_cast<const std::uint8_t*>(&header), sizeof header});
}

void write_summary(AtomicFile& out, std::uint64_t file_id, const trace::TraceSummary& summary) {
  trace::ByteWriter bytes;
  trace::SectionHeader header{};
  if (!summary.definitions.python.empty()) {
    trace::save(summary.definitions.python, bytes);
    header.kind = trace::SectionKind::kPython;
    header.file_id = file_id;
    out.append(trace::make_section(header, bytes.bytes(), kSummaryLevel));
    bytes.clear();
  }
  trace::save(summary, bytes);
  header.kind = trace::SectionKind::kSummary;
  header.file_id = file_id;
  header.number = summary.records;
  header.last_time = summary.last_time;
  out.append(trace::make_section(header, bytes.bytes(), kSummaryLevel));
}

void write_frames(AtomicFile& out, const trace::TraceFile& file) {
  const std::optional<trace::FrameList> list = file.frame_list();
  if (!list) return;
  trace::ByteWriter bytes;
  trace::save(*list, bytes);
  if (bytes.size() > trace::kMaxSectionBytes) return;
  trace::SectionHeader header{};
  header.kind = trace::SectionKind::kFrames;
  header.file_id = file.file_id();
  const std::vector<std::uint8_t> section = trace::make_section(header, bytes.bytes(), kFramesLevel);
  if (section.size() <= std::max<std::uint64_t>(file.bytes() / kMaxFramesShare, 4096)) out.append(section);
}

void write_totals(AtomicFile& out, std::uint64_t file_id, const RecordingTotals& totals, std::uint64_t records) {
  trace::ByteWriter bytes;
  save(totals, bytes);
  trace::SectionHeader header{};
  header.kind = trace::SectionKind::kTotals;
  header.file_id = file_id;
  header.number = records;
  out.append(trace::make_section(header, bytes.bytes(), kSummaryLevel));
}

std::optional<trace::FrameList> frames_in_index(const std::string& path, std::uint64_t file_id,
                                                std::uint64_t trace_bytes) {
  if (path.empty() || ::access(path.c_str(), F_OK) != 0) return std::nullopt;
  try {
    const trace::InputFile input(path);
    const IndexHeader header = read_index_header(input);
    if (header.file_id != file_id || header.trace_bytes != trace_bytes) return std::nullopt;
    const trace::SectionTable table = trace::walk_sections(input, file_id, sizeof header, input.size());
    if (table.frame_lists.empty()) return std::nullopt;
    const std::vector<std::uint8_t> contents = trace::read_contents(input, table.frame_lists.back());
    trace::ByteReader in(contents);
    trace::FrameList list = trace::load_frame_list(in, trace_bytes);
    if (list.fingerprint == header.fingerprint) return list;
  } catch (const trace::FormatError&) {
  } catch (const trace::TraceError&) {
  }
  // Index::open() gives the reason to the user.
  return std::nullopt;
}

trace::TraceSummary add_index(AtomicFile& out, const trace::TraceFile& file, std::uint64_t interval,
                              const std::function<void(const trace::Batch&)>& each) {
  trace::MergedReader reader(file);
  Replay replay(file, Selection{});
  IntervalWriter intervals(out, file, replay);
  reader.give_positions(interval);
  pump(reader, file.frame_bytes(), [&](trace::Batch& batch) {
    const bool more_needed = replay.replay(batch);
    intervals.after(batch);
    if (each) each(batch);
    return more_needed;
  });
  intervals.end_of_trace(reader.records());
  replay.finish(end_ticks(file, replay.clock()));
  intervals.write_history(reader.records());
  intervals.write_lives(reader.records());
  write_frames(out, file);
  write_totals(out, file.file_id(), replay.totals(), reader.records());
  trace::TraceSummary summary = summary_of(reader, replay);
  write_summary(out, file.file_id(), summary);
  return summary;
}

std::optional<Index> Index::open(const std::string& path, const trace::TraceFile& file, std::string& why_not) {
  why_not.clear();
  if (path.empty() || ::access(path.c_str(), F_OK) != 0) return std::nullopt;
  try {
    Index index;
    index.input_ = std::make_shared<const trace::InputFile>(path);
    const IndexHeader header = read_index_header(*index.input_);
    if (header.file_id != file.file_id() || header.trace_bytes != file.bytes() ||
        header.fingerprint != file.fingerprint())
      throw trace::FormatError("is the index of another trace, or the trace has changed since");
    index.table_ = trace::walk_sections(*index.input_, file.file_id(), sizeof header, index.input_->size());
    if (index.table_.summaries.empty()) throw trace::FormatError("is not complete");
    index.find_blocks();
    index.summary_ = std::make_shared<const trace::TraceSummary>(
        trace::read_summary(*index.input_, index.table_, file.header(), file.bytes()));
    if (index.summary_->nodes_left_out != 0) throw trace::FormatError("has more stacks than the trace can have");
    return index;
  } catch (const trace::FormatError& error) {
    why_not = path + ": " + error.what() + "; the index is not used";
  } catch (const trace::TraceError& error) {
    why_not = std::string(error.what()) + "; the index is not used";
  }
  return std::nullopt;
}

Index Index::inside(const trace::TraceFile& file) {
  Index index;
  index.input_ = std::make_shared<const trace::InputFile>(file.input().path());
  index.summary_ = file.compacted()->summary;
  // A damaged trace can have sections that only index files have.
  index.table_.snapshots = file.compacted()->sections.snapshots;
  index.table_.totals = file.compacted()->sections.totals;
  return index;
}

Snapshot Index::snapshot_before(std::uint64_t ticks) const {
  const trace::Section* best = nullptr;
  for (const trace::Section& snapshot : table_.snapshots)
    if (snapshot.header.last_time < ticks && (best == nullptr || snapshot.header.number > best->header.number))
      best = &snapshot;
  if (best != nullptr) return Snapshot(trace::read_contents(*input_, *best));
  // The intervals are in order of time.
  std::size_t count = 0;
  while (count < table_.states.size() && table_.states[count].header.last_time < ticks && !ends_trace(count)) ++count;
  while (count != 0 && !has_snapshot(count - 1)) --count;
  return count == 0 ? Snapshot() : snapshot_after(count - 1);
}

void Index::find_blocks() {
  blocks_after_.assign(table_.states.size(), nullptr);
  auto own = table_.blocks.rbegin();
  for (std::size_t i = table_.states.size(); i-- != 0;) {
    if (i + 1 < blocks_after_.size() && has_older_blocks(i + 1)) blocks_after_[i] = blocks_after_[i + 1];
    const std::uint64_t number = table_.states[i].header.number;
    while (own != table_.blocks.rend() && own->header.number > number) ++own;
    if (own != table_.blocks.rend() && own->header.number == number) blocks_after_[i] = &*own;
  }
}

Snapshot Index::snapshot_after(std::size_t interval) const {
  const trace::Section& blocks = *blocks_after_[interval];
  const std::uint64_t ticks = table_.states[interval].header.last_time;
  std::vector<Block> left;
  std::uint64_t payload_bytes = 0, contents_bytes = 0;
  for (std::size_t i = interval + 1; i < table_.states.size(); ++i) {
    const trace::SectionHeader& header = table_.states[i].header;
    if (header.number > blocks.header.number) break;
    payload_bytes += header.payload_bytes;
    contents_bytes += header.raw_bytes;
    if (contents_bytes > trace::max_contents_bytes(payload_bytes))
      throw trace::FormatError("has states that are larger than those of an index");
    for (const Block& block : needed_in(i))
      if (block.time <= ticks) left.push_back(block);
  }
  return {ticks, state_of(interval), trace::read_contents(*input_, blocks), std::move(left)};
}

std::shared_ptr<const IntervalState> Index::state_of(std::size_t interval) const {
  return std::make_shared<const IntervalState>(trace::read_contents(*input_, table_.states[interval]));
}

bool Index::has_older_blocks(std::size_t interval) const noexcept {
  return interval < table_.states.size() && (table_.states[interval].header.events & kWithoutOlder) == 0;
}

bool Index::ends_trace(std::size_t interval) const noexcept {
  return interval + 1 == table_.states.size() && (table_.states[interval].header.events & kEndOfTrace) != 0;
}

std::optional<SliceIntervals> Index::intervals_of(std::uint64_t from_ticks, std::uint64_t end_ticks) const {
  const std::vector<trace::Section>& states = table_.states;
  if (states.empty() || states.size() != table_.sums.size()) return std::nullopt;
  // Without its older blocks the end of the trace serves only slices that begin with the trace.
  const std::size_t usable =
      from_ticks == 0 || has_older_blocks(states.size() - 1) ? states.size() : states.size() - 1;
  const auto first_not_before = [&](std::size_t i, std::uint64_t ticks) {
    while (i < usable && states[i].header.last_time < ticks) ++i;
    return i;
  };
  SliceIntervals found;
  if (from_ticks != 0) found.first = first_not_before(0, from_ticks) + 1;
  found.end = first_not_before(found.first == 0 ? 0 : found.first - 1, end_ticks);
  if (found.end == 0) return std::nullopt;  // it ends in the first interval
  if (found.first != 0)
    for (std::size_t i = found.first - 1; i < std::max(found.first, found.end); ++i)
      if (!has_older_blocks(i)) return std::nullopt;
  // Nobody knows which blocks the events after the last interval need.
  if (!found.within_one() && !ends_trace(found.end - 1) && !has_older_blocks(found.end) &&
      !has_snapshot(found.end - 1))
    return std::nullopt;
  return found;
}

IntervalSums Index::sums_of(std::size_t interval) const {
  if (table_.sums[interval].header.number != table_.states[interval].header.number)
    throw trace::FormatError("has sums of another interval");
  const std::vector<std::uint8_t> contents = trace::read_contents(*input_, table_.sums[interval]);
  trace::ByteReader in(contents);
  return load_interval_sums(in, summary_->definitions.node_count);
}

std::optional<RecordingTotals> Index::totals() const {
  if (table_.totals.empty()) return std::nullopt;
  const std::vector<std::uint8_t> contents = trace::read_contents(*input_, table_.totals.back());
  trace::ByteReader in(contents);
  return load_recording_totals(in, summary_->definitions.node_count);
}

std::optional<LiveHistory> Index::history(std::uint64_t first_width_ticks) const {
  if (table_.histories.empty() || !summary_->overview) return std::nullopt;
  const std::vector<std::uint8_t> contents = trace::read_contents(*input_, table_.histories.back());
  trace::ByteReader in(contents);
  LiveHistory history = load_live_history(in, summary_->definitions.node_count,
                                          static_cast<std::uint32_t>(summary_->overview->threads.size()));
  const std::uint64_t width = model::LiveTimeline::width_ticks_for(summary_->last_time, first_width_ticks);
  if (history.width_ticks != width || history.buckets.size() != summary_->last_time / width + 1)
    throw trace::FormatError("has a timeline of another time");
  return history;
}

std::optional<std::vector<StackLives>> Index::lives() const {
  if (table_.lives.empty()) return std::nullopt;
  const std::vector<std::uint8_t> contents = trace::read_contents(*input_, table_.lives.back());
  trace::ByteReader in(contents);
  return load_stack_lives(in, summary_->definitions.node_count);
}

std::vector<Block> Index::needed_in(std::size_t interval) const {
  OlderBlocks older = state_of(interval)->older(summary_->definitions.node_count);
  std::vector<Block> needed = std::move(older.freed);
  needed.insert(needed.end(), older.given.begin(), older.given.end());
  return needed;
}

Snapshot::Snapshot(std::vector<std::uint8_t> whole) : whole_(std::move(whole)) {}
Snapshot::Snapshot(std::uint64_t ticks, std::shared_ptr<const IntervalState> state,
                   std::vector<std::uint8_t> later_blocks, std::vector<Block> left)
    : ticks_(ticks), state_(std::move(state)), later_blocks_(std::move(later_blocks)), left_(std::move(left)) {}

trace::ByteReader Snapshot::position() const {
  if (state_ != nullptr) return state_->position();
  trace::ByteReader in(whole_);
  const std::size_t bytes = in.count();
  return trace::ByteReader(in.raw(bytes));
}

bool Snapshot::restore(Replay& replay, std::uint32_t node_count) const {
  if (state_ != nullptr) return replay.restore_parts(blocks(), state_->of_replay(), node_count);
  trace::ByteReader in(whole_);
  const std::size_t position_bytes = in.count();
  in.raw(position_bytes);
  return replay.restore(in, node_count);
}

BlockTable Snapshot::blocks() const {
  BlockTable table = blocks_up_to(ticks_, trace::ByteReader(later_blocks_));
  add_up_to(ticks_, left_, table);
  return table;
}

std::string index_beside(const trace::TraceFile& file) { return index_beside(file.input()); }
std::string index_beside(const trace::InputFile& input) { return input.path() + ".idx"; }

}  // namespace heapprof::replay
