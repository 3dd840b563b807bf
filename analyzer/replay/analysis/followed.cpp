#include "analyzer/replay/analysis/followed.h"

#include <algorithm>
#include <functional>

#include "analyzer/replay/analysis/pass_progress.h"
#include "analyzer/replay/analysis/profile_events.h"
#include "analyzer/replay/analysis/run.h"

namespace heapprof::replay {
namespace {

/// Of the history of a program that is followed: at most 32 MB.
constexpr std::size_t kMaxFollowedChanges = 1 << 20;

/// The same blocks, with everything that an analysis may need of them.
Selection with_all_figures(Selection selection) {
  selection.only_costs = false;
  selection.costs_by_thread = selection.kind == model::Kind::kHeap;
  return selection;
}

}  // namespace

bool Followed::can_follow(const Selection& selection) noexcept {
  return !selection.needs_summary() && !selection.needs_marks() && !selection.needs_lifetimes() &&
         !selection.only_live && !selection.only_overview;
}

Followed::Followed(const std::string& path, const Selection& selection, const EventSink& sink)
    : file_(std::make_shared<const trace::TraceFile>(path)), selection_(with_all_figures(selection)),
      history_(kMaxFollowedChanges, LiveHistoryLog::IfTooLarge::kCoarsen),
      logs_history_(selection.kind == model::Kind::kHeap), batches_(path), sink_(sink) {
  if (!can_follow(selection)) throw trace::TraceError(path + ": such a selection cannot be followed");
  if (file_->recorder() != trace::RecorderState::kRecording)
    throw trace::TraceError(path + ": the recording has ended");
  run_ = std::make_unique<Analysis::Run>(*file_, selection_, filter_);
  if (logs_history_) run_->replay.log_history(history_);
  events_ = std::make_unique<ProfileEvents>(run_->replay.clock());
}

Followed::~Followed() = default;

void Followed::advance(const Progress& progress) {
  batches_.advance();
  const trace::Follower& follower = batches_.follower();
  if (follower.ended() || follower.header().file_id != file_->file_id())
    throw trace::TraceError(file_->input().path() + ": the recording has ended");
  run_->replay.add_streams(follower.streams());
  PassProgress passes(*file_, progress, 1);
  passes.begin(*run_->reader);
  while (batches_.next(batch_)) {
    if (sink_) run_->replay.replay(batch_, resolved_);
    else run_->replay.replay(batch_);
    pass_on();
    passes.show(batch_);
  }
}

/// The last call.
void Followed::finish() {
  run_->replay.finish(batches_.follower().cut_ticks());
  pass_on();
}

void Followed::pass_on() {
  if (!sink_) return;
  sink_(events_->of(resolved_, false, std::identity()));
  resolved_.clear();
}

}  // namespace heapprof::replay
