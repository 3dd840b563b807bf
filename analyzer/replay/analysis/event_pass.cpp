// Further passes of an analysis, which hand out events: Analysis::for_each_event(), for_each_step(), follow_leaks(),
// for_each_record(), for_each_batch(), for_each_live_at(), live_by_group() and live_by_thread().
#include <algorithm>
#include <numeric>
#include <utility>

#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/analysis/followed.h"
#include "analyzer/replay/analysis/needed_intervals.h"
#include "analyzer/replay/analysis/pass_progress.h"
#include "analyzer/replay/analysis/profile_events.h"
#include "analyzer/replay/analysis/profile_parts.h"
#include "analyzer/replay/analysis/run.h"
#include "analyzer/replay/analysis/stopping_replay.h"
#include "analyzer/replay/analysis/stored.h"
#include "analyzer/replay/batch_pump.h"
#include "analyzer/replay/leak_follower.h"
#include "analyzer/replay/summarize.h"

namespace heapprof::replay {
namespace {

/// A reader at the snapshot, or at the start of the trace if it is empty.
std::unique_ptr<trace::MergedReader> reader_at(const trace::TraceFile& file, const trace::TraceSummary* summary,
                                               const Snapshot& snapshot) {
  if (snapshot.empty()) return std::make_unique<trace::MergedReader>(file);
  trace::ByteReader position = snapshot.position();
  return std::make_unique<trace::MergedReader>(file, *summary, position);
}

}  // namespace

/// Whether intervals of the index may be left out where nothing happens to the blocks that are asked for. A snapshot
/// does not have all earlier names of a thread.
bool Analysis::can_leave_out_intervals() const noexcept {
  return stored_->index && summary_ != nullptr && NeededIntervals::can_read(*stored_->index) &&
         file_.compacted() == nullptr && selection_.kind == model::Kind::kHeap && filter_.blocks == nullptr &&
         filter_.allocations_at_end == 0 && selection_.thread_names.empty() &&
         selection_.excluded_thread_names.empty();
}

/// Calls sink with the resolved events, a batch at a time.
void Analysis::read_events(const std::function<void(std::span<const ResolvedEvent>)>& sink, const Progress& progress,
                           const EventFilter& which) const {
  std::vector<std::uint8_t> resolved_nodes;  // by dense index; outlives the reader, whose threads read it
  const std::unique_ptr<Run> run = start();
  Replay& replay = run->replay;
  if (which.of_kind) replay.resolve_kind();
  if (which.nodes != nullptr) {
    resolved_nodes.reserve(node_of_index_.size());
    for (const std::uint32_t node : node_of_index_) resolved_nodes.push_back((*which.nodes)[node]);
    replay.resolve_nodes(resolved_nodes);
  }
  const bool lists = which.only_allocations && replay.can_list();
  std::optional<NeededIntervals> intervals;
  if (which.blocks_until_ns && !which.with_older && can_leave_out_intervals()) {
    const EventFilter::Sizes& sizes = which.block_sizes;
    AskedBlocks asked{.from_ticks = filter_.from_ticks,
                      .allocations = {sizes.min_size, sizes.max_size, resolved_nodes},
                      .frees = !lists};
    if (*which.blocks_until_ns < clock_.to_ns(trace::Ticks{summary_->last_time}))
      asked.end_ticks = clock_.first_tick_at(*which.blocks_until_ns + 1);
    try {
      intervals.emplace(*stored_->index, file_, asked);
    } catch (const trace::FormatError&) {  // everything is read, as without an index
    }
  }
  const bool finds = intervals && !lists && !intervals->are_few() && intervals->can_find();
  PassProgress passes(file_, progress, finds ? 2 : 1);
  passes.begin(*run->reader, filter_);
  if (finds) {
    try {
      intervals->find(*run->reader, [&](const trace::Batch& batch) { passes.show(batch); });
    } catch (const trace::FormatError&) {  // likewise
      intervals.reset();
    }
    passes.end(*run->reader);
    run->reader = reader_at(file_, summary_.get(), stored_->snapshot);
    passes.begin(*run->reader, filter_);
  }
  std::vector<ResolvedEvent> resolved;
  const auto pass_on = [&] {
    sink(resolved);
    resolved.clear();
  };
  const auto consume = [&](trace::Batch& batch) {
    const bool more_needed = lists ? replay.list_allocations(batch, resolved, which.only_allocations->min_size,
                                                             which.only_allocations->max_size)
                                   : replay.replay(batch, resolved);
    pass_on();
    passes.show(batch);
    return more_needed;
  };
  if (which.with_older && !stored_->snapshot.empty()) {
    replay.resolve_restored(resolved);
    pass_on();
  }
  if (intervals && intervals->are_few()) {
    try {
      intervals->read(run->reader, replay, consume);
    } catch (const trace::FormatError& error) {
      throw trace::TraceError(stored_->index->path() + ": " + error.what() +
                              "; write the index again, or use --no-index");
    }
  } else {
    if (lists && summary_ != nullptr) {
      const trace::AskedAllocations asked{which.only_allocations->min_size, which.only_allocations->max_size,
                                          resolved_nodes, which.addresses};
      if (!asked.are_all()) run->reader->ask(asked, *summary_);
    }
    pump(*run->reader, file_.frame_bytes(), consume);
  }
  if (lists) return;
  replay.finish(summary_ != nullptr ? summary_->last_time : end_ticks(file_, clock_));
  if (!resolved.empty()) pass_on();
  if (which.timeline != nullptr)
    *which.timeline = timeline_of(replay, {selection_, filter_, clock_, node_of_index_}, false);
  visit_live(replay, which.visit_leaked, {});
}

void Analysis::for_each_event(const EventSink& sink, const Progress& progress, const EventFilter& which) const {
  ProfileEvents events(clock_);
  const auto node = [&](std::uint32_t index) { return node_of(index); };
  read_events([&](std::span<const ResolvedEvent> resolved) { sink(events.of(resolved, which.with_older, node)); },
              progress, which);
}

void Analysis::for_each_step(const std::function<void(std::span<const LiveStep>)>& sink,
                             const Progress& progress) const {
  std::uint64_t live_bytes = 0;
  EventPosition position;
  std::vector<LiveStep> steps;
  read_events(
      [&](std::span<const ResolvedEvent> events) {
        steps.clear();
        for (const ResolvedEvent& event : events) {
          if (event.kind == ResolvedKind::kSample) continue;
          if (event.time != position.ticks) position = {event.time, 0};
          const bool allocated = event.kind == ResolvedKind::kAllocation;
          live_bytes = allocated ? live_bytes + event.size : live_bytes - event.size;
          position.allocations += allocated;
          steps.push_back({clock_.to_ns(trace::Ticks{event.time}), live_bytes, position});
        }
        sink(steps);
      },
      progress, {.with_older = true, .of_kind = true});
}

model::LeakSteps Analysis::leak_steps() const {
  return model::LeakSteps::of(profile_.timeline, filter_.from_ticks, timeline_width_ticks_, profile_.end_ns());
}

void Analysis::follow_leaks(model::LeakHistory& stacks, std::span<const std::uint32_t> stack_of_node,
                            model::LeakHistory& sites, std::span<const std::uint32_t> site_of_node,
                            const Progress& progress) const {
  if (followed_ != nullptr) {
    if (!stored_->history) throw trace::TraceError(file_.input().path() + ": what is followed cannot be read again");
    const std::vector<StackLives> lives = followed_->run_->replay.lives();
    follow_in_history(stacks, stack_of_node, *stored_->history, lives);
    return follow_in_history(sites, site_of_node, *stored_->history, lives);
  }
  if (const LiveHistory* const known = history_with_changes(); known != nullptr && stored_->lives) {
    follow_in_history(stacks, stack_of_node, *known, *stored_->lives);
    return follow_in_history(sites, site_of_node, *known, *stored_->lives);
  }
  std::vector<LeakFollower::Followed> followed;  // by dense index
  followed.reserve(node_of_index_.size());
  for (const std::uint32_t node : node_of_index_) followed.push_back({stack_of_node[node], site_of_node[node]});
  LeakFollower follower(stacks, sites, std::move(followed));
  const std::unique_ptr<Run> run = start();
  Replay& replay = run->replay;
  PassProgress passes(file_, progress, 1);
  passes.begin(*run->reader, filter_);
  pump(*run->reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    const bool more_needed = replay.replay(batch, follower);
    passes.show(batch);
    return more_needed;
  });
  replay.finish(summary_ != nullptr ? summary_->last_time : end_ticks(file_, clock_));
  replay.for_each_leak([&](const Block& block) { follower.left(block.node, block.size, block.time); });
}

