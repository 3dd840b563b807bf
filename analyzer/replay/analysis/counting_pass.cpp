// The pass of an analysis that counts: where it begins, and which part of it an index or a followed replay replaces.
#include <algorithm>
#include <limits>
#include <utility>

#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/analysis/costs_until_end.h"
#include "analyzer/replay/analysis/followed.h"
#include "analyzer/replay/analysis/pass_progress.h"
#include "analyzer/replay/analysis/run.h"
#include "analyzer/replay/analysis/stopping_replay.h"
#include "analyzer/replay/analysis/stored.h"
#include "analyzer/replay/batch_pump.h"
#include "analyzer/replay/summarize.h"
#include "analyzer/trace/merged_reader.h"

namespace heapprof::replay {

/// Lets replays begin at the last snapshot before the slice, or before its end if only live blocks are needed; but
/// not if the result could be another one. Returns a replay that begins there. `why_not` becomes a clause if the
/// snapshots are damaged. Precondition: stored_->snapshot_mutex is locked.
std::unique_ptr<Analysis::Run> Analysis::choose_snapshot(std::string& why_not) const {
  stored_->snapshot_chosen = true;
  stored_->snapshot = {};
  if (!stored_->index || selection_.needs_lifetimes()) return start_at(stored_->snapshot);
  // Blocks have a time, but mappings do not: those of the slice are known only if the reading begins
  // before the slice.
  const bool needs_times_of_mappings = filter_.from_ticks != 0 || filter_.own_blocks_only;
  const bool any_snapshot =
      selection_.only_live && (selection_.kind == model::Kind::kHeap || !needs_times_of_mappings);
  const std::uint64_t before_ticks = any_snapshot ? filter_.certain_end_ticks() : filter_.from_ticks;
  if (before_ticks == 0) return start_at(stored_->snapshot);
  try {
    Snapshot snapshot = stored_->index->snapshot_before(before_ticks);
    if (!snapshot.empty())
      if (std::unique_ptr<Run> run = start_at(snapshot)) {
        stored_->snapshot = std::move(snapshot);
        return run;
      }
  } catch (const trace::FormatError& error) {
    why_not = error.what();
  }
  return start_at(stored_->snapshot);
}

/// A reader and a replay at the start of the trace, or at the snapshot if it is not empty. Null: after the snapshot
/// it is unknown which blocks match the selection. Throws trace::FormatError when the snapshot is damaged.
std::unique_ptr<Analysis::Run> Analysis::start_at(const Snapshot& snapshot, const ResolvedFilter& filter) const {
  auto run = std::make_unique<Run>(file_, selection_, filter);
  if (snapshot.empty()) return run;
  trace::ByteReader position = snapshot.position();
  run->reader = std::make_unique<trace::MergedReader>(file_, *summary_, position);
  if (!snapshot.restore(run->replay, summary_->definitions.node_count)) return nullptr;
  return run;
}

/// The same, of the blocks that are selected.
std::unique_ptr<Analysis::Run> Analysis::start_at(const Snapshot& snapshot) const {
  ResolvedFilter filter = filter_;
  if (counts_live_at()) filter.blocks = &selected_blocks_;
  return start_at(snapshot, filter);
}

/// The same, at the chosen snapshot.
std::unique_ptr<Analysis::Run> Analysis::start() const {
  if (followed_) throw trace::TraceError(file_.input().path() + ": what is followed cannot be read again");
  {
    const std::lock_guard lock(stored_->snapshot_mutex);
    if (counts_live_at() && selected_blocks_.empty()) {
      const Progress none;
      PassProgress passes(file_, none, 1);
      model::ResidentAt known;
      selected_blocks_ = blocks_of_lifetimes(passes, known, filter_);
    }
    std::string why_not;
    if (!stored_->snapshot_chosen) return choose_snapshot(why_not);
  }
  return start_at(stored_->snapshot);
}

/// Whether the sums of an index can be the result.
bool Analysis::can_add_sums() const noexcept {
  return selection_.only_costs && selection_.kind == model::Kind::kHeap && selection_.all_blocks() &&
         file_.compacted() == nullptr;
}

/// Whether the analysis is one that history() of an index serves.
bool Analysis::can_have_history() const noexcept {
  return selection_.kind == model::Kind::kHeap && selection_.all_blocks() && !selection_.is_slice() &&
         !selection_.only_live && file_.compacted() == nullptr;
}

/// The live bytes over time from the index; null: there are none, or the analysis is not one of all heap blocks of
/// the whole recording. Precondition: find_summary() was called if it can be one.
const LiveHistory* Analysis::history() const {
  if (followed_ != nullptr) return stored_->history ? &*stored_->history : nullptr;
  if (!stored_->index || !can_have_history()) return nullptr;
  const std::lock_guard lock(stored_->history_mutex);
  if (!std::exchange(stored_->history_read, true)) {
    try {
      stored_->history = stored_->index->history(Replay::first_bucket_ticks(file_));
    } catch (const trace::FormatError& error) {
      stored_->history_damage = error.what();
    }
  }
  return stored_->history ? &*stored_->history : nullptr;
}

/// The same, with the changes of each stack and thread. Null, too, if its buckets are not those of the profile's
/// timeline: an index can have another end of the recording than the trace. Precondition: the profile has a timeline.
const LiveHistory* Analysis::history_with_changes() const {
  const LiveHistory* const known = history();
  if (known == nullptr || !known->has_changes) return nullptr;
  const bool same_buckets =
      known->width_ticks == timeline_width_ticks_ && known->buckets.size() == profile_.timeline.buckets.size();
  return same_buckets ? known : nullptr;
}

/// The pass that counts.
std::unique_ptr<Analysis::Run> Analysis::count(PassProgress& passes) {
  if (counts_live_at()) return count_live_at(passes);
  const auto warn = [&](const std::string& why_not, const char* unused) {
    warnings_.push_back(stored_->index->path() + ": " + why_not + "; its " + unused + " are not used");
  };
  const LiveHistory* const known_history = selection_.with_timeline ? history() : nullptr;
  const bool no_timeline = selection_.with_timeline && known_history == nullptr;
  if (no_timeline && !stored_->history_damage.empty()) warn(stored_->history_damage, "timeline");
  if (known_history != nullptr && known_history->has_changes) {
    try {
      stored_->lives = stored_->index->lives();
    } catch (const trace::FormatError& error) {
      warn(error.what(), "lives of blocks");
    }
  }
  if (stored_->index && can_add_sums() && !no_timeline) {
    try {
      const auto intervals = stored_->index->intervals_of(filter_.from_ticks, filter_.certain_end_ticks());
      // A visitor gets the blocks that are left.
      const bool known = intervals && (!visits_leaked_ || intervals->within_one() ||
                                       stored_->index->has_snapshot(intervals->end - 1));
      if (known) return count_with_sums(passes, *intervals);
    } catch (const trace::FormatError& error) {
      warn(error.what(), "sums");
    }
  }
  std::string why_not;
  std::unique_ptr<Run> run;
  {
    const std::lock_guard lock(stored_->snapshot_mutex);
    run = choose_snapshot(why_not);
    began_at_snapshot_ = !stored_->snapshot.empty();
  }
  if (!why_not.empty()) warn(why_not, "snapshots");
  passes.begin(*run->reader, filter_);
  replay_to_end(*run, passes);
  return run;
}

/// Sets summary_, and what is known of the time before.
void Analysis::take_over(Followed& followed) {
  if (!Followed::can_follow(selection_))
    throw trace::TraceError(file_.input().path() + ": such a selection cannot be followed");
  followed.finish();
  followed_ = &followed;
  summary_ = std::make_shared<trace::TraceSummary>(summary_of(followed.batches_, followed.run_->replay));
  if (followed.logs_history_ && !followed.history_.gave_up())
    stored_->history = followed.history_.take(followed.run_->replay.timeline());
}

/// The first tick after the moment of --live-at.
std::uint64_t Analysis::ticks_after_moment() const { return clock_.first_tick_at(*profile_.live_at_ns + 1); }

/// Counts the blocks that are live at the moment: replays from the last snapshot before it, leaves out all others
/// there, and replays the rest of the trace. If nothing else is selected and an index has sums, it replays only to
/// the end of the interval: what becomes of the blocks later follows from the lists of the intervals, and from the
/// blocks that are live at the end of the trace.
std::unique_ptr<Analysis::Run> Analysis::count_live_at(PassProgress& passes) {
  const std::optional<EventPosition>& position = selection_.live_at->position;
  const std::uint64_t ticks_after = ticks_after_moment();
  std::optional<SliceIntervals> later;  // the intervals after that of the moment
  // At a position, other blocks of its time are allocated later.
  if (stored_->index && !position && selection_.all_sizes() && selection_.all_threads() && !selection_.select_stacks)
    later = stored_->index->intervals_of(ticks_after, ResolvedFilter{}.end_ticks);
  if (later && (later->first >= later->end || !stored_->index->ends_trace(later->end - 1) ||
                !stored_->index->has_snapshot(later->end - 1)))
    later.reset();

  const auto replay_from_snapshot = [&]() -> std::unique_ptr<Run> {
    std::unique_ptr<Run> run;
    if (stored_->index) {
      try {
        const Snapshot snapshot = stored_->index->snapshot_before(position ? position->ticks : ticks_after);
        if (!snapshot.empty()) run = start_at(snapshot, filter_);
      } catch (const trace::FormatError& error) {
        warnings_.push_back(stored_->index->path() + ": " + error.what() + "; its snapshots are not used");
      }
    }
    began_at_snapshot_ = run != nullptr;
    if (run == nullptr) run = start_at({}, filter_);
    const std::uint64_t snapshot_ticks = run->replay.now();
    const std::uint64_t end_records =
        later ? stored_->index->records_to(later->first - 1) : std::numeric_limits<std::uint64_t>::max();
    run->replay.keep_sample_before(ticks_after);
    StoppingReplay replay(run->replay);
    replay.stop_at(ticks_after, position);
    bool after_moment = false;
    passes.begin(*run->reader, filter_);
    pump(*run->reader, file_.frame_bytes(), [&](trace::Batch& batch) {
      const std::uint64_t too_many = batch.records - std::min(batch.records, end_records);
      batch.count -= std::min<std::size_t>(batch.count, too_many);
      if (replay.replay(batch)) {
        run->replay.select_live();
        after_moment = true;
        replay.go_on();
        replay.replay(batch);
      }
      passes.show(batch);
      return batch.records < end_records;
    });
    if (!after_moment) run->replay.select_live();
    if (const std::optional<Replay::Sample>& sample = run->replay.kept_sample())
      profile_.resident = {clock_.to_ns(trace::Ticks{sample->ticks}), sample->rss_bytes};
    else if (began_at_snapshot_) profile_.resident = sample_before(ticks_after, snapshot_ticks);
    return run;
  };

  std::unique_ptr<Run> run = replay_from_snapshot();
  if (later) {
    ResolvedFilter filter = filter_;
    filter.own_blocks_only = true;
    filter.allocated_end_ticks = ticks_after;
    auto at_end = std::make_unique<Run>(file_, selection_, filter);
    try {
      const Snapshot last = stored_->index->snapshot_after(later->end - 1);
      if (last.restore(at_end->replay, summary_->definitions.node_count)) {
        at_end->replay.finish(summary_->last_time);  // what is live now is leaked
        if (add_costs_until_end(run->replay, *stored_->index, *later, ticks_after, at_end->replay)) {
          for (const Replay::Thread& thread : run->replay.threads())
            at_end->thread_sums.push_back({thread.allocations, thread.allocated_bytes});
          intervals_added_ = later->end - later->first;
          return at_end;
        }
      }
    } catch (const trace::FormatError& error) {
      warnings_.push_back(stored_->index->path() + ": " + error.what() + "; its sums are not used");
    }
    later.reset();
    run = replay_from_snapshot();
  }
  run->replay.finish(summary_->last_time);
  return run;
}

/// The last sample of resident memory before `ticks`, in the records from the snapshot before `last_snapshot_ticks`
/// on, or else in all of them; none: zeros.
model::ResidentAt Analysis::sample_before(std::uint64_t ticks, std::uint64_t last_snapshot_ticks) const {
  const auto last_of = [&](trace::MergedReader& reader) {
    std::optional<model::ResidentAt> sample;
    pump(reader, file_.frame_bytes(), [&](trace::Batch& batch) {
      for (const trace::MergedEvent& event : batch.events()) {
        if (event.time >= ticks) return false;
        if (event.op() == Op::kSample) sample = {clock_.to_ns(trace::Ticks{event.time}), event.size()};
      }
      return true;
    });
    return sample;
  };
  try {
    const Snapshot before = stored_->index->snapshot_before(last_snapshot_ticks);
    if (!before.empty()) {
      trace::ByteReader position = before.position();
      trace::MergedReader reader(file_, *summary_, position);
      if (const auto sample = last_of(reader)) return *sample;
    }
  } catch (const trace::FormatError&) {  // the snapshot is damaged; all records have the sample, too
  }
  trace::MergedReader reader(file_);
  return last_of(reader).value_or(model::ResidentAt{});
}

/// Replays the slice up to the first interval, adds the sums of the intervals, and replays the rest. Of the blocks
/// from before a replayed part only those are known that its events need. Throws trace::FormatError when the index is
/// damaged.
std::unique_ptr<Analysis::Run> Analysis::count_with_sums(PassProgress& passes, const SliceIntervals& intervals) {
  const Index& index = *stored_->index;
  const std::uint32_t node_count = summary_->definitions.node_count;
  const auto resume = [&](Run& run, const IntervalState& state) {
    trace::ByteReader position = state.position();
    run.reader = std::make_unique<trace::MergedReader>(file_, *summary_, position);
  };
  auto run = std::make_unique<Run>(file_, selection_, filter_);
  if (const auto begin = intervals.begin()) {
    const std::shared_ptr<const IntervalState> state = index.state_of(*begin);
    resume(*run, *state);
    run->replay.restore_needed(index.needed_in(*begin + 1), state->of_replay(), node_count);
    for (std::size_t i = 0; i <= *begin; ++i) run->replay.add_live(index.sums_of(i));
  } else if (intervals.first == 1) {
    std::uint64_t live_blocks = 0;
    for (const NodeSums& node : index.sums_of(0).nodes) live_blocks += static_cast<std::uint64_t>(node.live_blocks);
    constexpr std::uint64_t kMaxReserved = 1 << 23;  // also if the sums are wrong
    run->replay.reserve(std::min(live_blocks, kMaxReserved));
  }
  began_at_snapshot_ = intervals.begin().has_value();
  passes.begin(*run->reader, filter_);
  if (intervals.within_one()) {
    replay_to_end(*run, passes);
    return run;
  }
  if (intervals.first != 0) replay_records(*run, passes, index.records_to(intervals.first - 1));
  if (!run->replay.slice_has_begun()) throw trace::FormatError("its snapshots have wrong times");
  const bool of_slice = filter_.from_ticks != 0;
  for (std::size_t i = intervals.first; i < intervals.end; ++i)
    run->replay.add_interval(index.sums_of(i), of_slice ? index.state_of(i)->older(node_count) : OlderBlocks());

  const std::size_t last = intervals.end - 1;
  const bool to_end_of_trace = index.ends_trace(last);
  // A visitor gets all blocks; and of what follows the last snapshot nobody knows which ones it needs.
  const bool needs_all = visits_leaked_ || (!to_end_of_trace && !index.has_older_blocks(intervals.end));
  const std::shared_ptr<const IntervalState> state = index.state_of(last);
  if (!to_end_of_trace) resume(*run, *state);
  if (needs_all) {
    run->replay.reserve(0);  // they are replaced
    run->replay.continue_from(index.snapshot_after(last).blocks(), true, state->of_replay(), node_count);
  } else {
    const std::vector<Block> needed = to_end_of_trace ? std::vector<Block>() : index.needed_in(intervals.end);
    run->replay.continue_from(table_of(needed), false, state->of_replay(), node_count);
  }
  if (to_end_of_trace) run->replay.finish(summary_->last_time);
  else replay_to_end(*run, passes);
  if (run->replay.now() > summary_->last_time) throw trace::FormatError("its trace summary ends before its events");
  intervals_added_ = intervals.end - intervals.first;
  return run;
}

/// Replays until `end` records of the trace were read, or the slice has ended.
void Analysis::replay_records(Run& run, PassProgress& passes, std::uint64_t end) const {
  if (run.reader->records() >= end) return;
  pump(*run.reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    const std::uint64_t too_many = batch.records - std::min(batch.records, end);
    batch.count -= std::min<std::size_t>(batch.count, too_many);
    const bool more_needed = run.replay.replay(batch);
    passes.show(batch);
    return more_needed && batch.records < end;
  });
}

void Analysis::replay_to_end(Run& run, PassProgress& passes) const {
  pump(*run.reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    const bool more_needed = run.replay.replay(batch);
    passes.show(batch);
    return more_needed;
  });
  // A replay that began at a snapshot has seen neither all samples of the clock nor all marks.
  run.replay.finish(summary_ != nullptr ? summary_->last_time : end_ticks(file_, run.replay.clock()));
}

}  // namespace heapprof::replay
