#include "analyzer/replay/live_history.h"

#include <algorithm>
#include <array>

namespace heapprof::replay {
namespace {

using model::LiveTimeline;
using trace::ByteReader;
using trace::ByteWriter;
using trace::FormatError;

constexpr std::array kBucketFields = {&LiveTimeline::Bucket::min_bytes,    &LiveTimeline::Bucket::max_bytes,
                                      &LiveTimeline::Bucket::last_bytes,   &LiveTimeline::Bucket::last_blocks,
                                      &LiveTimeline::Bucket::allocations,  &LiveTimeline::Bucket::allocated_bytes,
                                      &LiveTimeline::Bucket::mapped_bytes, &LiveTimeline::Bucket::rss_bytes};

/// By columns, which compress better than rows, and each value as its difference from the one before.
void save_buckets(const std::vector<LiveTimeline::Bucket>& buckets, ByteWriter& out) {
  for (const auto field : kBucketFields) {
    std::uint64_t last = 0;
    for (const LiveTimeline::Bucket& bucket : buckets) {
      out.signed_number(static_cast<std::int64_t>(bucket.*field - last));
      last = bucket.*field;
    }
  }
  for (const LiveTimeline::Bucket& bucket : buckets) out.number(bucket.busy ? 1 : 0);
}

void load_buckets(ByteReader& in, std::vector<LiveTimeline::Bucket>& buckets) {
  for (const auto field : kBucketFields) {
    std::uint64_t last = 0;
    for (LiveTimeline::Bucket& bucket : buckets) {
      last += static_cast<std::uint64_t>(in.signed_number());
      bucket.*field = last;
    }
  }
  for (LiveTimeline::Bucket& bucket : buckets) {
    bucket.busy = in.number_up_to(1) != 0;
    bucket.touched = true;
  }
}

/// For each index: how many changes it has, and in columns the distances of their buckets, and their bytes.
void save_changes(const std::vector<LiveChange>& changes, ByteWriter& out) {
  out.number(changes.size());
  std::uint32_t last_index = 0;
  for (std::size_t i = 0; i < changes.size();) {
    const std::size_t first = i;
    while (i < changes.size() && changes[i].index == changes[first].index) ++i;
    out.number(changes[first].index - last_index);
    out.number(i - first);
    last_index = changes[first].index;
  }
  const LiveChange* before = nullptr;
  for (const LiveChange& change : changes) {
    const bool follows = before != nullptr && before->index == change.index;
    out.number(follows ? change.bucket - before->bucket - 1 : change.bucket);
    before = &change;
  }
  for (const LiveChange& change : changes) out.signed_number(change.bytes);
}

std::vector<LiveChange> load_changes(ByteReader& in, std::uint32_t index_count, std::size_t bucket_count) {
  constexpr std::size_t kMinChangeBytes = 2;
  std::vector<LiveChange> changes(in.count(kMinChangeBytes));
  std::uint64_t index = 0;
  for (std::size_t i = 0; i < changes.size();) {
    index += in.number_up_to(index_count);
    if (index >= index_count) throw FormatError("it has live bytes of an unknown stack or thread");
    const std::size_t end = i + static_cast<std::size_t>(in.number_up_to(changes.size() - i));
    if (i == end) throw FormatError("it has no live bytes of a stack or thread");
    for (; i < end; ++i) changes[i].index = static_cast<std::uint32_t>(index);
  }
  const LiveChange* before = nullptr;
  for (LiveChange& change : changes) {
    const bool follows = before != nullptr && before->index == change.index;
    const std::uint64_t bucket = (follows ? before->bucket + std::uint64_t{1} : 0) + in.number_up_to(bucket_count);
    if (bucket >= bucket_count) throw FormatError("it has live bytes after its end");
    change.bucket = static_cast<std::uint32_t>(bucket);
    before = &change;
  }
  for (LiveChange& change : changes) change.bytes = in.signed_number();
  return changes;
}

}  // namespace

void save(const LiveHistory& history, ByteWriter& out) {
  out.number(history.has_changes ? 1 : 0);
  out.number(history.width_ticks);
  out.number(history.buckets.size());
  save_buckets(history.buckets, out);
  save_changes(history.nodes, out);
  save_changes(history.threads, out);
}

LiveHistory load_live_history(ByteReader& in, std::uint32_t node_count, std::uint32_t thread_count) {
  LiveHistory history;
  history.has_changes = in.number_up_to(1) != 0;
  history.width_ticks = in.number();
  history.buckets.resize(static_cast<std::size_t>(in.number_up_to(LiveTimeline::kBuckets)));
  load_buckets(in, history.buckets);
  history.nodes = load_changes(in, node_count, history.buckets.size());
  history.threads = load_changes(in, thread_count, history.buckets.size());
  in.expect_end();
  return history;
}

void ChangeLog::grow(std::uint32_t index) {
  const std::size_t size = std::max<std::size_t>(64, (std::size_t{index} + 1) * 2 / 8 * 8 + 8);
  touched_.resize(size);
  live_.resize(size);
}

void ChangeLog::join(std::uint32_t buckets) {
  latest_.assign(live_.size(), 0);
  std::size_t kept = 0;
  for (const LiveChange& change : changes_) {
    const std::uint32_t bucket = change.bucket / buckets;
    const std::uint32_t latest = latest_[change.index];
    if (latest < kept && changes_[latest].index == change.index && changes_[latest].bucket == bucket) {
      changes_[latest].bytes += change.bytes;
      continue;
    }
    latest_[change.index] = static_cast<std::uint32_t>(kept);
    changes_[kept++] = {change.index, bucket, change.bytes};
  }
  changes_.resize(kept);
  std::erase_if(changes_, [](const LiveChange& change) { return change.bytes == 0; });
}

std::vector<LiveChange> ChangeLog::take() {
  std::stable_sort(changes_.begin(), changes_.end(),
                   [](const LiveChange& a, const LiveChange& b) { return a.index < b.index; });
  return std::move(changes_);
}

/// Joins pairs of buckets until they have this width.
void LiveHistoryLog::follow(std::uint64_t width_ticks) {
  if (width_ticks_ == 0) width_ticks_ = width_ticks;
  for (; width_ticks_ < width_ticks; width_ticks_ *= 2) {
    // Steps that are long enough keep their length in time.
    if (buckets_of_step_ != 1) {
      buckets_of_step_ /= 2;
      continue;
    }
    join(2);
  }
}

void LiveHistoryLog::join(std::uint32_t buckets) {
  nodes_.join(buckets);
  threads_.join(buckets);
}

/// Later buckets are joined, which leaves about half of the changes: only then it is known how many there are.
void LiveHistoryLog::limit() {
  if (nodes_.size() + threads_.size() <= 2 * max_changes_) return;
  if (if_too_large_ == IfTooLarge::kCoarsen) {
    join(1);  // the buckets of a step
    while (nodes_.size() + threads_.size() > max_changes_ && buckets_of_step_ < model::LiveTimeline::kBuckets) {
      join(2);
      buckets_of_step_ *= 2;
    }
    if (nodes_.size() + threads_.size() <= max_changes_) return;
  }
  gave_up_ = true;
  nodes_.take();
  threads_.take();
}

LiveHistory LiveHistoryLog::take(const model::LiveTimeline& timeline) {
  follow(timeline.width_ticks());
  LiveHistory history{timeline.width_ticks(), timeline.buckets(), nodes_.take(), threads_.take(), !gave_up_};
  if (buckets_of_step_ == 1) return history;
  // The live bytes of a step are those at the end of its last bucket.
  const auto last = static_cast<std::uint32_t>(history.buckets.size() - 1);
  for (std::vector<LiveChange>* const changes : {&history.nodes, &history.threads})
    for (LiveChange& change : *changes)
      change.bucket = std::min(change.bucket * buckets_of_step_ + buckets_of_step_ - 1, last);
  return history;
}

}  // namespace heapprof::replay
