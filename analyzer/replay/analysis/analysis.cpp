#include "analyzer/replay/analysis/analysis.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "analyzer/model/call_tree.h"
#include "analyzer/replay/analysis/costs_until_end.h"
#include "analyzer/replay/analysis/followed.h"
#include "analyzer/replay/analysis/integrity.h"
#include "analyzer/replay/analysis/moments.h"
#include "analyzer/replay/analysis/pass_progress.h"
#include "analyzer/replay/analysis/profile_parts.h"
#include "analyzer/replay/analysis/run.h"
#include "analyzer/replay/analysis/stopping_replay.h"
#include "analyzer/replay/analysis/stored.h"
#include "analyzer/replay/batch_pump.h"
#include "analyzer/replay/index/index_cache.h"
#include "analyzer/replay/summarize.h"
#include "analyzer/trace/merged_reader.h"

namespace heapprof::replay {
namespace {

/// A moment that the events of a replay pass.
class UntilMoment {
 public:
  /// It is before the first event of `end_ticks`; or after so many allocations of the tick before that, if there are.
  UntilMoment(std::uint64_t end_ticks, std::uint64_t allocations) noexcept
      : end_ticks_(end_ticks), has_position_(allocations != 0), allocations_left_(allocations) {}

  /// Whether the next event, which has this time, is after the moment.
  bool is_passed(std::uint64_t ticks) const noexcept {
    return ticks >= end_ticks_ || (has_position_ && allocations_left_ == 0 && ticks + 1 == end_ticks_);
  }
  void count_allocation(std::uint64_t ticks) noexcept {
    if (allocations_left_ != 0 && ticks + 1 == end_ticks_) --allocations_left_;
  }

