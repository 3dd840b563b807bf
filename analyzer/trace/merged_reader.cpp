#include "analyzer/trace/merged_reader.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "analyzer/trace/events/limits.h"

namespace heapprof::trace {
namespace {

/// A batch of what is asked for ends after so many bytes of frames, so that whoever waits sees progress and can end.
constexpr std::uint64_t kMaxBatchFrameBytes = 1u << 20;

}  // namespace

MergedReader::MergedReader(const TraceFile& file) : file_(file), shared_(file) {
  if (file.compacted() != nullptr) {
    chunks_ = std::make_unique<ChunkReader>(file, shared_);
    return;
  }
  if (file.streams().size() > MergedEvent::kStreamMask)
    throw TraceError(file.input().path() + ": has " + std::to_string(file.streams().size()) +
                     " streams, more than a program can have threads");
  streams_.reserve(file.streams().size());
  for (const StreamIndex& index : file.streams()) {
    const auto stream = static_cast<std::uint32_t>(streams_.size());
    streams_.push_back(std::make_unique<StreamDecoder>(shared_, index, stream));
    heads_.push_back({streams_.back()->next_time(), stream});
  }
  std::sort(heads_.begin(), heads_.end());
}

MergedReader::MergedReader(const TraceFile& file, const TraceSummary& summary, ByteReader& position)
    : MergedReader(file) {
  take_definitions(summary);
  records_ = position.number();
  shared_.last_time = position.number();
  shared_.frame_bytes_read = position.number();
  if (chunks_ != nullptr) {
    chunks_->resume(position);
    return;
  }
  heads_.clear();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    StreamDecoder& stream = *streams_[i];
    stream.resume(position);
    heads_.push_back({stream.at != stream.end ? stream.at->time : stream.next_time(), static_cast<std::uint32_t>(i)});
  }
  std::sort(heads_.begin(), heads_.end());
}

void MergedReader::take_definitions(const TraceSummary& summary) {
  shared_.definitions_known = true;
  for (std::uint32_t index = 1; chunks_ == nullptr && index < summary.node_ids.size(); ++index)
    if (shared_.node_index(summary.node_ids[index]) != index) throw FormatError("it has a stack frame twice");
}

void MergedReader::ask(const AskedAllocations& asked, const TraceSummary& summary, unsigned threads) {
  if (!shared_.definitions_known) take_definitions(summary);
  if (chunks_ != nullptr) return;
  std::vector<std::size_t> first_frames;
  first_frames.reserve(streams_.size());
  for (const auto& stream : streams_) first_frames.push_back(stream->frames_read());
  shared_.asked = std::make_unique<AskedFrames>(file_, shared_.node_index, asked, first_frames, threads);
}

void MergedReader::save_position(ByteWriter& out) const {
  out.number(records_);
  out.number(shared_.last_time);
  out.number(shared_.frame_bytes_read);
  if (chunks_ != nullptr) chunks_->save(out);
  for (const auto& stream : streams_) stream->save(out);
}

bool MergedReader::next(Batch& batch) {
  batch.storage.resize(Batch::kMaxEvents);
  batch.texts.clear();
  bool may_have_position = false;
  bool ended = true;  // known only where a batch may be empty
  if (chunks_ == nullptr) {
    // If it were between events of one time, the time of a block would not show on which side it was allocated.
    may_have_position = merge(batch) && records_ + batch.count >= next_position_ &&
                        (heads_.empty() || heads_[0].time != shared_.last_time);
    ended = heads_.empty();
  } else {
    std::uint64_t until_position = std::numeric_limits<std::uint64_t>::max();
    if (position_interval_ != 0) until_position = next_position_ > records_ ? next_position_ - records_ : 0;
    may_have_position = chunks_->read(batch, until_position);
  }
  records_ += batch.count;
  batch.records = records();
  batch.frame_bytes_read = shared_.frame_bytes_read;
  batch.position.clear();
  if (position_interval_ != 0 && may_have_position) {
    save_position(batch.position);
    next_position_ = records_ + position_interval_;
  }
  return batch.count != 0 || (shared_.asked != nullptr && !ended);
}

void MergedReader::sift_down(std::size_t at) noexcept {
  const Head moving = heads_[at];
  const std::size_t size = heads_.size();
  for (;;) {
    std::size_t child = 2 * at + 1;
    if (child >= size) break;
    if (child + 1 < size && heads_[child + 1] < heads_[child]) ++child;
    if (!(heads_[child] < moving)) break;
    heads_[at] = heads_[child];
    at = child;
  }
  heads_[at] = moving;
}

/// Fills storage, count and texts of `batch`. False: there are no more events.
bool MergedReader::merge(Batch& batch) {
  MergedEvent* const begin = batch.storage.data();
  MergedEvent* out = begin;
  MergedEvent* const nominal_end = begin + Batch::kEvents;
  std::uint64_t text_bytes = 0;
  const std::uint64_t max_frame_bytes = shared_.frame_bytes_read + kMaxBatchFrameBytes;
  while (!heads_.empty() && text_bytes < kMaxBatchTextBytes) {
    if (out >= nominal_end && (heads_[0].time != shared_.last_time || out == begin + Batch::kMaxEvents)) break;
    if (shared_.frame_bytes_read >= max_frame_bytes && shared_.asked != nullptr &&
        (out == begin || heads_[0].time != shared_.last_time))
      break;
    StreamDecoder& stream = *streams_[heads_[0].stream];
    if (stream.at == stream.end) {
      if (stream.load()) {
        heads_[0].time = stream.at != stream.end ? stream.at->time : stream.next_time();
      } else {
        heads_[0] = heads_.back();
        heads_.pop_back();
      }
      if (!heads_.empty()) sift_down(0);
      continue;
    }
    std::uint64_t limit = kNoCut;
    if (heads_.size() > 1) limit = heads_[1].time;
    if (heads_.size() > 2) limit = std::min(limit, heads_[2].time);
    MergedEvent* const out_end = out < nominal_end ? nominal_end : out + 1;
    const MergedEvent* at = stream.at;
    const MergedEvent* const end = at + std::min(stream.end - at, out_end - out);
    if (stream.texts.empty()) [[likely]] {
      do *out++ = *at++;
      while (at != end && at->time <= limit);
    } else {
      do {
        *out = *at++;
        if (out->op() == Op::kText) {
          EventText& text = stream.texts[out->node];
          out->node = static_cast<std::uint32_t>(batch.texts.size());
          text_bytes += text.text.size();
          batch.texts.push_back(std::move(text));
        }
        ++out;
      } while (at != end && at->time <= limit && text_bytes < kMaxBatchTextBytes);
    }
    stream.at = at;
    shared_.last_time = out[-1].time;
    heads_[0].time = at != stream.end ? at->time : stream.next_time();
    sift_down(0);
  }
  batch.count = static_cast<std::size_t>(out - begin);
  shared_.definitions.node_count = shared_.node_index.size();
  return out != begin;
}

}  // namespace heapprof::trace
