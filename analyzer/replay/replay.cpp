#include "analyzer/replay/replay.h"

#include <algorithm>
#include <array>
#include <utility>

#include "analyzer/trace/events/limits.h"

namespace heapprof::replay {

using trace::MergedEvent;

namespace {

// How many events ahead memory is asked for: the event itself (written by another core), the place of its
// block, the block, and the block's node. Far enough that memory answers in time, near enough that the
// lines are still there.
constexpr std::size_t kEventAhead = 64;
constexpr std::size_t kGroupAhead = 32;
constexpr std::size_t kEntryAhead = 20;
constexpr std::size_t kNodeAhead = 8;
constexpr std::size_t kHashes = 64;  // that are kept: more than kGroupAhead, a power of two

constexpr std::size_t kManyNodes = 262'144;  // 16 MB of costs

// How far apart events of one moment may stand for one to be moved before the other.
constexpr std::size_t kTieWindow = 256;

constexpr bool takes_block(Op op) noexcept {
  return op == Op::kFree || op == Op::kFreeStack || op == Op::kReallocBegin;
}
constexpr bool gives_block(Op op) noexcept { return op == Op::kAlloc || op == Op::kReallocEnd; }

}  // namespace

Replay::Replay(const trace::TraceFile& file, const Selection& selection, const Choice& choice)
    : selection_(selection), choice_(choice), every_size_(selection.all_sizes()),
      every_block_(choice.nodes == nullptr && choice.blocks == nullptr),
      count_all_(selection.kind == model::Kind::kAll), page_bytes_(file.header().unit_bytes),
      timeline_(std::max<std::uint64_t>(file.header().ticks_per_second / 10'000, 1)), clock_(file.header()),
      streams_(file.streams().size()), max_threads_(trace::max_threads(file.bytes())),
      max_name_bytes_(trace::max_name_bytes(file.bytes())), in_slice_(choice.from_ticks == 0),
      in_order_(file.compacted() != nullptr) {}

/// Events of one moment are never parted, so a slice's ends lie between events that are not tied.
template <bool kResolve>
bool Replay::run(trace::Batch& batch) {
  events_ = batch.events();
  texts_ = &batch.texts;
  const auto before = [&](std::uint64_t ticks) {
    return static_cast<std::size_t>(
        std::partition_point(events_.begin(), events_.end(),
                             [&](const MergedEvent& event) { return event.time < ticks; }) -
        events_.begin());
  };
  const bool last = choice_.has_end() && !events_.empty() && events_.back().time >= choice_.end_ticks;
  if (last) events_ = events_.first(before(choice_.end_ticks));
  std::size_t done = 0;
  if (!in_slice_ && !events_.empty() && events_.back().time >= choice_.from_ticks) {
    done = before(choice_.from_ticks);
    run_part<kResolve>(0, done);
    begin_slice();
  }
  run_part<kResolve>(done, events_.size());
  events_ = {};
  return !last;
}

void Replay::begin_slice() {
  in_slice_ = true;
  const std::uint64_t from = choice_.from_ticks;
  heap_ = {};
  sizes_ = {};
  mappings_ = {};
  marks_.clear();
  samples_ = peak_rss_bytes_ = 0;
  for (Thread& thread : threads_) thread.allocations = thread.allocated_bytes = 0;
  first_identity_ = mapping_table_.last_identity();
  heap_costs_.restart(from);
  mmap_costs_.restart(from);
  all_costs_.restart(from);
  timeline_ = model::LiveTimeline(timeline_.first_width_ticks());
  timeline_start_ = from;
  timeline_.begin(state());
}

template <bool kResolve>
void Replay::run_part(std::size_t from, std::size_t count) {
  // A tree that fits the cache needs no asking.
  const bool ask_for_nodes = heap_costs_.node_count() > kManyNodes;
  std::array<std::uint64_t, kHashes> hashes;  // of the events to come, by place
  const auto look_ahead = [&](std::size_t i) {
    hashes[i % kHashes] = BlockTable::hash_of(events_[i].address);
    blocks_.prefetch_group(hashes[i % kHashes]);
  };
  for (std::size_t i = from; i < std::min(from + kGroupAhead, count); ++i) look_ahead(i);
  for (std::size_t i = from; i < count; ++i) {
    if (i + kGroupAhead < count) [[likely]] {
      if (i + kEventAhead < count) __builtin_prefetch(&events_[i + kEventAhead]);
      look_ahead(i + kGroupAhead);
      blocks_.prefetch_entry(hashes[(i + kEntryAhead) % kHashes]);
      if (ask_for_nodes) {
        const MergedEvent& soon = events_[i + kNodeAhead];
        const std::uint32_t given = soon.op() == Op::kAlloc ? ~std::uint32_t{0} : 0;
        heap_costs_.prefetch((soon.node & given) |
                             (blocks_.peek_node(soon.address, hashes[(i + kNodeAhead) % kHashes]) & ~given));
      }
    }
    handle<kResolve>(i, hashes[i % kHashes]);
  }
}

template <bool kResolve>
inline void Replay::handle(std::size_t i, std::uint64_t hash) {
  const MergedEvent& event = events_[i];
  now_ = event.time;
  if constexpr (kResolve)
    if (ordered_ != nullptr && event.op() != Op::kNone) ordered_->push_back(event);
  if (timeline_.must_move(now_ - timeline_start_)) [[unlikely]] timeline_.move_to(now_ - timeline_start_, state());
  switch (event.op()) {
    case Op::kAlloc: return allocate<kResolve>(i, hash);
    case Op::kFree:
    case Op::kFreeStack: return release<kResolve>(i, hash);
    case Op::kReallocBegin: return realloc_begin<kResolve>(i);
    case Op::kReallocEnd: return realloc_end<kResolve>(i);
    case Op::kSample:
      if constexpr (kResolve)
        resolved_->push_back({now_, 0, event.size(), 0, kNoThread, ResolvedKind::kSample, false, !in_slice_});
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

inline Replay::Thread& Replay::thread_of(std::uint32_t stream) {
  StreamState& state = streams_[stream];
  if (state.thread == kNoThread) [[unlikely]] start_thread(state, 0, {});
  Thread& thread = threads_[state.thread];
  // The record that names a thread has the time of the stream's last event before it.
  if (!thread.started) [[unlikely]] {
    thread.started = true;
    thread.start_ticks = now_;
  }
  return thread;
}

inline bool Replay::is_temporary(const Block& block, const StreamState& stream) const noexcept {
  return (block.thread & ~kNotSelected) == stream.thread && threads_[stream.thread].last_allocation == block.address;
}

template <bool kResolve>
inline void Replay::allocate(std::size_t i, std::uint64_t hash, std::uint64_t old_address) {
  const MergedEvent event = events_[i];
  if (event.address == 0) [[unlikely]] {
    ++bad_events_;
    return;
  }
  bool fresh;
  Block* block = &blocks_.insert(event.address, hash, fresh);
  if (!fresh) [[unlikely]] {
    if (settle_tie<kResolve>(i, event.address, true)) block = &blocks_.insert(event.address, hash, fresh);
    if (!fresh) {
      heap_.implied_frees += (block->thread & kNotSelected) == 0;
      count_release<kResolve>(*block, false, {});
    }
  }
  Thread& thread = thread_of(event.stream());  // settling a tie may start threads, which moves them all
  const std::uint64_t size = event.size();
  bool selected = thread.selected && (every_size_ || (size >= selection_.min_size && size <= selection_.max_size));
  if (!every_block_) [[unlikely]] {
    const std::uint64_t ordinal = ordinal_++;
    selected = selected && is_chosen(event.node) &&
               (choice_.blocks == nullptr || (ordinal < choice_.blocks->size() && (*choice_.blocks)[ordinal]));
  }
  *block = {event.address, size, event.time, event.node, streams_[event.stream()].thread};
  thread.last_allocation = event.address;
  if (!selected) [[unlikely]] {
    block->thread |= kNotSelected;
    return;
  }
  ++thread.allocations;
  thread.allocated_bytes += size;
  ++heap_.allocations;
  heap_.allocated_bytes += size;
  sizes_.count(size);
  heap_costs_.add(event.node, size, event.time);
  if (count_all_) all_costs_.add(event.node, size, event.time);
  timeline_.rose(costs().live_bytes());
  if constexpr (kResolve)
    if (is_block_event(event.node))
      resolved_->push_back({event.time, event.address, size, event.node, block->thread, ResolvedKind::kAllocation,
                            false, !in_slice_, old_address != 0, kNoThread, kNoNode, 0, old_address});
}

template <bool kResolve>
inline void Replay::count_release(const Block& block, bool temporary, [[maybe_unused]] const Release& by) {
  if ((block.thread & kNotSelected) != 0) return;
  const bool before_slice = block.time < choice_.from_ticks;
  temporary &= !before_slice;
  heap_.temporary_allocations += temporary;
  heap_costs_.remove(block.node, block.size, temporary);
  if (count_all_) all_costs_.remove(block.node, block.size, temporary);
  timeline_.fell(costs().live_bytes());
  if constexpr (kResolve)
    if (is_block_event(block.node))
      resolved_->push_back({now_, block.address, block.size, block.node, block.thread, ResolvedKind::kRelease,
                            temporary, before_slice, by.in_realloc, by.thread, by.node, block.time, 0});
}

void Replay::count_rare_release(const Block& block) {
  if (resolved_ != nullptr) count_release<true>(block, false, {});
  else count_release<false>(block, false, {});
}

template <bool kResolve>
inline void Replay::release(std::size_t i, std::uint64_t hash) {
  const MergedEvent event = events_[i];
  Block* block = event.address == 0 ? nullptr : blocks_.find(event.address, hash);
  if (block == nullptr) [[unlikely]] {
    if (event.address == 0 || !settle_tie<kResolve>(i, event.address, false) ||
        (block = blocks_.find(event.address, hash)) == nullptr)
      return count_unmatched_free();
  }
  Thread& thread = thread_of(event.stream());
  const bool temporary = is_temporary(*block, streams_[event.stream()]);
  if (temporary) thread.last_allocation = 0;
  heap_.frees += (block->thread & kNotSelected) == 0;
  Release by;
  if constexpr (kResolve)
    by = {streams_[event.stream()].thread, event.op() == Op::kFreeStack ? event.node : kNoNode, false};
  count_release<kResolve>(*block, temporary, by);
  blocks_.erase(block);
}

/// Whether the block was one of those selected is not known.
[[gnu::noinline]] void Replay::count_unmatched_free() noexcept {
  if (!selection_.all_blocks()) return;
  ++heap_.frees;
  ++heap_.unmatched_frees;
}

/// A call that found no memory has no block, so it has no lifetime.
void Replay::count_failure(const MergedEvent& event) {
  const std::uint64_t size = event.size();
  heap_.failed += thread_of(event.stream()).selected && size >= selection_.min_size &&
                  size <= selection_.max_size && is_chosen(event.node) && choice_.blocks == nullptr;
}

template <bool kResolve>
void Replay::realloc_begin(std::size_t i) {
  const MergedEvent event = events_[i];
  Block* block = event.address == 0 ? nullptr : blocks_.find(event.address);
  if (block == nullptr && event.address != 0 && settle_tie<kResolve>(i, event.address, false))
    block = blocks_.find(event.address);
  Thread& thread = thread_of(event.stream());
  StreamState& stream = streams_[event.stream()];
  PendingRealloc pending;
  if (block != nullptr) {
    pending.block = *block;
    pending.temporary = is_temporary(*block, stream);
    if (pending.temporary) thread.last_allocation = 0;
    blocks_.erase(block);
  }
  stream.reallocs.push_back(pending);
}

template <bool kResolve>
void Replay::realloc_end(std::size_t i) {
  StreamState& stream = streams_[events_[i].stream()];
  std::uint64_t old_address = 0;
  if (!stream.reallocs.empty()) {
    const PendingRealloc pending = stream.reallocs.back();
    stream.reallocs.pop_back();
    if (pending.block.address != 0) {
      heap_.frees += (pending.block.thread & kNotSelected) == 0;
      count_release<kResolve>(pending.block, pending.temporary, {stream.thread, events_[i].node, true});
      old_address = pending.block.address;
    } else {
      count_unmatched_free();
    }
  }
  if (events_[i].address != 0) allocate<kResolve>(i, BlockTable::hash_of(events_[i].address), old_address);
}

/// Two events of one moment in different streams stand in the wrong order: the one at `i` needs `address`
/// released (or allocated) first. Looks for that and, with what its stream did before it, does it now.
template <bool kResolve>
[[gnu::noinline]] bool Replay::settle_tie(std::size_t i, std::uint64_t address, bool wants_release) {
  if (in_order_ || in_tie_ || streams_.size() < 2) return false;
  const MergedEvent& event = events_[i];
  const std::size_t end = std::min(events_.size(), i + kTieWindow);
  for (std::size_t j = i + 1; j < end && events_[j].time == event.time; ++j) {
    const MergedEvent& other = events_[j];
    if (other.address != address || other.stream() == event.stream()) continue;
    if (!(wants_release ? takes_block(other.op()) : gives_block(other.op()))) continue;
    in_tie_ = true;
    const std::uint32_t stream = other.stream();
    for (std::size_t k = i + 1; k <= j; ++k) {
      if (events_[k].stream() != stream) continue;
      handle<kResolve>(k, BlockTable::hash_of(events_[k].address));
      events_[k].op_size = op_size(Op::kNone, 0);
    }
    in_tie_ = false;
    return true;
  }
  return false;
}

[[gnu::noinline]] void Replay::handle_rare(const MergedEvent& event) {
  StreamState& stream = streams_[event.stream()];
  const auto changed = [this](const Region& region, std::int64_t bytes, std::int64_t blocks) {
    mapping_changed(region, bytes, blocks);
  };
  if (event.op() == trace::kGap) return abandon_begins(stream);
  switch (event.op()) {
    case Op::kReallocFailed:
      count_failure(event);
      if (!stream.reallocs.empty()) {
        const PendingRealloc pending = stream.reallocs.back();
        stream.reallocs.pop_back();
        if (pending.block.address == 0) return;
        bool fresh;
        Block& block = blocks_.insert(pending.block.address, fresh);
        if (!fresh) {
          heap_.implied_frees += (block.thread & kNotSelected) == 0;
          count_rare_release(block);
        }
        block = pending.block;
        if (pending.temporary) threads_[stream.thread].last_allocation = block.address;
      }
      return;
    case Op::kAllocFailed: return count_failure(event);
    case Op::kMap: {
      const auto [begin, end] = pages_of(event.address, event.size());
      return map(event, begin, end, event.flags());
    }
    case Op::kUnmapBegin:
    case Op::kRemapBegin: {
      PendingMapping pending{event.op() == Op::kRemapBegin, {}};
      const auto [begin, end] = pages_of(event.address, event.size());
      pending.pieces = mapping_table_.take(begin, end, changed);
      stream.mappings.push_back(std::move(pending));
      return;
    }
    case Op::kUnmapEnd: stream.take_mapping(false); return;
    case Op::kRemapEnd: {
      const std::vector<Region> old = stream.take_mapping(true);
      const auto [begin, end] = pages_of(event.address, event.size());
      return map(event, begin, end, old.empty() ? kMapAnonymous : old.front().flags & ~kNotSelected);
    }
    case Op::kUnmapFailed:
    case Op::kRemapFailed:
      return mapping_table_.put_back(stream.take_mapping(event.op() == Op::kRemapFailed), changed);
    case Op::kBrk:
      if (event.address > event.size()) map(event, event.size(), event.address, kMapAnonymous);
      else mapping_table_.take(event.address, event.size(), changed);
      return;
    case Op::kSample:
      ++samples_;
      peak_rss_bytes_ = std::max(peak_rss_bytes_, event.size());
      timeline_.rss(event.size());
      clock_.add_sample(event.time, event.address);
      return;
    case Op::kPause:
      paused_once_ = true;
      return mark(model::Timeline::Mark::Kind::kPaused, now_);
    case Op::kResume: return mark(model::Timeline::Mark::Kind::kResumed, now_);
    case Op::kText: return take_text(event);
    default: return;
  }
}

/// The kernel maps and unmaps whole pages. A damaged length must not wrap around.
std::pair<std::uint64_t, std::uint64_t> Replay::pages_of(std::uint64_t address, std::uint64_t size) const noexcept {
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max() - page_bytes_;
  if (address > most) return {most, most};
  const std::uint64_t end = address + std::min(size, most - address);
  return {address / page_bytes_ * page_bytes_, (end + page_bytes_ - 1) / page_bytes_ * page_bytes_};
}

void Replay::map(const MergedEvent& event, std::uint64_t begin, std::uint64_t end, std::uint32_t flags) {
  if (begin >= end) return;
  const std::uint64_t size = end - begin;
  mapping_table_.take(begin, end, [this](const Region& region, std::int64_t bytes, std::int64_t blocks) {
    mapping_changed(region, bytes, blocks);
  });
  const Thread& thread = thread_of(event.stream());
  const std::uint32_t thread_index = streams_[event.stream()].thread;
  if (!thread.selected || !is_chosen(event.node) || size < selection_.min_size || size > selection_.max_size ||
      choice_.blocks != nullptr)
    flags |= kNotSelected;
  mapping_table_.insert(begin, end, event.node, flags, thread_index);
  if ((flags & kNotSelected) != 0) return;
  if ((flags & kMapReserve) != 0) {
    mappings_.reserved_bytes += size;
    return;
  }
  ++mappings_.mappings;
  mappings_.mapped_bytes += size;
  if ((flags & kMapFromAllocator) != 0) {
    ++mappings_.from_allocator;
    mappings_.from_allocator_bytes += size;
  }
  mmap_costs_.add(event.node, size, event.time);
  if (count_all_ && (flags & kMapFromAllocator) == 0) all_costs_.add(event.node, size, event.time);
  timeline_.rose(costs().live_bytes());
  if (is_mapping_event(flags))
    resolved_->push_back({now_, begin, size, event.node, thread_index, ResolvedKind::kAllocation, false, !in_slice_});
}

void Replay::mapping_changed(const Region& region, std::int64_t bytes, std::int64_t blocks) {
  if ((region.flags & (kMapReserve | kNotSelected)) != 0) return;
  mmap_costs_.adjust(region.node, bytes, blocks);
  if (count_all_ && (region.flags & kMapFromAllocator) == 0) all_costs_.adjust(region.node, bytes, blocks);
  if (bytes > 0) timeline_.rose(costs().live_bytes());
  else timeline_.fell(costs().live_bytes());
  if (is_mapping_event(region.flags))
    resolved_->push_back({now_, region.begin, static_cast<std::uint64_t>(bytes > 0 ? bytes : -bytes), region.node,
                          region.thread, bytes > 0 ? ResolvedKind::kAllocation : ResolvedKind::kRelease, false,
                          !in_slice_});
}

bool Replay::is_selected(std::uint32_t tid, const std::string& name) const {
  const auto has = [](const auto& list, const auto& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  return selection_.all_threads() || has(selection_.thread_ids, tid) || has(selection_.thread_names, name);
}

/// False: names exceed what a file of this size can hold. The caller leaves this one out.
bool Replay::has_room_for(const std::string& name) noexcept {
  if (name.size() <= trace::kUncountedNameBytes) return true;
  name_bytes_ += name.size();
  return name_bytes_ <= max_name_bytes_;
}

/// The stream's events count for a thread that stands for all beyond the limit.
void Replay::join_others(StreamState& stream, std::uint32_t tid) {
  if (others_ == kNoThread) {
    Thread thread;
    thread.name = thread.first_name = "(other threads)";
    thread.selected = is_selected(thread.tid, thread.name);
    thread.is_others = true;
    others_ = static_cast<std::uint32_t>(threads_.size());
    threads_.push_back(std::move(thread));
  }
  stream.thread = others_;
  const auto known = thread_of_tid_.find(tid);
  if (known != thread_of_tid_.end()) known->second = others_;
}

void Replay::start_thread(StreamState& stream, std::uint32_t tid, std::string name) {
  if (threads_.size() >= max_threads_) return join_others(stream, tid);
  Thread thread;
  thread.tid = tid;
  if (!has_room_for(name)) {
    thread.name_left_out = true;
    name.clear();
    name.shrink_to_fit();
  }
  thread.selected = is_selected(tid, name);
  thread.first_name = name;
  thread.name = std::move(name);
  stream.thread = static_cast<std::uint32_t>(threads_.size());
  thread_of_tid_[tid] = stream.thread;
  threads_.push_back(std::move(thread));
}

void Replay::take_text(const MergedEvent& event) {
  trace::EventText& text = (*texts_)[event.node];
  StreamState& stream = streams_[event.stream()];
  switch (text.kind) {
    case TextKind::kThread: {
      abandon_begins(stream);
      const auto tid = static_cast<std::uint32_t>(text.number);
      const auto known = thread_of_tid_.find(tid);
      if (text.address == kThreadNested && known != thread_of_tid_.end()) {
        stream.thread = known->second;
        return;
      }
      return start_thread(stream, tid, std::move(text.text));
    }
    case TextKind::kThreadName: {
      Thread& thread = thread_of(event.stream());
      if (thread.is_others) return;
      if (!has_room_for(text.text)) {
        thread.name_left_out = true;
        return;
      }
      thread.renamed |= thread.name != text.text;
      thread.name = std::move(text.text);
      thread.selected |= is_selected(thread.tid, thread.name);
      return;
    }
    case TextKind::kMark: return mark(model::Timeline::Mark::Kind::kUser, text.address, std::move(text.text));
    default: return;
  }
}

/// Calls that began in this stream will not end: their thread is gone, or their end is lost.
void Replay::abandon_begins(StreamState& stream) {
  for (PendingRealloc& pending : stream.reallocs)
    if (pending.block.address != 0) abandoned_reallocs_.push_back(pending);
  for (PendingMapping& pending : stream.mappings)
    if (!pending.pieces.empty()) abandoned_mappings_.push_back(std::move(pending));
  stream.reallocs.clear();
  stream.mappings.clear();
}

void Replay::mark(model::Timeline::Mark::Kind kind, std::uint64_t ticks, std::string text) {
  if (marks_.size() < kMaxMarks) marks_.push_back({ticks, kind, std::move(text)});
}

std::vector<Region> Replay::StreamState::take_mapping(bool remap) {
  std::vector<Region> pieces;
  for (auto at = mappings.rbegin(); at != mappings.rend(); ++at) {
    if (at->remap != remap) continue;
    pieces = std::move(at->pieces);
    mappings.erase(std::next(at).base());
    break;
  }
  return pieces;
}

void Replay::finish(std::uint64_t end_time) {
  // A replay that went on at a snapshot may have had no event at all.
  if (timeline_.must_move(0)) timeline_.begin(state());
  for (StreamState& stream : streams_) abandon_begins(stream);
  unfinished_ = abandoned_reallocs_.size() + abandoned_mappings_.size();
  for (const PendingRealloc& pending : abandoned_reallocs_) {
    bool fresh;
    Block& block = blocks_.insert(pending.block.address, fresh);
    if (fresh) {
      block = pending.block;
      continue;
    }
    // The address was given out again: the call did release its block.
    heap_.frees += (pending.block.thread & kNotSelected) == 0;
    count_rare_release(pending.block);
  }
  for (const PendingMapping& pending : abandoned_mappings_)
    mapping_table_.put_back(pending.pieces, [this](const Region& region, std::int64_t bytes, std::int64_t blocks) {
      mapping_changed(region, bytes, blocks);
    });
  abandoned_reallocs_.clear();
  abandoned_mappings_.clear();

  // A mark has the time of its setting, which may lie before that of the event that brought it.
  std::stable_sort(marks_.begin(), marks_.end(), [](const Mark& a, const Mark& b) { return a.ticks < b.ticks; });
  if (!in_slice_) begin_slice();
  last_time_ = std::max(now_, end_time);
  if (!marks_.empty()) last_time_ = std::max(last_time_, marks_.back().ticks);  // set in a late destructor
  if (choice_.has_end()) last_time_ = std::min(last_time_, choice_.end_ticks - 1);
  last_time_ = std::max(last_time_, choice_.from_ticks);
  timeline_.finish(last_time_ - timeline_start_, state());
  clock_.finish();
  heap_.peak_bytes = heap_costs_.peak_bytes();
  heap_.peak_blocks = heap_costs_.peak_blocks();
  heap_.peak_time_ns = heap_costs_.peak_time();
  heap_.leaked_bytes = heap_costs_.live_bytes();
  heap_.leaked_blocks = heap_costs_.live_blocks();
  if (choice_.from_ticks == 0) return;
  heap_.leaked_bytes = heap_.leaked_blocks = 0;
  for_each_leak([&](const Block& block) {
    heap_.leaked_bytes += block.size;
    ++heap_.leaked_blocks;
  });
}

template bool Replay::run<false>(trace::Batch& batch);
template bool Replay::run<true>(trace::Batch& batch);

}  // namespace heapprof::replay