 private:
  const std::uint64_t end_ticks_;
  const bool has_position_;
  std::uint64_t allocations_left_;
};

/// How the life of a block ended.
struct EndOfLife {
  std::uint64_t ticks = 0;  ///< of the free, or of the end of the trace
  bool is_freed = false;
  bool is_before_moment = false;  ///< freed before the moment of --live-at
  bool is_in_slice = false;       ///< freed before the end of the slice
};

/// Whether a pass over the whole trace leaves an index in the cache.
bool leaves_index(const trace::TraceFile& file, const IndexUse& use) {
  return use.use && use.keep && file.recorder() != trace::RecorderState::kRecording &&
         file.frame_bytes() >= kMinBytesForIndex;
}

}  // namespace

Analysis::Analysis(const std::string& path, const Selection& selection, const Progress& progress,
                   const IndexUse& index_use, const SymbolLoader& load_symbols, const LeakVisitor& visit_leaked,
                   const MappingVisitor& visit_mapping, Followed* followed)
    : stored_(std::make_unique<Stored>()), selection_(selection), index_use_(index_use),
      visits_leaked_(visit_leaked != nullptr),
      file_owner_(followed != nullptr ? followed->file_
                                      : std::make_shared<const trace::TraceFile>(
                                            path, index_use.use ? trace::FrameListSource(frames_in_indexes)
                                                                : trace::FrameListSource())),
      file_(*file_owner_) {
  profile_.selection_text = selection_.description;
  // An overview often comes first, and with the index that its pass can leave, the next questions need none.
  // Live bytes over time come from it, too, instead of from another pass.
  const bool leaves_first = leaves_index(file_, index_use_) &&
                            (selection_.only_overview || (selection_.with_timeline && followed == nullptr &&
                                                          can_have_history() && can_keep_index()));
  const bool needs_summary = selection_.needs_summary() || file_.compacted() != nullptr || leaves_first;
  PassProgress passes(file_, progress, 1u + needs_summary + selection_.needs_marks() + needs_blocks_first());

  // Selections by name need the names.
  load_embedded_symbols(load_symbols);

  if (needs_summary || selection_.only_live || selection_.only_overview || can_add_sums()) {
    const bool found = find_summary();
    if (needs_summary && (found || leaves_first)) passes.skip_pass();
    if (needs_summary && !found) read_summary(passes);
    // There was no room for the history: what it would have had takes a pass.
    if (leaves_first && !found && !selection_.only_overview && history() == nullptr) passes.add_pass();
  }
  if (summary_ != nullptr) {
    clock_ = summary_->clock;
    set_recording(summary_->definitions, summary_->last_time);
    // From here on the clock, the call tree and the duration are final.

    if (selection_.only_overview && fill_overview()) return;
    if (selection_.needs_marks()) read_marks(passes);
    if (selection_.is_slice()) resolve_slice();
    if (selection_.survivors) resolve_survivors();
    const ResolvedFilter slice = filter_;
    if (selection_.only_live && selection_.live_at) end_at_moment();
    if (selection_.select_stacks) resolve_stacks();
    if (counts_live_at()) resolve_live_at();
    if (needs_blocks_first()) resolve_lifetimes(passes, slice);
    // From here on the filter is final.
  }

  if (followed != nullptr) take_over(*followed);
  const std::unique_ptr<Run> counted = followed != nullptr ? nullptr : count(passes);
  const Run* const run = followed != nullptr ? followed->run_.get() : counted.get();
  // All events were read: from here on damage, threads and sums are final.

  if (followed_ != nullptr) {
    clock_ = summary_->clock;
    set_recording(summary_->definitions, summary_->last_time);
  } else if (summary_ == nullptr) {
    clock_ = run->replay.clock();
    set_recording(run->reader->definitions(), run->replay.last_time());
  }
  fill_profile(*run);
  if (!is_whole()) fill_whole(run->replay, progress);
  fill_integrity(run);
  visit_live(run->replay, visit_leaked, visit_mapping);
}

Analysis::~Analysis() = default;

void Analysis::load_embedded_symbols(const SymbolLoader& load_symbols) {
  const std::optional<trace::EmbeddedSymbols>& symbols = file_.symbols();
  if (!symbols || !load_symbols) return;
  const std::optional<std::string> packed = trace::read_symbols(file_.input(), file_.file_id(), *symbols);
  if (packed) profile_.embedded_symbols = load_symbols(*packed);
  symbols_damaged_ = profile_.embedded_symbols == nullptr;
}

/// Takes the trace summary from the compacted trace or from an index. False: there is none.
bool Analysis::find_summary() {
  if (file_.compacted() != nullptr) {
    summary_ = file_.compacted()->summary;
    if (index_use_.use) stored_->index = Index::inside(file_);
    return true;
  }
  if (!index_use_.use || file_.recorder() == trace::RecorderState::kRecording) return false;
  std::string why_not;
  stored_->index = Index::open(index_beside(file_), file_, why_not);
  if (!why_not.empty()) warnings_.push_back(why_not);
  // An index in the cache that cannot be used is replaced without a warning.
  if (!stored_->index) stored_->index = Index::open(index_in_cache(file_), file_, why_not);
  if (!stored_->index) return false;
  summary_ = stored_->index->summary();
  return true;
}

/// Reads the whole trace for its summary. Leaves an index of a large trace in the cache.
void Analysis::read_summary(PassProgress& passes) {
  Run run(file_, Selection{}, ResolvedFilter{});
  std::optional<CachedIndexWriter> cached;
  if (leaves_index(file_, index_use_)) {
    cached.emplace(file_, run.replay);
    run.reader->give_positions(kIntervalRecords);
  }
  passes.begin(*run.reader);
  std::uint64_t peak_bytes = 0;
  pump(*run.reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    const bool more_needed = run.replay.replay(batch);
    SumsSoFar sums = run.replay.so_far();
    sums.peak_bytes = peak_bytes =
        std::max(peak_bytes, sums.peak_bytes);  // the index begins a new one in each interval
    if (cached) cached->after(batch);
    passes.show(batch, sums);
    return more_needed;
  });
  passes.end(*run.reader);
  if (cached) cached->end_of_trace(run.reader->records());
  run.replay.finish(end_ticks(file_, run.replay.clock()));
  summary_ = std::make_shared<const trace::TraceSummary>(summary_of(*run.reader, run.replay));
  stored_->totals = run.replay.totals();
  if (!cached || !cached->finish(*summary_, *stored_->totals)) return;
  std::string why_not;
  stored_->index = Index::open(index_in_cache(file_), file_, why_not);
}

