#include "analyzer/replay/replay.h"

#include <algorithm>
#include <array>
#include <utility>

namespace heapprof::replay {

using trace::MergedEvent;

namespace {

// How many events ahead memory is prefetched: the event itself (written by another core), the control bytes of its
// block's cluster, the cluster's entry, and the block's node. Far enough for the memory latency, near enough that the
// cache lines are not evicted again.
constexpr std::size_t kEventAhead = 64;
constexpr std::size_t kGroupAhead = 32;
constexpr std::size_t kEntryAhead = 20;
constexpr std::size_t kNodeAhead = 8;
constexpr std::size_t kHashes = 64;  // a power of two, more than kGroupAhead

constexpr std::size_t kManyNodes = 262'144;  // 16 MB of costs

// How many events ahead of another event of equal time an event can be moved.
constexpr std::size_t kTieWindow = 256;

constexpr bool frees_block(Op op) noexcept {
  return op == Op::kFree || op == Op::kFreeStack || op == Op::kReallocBegin;
}
constexpr bool allocates_block(Op op) noexcept { return op == Op::kAlloc || op == Op::kReallocEnd; }

/// Else the recorder has added it, maybe while the program does nothing: a sample of resident memory, a piece of a
/// snapshot of its pages.
bool is_of_program(const MergedEvent& event) noexcept { return event.op() != Op::kText && event.op() != Op::kSample; }

}  // namespace

Replay::Replay(const trace::TraceFile& file, const Selection& selection, const ResolvedFilter& filter)
    : selection_(selection), filter_(filter), every_size_(selection.all_sizes()),
      every_block_(filter.nodes == nullptr && filter.blocks == nullptr && !filter.own_blocks_only),
      counts_rest_(filter.from_ticks == 0 && !filter.has_end()), count_all_(selection.kind == model::Kind::kAll),
      count_threads_(selection.costs_by_thread), page_bytes_(file.header().unit_bytes),
      timeline_(first_bucket_ticks(file)), clock_(file.header()), streams_(file.streams().size()),
      threads_(selection, file.bytes()), in_slice_(filter.from_ticks == 0), in_order_(file.compacted() != nullptr) {
  stop_at({});
}

std::uint64_t Replay::first_bucket_ticks(const trace::TraceFile& file) noexcept {
  return std::max<std::uint64_t>(file.header().ticks_per_second / 10'000, 1);
}

bool Replay::replay(trace::Batch& batch, LeakFollower& follower) {
  // The pass does not move the timeline, which samples and mappings change.
  if (!timeline_.has_begun()) timeline_.begin(state());
  follower_ = &follower;
  return run<Pass::kFollow>(batch);
}

/// A slice begins between events of different times, and ends there or at a position, so ties are within one part.
template <Replay::Pass kPass>
bool Replay::run(trace::Batch& batch) {
  events_ = batch.events();
  texts_ = &batch.texts;
  const auto before = [&](std::uint64_t ticks) {
    return static_cast<std::size_t>(
        std::partition_point(events_.begin(), events_.end(),
                             [&](const MergedEvent& event) { return event.time < ticks; }) -
        events_.begin());
  };
  const bool last = filter_.has_end() && !events_.empty() && events_.back().time >= filter_.end_ticks;
  if (last) events_ = events_.first(before(filter_.end_ticks));
  std::size_t done = 0;
  if (!in_slice_ && !events_.empty() && events_.back().time >= filter_.from_ticks) {
    done = before(filter_.from_ticks);
    run_part<kPass>(0, done);
    begin_slice();
  }
  if (kPass == Pass::kList || stop_.allocations == 0) run_part<kPass>(done, events_.size());
  else if constexpr (kPass != Pass::kList) run_to_stop<kPass>(done, before(stop_.ticks));
  events_ = {};
  return !last && !has_stopped_;
}

/// Handles the events from `from` on, of which those from `tail` on can be after the stop.
template <Replay::Pass kPass>
void Replay::run_to_stop(std::size_t from, std::size_t tail) {
  handled_ = std::max(from, tail);
  if (!has_stopped_) run_part<kPass>(from, handled_);
  has_stopped_ = has_stopped_ || is_at_stop();
  while (handled_ < events_.size() && !has_stopped_) {
    handle<kPass>(handled_, BlockTable::hash_of(events_[handled_].address));
    if (has_stopped_) return;  // at an event that was to be handled before this one
    has_stopped_ = is_at_stop();
    ++handled_;
  }
}

bool Replay::is_at_stop() const noexcept {
  return allocation_ticks_ == stop_.ticks && allocations_at_ticks_ >= stop_.allocations;
}

void Replay::stop_at(const std::optional<EventPosition>& position) noexcept {
  const EventPosition end{filter_.end_ticks - 1, filter_.allocations_at_end};
  stop_ = position.value_or(end);
  has_stopped_ = false;
}

void Replay::begin_slice() {
  in_slice_ = true;
  const std::uint64_t from = filter_.from_ticks;
  heap_ = {};
  sizes_ = {};
  mappings_ = {};
  marks_.clear();
  samples_ = snapshots_ = peak_rss_bytes_ = 0;
  threads_.reset_sums();
  first_identity_ = mapping_table_.last_identity();
  heap_costs_.restart(from);
  mmap_costs_.restart(from);
  all_costs_.restart(from);
  thread_costs_.restart(from);
  timeline_ = model::LiveTimeline(timeline_.first_width_ticks());
  timeline_start_ = from;
  timeline_.begin(state());
}

void Replay::select_live() {
  every_block_ = selects_new_ = counts_rest_ = false;
  heap_ = {};
  sizes_ = {};
  threads_.reset_sums();
  heap_costs_ = CostTracker();
  thread_costs_ = CostTracker();
  const auto count = [&](const Block& block) {
    if (block.address == 0 || (block.thread & kNotSelected) != 0) return;
    ++heap_.allocations;
    heap_.allocated_bytes += block.size;
    ++threads_[block.thread].allocations;
    threads_[block.thread].allocated_bytes += block.size;
    sizes_.count(block.size);
    heap_costs_.add(block.node, block.size, block.time);
    if (count_threads_) thread_costs_.add(block.thread, block.size, block.time);
  };
  for_each_realloc([&](PendingReallocs::Number number) {
    PendingRealloc& pending = reallocs_[number];
    if (pending.freed) pending.block.thread |= kNotSelected;
    count(pending.block);
  });
  blocks_.for_each(count);
}

/// Events of equal time need no order here, so each allocation is one by itself.
void Replay::list_part(std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) {
    const MergedEvent& event = events_[i];
    now_ = event.time;
    if (event.op() == Op::kText) {
      take_text(event);
      continue;
    }
    const std::uint64_t size = event.size();
    if (!allocates_block(event.op()) || !in_slice_ || event.address == 0 || size < listed_sizes_.first ||
        size > listed_sizes_.second || !is_block_event(event.node))
      continue;
    if (!is_selected(thread_of(event.stream()), event.node, size) || !is_time_selected(event.time)) continue;
    resolved_->push_back({event.time, event.address, size, event.node, streams_[event.stream()].thread,
                          ResolvedKind::kAllocation, false, false, false, kNoThread, kNoNode, Subject::kBlock, 0, 0});
  }
}

template <Replay::Pass kPass>
void Replay::run_part(std::size_t from, std::size_t to) {
  if constexpr (kPass == Pass::kList) return list_part(from, to);
  // A call tree that fits the cache needs no prefetch.
  const bool prefetch_nodes =
      (kPass == Pass::kFollow ? follower_->node_count() : heap_costs_.node_count()) > kManyNodes;
  std::array<std::uint64_t, kHashes> hashes;   // of the events ahead, by index
  std::array<std::size_t, kHashes> entries{};  // of the table of blocks, likewise
  const auto prefetch_group = [&](std::size_t i) {
    hashes[i % kHashes] = BlockTable::hash_of(events_[i].address);
    blocks_.prefetch_group(hashes[i % kHashes]);
  };
  const auto prefetch_for = [&](std::size_t i) {
    if (i + kGroupAhead >= to) [[unlikely]]
      return;
    __builtin_prefetch(&events_[std::min(i + kEventAhead, to - 1)]);
    prefetch_group(i + kGroupAhead);
    entries[(i + kEntryAhead) % kHashes] = blocks_.prefetch_entry(hashes[(i + kEntryAhead) % kHashes]);
    if (prefetch_nodes) {
      const MergedEvent& soon = events_[i + kNodeAhead];
      const std::uint32_t own_node = soon.op() == Op::kAlloc ? ~std::uint32_t{0} : 0;  // a mask: no branch
      const std::uint32_t node =
          (soon.node & own_node) | (blocks_.peek_node(soon.address, entries[(i + kNodeAhead) % kHashes]) & ~own_node);
      if constexpr (kPass == Pass::kFollow) follower_->prefetch(node);
      else heap_costs_.prefetch(node);
    }
  };
  for (std::size_t i = from; i < std::min(from + kGroupAhead, to); ++i) prefetch_group(i);
  std::size_t counted = to;  // the event that was counted with the one before it
  for (std::size_t i = from; i < to; ++i) {
    prefetch_for(i);
    if (i == counted) continue;
    const std::uint64_t hash = hashes[i % kHashes];
    if constexpr (kPass != Pass::kResolve)
      if (i + 1 < to && events_[i].address == events_[i + 1].address && count_freed_at_once<kPass>(i, hash)) {
        counted = i + 1;
        continue;
      }
    handle<kPass>(i, hash);
  }
}

template <Replay::Pass kPass>
[[gnu::always_inline]] inline void Replay::handle(std::size_t i, std::uint64_t hash) {
  const MergedEvent& event = events_[i];
  now_ = event.time;
  if constexpr (kPass == Pass::kResolve)
    if (ordered_ != nullptr && event.op() != Op::kNone) ordered_->push_back(event);
  if (kPass != Pass::kFollow && timeline_.must_move(now_ - timeline_start_)) [[unlikely]] {
    if (history_log_ != nullptr && timeline_.ends_bucket(now_ - timeline_start_)) end_bucket();
    timeline_.move_to(now_ - timeline_start_, state(), is_of_program(event));
  }
  switch (event.op()) {
    case Op::kAlloc: return allocate<kPass>(i, hash);
    case Op::kFree:
    case Op::kFreeStack: return free<kPass>(i, hash);
    case Op::kReallocBegin: return realloc_begin<kPass>(i);
    case Op::kReallocEnd: return realloc_end<kPass>(i);
    case Op::kSample:
      if constexpr (kPass == Pass::kResolve)
        resolved_->push_back(
            {now_, sample_shared_bytes_, event.size(), 0, kNoThread, ResolvedKind::kSample, false, !in_slice_});
      return handle_rare(event);
    default: return handle_rare(event);
  }
}

inline model::LiveTimeline::State Replay::state() const noexcept {
  model::LiveTimeline::State state{costs().live_bytes(), costs().live_blocks(), heap_.allocations,
                                   heap_.allocated_bytes, mmap_costs_.live_bytes()};
  if (selection_.kind == model::Kind::kHeap) return state;
  if (selection_.kind == model::Kind::kMmap) state.allocations = state.allocated_bytes = 0;
  state.allocations += mappings_.mappings - (count_all_ ? mappings_.from_allocator : 0);
  state.allocated_bytes += mappings_.mapped_bytes - (count_all_ ? mappings_.from_allocator_bytes : 0);
  return state;
}

SumsSoFar Replay::so_far() const noexcept {
  const model::LiveTimeline::State sums = state();
  return {.time_ns = clock_.to_ns(trace::Ticks{now_}),
          .live_bytes = sums.live_bytes,
          .live_blocks = sums.live_blocks,
          .peak_bytes = costs().peak_bytes(),
          .allocations = sums.allocations,
          .allocated_bytes = sums.allocated_bytes};
}

inline bool Replay::is_temporary(const Block& block, const StreamState& stream) const noexcept {
  return (block.thread & ~kNotSelected) == stream.thread && threads_[stream.thread].last_allocation == block.address;
}

/// Flattened, like free(): with several passes, the compiler no longer inlines what each event calls, which takes a
/// quarter longer.
template <Replay::Pass kPass>
[[gnu::flatten]] inline void Replay::allocate(std::size_t i, std::uint64_t hash, const Block& replaced) {
  const MergedEvent& event = events_[i];
  if (event.address == 0) [[unlikely]] {
    ++bad_events_;
    return;
  }
  bool fresh;
  Block* block = &blocks_.insert(event.address, hash, fresh);
  if (!fresh) [[unlikely]] {
    if (settle_tie<kPass>(i, event.address, true)) {
      if (has_stopped_) return;  // before this event
      block = &blocks_.insert(event.address, hash, fresh);
    }
    if (!fresh) {
      heap_.implied_frees += (block->thread & kNotSelected) == 0;
      log_removal(*block);
      count_free<kPass>(*block, false, {});
    }
  }
  if (reallocs_.can_have(hash)) [[unlikely]]
    count_reuse<kPass>(event.address, hash);
  Thread& thread = thread_of(event.stream());  // after settle_tie(), which may start threads and move all of them
  const std::uint64_t size = event.size();
  allocations_at_ticks_ = event.time == allocation_ticks_ ? allocations_at_ticks_ + 1 : 1;
  allocation_ticks_ = event.time;
  bool selected = thread.selected && (every_size_ || (size >= selection_.min_size && size <= selection_.max_size));
  if (!every_block_) [[unlikely]] {
    const std::uint64_t ordinal = ordinal_++;
    selected = selected && selects_new_ && is_stack_selected(event.node) && is_time_selected(event.time) &&
               (filter_.blocks == nullptr || (ordinal < filter_.blocks->size() && (*filter_.blocks)[ordinal]));
  }
  *block = {event.address, size, event.time, event.node, streams_[event.stream()].thread};
  thread.last_allocation = event.address;
  if (!selected) [[unlikely]] {
    block->thread |= kNotSelected;
    if (kPass != Pass::kFollow && counts_rest_) add_rest(rest_.heap, event.node, {1, size, 0, 0});
    return;
  }
  if constexpr (kPass == Pass::kFollow) {
    if (in_slice_) follower_->allocated(event.node, size, event.time);
    return;
  }
  ++thread.allocations;
  thread.allocated_bytes += size;
  ++heap_.allocations;
  heap_.allocated_bytes += size;
  sizes_.count(size);
  heap_costs_.add(event.node, size, event.time, allocations_at_ticks_);
  if (count_all_) all_costs_.add(event.node, size, event.time, allocations_at_ticks_);
  if (count_threads_) thread_costs_.add(block->thread, size, event.time);
  if (history_log_ != nullptr) [[unlikely]]
    history_log_->allocated(event.node, block->thread);
  timeline_.rose(costs().live_bytes());
  if constexpr (kPass == Pass::kResolve)
    if (is_block_event(event.node))
      resolved_->push_back({event.time, event.address, size, event.node, block->thread, ResolvedKind::kAllocation,
                            false, !in_slice_, replaced.address != 0, kNoThread, kNoNode, Subject::kBlock,
                            replaced.time, replaced.address});
}

template <Replay::Pass kPass>
inline void Replay::count_free(const Block& block, bool temporary, [[maybe_unused]] const FreedBy& by) {
  if ((block.thread & kNotSelected) != 0) return;
  const bool before_slice = block.time < filter_.from_ticks;
  if constexpr (kPass == Pass::kFollow) {
    if (!before_slice) follower_->freed(block.node, block.size, now_, block.time);
    return;
  }
  temporary &= !before_slice;
  heap_.temporary_allocations += temporary;
  if (temporary && log_ != nullptr && block.time <= log_->begin_ticks) [[unlikely]]
    log_->older_temporary.push_back({block.node, block.thread, block.size, block.time});
  heap_costs_.remove(block.node, block.size, temporary);
  if (count_all_) all_costs_.remove(block.node, block.size, temporary);
  if (count_threads_) thread_costs_.remove(block.thread, block.size, temporary);
  if (history_log_ != nullptr) [[unlikely]]
    history_log_->freed(block.node, block.thread, now_, block.time);
  timeline_.fell(costs().live_bytes());
  if constexpr (kPass == Pass::kResolve)
    if (is_block_event(block.node))
      resolved_->push_back({now_, block.address, block.size, block.node, block.thread, ResolvedKind::kFree, temporary,
                            before_slice, by.in_realloc, by.thread, by.node, Subject::kBlock, block.time, 0});
}

template <Replay::Pass kPass>
[[gnu::flatten]] inline void Replay::free(std::size_t i, std::uint64_t hash) {
  const MergedEvent& event = events_[i];
  Block* block = event.address == 0 ? nullptr : blocks_.find(event.address, hash);
  if (block == nullptr) [[unlikely]] {
    if (event.address == 0 || !settle_tie<kPass>(i, event.address, false) || has_stopped_ ||
        (block = blocks_.find(event.address, hash)) == nullptr) {
      if (!has_stopped_) count_unmatched_free();
      return;
    }
  }
  Thread& thread = thread_of(event.stream());
  const bool temporary = is_temporary(*block, streams_[event.stream()]);
  if (temporary) thread.last_allocation = 0;
  heap_.frees += (block->thread & kNotSelected) == 0;
  FreedBy by;
  if constexpr (kPass == Pass::kResolve)
    by = {streams_[event.stream()].thread, event.op() == Op::kFreeStack ? event.node : kNoNode, false};
  count_free<kPass>(*block, temporary, by);
  log_removal(*block);
  blocks_.erase(block, hash);
}

/// Counts an allocation that the next event frees, without the table of blocks: what allocate() and free() would do.
/// Up to half of a program's blocks are freed so. False, and nothing is changed: the events are something else, or
/// are not the plain case.
template <Replay::Pass kPass>
[[gnu::always_inline]] inline bool Replay::count_freed_at_once(std::size_t i, std::uint64_t hash) {
  const MergedEvent& event = events_[i];
  const MergedEvent& next = events_[i + 1];
  const std::uint64_t address = event.address, ticks = event.time;
  if (event.op() != Op::kAlloc || (next.op() != Op::kFree && next.op() != Op::kFreeStack)) return false;
  if (event.stream() != next.stream() || address == 0 || !every_block_ || !every_size_) return false;
  const StreamState& stream = streams_[event.stream()];
  if (stream.thread == kNoThread) [[unlikely]]
    return false;
  Thread& thread = threads_[stream.thread];
  if (!thread.started || !thread.selected || reallocs_.can_have(hash)) return false;
  if (kPass != Pass::kFollow && timeline_.must_move(next.time - timeline_start_)) [[unlikely]]
    return false;
  if (log_ != nullptr && ticks <= log_->begin_ticks) [[unlikely]]
    return false;
  if (blocks_.find(address, hash) != nullptr) [[unlikely]]
    return false;

  now_ = next.time;
  allocations_at_ticks_ = ticks == allocation_ticks_ ? allocations_at_ticks_ + 1 : 1;
  allocation_ticks_ = ticks;
  thread.last_allocation = 0;
  const std::uint32_t node = event.node;
  const std::uint64_t size = event.size();
  if constexpr (kPass == Pass::kFollow) {
    if (in_slice_) {
      follower_->allocated(node, size, ticks);
      follower_->freed(node, size, next.time, ticks);
    }
    ++heap_.frees;
    return true;
  }
  ++thread.allocations;
  thread.allocated_bytes += size;
  ++heap_.allocations;
  heap_.allocated_bytes += size;
  ++heap_.frees;
  ++heap_.temporary_allocations;
  sizes_.count(size);
  if (selection_.kind != model::Kind::kMmap) timeline_.rose(costs().live_bytes() + size);
  heap_costs_.add_freed_at_once(node, size, ticks, allocations_at_ticks_);
  if (count_all_) all_costs_.add_freed_at_once(node, size, ticks, allocations_at_ticks_);
  if (count_threads_) thread_costs_.add_freed_at_once(stream.thread, size, ticks);
  if (history_log_ != nullptr) history_log_->freed_at_once(node, next.time, ticks);
  return true;
}

/// The block was freed by a realloc that allocated another one. Like an allocation, a block from before the slice
/// does not count.
void Replay::count_move(const Block& block) {
  if ((block.thread & kNotSelected) != 0 && counts_rest_) add_rest(rest_.heap, block.node, {0, 0, 1, 0});
  if ((block.thread & kNotSelected) != 0 || block.time < filter_.from_ticks) return;
  heap_costs_.moved(block.node, block.size);
  if (log_ != nullptr && block.time <= log_->begin_ticks) [[unlikely]]
    log_->older_moved.push_back({block.node, block.thread, block.size, block.time});
  if (count_all_) all_costs_.moved(block.node, block.size);
}

/// Counts only when everything is selected: whether the unknown block matches the selection cannot be known.
[[gnu::noinline]] void Replay::count_unmatched_free() noexcept {
  if (!selection_.all_blocks()) return;
  ++heap_.frees;
  ++heap_.unmatched_frees;
}

/// A failed call has no lifetime, so it does not match a selection by lifetime.
void Replay::count_failure(const MergedEvent& event) {
  heap_.failed += is_selected(thread_of(event.stream()), event.node, event.size()) && !filter_.only_blocks &&
                  is_time_selected(event.time);
}

template <Replay::Pass kPass>
void Replay::realloc_begin(std::size_t i) {
  const MergedEvent event = events_[i];
  Block* block = event.address == 0 ? nullptr : blocks_.find(event.address);
  if (block == nullptr && event.address != 0 && settle_tie<kPass>(i, event.address, false)) {
    if (has_stopped_) return;
    block = blocks_.find(event.address);
  }
  Thread& thread = thread_of(event.stream());
  StreamState& stream = streams_[event.stream()];
  PendingRealloc pending;
  pending.thread = stream.thread;
  if (block != nullptr) {
    pending.block = *block;
    pending.temporary = is_temporary(*block, stream);
    if (pending.temporary) thread.last_allocation = 0;
    log_removal(*block, true);
    blocks_.erase(block);
  }
  stream.reallocs.push_back(reallocs_.add(pending));
}

/// The latest one. Precondition: there is one.
PendingRealloc Replay::take_realloc(StreamState& stream) {
  const PendingRealloc pending = reallocs_.take(stream.reallocs.back());
  stream.reallocs.pop_back();
  return pending;
}

/// A block gets the address. If a realloc has the block that was there before, it has freed it.
template <Replay::Pass kPass>
[[gnu::noinline]] void Replay::count_reuse(std::uint64_t address, std::uint64_t hash) {
  const PendingReallocs::Number number = reallocs_.find(address, hash);
  if (number == PendingReallocs::kNone) return;
  count_realloc_free<kPass>(reallocs_[number], {reallocs_[number].thread, kNoNode, true});
  reallocs_.set_freed(number);
}

template <Replay::Pass kPass>
void Replay::count_realloc_free(const PendingRealloc& pending, const FreedBy& by) {
  heap_.frees += (pending.block.thread & kNotSelected) == 0;
  count_free<kPass>(pending.block, pending.temporary, by);
  if (log_ != nullptr && pending.block.time <= log_->begin_ticks) log_->freed_by_reallocs.push_back(pending.block);
}

template <Replay::Pass kPass>
void Replay::realloc_end(std::size_t i) {
  StreamState& stream = streams_[events_[i].stream()];
  Block replaced;
  if (!stream.reallocs.empty()) {
    const PendingRealloc pending = take_realloc(stream);
    if (pending.block.address != 0) {
      if (!pending.freed) count_realloc_free<kPass>(pending, {stream.thread, events_[i].node, true});
      if (kPass != Pass::kFollow && events_[i].address != 0) count_move(pending.block);
      replaced = pending.block;
    } else {
      count_unmatched_free();
    }
  }
  if (events_[i].address != 0) allocate<kPass>(i, BlockTable::hash_of(events_[i].address), replaced);
}

/// The event at `i` needs `address` to be freed (or allocated) first. If an event of equal time in another stream
/// does that, handles it now, with the earlier events of its stream. False: there is none.
template <Replay::Pass kPass>
[[gnu::noinline]] bool Replay::settle_tie(std::size_t i, std::uint64_t address, bool needs_free) {
  if (in_order_ || in_tie_ || streams_.size() < 2) return false;
  const MergedEvent& event = events_[i];
  const std::size_t end = std::min(events_.size(), i + kTieWindow);
  for (std::size_t j = i + 1; j < end && events_[j].time == event.time; ++j) {
    const MergedEvent& other = events_[j];
    if (other.address != address || other.stream() == event.stream()) continue;
    if (!(needs_free ? frees_block(other.op()) : allocates_block(other.op()))) continue;
    in_tie_ = true;
    const std::uint32_t stream = other.stream();
    for (std::size_t k = i + 1; k <= j && !has_stopped_; ++k) {
      if (events_[k].stream() != stream) continue;
      handle<kPass>(k, BlockTable::hash_of(events_[k].address));
      events_[k].op_size = op_size(Op::kNone, 0);
      has_stopped_ = stop_.allocations != 0 && is_at_stop();
    }
    in_tie_ = false;
    return true;
  }
  return false;
}

bool Replay::has_unselected_realloc(std::uint64_t ticks) const {
  bool found = false;
  for_each_realloc([&](PendingReallocs::Number number) {
    const Block& block = reallocs_[number].block;
    found |= block.address != 0 && block.time < ticks && (block.thread & kNotSelected) != 0;
  });
  return found;
}

void Replay::realloc_failed(const MergedEvent& event) {
  StreamState& stream = streams_[event.stream()];
  if (event.size() != 0) count_failure(event);
  if (stream.reallocs.empty()) return;
  const PendingRealloc pending = take_realloc(stream);
  if (!pending.is_live()) return;
  bool fresh;
  blocks_.insert(pending.block.address, fresh) = pending.block;
  if (pending.temporary) threads_[stream.thread].last_allocation = pending.block.address;
}

[[gnu::noinline]] void Replay::handle_rare(const MergedEvent& event) {
  if (event.op() == trace::kGap) return abandon_calls(streams_[event.stream()]);
  switch (event.op()) {
    case Op::kReallocFailed: return realloc_failed(event);
    case Op::kAllocFailed: return count_failure(event);
    case Op::kSample:
      ++samples_;
      peak_rss_bytes_ = std::max(peak_rss_bytes_, event.size());
      timeline_.rss(event.size());
      if (event.time < keep_samples_until_) kept_sample_ = {event.time, event.size()};
      clock_.add_sample(event.time, event.address);
      sample_shared_bytes_ = kUnknownShared;
      return;
    case Op::kPause: paused_once_ = true; return add_mark(model::Timeline::Mark::Kind::kPaused, now_);
    case Op::kResume: return add_mark(model::Timeline::Mark::Kind::kResumed, now_);
    case Op::kText: return take_text(event);
    default: return handle_mapping(event);
  }
}

void Replay::take_text(const MergedEvent& event) {
  trace::EventText& text = (*texts_)[event.node];
  StreamState& stream = streams_[event.stream()];
  switch (text.kind) {
    case TextKind::kThread: {
      abandon_calls(stream);
      const auto tid = static_cast<std::uint32_t>(text.number);
      const auto known = threads_.find(tid);
      stream.thread = text.address == kThreadNested && known ? *known : threads_.start(tid, std::move(text.text));
      return;
    }
    case TextKind::kThreadName:
      thread_of(event.stream());
      threads_.rename(stream.thread, std::move(text.text));
      return;
    case TextKind::kResidency: snapshots_ += text.address == 0; return;
    case TextKind::kSharedMemory: sample_shared_bytes_ = text.number; return;
    case TextKind::kMark: return add_mark(model::Timeline::Mark::Kind::kUser, text.address, std::move(text.text));
    default: return;
  }
}

/// Logs the live bytes at the end of the current bucket of the timeline.
[[gnu::noinline]] void Replay::end_bucket() {
  history_log_->end_bucket(
      timeline_.current(), timeline_.width_ticks(),
      [&](std::uint32_t node) { return heap_costs_.settled(node).live_bytes; },
      [&](std::uint32_t thread) { return thread_costs_.settled(thread).live_bytes; });
}

/// The pending calls of this stream will not end: their thread is gone, or their end is lost.
void Replay::abandon_calls(StreamState& stream) {
  for (const PendingReallocs::Number number : stream.reallocs) {
    reallocs_[number].thread = kNoThread;
    if (reallocs_[number].block.address != 0) abandoned_reallocs_.push_back(number);
    else reallocs_.take(number);
  }
  for (PendingMapping& pending : stream.mappings)
    if (!pending.pieces.empty()) abandoned_mappings_.push_back(std::move(pending));
  stream.reallocs.clear();
  stream.mappings.clear();
}

void Replay::add_mark(model::Timeline::Mark::Kind kind, std::uint64_t ticks, std::string text) {
  if (marks_.size() < kMaxMarks) marks_.push_back({ticks, kind, std::move(text)});
}

void Replay::finish(std::uint64_t end_time) {
  // A replay that continued from a snapshot may have had no event.
  if (!timeline_.has_begun()) timeline_.begin(state());
  for (StreamState& stream : streams_) abandon_calls(stream);
  unfinished_ = abandoned_reallocs_.size() + abandoned_mappings_.size();
  reallocs_.for_each_live([&](const PendingRealloc& pending) {
    bool fresh;
    blocks_.insert(pending.block.address, fresh) = pending.block;
  });
  for (const PendingMapping& pending : abandoned_mappings_) put_back(pending.pieces);
  abandoned_reallocs_.clear();
  reallocs_.clear();
  abandoned_mappings_.clear();

  // A mark has the time at which it was set, which can be before the time of the event that contains it.
  std::stable_sort(marks_.begin(), marks_.end(), [](const Mark& a, const Mark& b) { return a.ticks < b.ticks; });
  if (!in_slice_) begin_slice();
  last_time_ = std::max(now_, end_time);
  if (!marks_.empty()) last_time_ = std::max(last_time_, marks_.back().ticks);  // set in a late destructor
  if (filter_.has_end()) last_time_ = std::min(last_time_, filter_.end_ticks - 1);
  last_time_ = std::max(last_time_, filter_.from_ticks);
  if (added_intervals_) {  // only the widths of its buckets are known
    timeline_ = model::LiveTimeline(timeline_.first_width_ticks());
    timeline_.begin(state());
  }
  if (history_log_ != nullptr) end_bucket();
  timeline_.finish(last_time_ - timeline_start_, state());
  clock_.finish();
  heap_.peak_bytes = heap_costs_.peak_bytes();
  heap_.peak_blocks = heap_costs_.peak_blocks();
  heap_.leaked_bytes = heap_costs_.live_bytes();
  heap_.leaked_blocks = heap_costs_.live_blocks();
  if (filter_.from_ticks == 0) return;
  heap_.leaked_bytes = heap_.leaked_blocks = 0;
  for_each_leak([&](const Block& block) {
    heap_.leaked_bytes += block.size;
    ++heap_.leaked_blocks;
  });
  for (const LeftSums::Sum& sum : left_.nodes) {
    heap_.leaked_bytes += sum.bytes;
    heap_.leaked_blocks += sum.blocks;
  }
}

template bool Replay::run<Replay::Pass::kCount>(trace::Batch& batch);
template bool Replay::run<Replay::Pass::kResolve>(trace::Batch& batch);
template bool Replay::run<Replay::Pass::kFollow>(trace::Batch& batch);
template bool Replay::run<Replay::Pass::kList>(trace::Batch& batch);

}  // namespace heapprof::replay