void Analysis::follow_in_history(model::LeakHistory& leaks, std::span<const std::uint32_t> position_of_node,
                                 const LiveHistory& history, std::span<const StackLives> lives) const {
  struct Change {
    std::uint32_t position;
    std::uint32_t step;
    std::int64_t bytes;
  };
  std::vector<Change> changes;
  for (const LiveChange& change : history.nodes)
    if (const std::uint32_t position = position_of_node[node_of(change.index)]; position != model::kNoIndex)
      changes.push_back({position, change.bucket, change.bytes});
  std::ranges::stable_sort(changes, {}, &Change::step);
  for (const Change& change : changes) leaks.changed(change.position, change.bytes, change.step);
  for (const StackLives& one : lives)
    if (const std::uint32_t position = position_of_node[node_of(one.index)]; position != model::kNoIndex)
      leaks.add_lives(position, one.lives, 0);
  for (std::uint32_t node = 0; node < profile_.nodes.size(); ++node)
    if (const std::uint32_t position = position_of_node[node]; position != model::kNoIndex) {
      const model::Costs& costs = profile_.nodes[node].costs;
      leaks.add_lives(position, {}, costs.allocations - std::min(costs.allocations, costs.leaked_blocks));
    }
}

void Analysis::visit_live(const Replay& replay, const LeakVisitor& visit_block,
                          const MappingVisitor& visit_mapping) const {
  if (visit_block)
    replay.for_each_leak([&](const Block& block) {
      const std::uint64_t time_ns = clock_.to_ns(trace::Ticks{block.time});
      visit_block({time_ns, block.address, block.size, node_of(block.node), block.thread});
    });
  if (visit_mapping)
    replay.for_each_mapping([&](const Region& region) {
      visit_mapping({region.begin, region.end, node_of(region.node), region.flags, region.thread,
                     replay.is_before_slice(region)});
    });
}

