#include "analyzer/cli/commands/export/pushed_recording.h"

#include <algorithm>
#include <utility>

namespace heapprof::cli {

PushedRecording::PushedRecording(const std::string& path, const symbols::Options& symbols)
    : follower_(path), state_(follower_.header()), live_profile_(symbols) {}

void PushedRecording::read() {
  if (ended_) return;
  has_undelivered_ = true;
  follower_.advance();
  trace::EventRun run;
  while (follower_.next(run)) state_.take(run);
  ended_ = follower_.ended();
  const std::uint64_t cut = follower_.cut_ticks() == trace::kNoCut ? 0 : follower_.cut_ticks();
  const std::uint64_t end = std::max(state_.last_ticks(), ended_ ? follower_.header().end_ticks : cut);
  // While the clock's rate is only estimated, times can become shorter.
  at_ns_ = std::max(at_ns_, state_.clock().to_ns(trace::Ticks{end}));
}

model::Profile PushedRecording::interval() {
  LiveProfile live = live_profile_.make(follower_, state_, known_);
  model::Profile& profile = live.profile;
  for (std::size_t index = 0; index < std::min(before_.size(), live.node_of_index.size()); ++index) {
    for (model::Costs* const costs : {&profile.nodes[live.node_of_index[index]].costs, &profile.totals}) {
      costs->allocations -= before_[index].allocations;
      costs->allocated_bytes -= before_[index].allocated_bytes;
    }
  }
  profile.recording.duration_ns = at_ns_;
  profile.slice = {begin_ns_, at_ns_};
  return std::move(profile);
}

void PushedRecording::begin_next_interval() {
  before_ = state_.nodes();
  begin_ns_ = at_ns_;
  has_undelivered_ = false;
}

}  // namespace heapprof::cli
