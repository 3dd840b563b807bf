// Live bytes over time in at most kBuckets buckets of equal width, whatever the length of the recording: the first
// buckets are narrow, and pairs of them are joined whenever all are in use.
//
// The replay calls move_to() before each change and rose() or fell() after it. Each is one comparison in most cases.
// Times are ticks since the start of the timeline.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace heapprof::model {

class LiveTimeline {
 public:
  static constexpr std::size_t kBuckets = 1024;

  struct Bucket {
    std::uint64_t min_bytes = 0;
    std::uint64_t max_bytes = 0;
    std::uint64_t last_bytes = 0;
    std::uint64_t last_blocks = 0;
    std::uint64_t allocations = 0;      ///< from the start of the timeline to the end of the bucket
    std::uint64_t allocated_bytes = 0;  ///< likewise
    std::uint64_t mapped_bytes = 0;
    std::uint64_t rss_bytes = 0;
    bool touched = false;  ///< its values are set; else those of the bucket before apply
    bool busy = false;     ///< it had an event of the program
  };
  /// Sums at a moment; allocations and allocated bytes since the start.
  struct State {
    std::uint64_t live_bytes = 0;
    std::uint64_t live_blocks = 0;
    std::uint64_t allocations = 0;
    std::uint64_t allocated_bytes = 0;
    std::uint64_t mapped_bytes = 0;
  };

  explicit LiveTimeline(std::uint64_t first_width_ticks = 1)
      : buckets_(kBuckets), first_width_(std::max<std::uint64_t>(first_width_ticks, 1)), width_(first_width_) {}

  bool must_move(std::uint64_t time) const noexcept { return time >= moves_at_; }

  /// begin() or move_to() was called.
  bool has_begun() const noexcept { return current_ != kNone; }

  /// Starts at 0 without an event. Precondition: there was no event yet.
  void begin(const State& state) {
    enter(0, state);
    moves_at_ = 0;
  }

  /// Whether an event at `time` ends the current bucket.
  bool ends_bucket(std::uint64_t time) const noexcept { return has_begun() && time >= end_; }
  /// Number of the current bucket. Precondition: has_begun().
  std::size_t current() const noexcept { return current_; }

  /// `state`: the sums up to now. `time`: that of the next event. `busy`: the event is one of the program.
  void move_to(std::uint64_t time, const State& state, bool busy) {
    if (time >= end_) enter(time, state);
    Bucket& bucket = buckets_[current_];
    bucket.busy |= busy;
    moves_at_ = bucket.busy ? end_ : 0;
  }
  void rose(std::uint64_t live_bytes) noexcept {
    if (live_bytes > max_bytes_) max_bytes_ = live_bytes;
  }
  void fell(std::uint64_t live_bytes) noexcept {
    if (live_bytes < min_bytes_) min_bytes_ = live_bytes;
  }
  void rss(std::uint64_t bytes) noexcept {
    if (bytes > buckets_[current_].rss_bytes) buckets_[current_].rss_bytes = bytes;
  }

  /// Ends the timeline at `time`. Buckets without an event get the values of the bucket before.
  void finish(std::uint64_t time, const State& state) {
    enter(std::max(time, current_ == kNone ? 0 : current_ * width_), state);
    close(state);
    buckets_.resize(current_ + 1);
    Bucket before;
    for (Bucket& bucket : buckets_) {
      if (!bucket.touched) {
        bucket = before;
        bucket.min_bytes = bucket.max_bytes = bucket.last_bytes;
        bucket.rss_bytes = 0;
        bucket.busy = false;
      }
      before = bucket;
    }
  }

  /// The width of the buckets of a timeline that ends at `time`.
  static std::uint64_t width_ticks_for(std::uint64_t time, std::uint64_t first_width_ticks) noexcept {
    std::uint64_t width = std::max<std::uint64_t>(first_width_ticks, 1);
    while (time / width >= kBuckets) width *= 2;
    return width;
  }

  std::uint64_t first_width_ticks() const noexcept { return first_width_; }
  std::uint64_t width_ticks() const noexcept { return width_; }
  const std::vector<Bucket>& buckets() const noexcept { return buckets_; }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  void enter(std::uint64_t time, const State& state) {
    if (current_ != kNone) close(state);
    while (time / width_ >= kBuckets) join_pairs();
    current_ = static_cast<std::size_t>(time / width_);
    end_ = (time / width_ + 1) * width_;
    Bucket& bucket = buckets_[current_];
    min_bytes_ = bucket.touched ? bucket.min_bytes : state.live_bytes;
    max_bytes_ = bucket.touched ? bucket.max_bytes : state.live_bytes;
    bucket.touched = true;
  }

  void close(const State& state) noexcept {
    Bucket& bucket = buckets_[current_];
    bucket.min_bytes = min_bytes_;
    bucket.max_bytes = max_bytes_;
    bucket.last_bytes = state.live_bytes;
    bucket.last_blocks = state.live_blocks;
    bucket.allocations = state.allocations;
    bucket.allocated_bytes = state.allocated_bytes;
    bucket.mapped_bytes = state.mapped_bytes;
  }

  void join_pairs() {
    for (std::size_t i = 0; i < kBuckets / 2; ++i) {
      const Bucket& first = buckets_[2 * i];
      const Bucket& second = buckets_[2 * i + 1];
      Bucket joined = second.touched ? second : first;
      joined.busy = first.busy || second.busy;
      if (first.touched && second.touched) {
        joined.min_bytes = std::min(first.min_bytes, second.min_bytes);
        joined.max_bytes = std::max(first.max_bytes, second.max_bytes);
        joined.rss_bytes = std::max(first.rss_bytes, second.rss_bytes);
      }
      buckets_[i] = joined;
    }
    std::fill(buckets_.begin() + kBuckets / 2, buckets_.end(), Bucket{});
    width_ *= 2;
    if (current_ != kNone) current_ /= 2;
  }

  std::vector<Bucket> buckets_;
  std::uint64_t first_width_;
  std::uint64_t width_;
  std::uint64_t end_ = 0;       ///< of the current bucket
  std::uint64_t moves_at_ = 0;  ///< 0 until the current bucket is busy, so that must_move() is true for each event
  std::size_t current_ = kNone;
  std::uint64_t min_bytes_ = 0;  ///< of the current bucket, so far; in the bucket when it ends
  std::uint64_t max_bytes_ = 0;
};

}  // namespace heapprof::model