void Analysis::for_each_batch(const std::function<void(trace::Batch&, Replay&)>& sink,
                              const Progress& progress) const {
  const std::unique_ptr<Run> run = start();
  PassProgress passes(file_, progress, 1);
  passes.begin(*run->reader, filter_);
  pump(*run->reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    const std::span<trace::MergedEvent> events = batch.events();
    const bool last = !events.empty() && events.back().time >= filter_.end_ticks;
    sink(batch, run->replay);
    passes.show(batch);
    return !last;
  });
}

void Analysis::for_each_live_at(std::span<const ResolvedMoment> moments,
                                const std::function<void(std::size_t, const LiveBlock&)>& visit,
                                const Progress& progress, const FreedVisitor& visit_freed) const {
  const std::unique_ptr<Run> run = start();
  PassProgress passes(file_, progress, 1);
  passes.begin(*run->reader, filter_);
  StoppingReplay replay(run->replay);
  std::size_t next = 0;
  bool in_rest = false;  // of the time of the moment before
  std::vector<ResolvedEvent> rest;
  const auto has_rest = [&] {
    if (!visit_freed || next == moments.size() || !moments[next - 1].position) return false;
    return !moments[next].position || moments[next].ns != moments[next - 1].ns;
  };
  const auto prepare = [&] {
    replay.resolve_into(in_rest ? &rest : nullptr);
    if (in_rest) return replay.stop_at(clock_.first_tick_at(moments[next - 1].ns + 1), {});
    if (next == moments.size()) return replay.go_on();
    replay.stop_at(clock_.first_tick_at(moments[next].ns + 1), moments[next].position);
  };
  const auto end_rest = [&] {
    for (const ResolvedEvent& event : rest)
      if (event.kind == ResolvedKind::kFree)
        visit_freed(event.address, clock_.to_ns(trace::Ticks{event.allocated_ticks}));
    rest.clear();
    in_rest = false;
  };
  const auto visit_moment = [&] {
    run->replay.for_each_selected_live([&](const Block& block) {
      const std::uint64_t time_ns = clock_.to_ns(trace::Ticks{block.time});
      visit(next, {time_ns, block.address, block.size, node_of(block.node), block.thread});
    });
    ++next;
    in_rest = has_rest();
  };
  const auto stopped = [&] {
    if (in_rest) end_rest();
    else visit_moment();
    prepare();
  };
  prepare();
  pump(*run->reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    passes.show(batch);
    while (next < moments.size() && replay.replay(batch)) stopped();
    return next < moments.size();
  });
  while (next < moments.size()) stopped();  // the recording has no event after them
}

void Analysis::for_each_record(const std::function<void(std::span<const trace::MergedEvent>)>& sink,
                               const Progress& progress) const {
  const std::unique_ptr<Run> run = start();
  PassProgress passes(file_, progress, 1);
  passes.begin(*run->reader, filter_);
  pump(*run->reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    const std::span<const trace::MergedEvent> events = batch.events();
    const auto end = std::partition_point(events.begin(), events.end(), [&](const trace::MergedEvent& event) {
      return event.time < filter_.end_ticks;
    });
    sink({events.begin(), end});
    passes.show(batch);
    return end == events.end();
  });
}