/// Links the call tree and describes the recording. Precondition: clock_ is final. `last_time`: ticks.
void Analysis::set_recording(const trace::Definitions& definitions, std::uint64_t last_time) {
  profile_.recording = describe_recording(file_, definitions);
  model::FindFolded find_folded;
  if (selection_.find_folded && !selection_.only_overview)
    find_folded = [this](const std::vector<model::Module>& modules, const std::vector<model::CodeAddress>& asked) {
      profile_.modules = modules;
      return selection_.find_folded(profile_, asked);
    };
  model::LinkedTree tree = model::link_tree(definitions, find_folded);
  profile_.modules = std::move(tree.modules);
  profile_.addresses = std::move(tree.addresses);
  profile_.nodes = std::move(tree.nodes);
  node_of_index_ = std::move(tree.node_of_index);
  lost_nodes_ = tree.lost_nodes + tree.circular_nodes;
  lost_python_codes_ = tree.lost_python_codes;
  profile_.python_symbols = std::move(tree.python_symbols);
  profile_.recording.duration_ns = clock_.to_ns(trace::Ticks{last_time});
  profile_.recording.ended_realtime_ns =
      latest_end_ns(profile_.recording, {.kind = file_.header().end_kind,
                                         .ended_by = file_.ended_by(),
                                         .duration_ns = profile_.recording.duration_ns,
                                         .realtime_ns = file_.header().end_realtime_ns,
                                         .modified_ns = file_.input().modified_ns()});
}

/// Finds the user's marks in the whole recording: in the overview, or in a pass that replays nothing. Precondition:
/// clock_ is final.
void Analysis::read_marks(PassProgress& passes) {
  marks_.emplace();
  if (summary_->overview && summary_->overview->all_marks) {
    passes.skip_pass();
    for (const trace::Overview::Mark& mark : summary_->overview->marks)
      if (mark.kind == trace::Overview::MarkKind::kUser)
        marks_->push_back({clock_.to_ns(trace::Ticks{mark.ticks}), mark.text});
    return;
  }
  trace::MergedReader reader(file_);
  passes.begin(reader);
  pump(reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    for (const trace::EventText& text : batch.texts)
      if (text.kind == TextKind::kMark && marks_->size() < Replay::kMaxMarks)
        marks_->push_back({clock_.to_ns(trace::Ticks{text.address}), text.text});
    passes.show(batch);
    return true;
  });
  passes.end(reader);
  std::ranges::stable_sort(*marks_, {}, &MarkedTime::ns);
}

/// `option`: for messages about a moment that is not within the recording.
std::uint64_t Analysis::resolve(const Moment& moment, const char* option) const {
  const std::uint64_t duration_ns = profile_.recording.duration_ns;
  if (moment.mark.empty()) return ns_within(moment, duration_ns, option, file_);
  return std::min(ns_of_mark(moment, *marks_, file_), duration_ns);
}

ResolvedMoment Analysis::moment_of(const Moment& moment) const {
  return {resolve(moment, "the time"), moment.position};
}

void Analysis::end_slice_at(const Moment& moment, std::uint64_t ns) {
  filter_.end_ticks = moment.position ? moment.position->ticks + 1 : clock_.first_tick_at(ns + 1);
  filter_.allocations_at_end = moment.position ? moment.position->allocations : 0;
}

void Analysis::resolve_slice() {
  const std::uint64_t duration_ns = profile_.recording.duration_ns;
  const std::optional<Moment>& from = selection_.from;
  const std::optional<Moment>& to = selection_.to;
  model::Slice slice{0, duration_ns};
  if (from) slice.from_ns = resolve(*from, "--from");
  // --to may be after the end, a moment with a name may not.
  if (to) slice.to_ns = to->mark.empty() && to->name.empty() ? replay::ns_of(*to, duration_ns) : resolve(*to, "--to");
  if (slice.from_ns > slice.to_ns)
    throw SelectionError(text_of(from.value_or(Moment{}), "--from", slice.from_ns) + " is after " +
                         text_of(to.value_or(Moment{}), "--to", slice.to_ns) +
                         (from && !from->name.empty() ? "; give the earlier moment first" : ""));
  filter_.from_ticks = clock_.first_tick_at(slice.from_ns);
  if (to) end_slice_at(*to, slice.to_ns);
  slice.to_ns = std::min(slice.to_ns, duration_ns);
  profile_.slice = slice;
}

