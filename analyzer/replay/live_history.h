// Live bytes over a whole recording: its timeline, and the changes of the live bytes of each stack and each thread in
// each bucket of it. Sums of changes are the live bytes of any group of stacks at the ends of the buckets.
//
// The log is written during a replay. The timeline joins pairs of its buckets whenever all are in use
// (model/live_timeline.h), and the log follows. Cost: a store for each event, and a comparison for each free; at the
// end of a bucket, a byte for each stack is looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "analyzer/model/block_lives.h"
#include "analyzer/model/live_timeline.h"
#include "analyzer/trace/files/byte_stream.h"

namespace heapprof::replay {

/// In a bucket of the timeline, of a stack or of a thread.
struct LiveChange {
  std::uint32_t index = 0;  ///< dense index of the stack's node; of a thread: its index
  std::uint32_t bucket = 0;
  std::int64_t bytes = 0;  ///< live at the end of the bucket minus live at its begin; not 0
};

/// Heap blocks only.
struct LiveHistory {
  std::uint64_t width_ticks = 0;                     ///< of a bucket
  std::vector<model::LiveTimeline::Bucket> buckets;  ///< the last one ends with the recording
  std::vector<LiveChange> nodes;                     ///< ascending by index, then by bucket
  std::vector<LiveChange> threads;                   ///< likewise
  bool has_changes = true;                           ///< else there was no room for them: there are only the buckets
};

void save(const LiveHistory& history, trace::ByteWriter& out);
/// Throws trace::FormatError, also when an index is not less than its count.
LiveHistory load_live_history(trace::ByteReader& in, std::uint32_t node_count, std::uint32_t thread_count);

/// The changes of the live bytes of some things with an index. Memory: a few words for each of them, and 16 bytes for
/// each change.
class ChangeLog {
 public:
  /// The live bytes of `index` may have changed.
  void touch(std::uint32_t index) {
    if (index >= touched_.size()) [[unlikely]]
      grow(index);
    touched_[index] = 1;
  }
  /// Ends a bucket. `live_of(index)`: live bytes now. Buckets ascend.
  template <typename LiveOf>
  void end_bucket(std::uint32_t bucket, LiveOf&& live_of) {
    std::uint64_t word;
    for (std::size_t from = 0; from < touched_.size(); from += sizeof word) {
      std::memcpy(&word, &touched_[from], sizeof word);
      if (word == 0) continue;
      for (std::size_t i = from; i < from + sizeof word; ++i) {
        if (touched_[i] == 0) continue;
        touched_[i] = 0;
        const auto index = static_cast<std::uint32_t>(i);
        const std::uint64_t live = live_of(index);
        if (live == live_[i]) continue;
        changes_.push_back({index, bucket, static_cast<std::int64_t>(live - live_[i])});
        live_[i] = live;
      }
    }
  }
  /// Bucket i becomes i / buckets, and changes of the same bucket become one.
  void join(std::uint32_t buckets);
  std::size_t size() const noexcept { return changes_.size(); }
  /// The changes, ascending by index, then by bucket. The log is empty afterwards.
  std::vector<LiveChange> take();

 private:
  void grow(std::uint32_t index);

  std::vector<std::uint8_t> touched_;  ///< by index; the size is a multiple of 8
  std::vector<std::uint64_t> live_;    ///< by index: at the end of the last bucket
  std::vector<std::uint32_t> latest_;  ///< by index: position of its change, while pairs are joined
  std::vector<LiveChange> changes_;    ///< in order of the buckets
};

/// Precondition of all: the replay has replayed everything since its start. Of the blocks that it counts.
class LiveHistoryLog {
 public:
  /// What becomes of a log with more than `max_changes`: it ends, or its steps become longer than a bucket.
  enum class IfTooLarge { kGiveUp, kCoarsen };
  explicit LiveHistoryLog(std::size_t max_changes, IfTooLarge if_too_large = IfTooLarge::kGiveUp)
      : max_changes_(max_changes), if_too_large_(if_too_large) {}

  /// A block of this stack was allocated by this thread.
  void allocated(std::uint32_t node, std::uint32_t thread) {
    nodes_.touch(node);
    touch_thread(thread);
  }
  /// Such a block is freed `at` this time (ticks).
  void freed(std::uint32_t node, std::uint32_t thread, std::uint64_t at, std::uint64_t allocated_at) {
    nodes_.touch(node);
    touch_thread(thread);
    freed_at_once(node, at, allocated_at);
  }
  /// A block was freed `at` this time and allocated in the same bucket, so that the live bytes are as before.
  void freed_at_once(std::uint32_t node, std::uint64_t at, std::uint64_t allocated_at) {
    if (node >= longest_.size()) [[unlikely]]
      longest_.resize(std::size_t{node} < 32 ? 64 : std::size_t{node} * 2);
    longest_[node].freed(at, allocated_at);
  }
  /// Ends bucket number `bucket` of the timeline, whose buckets have this width now.
  template <typename LiveOfNode, typename LiveOfThread>
  void end_bucket(std::size_t bucket, std::uint64_t width_ticks, LiveOfNode&& live_of_node,
                  LiveOfThread&& live_of_thread) {
    latest_thread_ = kNone;
    if (gave_up_) return;
    follow(width_ticks);
    const auto step = static_cast<std::uint32_t>(bucket / buckets_of_step_);
    nodes_.end_bucket(step, live_of_node);
    threads_.end_bucket(step, live_of_thread);
    limit();
  }
  bool gave_up() const noexcept { return gave_up_; }
  /// The longest lives of freed blocks, by dense index of the node; may be shorter or longer than the call tree. Also
  /// of a log that gave up.
  const std::vector<model::LongestLife>& longest_lives() const noexcept { return longest_; }
  /// Call it once, after the last bucket. `timeline`: of the replay, finished. Without changes if the log gave up.
  LiveHistory take(const model::LiveTimeline& timeline);

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  /// Many events in a row are of the same thread.
  void touch_thread(std::uint32_t thread) {
    if (thread == latest_thread_) return;
    threads_.touch(thread);
    latest_thread_ = thread;
  }
  void follow(std::uint64_t width_ticks);
  void join(std::uint32_t buckets);
  void limit();

  ChangeLog nodes_;
  ChangeLog threads_;
  std::uint32_t latest_thread_ = kNone;  ///< touched in this bucket
  std::vector<model::LongestLife> longest_;
  const std::size_t max_changes_;
  const IfTooLarge if_too_large_;
  std::uint32_t buckets_of_step_ = 1;  ///< changes are those in so many buckets, a power of 2
  std::uint64_t width_ticks_ = 0;      ///< 0: no bucket has ended
  bool gave_up_ = false;
};

}  // namespace heapprof::replay