namespace {

/// Live bytes by group, in each bucket of a timeline.
class LiveByGroup {
 public:
  LiveByGroup(std::size_t buckets, std::uint64_t width_ticks, std::uint64_t start_ticks, std::size_t groups,
              InBucket which)
      : buckets_(buckets), width_ticks_(width_ticks), end_ticks_(start_ticks + width_ticks), which_(which),
        live_(groups, 0), highest_(groups, 0), result_(groups, std::vector<std::uint64_t>(buckets, 0)) {}

  /// A group that does not exist is ignored.
  void add(const ResolvedEvent& event, std::uint32_t group) {
    while (event.time >= end_ticks_ && bucket_ + 1 < buckets_) close_bucket();
    if (event.kind == ResolvedKind::kSample || group >= live_.size()) return;
    if (event.kind != ResolvedKind::kAllocation) {
      live_[group] -= event.size;
      return;
    }
    live_[group] += event.size;
    highest_[group] = std::max(highest_[group], live_[group]);
  }
  std::vector<std::vector<std::uint64_t>> take() {
    while (bucket_ < buckets_) close_bucket();
    return std::move(result_);
  }

 private:
  void close_bucket() {
    const std::vector<std::uint64_t>& shown = which_ == InBucket::kHighest ? highest_ : live_;
    for (std::size_t group = 0; group < live_.size(); ++group) result_[group][bucket_] = shown[group];
    highest_ = live_;
    end_ticks_ += width_ticks_;
    ++bucket_;
  }

  const std::size_t buckets_;
  const std::uint64_t width_ticks_;
  std::uint64_t end_ticks_;  ///< of the current bucket
  const InBucket which_;
  std::vector<std::uint64_t> live_;
  std::vector<std::uint64_t> highest_;  ///< in the current bucket
  std::vector<std::vector<std::uint64_t>> result_;
  std::size_t bucket_ = 0;
};

/// The live bytes of groups at the end of each bucket, of the changes by index. A group or bucket that does not exist
/// is ignored.
template <typename GroupOf>
std::vector<std::vector<std::uint64_t>> sums_of(const std::vector<LiveChange>& changes, std::size_t buckets,
                                                std::size_t groups, GroupOf&& group_of) {
  std::vector<std::vector<std::uint64_t>> live(groups, std::vector<std::uint64_t>(buckets, 0));
  for (const LiveChange& change : changes)
    if (const std::uint32_t group = group_of(change.index); group < groups && change.bucket < buckets)
      live[group][change.bucket] += static_cast<std::uint64_t>(change.bytes);
  for (std::vector<std::uint64_t>& one : live) std::partial_sum(one.begin(), one.end(), one.begin());
  return live;
}

}  // namespace

std::vector<std::vector<std::uint64_t>> Analysis::live_by_group(const std::vector<std::uint32_t>& group_of_node,
                                                                std::uint32_t groups, const Progress& progress,
                                                                InBucket which, model::Timeline* timeline) const {
  const auto group_of = [&](std::uint32_t index) { return group_of_node[node_of(index)]; };
  const std::size_t buckets = profile_.timeline.buckets.size();
  if (const LiveHistory* const known = which == InBucket::kLast ? history_with_changes() : nullptr) {
    if (timeline != nullptr) *timeline = timeline_from(*known);
    return sums_of(known->nodes, buckets, groups, group_of);
  }
  std::vector<std::uint8_t> nodes_in_group;
  nodes_in_group.reserve(group_of_node.size());
  for (const std::uint32_t group : group_of_node) nodes_in_group.push_back(group < groups);
  LiveByGroup live(buckets, timeline_width_ticks_, filter_.from_ticks, groups, which);
  read_events(
      [&](std::span<const ResolvedEvent> events) {
        for (const ResolvedEvent& event : events) live.add(event, group_of(event.node));
      },
      progress, {.with_older = true, .of_kind = true, .nodes = &nodes_in_group, .timeline = timeline});
  return live.take();
}

std::vector<std::vector<std::uint64_t>> Analysis::live_by_thread(const Progress& progress, InBucket which) const {
  const std::size_t buckets = profile_.timeline.buckets.size();
  const std::size_t threads = profile_.threads.size();
  if (const LiveHistory* const known = which == InBucket::kLast ? history_with_changes() : nullptr)
    return sums_of(known->threads, buckets, threads, [](std::uint32_t thread) { return thread; });
  LiveByGroup live(buckets, timeline_width_ticks_, filter_.from_ticks, threads, which);
  read_events(
      [&](std::span<const ResolvedEvent> events) {
        for (const ResolvedEvent& event : events) live.add(event, event.thread);
      },
      progress, {.with_older = true});
  return live.take();
}

}  // namespace heapprof::replay
