#include "analyzer/trace/follower.h"

#include <algorithm>
#include <functional>

#include "analyzer/trace/files/read_header.h"
#include "analyzer/trace/recorder_process.h"
#include "common/trace_header.h"

namespace heapprof::trace {

Follower::Follower(const std::string& path) : path_(path) {
  input_ = std::make_unique<InputFile>(path);
  const bool complete = read_header(*input_, header_) == sizeof header_;
  // TraceFile finds the reason why this is no trace, and reads those that have ended.
  if (!complete || !is_recorder_header(header_) || header_.slot_bytes != sizeof(Slot) ||
      header_.unit_bytes < kUnitBytes || find_recorder(header_, *input_) != RecorderState::kRecording ||
      header_.end_kind == EndKind::kStopped || !ticks_now(header_)) {
    input_.reset();
    file_ = std::make_unique<TraceFile>(path);
    header_ = file_->header();
    reader_ = std::make_unique<MergedReader>(*file_);
    recorder_ = file_->recorder();
    ended_ = true;
    return;
  }
  recorder_ = RecorderState::kRecording;
  complete_clock_rate(header_);
  index_ = std::make_unique<GrowingIndex>(*input_, header_);
  shared_ = std::make_unique<ReadState>(*input_, header_, input_->size(), kNoCut);
}

void Follower::advance() {
  if (input_ != nullptr) follow();
}

void Follower::follow() {
  // First whether the program runs, then what it has written: so nothing is written after the last reading.
  if (!ended_) ended_ = !is_written();
  cut_ticks_ = ended_ ? kNoCut : ticks_now(header_).value_or(kNoCut);
  index_->update(ended_);
  shared_->file_bytes = input_->size();
  begin_streams();
}

bool Follower::is_written() {
  if (input_ == nullptr || ended_) return false;
  read_end();
  recorder_ = find_recorder(header_, *input_);
  return recorder_ == RecorderState::kRecording && header_.end_kind != EndKind::kStopped;
}

void Follower::read_end() {
  constexpr std::size_t kBegin = offsetof(FileHeader, end_kind);
  constexpr std::size_t kEnd = offsetof(FileHeader, file_bytes);
  input_->read_all(kBegin, reinterpret_cast<char*>(&header_) + kBegin, kEnd - kBegin);
}

void Follower::look_for_end() {
  if (input_ != nullptr && ended_ && header_.end_kind == EndKind::kNone) read_end();
}

/// Finds the streams that may have events in this advance.
void Follower::begin_streams() {
  std::deque<StreamIndex>& streams = index_->streams();
  if (streams.size() > MergedEvent::kStreamMask)
    throw TraceError(path_ + ": has " + std::to_string(streams.size()) +
                     " streams, more than a program can have threads");
  while (decoders_.size() < streams.size()) {
    const auto stream = static_cast<std::uint32_t>(decoders_.size());
    decoders_.push_back(std::make_unique<StreamDecoder>(*shared_, streams[stream], stream));
  }
  heads_.clear();
  const auto add = [&](std::uint32_t stream) {
    const StreamDecoder& decoder = *decoders_[stream];
    heads_.push_back({decoder.at != decoder.end ? decoder.at->time : decoder.next_time(), stream});
  };
  for (const std::uint32_t stream : waiting_) add(stream);
  for (const std::size_t stream : index_->changed()) {
    StreamDecoder& decoder = *decoders_[stream];
    const std::size_t read = decoder.frames_read();
    std::vector<FrameRef>& frames = streams[stream].frames;
    frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(read));
    decoder.index_has_grown(read);
    const auto position = static_cast<std::uint32_t>(stream);
    if (std::ranges::find(waiting_, position) == waiting_.end()) add(position);
  }
  waiting_.clear();
  std::make_heap(heads_.begin(), heads_.end(), std::greater<>());
}

bool Follower::next(EventRun& run) {
  if (reader_ != nullptr) {
    if (!reader_->next(batch_)) return false;
    run = {batch_.events(), &batch_.texts};
    return true;
  }
  while (!heads_.empty()) {
    std::pop_heap(heads_.begin(), heads_.end(), std::greater<>());
    const std::uint32_t stream = heads_.back().stream;
    StreamDecoder& decoder = *decoders_[stream];
    const auto put_back = [&](std::uint64_t time) {
      heads_.back().time = time;
      std::push_heap(heads_.begin(), heads_.end(), std::greater<>());
    };
    if (decoder.at == decoder.end) {
      if (decoder.load()) {
        put_back(decoder.at->time);
      } else {
        heads_.pop_back();
        std::vector<Slot>().swap(index_->streams()[stream].staging);
      }
      continue;
    }
    // Up to the next event of another stream, and up to the cut.
    std::uint64_t limit = cut_ticks_;
    if (heads_.size() > 1) limit = std::min(limit, heads_.front().time);
    const MergedEvent* const begin = decoder.at;
    const MergedEvent* at = begin;
    while (at != decoder.end && at->time <= limit) ++at;
    if (at == begin) {
      waiting_.push_back(stream);
      heads_.pop_back();
      continue;
    }
    decoder.at = at;
    shared_->last_time = at[-1].time;
    put_back(at != decoder.end ? at->time : decoder.next_time());
    run = {{begin, at}, &decoder.texts};
    return true;
  }
  shared_->definitions.node_count = shared_->node_index.size();
  return false;
}

std::uint64_t Follower::file_bytes() const noexcept { return file_ != nullptr ? file_->bytes() : input_->size(); }

std::size_t Follower::streams() const noexcept {
  return file_ != nullptr ? file_->streams().size() : decoders_.size();
}

std::uint64_t Follower::frame_bytes_read() const noexcept {
  return file_ != nullptr ? reader_->frame_bytes_read() : shared_->frame_bytes_read;
}

std::string Follower::ended_by() const {
  if (file_ != nullptr) return file_->ended_by();
  if (!ended_) return "running";
  switch (header_.end_kind) {
    case EndKind::kExit: return "exit";
    case EndKind::kExec: return "exec";
    case EndKind::kSignal: return "signal";
    case EndKind::kStopped: return "stopped";
    case EndKind::kNone: break;
  }
  return recorder_ == RecorderState::kExecuted ? "exec" : "unknown";
}

const Definitions& Follower::definitions() const noexcept {
  if (file_ == nullptr) return shared_->definitions;
  return file_->compacted() != nullptr ? file_->compacted()->summary->definitions : reader_->definitions();
}

Damage Follower::damage() const {
  Damage damage = file_ != nullptr ? file_->damage() : index_->damage();
  damage.add(file_ != nullptr ? reader_->damage() : shared_->damage);
  if (file_ != nullptr && file_->compacted() != nullptr) damage.add(file_->compacted()->summary->damage);
  return damage;
}

}  // namespace heapprof::trace
