#include "analyzer/live/live_state.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "analyzer/trace/events/limits.h"

namespace heapprof::live {

using replay::Block;
using replay::BlockTable;
using trace::MergedEvent;

namespace {

// How many events ahead memory is prefetched: the control bytes of the block's cluster, and the cluster's entry.
constexpr std::size_t kGroupAhead = 24;
constexpr std::size_t kEntryAhead = 12;
constexpr std::size_t kHashes = 32;  // a power of two, more than kGroupAhead

constexpr std::size_t kMaxTies = 255;  // kTieWindow of analyzer/replay/replay.cpp, without the event itself

}  // namespace

LiveState::LiveState(const FileHeader& header) : clock_(header) {}

void LiveState::take(const trace::EventRun& run) {
  const std::span<const MergedEvent> events = run.events;
  const std::size_t count = events.size();
  std::array<std::uint64_t, kHashes> hashes;  // of the events ahead, by index
  const auto prefetch = [&](std::size_t i) {
    hashes[i % kHashes] = BlockTable::hash_of(events[i].address);
    blocks_.prefetch_group(hashes[i % kHashes]);
  };
  for (std::size_t i = 0; i < std::min(kGroupAhead, count); ++i) prefetch(i);
  for (std::size_t i = 0; i < count; ++i) {
    if (i + kGroupAhead < count) [[likely]] {
      prefetch(i + kGroupAhead);
      blocks_.prefetch_entry(hashes[(i + kEntryAhead) % kHashes]);
    }
    take_event(events[i], hashes[i % kHashes], run.texts);
  }
  if (count != 0) last_ticks_ = std::max(last_ticks_, events.back().time);
}

inline void LiveState::take_event(const MergedEvent& event, std::uint64_t hash,
                                  std::vector<trace::EventText>* texts) {
  switch (event.op()) {
    case Op::kAlloc: return allocate(event, hash);
    case Op::kFree:
    case Op::kFreeStack: return free(event, hash);
    default: return take_rare(event, texts);
  }
}

inline LiveSums& LiveState::node(std::uint32_t index) {
  if (index >= nodes_.size()) [[unlikely]]
    nodes_.resize(index < 32 ? 64 : std::size_t{index} * 2);
  return nodes_[index];
}

inline LiveState::Stream& LiveState::stream(std::uint32_t index) {
  if (index >= streams_.size()) [[unlikely]]
    streams_.resize(std::size_t{index} + 1);
  return streams_[index];
}

inline LiveThread& LiveState::thread_of(Stream& stream) {
  if (stream.thread == kNoThread) [[unlikely]]
    stream.thread = start_thread(0, {});
  return threads_[stream.thread];
}

inline void LiveState::allocate(const MergedEvent& event, std::uint64_t hash) {
  if (event.address == 0) [[unlikely]]
    return;  // damage
  bool fresh;
  Block* block = &blocks_.insert(event.address, hash, fresh);
  if (!fresh) [[unlikely]] {
    remove(*block);
    add_tie(replaced_, event);
  }
  if (reallocs_.can_have(hash)) [[unlikely]]
    count_reuse(event.address, hash);
  const std::uint64_t size = event.size();
  Stream& stream = this->stream(event.stream());
  LiveThread& thread = thread_of(stream);
  *block = {event.address, size, event.time, event.node, stream.thread};
  for (LiveSums* const sums : {&totals_, &node(event.node), &thread.sums}) {
    sums->live_bytes += size;
    ++sums->live_blocks;
    sums->allocated_bytes += size;
    ++sums->allocations;
  }
  if (fresh && !early_frees_.empty() && settles(early_frees_, event)) [[unlikely]] {
    remove(*block);
    blocks_.erase(block);
  }
}

inline void LiveState::remove(const Block& block) {
  for (LiveSums* const sums : {&totals_, &nodes_[block.node], &threads_[block.thread].sums}) {
    sums->live_bytes -= block.size;
    --sums->live_blocks;
  }
}

inline void LiveState::free(const MergedEvent& event, std::uint64_t hash) {
  ++frees_;
  if (!replaced_.empty() && settles(replaced_, event)) [[unlikely]]
    return;
  Block* const block = event.address == 0 ? nullptr : blocks_.find(event.address, hash);
  if (block == nullptr) [[unlikely]] {
    add_tie(early_frees_, event);
    return;
  }
  remove(*block);
  blocks_.erase(block, hash);
}

/// Remembers the event until its other half comes. As in a replay, the two are not far from each other: of any number
/// of events with one time, each would otherwise be compared with all before it.
[[gnu::noinline]] void LiveState::add_tie(std::vector<Tie>& ties, const MergedEvent& event) {
  if (!ties.empty() && ties.back().ticks != event.time) ties.clear();
  if (ties.size() == kMaxTies) ties.erase(ties.begin());
  ties.push_back({event.address, event.time, event.stream()});
}

/// Whether an event of equal time in another stream, one of `ties`, is the other half of this one. Forgets those of
/// other times.
[[gnu::noinline]] bool LiveState::settles(std::vector<Tie>& ties, const MergedEvent& event) {
  std::erase_if(ties, [&](const Tie& tie) { return tie.ticks != event.time; });
  const auto at = std::ranges::find_if(
      ties, [&](const Tie& tie) { return tie.address == event.address && tie.stream != event.stream(); });
  if (at == ties.end()) return false;
  ties.erase(at);
  return true;
}

/// A block gets the address. If a realloc has the block that was there before, it has freed it.
[[gnu::noinline]] void LiveState::count_reuse(std::uint64_t address, std::uint64_t hash) {
  const replay::PendingReallocs::Number number = reallocs_.find(address, hash);
  if (number == replay::PendingReallocs::kNone) return;
  ++frees_;
  remove(reallocs_[number].block);
  reallocs_.set_freed(number);
}

void LiveState::realloc_begin(const MergedEvent& event) {
  replay::PendingRealloc pending;
  Block* const block = event.address == 0 ? nullptr : blocks_.find(event.address);
  if (!replaced_.empty() && settles(replaced_, event)) {
    // The block was removed when its address was allocated again.
  } else if (block != nullptr) {
    pending.block = *block;
    blocks_.erase(block);
  } else if (event.address != 0) {
    add_tie(early_frees_, event);
  }
  stream(event.stream()).reallocs.push_back(reallocs_.add(pending));
}

/// The latest one. Precondition: there is one.
replay::PendingRealloc LiveState::take_realloc(Stream& stream) {
  const replay::PendingRealloc pending = reallocs_.take(stream.reallocs.back());
  stream.reallocs.pop_back();
  return pending;
}

void LiveState::realloc_end(const MergedEvent& event) {
  Stream& stream = this->stream(event.stream());
  if (!stream.reallocs.empty()) {
    const replay::PendingRealloc pending = take_realloc(stream);
    const Block& block = pending.block;
    if (!pending.freed) ++frees_;
    if (block.address != 0) {
      if (!pending.freed) remove(block);
      if (event.address != 0) {
        if (block.node >= moved_.size()) moved_.resize(nodes_.size());
        moved_[block.node].bytes += block.size;
        ++moved_[block.node].blocks;
      }
    }
  }
  if (event.address != 0) allocate(event, BlockTable::hash_of(event.address));
}

void LiveState::realloc_failed(const MergedEvent& event) {
  if (event.size() != 0) ++failed_;
  Stream& stream = this->stream(event.stream());
  if (stream.reallocs.empty()) return;
  const replay::PendingRealloc pending = take_realloc(stream);
  if (!pending.is_live()) return;
  bool fresh;
  blocks_.insert(pending.block.address, fresh) = pending.block;
}

[[gnu::noinline]] void LiveState::take_rare(const MergedEvent& event, std::vector<trace::EventText>* texts) {
  if (event.op() == trace::kGap) return abandon_calls(stream(event.stream()));
  switch (event.op()) {
    case Op::kReallocBegin: return realloc_begin(event);
    case Op::kReallocEnd: return realloc_end(event);
    case Op::kReallocFailed: return realloc_failed(event);
    case Op::kAllocFailed: ++failed_; return;
    case Op::kSample:
      rss_bytes_ = event.size();
      clock_.add_sample(event.time, event.address);
      return;
    case Op::kPause: paused_ = paused_once_ = true; return;
    case Op::kResume: paused_ = false; return;
    case Op::kText:
      if (texts != nullptr && event.node < texts->size()) take_text(event, (*texts)[event.node]);
      return;
    default: return;  // mappings
  }
}

void LiveState::take_text(const MergedEvent& event, trace::EventText& text) {
  Stream& stream = this->stream(event.stream());
  switch (text.kind) {
    case TextKind::kThread: {
      abandon_calls(stream);
      const auto tid = static_cast<std::uint32_t>(text.number);
      const auto known = text.address == kThreadNested ? thread_of_tid_.find(tid) : thread_of_tid_.end();
      stream.thread = known != thread_of_tid_.end() ? known->second : start_thread(tid, std::move(text.text));
      return;
    }
    case TextKind::kThreadName: thread_of(stream).name = std::move(text.text); return;
    case TextKind::kMark:
      ++marks_;
      last_mark_ = std::move(text.text);
      return;
    default: return;
  }
}

std::uint32_t LiveState::start_thread(std::uint32_t tid, std::string name) {
  const bool fits = threads_.size() < kMaxThreads;
  if (fits) threads_.push_back({tid, std::move(name), {}});
  else threads_.back() = {0, "(other threads)", threads_.back().sums};
  const auto index = static_cast<std::uint32_t>(threads_.size() - 1);
  // The other threads add no entries, since a file can have any number of them, but a tid that is used again belongs
  // to them from now on.
  if (fits) thread_of_tid_[tid] = index;
  else if (const auto known = thread_of_tid_.find(tid); known != thread_of_tid_.end()) known->second = index;
  return index;
}

/// The pending calls of this stream will not end: their thread is gone, or their end is lost. Their blocks stay live.
void LiveState::abandon_calls(Stream& stream) {
  for (const replay::PendingReallocs::Number number : stream.reallocs)
    if (!reallocs_[number].is_live()) reallocs_.take(number);
  stream.reallocs.clear();
}

std::vector<std::pair<std::uint32_t, LiveSums>> LiveState::live_stacks_of(std::uint32_t thread) const {
  std::unordered_map<std::uint32_t, LiveSums> by_node;
  const auto add = [&](const Block& block) {
    if (block.thread != thread) return;
    LiveSums& sums = by_node[block.node];
    sums.live_bytes += block.size;
    ++sums.live_blocks;
  };
  blocks_.for_each(add);
  reallocs_.for_each_live([&](const replay::PendingRealloc& pending) { add(pending.block); });
  std::vector<std::pair<std::uint32_t, LiveSums>> stacks(by_node.begin(), by_node.end());
  std::ranges::sort(stacks, [](const auto& a, const auto& b) {
    return a.second.live_bytes != b.second.live_bytes ? a.second.live_bytes > b.second.live_bytes : a.first < b.first;
  });
  return stacks;
}

}  // namespace heapprof::live
