#include "analyzer/trace/followed_batches.h"

#include <algorithm>
#include <utility>

#include "analyzer/trace/events/limits.h"

namespace heapprof::trace {

/// False: this advance is over.
bool FollowedBatches::find_events() {
  EventRun run;
  while (rest_.empty()) {
    if (!follower_.next(run)) return false;
    rest_ = run.events;
    texts_ = run.texts;
  }
  return true;
}

bool FollowedBatches::next(Batch& batch) {
  batch.storage.resize(Batch::kMaxEvents);
  batch.texts.clear();
  batch.position.clear();
  batch.count = 0;
  std::uint64_t text_bytes = 0;
  while (batch.count != Batch::kMaxEvents && text_bytes < kMaxBatchTextBytes && find_events()) {
    const std::uint64_t time = std::max(rest_.front().time, last_time_);
    if (batch.count >= Batch::kEvents && time != last_time_) break;
    MergedEvent& event = batch.storage[batch.count++] = rest_.front();
    event.time = last_time_ = time;
    rest_ = rest_.subspan(1);
    if (event.op() != Op::kText) [[likely]]
      continue;
    EventText& text = (*texts_)[event.node];
    event.node = static_cast<std::uint32_t>(batch.texts.size());
    text_bytes += text.text.size();
    batch.texts.push_back(std::move(text));
  }
  records_ += batch.count;
  batch.records = records_;
  batch.frame_bytes_read = follower_.frame_bytes_read();
  return batch.count != 0;
}

}  // namespace heapprof::trace
