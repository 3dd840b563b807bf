// The events of a recording that is followed, in the batches that a replay takes.
//
// Times never decrease, as in the batches of a MergedReader: an event that was committed after an advance although
// its time is earlier (follower.h) gets the time of the event before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyzer/trace/events/merged_event.h"
#include "analyzer/trace/follower.h"

namespace heapprof::trace {

/// Used by one thread.
class FollowedBatches {
 public:
  /// Throws TraceError, as Follower.
  explicit FollowedBatches(const std::string& path) : follower_(path) {}

  /// Begins to read what was committed until now. Precondition: next() returned false, or was not called yet.
  void advance() { follower_.advance(); }
  /// Replaces the contents of `batch`, which has no position. False: this advance is over.
  bool next(Batch& batch);

  const Follower& follower() const noexcept { return follower_; }
  std::uint64_t records() const noexcept { return records_; }  ///< events so far

 private:
  bool find_events();

  Follower follower_;
  std::span<const MergedEvent> rest_;        // of the run that is being copied
  std::vector<EventText>* texts_ = nullptr;  // of that run
  std::uint64_t last_time_ = 0;
  std::uint64_t records_ = 0;
};

}  // namespace heapprof::trace