/// Lets the replay go on after the end of the slice, without the blocks that are allocated there. Precondition: the
/// slice is resolved.
void Analysis::resolve_survivors() {
  const Moment& moment = *selection_.survivors;
  const std::uint64_t duration_ns = profile_.recording.duration_ns;
  const std::uint64_t survivors_ns = resolve(moment, "--survivors");
  if (survivors_ns < profile_.slice->to_ns)
    throw SelectionError(text_of(moment, "--survivors", survivors_ns) + " is before the end of the slice, " +
                         text_of(selection_.to.value_or(Moment{}), "--to", profile_.slice->to_ns) +
                         "; give the same time or a later one");
  filter_.own_blocks_only = true;
  filter_.allocated_end_ticks = std::exchange(filter_.end_ticks, ResolvedFilter{}.end_ticks);
  filter_.allocations_at_end = 0;
  if (survivors_ns < duration_ns) end_slice_at(moment, survivors_ns);
  profile_.survivors_ns = survivors_ns;
}

/// Lets the replay end at the moment whose live blocks are needed, and count blocks from before the slice, too.
void Analysis::end_at_moment() {
  const std::uint64_t moment_ns = resolve(*selection_.live_at, "--live-at");
  if (profile_.slice && (moment_ns < profile_.slice->from_ns || moment_ns > profile_.slice->to_ns))
    throw SelectionError(text_of(*selection_.live_at, "--live-at", moment_ns) + " is outside of the slice from " +
                         exact_time(profile_.slice->from_ns) + " to " + exact_time(profile_.slice->to_ns) +
                         "; give a moment within --from and --to, or leave them out");
  profile_.live_at_ns = moment_ns;
  filter_.from_ticks = 0;
  end_slice_at(*selection_.live_at, moment_ns);
}

void Analysis::resolve_stacks() {
  const std::vector<std::uint8_t> selected = selection_.select_stacks(profile_);
  selected_nodes_.reserve(node_of_index_.size());
  for (const std::uint32_t node : node_of_index_) selected_nodes_.push_back(selected[node]);
  filter_.nodes = &selected_nodes_;
  stacks_found_ = std::ranges::any_of(selected, [](std::uint8_t one) { return one != 0; });
}

/// Whether the pass that counts finds the blocks that are live at the moment itself.
bool Analysis::counts_live_at() const noexcept {
  return selection_.live_at && selection_.only_costs && !selection_.with_timeline && !selection_.only_live &&
         !selection_.is_slice() && !selection_.has_lifetimes();
}

/// Sets the moment of --live-at.
void Analysis::resolve_live_at() {
  profile_.live_at_ns = resolve(*selection_.live_at, "--live-at");
  filter_.only_blocks = true;
}

/// Finds the blocks that match the lifetimes or are live at the given moment, in a pass over the trace. `slice`: the
/// filter before end_at_moment() changes its end.
void Analysis::resolve_lifetimes(PassProgress& passes, const ResolvedFilter& slice) {
  filter_.only_blocks = true;
  if (selection_.live_at) resolve_live_at();
  selected_blocks_ = blocks_of_lifetimes(passes, profile_.resident, slice);
  filter_.blocks = &selected_blocks_;
}

