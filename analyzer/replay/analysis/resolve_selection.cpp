// What the selection of an analysis means in its recording: moments in ticks, stacks by dense index, and blocks by
// ordinal where their lives decide. The results are in Analysis::filter_.
#include <algorithm>
#include <utility>

#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/analysis/moments.h"
#include "analyzer/replay/analysis/pass_progress.h"
#include "analyzer/replay/batch_pump.h"
#include "analyzer/replay/replay.h"
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

}  // namespace

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

}  // namespace heapprof::replay
