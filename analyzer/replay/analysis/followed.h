// The replay of a program that runs: it goes on with what was recorded since the last time, and an Analysis can take
// it over at any moment. That is possible once, so a process that goes on afterwards lets a copy of itself do it.
//
// It counts everything that any analysis of its selection needs: one replay serves all questions about the program.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/live_history.h"
#include "analyzer/replay/progress.h"
#include "analyzer/replay/replay.h"
#include "analyzer/replay/resolved_event.h"
#include "analyzer/replay/resolved_filter.h"
#include "analyzer/replay/selection.h"
#include "analyzer/trace/followed_batches.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::replay {

class ProfileEvents;

/// Used by one thread.
class Followed {
 public:
  /// `sink` gets the events of Analysis::for_each_event(), with dense indexes of the trace as nodes, and times of the
  /// clock as it was then. Throws trace::TraceError when the trace cannot be read, when its program has ended, or if
  /// times, stacks or lifetimes are selected.
  Followed(const std::string& path, const Selection& selection, const EventSink& sink = {});
  ~Followed();
  Followed(const Followed&) = delete;
  Followed& operator=(const Followed&) = delete;

  /// Replays what was recorded since the call before. Throws trace::TraceError when the program has ended.
  void advance(const Progress& progress = {});

 private:
  friend class Analysis;

  /// Whether an analysis of such a selection can take over a replay of the same blocks.
  static bool can_follow(const Selection& selection) noexcept;
  void finish();
  void pass_on();

  const std::shared_ptr<const trace::TraceFile> file_;
  const Selection selection_;
  const ResolvedFilter filter_;
  std::unique_ptr<Analysis::Run> run_;
  LiveHistoryLog history_;
  const bool logs_history_;
  trace::FollowedBatches batches_;
  trace::Batch batch_;
  const EventSink sink_;
  std::vector<ResolvedEvent> resolved_;
  std::unique_ptr<ProfileEvents> events_;
};

}  // namespace heapprof::replay