/// Precondition: live_at_ns is set if the selection has such a moment. `resident`: set if there was a sample before.
std::vector<bool> Analysis::blocks_of_lifetimes(PassProgress& passes, model::ResidentAt& resident,
                                                const ResolvedFilter& slice) const {
  const auto to_ns = [&](std::uint64_t ticks) { return clock_.to_ns(trace::Ticks{ticks}); };
  const std::uint64_t moment_ns = profile_.live_at_ns.value_or(0);
  std::vector<bool> selected;  // by ordinal
  const std::optional<EventPosition> position =
      selection_.live_at ? selection_.live_at->position : std::optional<EventPosition>();
  UntilMoment until_moment(position ? position->ticks + 1 : clock_.first_tick_at(moment_ns + 1),
                           position ? position->allocations : 0);
  UntilMoment until_end(slice.end_ticks, slice.allocations_at_end);
  bool after_moment = false;           // the events are
  std::size_t ordinals_at_moment = 0;  // of blocks that were allocated before it
  const auto matches = [&](const Block& block, const EndOfLife& end) {
    const std::uint64_t lifetime_ns = to_ns(end.ticks) - to_ns(block.time);
    if (selection_.live_at && (block.size >= ordinals_at_moment || end.is_before_moment)) return false;
    if (selection_.freed != Freed::kAny && end.is_in_slice != (selection_.freed == Freed::kYes)) return false;
    if (selection_.min_lifetime_ns && lifetime_ns < *selection_.min_lifetime_ns) return false;
    return !selection_.max_lifetime_ns || (end.is_freed && lifetime_ns <= *selection_.max_lifetime_ns);
  };
  trace::MergedReader reader(file_);
  Replay replay(file_, Selection{});
  BlockTable ordinals;  // Block::size is the ordinal of the allocation
  std::vector<ResolvedEvent> events;
  const auto take_events = [&] {
    for (const ResolvedEvent& event : events) {
      if (selection_.live_at && !after_moment && until_moment.is_passed(event.time)) {
        after_moment = true;
        ordinals_at_moment = selected.size();
      }
      if (event.kind == ResolvedKind::kAllocation) {
        until_moment.count_allocation(event.time);
        until_end.count_allocation(event.time);
        bool fresh;
        Block& block = ordinals.insert(event.address, fresh);
        block.size = selected.size();
        block.time = event.time;
        selected.push_back(false);
      } else if (event.kind == ResolvedKind::kFree) {
        Block* const block = ordinals.find(event.address);
        if (block == nullptr) continue;
        selected[block->size] = matches(*block, {.ticks = event.time,
                                                 .is_freed = true,
                                                 .is_before_moment = !after_moment,
                                                 .is_in_slice = !until_end.is_passed(event.time)});
        ordinals.erase(block);
      } else if (selection_.live_at && to_ns(event.time) <= moment_ns) {
        resident = {to_ns(event.time), event.size};
      }
    }
    events.clear();
  };
  passes.begin(reader);
  pump(reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    replay.replay(batch, events);
    take_events();
    passes.show(batch);
    return true;
  });
  passes.end(reader);
  replay.finish(summary_->last_time);
  take_events();
  if (!after_moment) ordinals_at_moment = selected.size();
  ordinals.for_each(
      [&](const Block& block) { selected[block.size] = matches(block, {.ticks = summary_->last_time}); });
  return selected;
}

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

/// Takes everything from the overview of the summary. False: there is none.
bool Analysis::fill_overview() {
  if (!summary_->overview) return false;
  const trace::Overview& overview = *summary_->overview;
  model::HeapTotals& heap = profile_.heap;
  heap.allocations = profile_.totals.allocations = overview.allocations;
  heap.allocated_bytes = profile_.totals.allocated_bytes = overview.allocated_bytes;
  heap.frees = overview.frees;
  heap.failed = overview.failed;
  heap.unmatched_frees = overview.unmatched_frees;
  heap.implied_frees = overview.implied_frees;
  profile_.timeline.snapshots = overview.snapshots;
  for (const trace::Overview::Thread& thread : overview.threads)
    profile_.threads.push_back({thread.tid, thread.name, clock_.to_ns(trace::Ticks{thread.start_ticks}),
                                thread.allocations, thread.allocated_bytes});
  profile_.timeline.marks = marks_of(overview, clock_);
  threads_found_ = true;
  fill_integrity(nullptr);
  return true;
}

void Analysis::fill_profile(const Run& run) {
  const ProfileMapping mapping{selection_, filter_, clock_, node_of_index_};
  fill_costs(run.replay, mapping, profile_);
  const CostTracker& costs = run.replay.costs();
  if (costs.peak_allocations() != 0) peak_position_ = {costs.peak_time(), costs.peak_allocations()};
  if (selection_.only_live) keep_live_costs(profile_);
  fill_threads(run.replay, clock_, profile_);
  for (std::size_t i = 0; i < run.thread_sums.size(); ++i) {
    profile_.threads[i].allocations = run.thread_sums[i].allocations;
    profile_.threads[i].allocated_bytes = run.thread_sums[i].allocated_bytes;
  }
  const bool only_times = selection_.only_costs && !selection_.with_timeline;
  profile_.timeline = timeline_of(run.replay, mapping, only_times);
  timeline_width_ticks_ = run.replay.timeline().width_ticks();
  if (selection_.with_timeline && intervals_added_ != 0) profile_.timeline = timeline_from(*history());
  threads_found_ = std::ranges::any_of(run.replay.threads(), [](const auto& thread) { return thread.selected; });
}

