#include "analyzer/trace/asked_frames.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <tuple>
#include <utility>

#include "analyzer/trace/frame_reader.h"

namespace heapprof::trace {

/// What a thread needs to read frames.
class AskedFrames::FrameSource {
 public:
  explicit FrameSource(const AskedFrames& of) : of_(of), reader_(of.asked_, of.node_index_) {}

  /// An exception leaves the frame to the reader, which has the same reason to throw.
  void read(std::uint32_t stream, std::size_t number, AskedFrame& frame) noexcept {
    frame.is_known = false;
    try {
      const StreamIndex& index = of_.file_.streams()[stream];
      if (frames_.read(of_.file_.input(), of_.file_.header().file_id, index.id, index.frames[number]) !=
          FrameReader::Result::kRead)
        return;
      frame.header = frames_.header();
      if (frame.header.last_time > of_.file_.cut_ticks()) return;
      frame.is_known = reader_.read(column_format(frame.header.codec), frames_.columns(), frame.header.raw_bytes,
                                    frame.header.first_time, frame.header.record_count, frame.events);
    } catch (const std::exception&) {
      frame.is_known = false;
    }
  }

 private:
  const AskedFrames& of_;
  FrameReader frames_;
  AskedReader reader_;
};

unsigned AskedFrames::threads_of_machine() noexcept {
  return std::clamp(std::thread::hardware_concurrency(), 1u, kMaxThreads);
}

AskedFrames::AskedFrames(const TraceFile& file, const NodeIndex& node_index, const AskedAllocations& asked,
                         std::span<const std::size_t> first_frames, unsigned threads)
    : file_(file), node_index_(node_index), asked_(asked), own_source_(std::make_unique<FrameSource>(*this)) {
  if (threads < 2) return;
  put_in_order(first_frames);
  threads_.reserve(threads - 1);
  try {
    while (threads_.size() + 1 < threads) threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {  // those that could be started are enough
  }
}

AskedFrames::~AskedFrames() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    has_room_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void AskedFrames::put_in_order(std::span<const std::size_t> first_frames) {
  first_frames_.assign(first_frames.begin(), first_frames.end());
  struct Timed {
    std::uint64_t time;  // no event of the stream from this frame on is earlier
    FrameId id;
  };
  std::vector<Timed> frames;
  const std::vector<StreamIndex>& streams = file_.streams();
  for (std::uint32_t stream = 0; stream < streams.size(); ++stream) {
    std::uint64_t time = 0;
    for (std::size_t number = first_frames_[stream]; number < streams[stream].frames.size(); ++number) {
      time = std::max(time, streams[stream].frames[number].first_time);
      frames.push_back({time, {stream, static_cast<std::uint32_t>(number)}});
    }
  }
  std::ranges::sort(frames, {},
                    [](const Timed& frame) { return std::tuple(frame.time, frame.id.stream, frame.id.number); });
  positions_.resize(streams.size());
  order_.reserve(frames.size());
  for (const Timed& frame : frames) {
    positions_[frame.id.stream].push_back(static_cast<std::uint32_t>(order_.size()));
    order_.push_back(frame.id);
  }
  taken_early_.assign(order_.size(), 0);
}

/// A position whose frame the caller reads into held_, which has room for it. Precondition: the mutex is locked.
std::optional<std::size_t> AskedFrames::claim() {
  while (next_ < order_.size() && taken_early_[next_] != 0) ++next_;
  if (next_ == order_.size()) return std::nullopt;
  Held& held = held_[next_ % kAhead];
  if (held.state != State::kFree) return std::nullopt;
  held.state = State::kBusy;
  --room_;
  return next_++;
}

void AskedFrames::run() {
  FrameSource source(*this);
  std::unique_lock lock(mutex_);
  while (!ends_) {
    const std::optional<std::size_t> position = claim();
    if (!position) {
      if (next_ == order_.size()) return;
      // Not for each single frame, because a thread takes longer to wake up than to read one.
      has_room_.wait(lock,
                     [&] { return ends_ || (room_ >= kAhead / 2 && held_[next_ % kAhead].state == State::kFree); });
      continue;
    }
    Held& held = held_[*position % kAhead];
    lock.unlock();
    source.read(order_[*position].stream, order_[*position].number, held.frame);
    lock.lock();
    held.state = State::kDone;
    has_frame_.notify_one();
  }
}

const AskedFrame* AskedFrames::take(std::uint32_t stream, std::size_t number) {
  if (threads_.empty()) {
    own_source_->read(stream, number, current_);
    return current_.is_known ? &current_ : nullptr;
  }
  const std::size_t position = position_of(stream, number);
  std::unique_lock lock(mutex_);
  if (position >= next_) {
    taken_early_[position] = 1;
    lock.unlock();
    own_source_->read(stream, number, current_);
    return current_.is_known ? &current_ : nullptr;
  }
  Held& held = held_[position % kAhead];
  while (held.state == State::kBusy) {
    const std::optional<std::size_t> other = claim();
    if (!other) {
      has_frame_.wait(lock);
      continue;
    }
    Held& helped = held_[*other % kAhead];
    lock.unlock();
    own_source_->read(order_[*other].stream, order_[*other].number, helped.frame);
    lock.lock();
    helped.state = State::kDone;
  }
  std::swap(held.frame, current_);
  held.state = State::kFree;
  ++room_;
  if (room_ >= kAhead / 2) has_room_.notify_all();
  return current_.is_known ? &current_ : nullptr;
}

void AskedFrames::drop(std::uint32_t stream, std::size_t number) {
  if (!threads_.empty()) take(stream, number);
}

}  // namespace heapprof::trace