/// Whether the costs of the nodes are those of everything that the recording has of this kind of memory.
bool Analysis::is_whole() const noexcept {
  return selection_.all_blocks() && !selection_.is_slice() && !selection_.only_live && !selection_.live_at &&
         selection_.kind != model::Kind::kAll;  // which leaves out what allocators mapped
}

/// Sets Profile::whole: from this replay if it has read everything, from the pass for the trace summary, from the
/// index, or from another pass.
void Analysis::fill_whole(const Replay& replay, const Progress& progress) {
  if (replay.has_all_totals()) stored_->totals = replay.totals();
  if (!stored_->totals && stored_->index) {
    try {
      stored_->totals = stored_->index->totals();
    } catch (const trace::FormatError& error) {
      warnings_.push_back(stored_->index->path() + ": " + error.what() + "; its totals are not used");
    }
  }
  if (!stored_->totals) {
    Run run(file_, Selection{}, ResolvedFilter{});
    PassProgress passes(file_, progress, 1);
    passes.begin(*run.reader);
    replay_to_end(run, passes);
    stored_->totals = run.replay.totals();
  }
  profile_.whole.resize(profile_.nodes.size());
  const std::size_t count = std::min(stored_->totals->size(), node_of_index_.size());
  for (std::size_t index = 0; index < count; ++index)
    profile_.whole[node_of_index_[index]] += stored_->totals->of(selection_.kind, index);
  stored_->totals.reset();
}

/// The timeline of the whole recording. Precondition: the profile's timeline has at least samples and the resident
/// memory.
model::Timeline Analysis::timeline_from(const LiveHistory& history) const {
  model::Timeline timeline;
  timeline.buckets = buckets_of(history.buckets, history.width_ticks, 0, clock_);
  timeline.marks = marks_of(*summary_->overview, clock_);
  timeline.samples = profile_.timeline.samples;
  timeline.snapshots = profile_.timeline.snapshots;
  timeline.peak_rss_bytes = profile_.timeline.peak_rss_bytes;
  return timeline;
}

/// `run`: null if nothing was replayed because the summary has an overview.
void Analysis::fill_integrity(const Run* run) {
  const auto any_thread = [&](bool Replay::Thread::*of_replay, bool trace::Overview::Thread::*of_overview) {
    if (run == nullptr)
      return std::ranges::any_of(summary_->overview->threads, [&](const auto& one) { return one.*of_overview; });
    return std::ranges::any_of(run->replay.threads(), [&](const auto& one) { return one.*of_replay; });
  };
  trace::Damage stream_damage = summary_ != nullptr ? summary_->damage : run->reader->damage();
  if (file_.compacted() != nullptr && run != nullptr) stream_damage.add(run->reader->damage());
  // The summary has those of the whole recording.
  if (summary_ == nullptr) run->replay.note_losses(stream_damage);
  const trace::Definitions& definitions = summary_ != nullptr ? summary_->definitions : run->reader->definitions();
  profile_.integrity = integrity_of(
      {.file = file_,
       .stream_damage = stream_damage,
       .definitions = definitions,
       .has_file_damage = followed_ != nullptr,
       .bad_events = summary_ != nullptr ? summary_->bad_events : run->replay.bad_events(),
       .unfinished = summary_ != nullptr ? summary_->unfinished : run->replay.unfinished(),
       .paused_once = summary_ != nullptr ? summary_->paused_once : run->replay.paused_once(),
       .lost_nodes = lost_nodes_,
       .lost_python_codes = lost_python_codes_,
       .symbols_damaged = symbols_damaged_,
       .threads_merged = any_thread(&Replay::Thread::is_others, &trace::Overview::Thread::is_others),
       .thread_names_left_out = any_thread(&Replay::Thread::name_left_out, &trace::Overview::Thread::name_left_out)},
      profile_);
}

}  // namespace heapprof::replay
