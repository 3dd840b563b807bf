// Mapping events of a replay: mmap, munmap, mremap, brk. These are members of Replay that its hot loop does not
// inline.
#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "analyzer/replay/replay.h"

namespace heapprof::replay {

using trace::MergedEvent;

void Replay::handle_mapping(const MergedEvent& event) {
  StreamState& stream = streams_[event.stream()];
  const auto changed = [this](const Region& region, std::int64_t bytes, std::int64_t blocks) {
    mapping_changed(region, bytes, blocks);
  };
  switch (event.op()) {
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
    case Op::kRemapEnd: return remap(event, stream.take_mapping(true));
    case Op::kUnmapFailed:
    case Op::kRemapFailed: return put_back(stream.take_mapping(event.op() == Op::kRemapFailed));
    case Op::kBrk:
      if (event.address > event.size()) map(event, event.size(), event.address, kMapAnonymous);
      else mapping_table_.take(event.address, event.size(), changed);
      return;
    default: return;
  }
}

std::vector<Region> Replay::StreamState::take_mapping(bool remap) {
  std::vector<Region> pieces;
  std::size_t left = kMaxNestedCalls;
  for (auto at = mappings.rbegin(); at != mappings.rend() && left != 0; ++at, --left) {
    if (at->remap != remap) continue;
    pieces = std::move(at->pieces);
    mappings.erase(std::next(at).base());
    break;
  }
  return pieces;
}

/// The range rounded to pages, as the kernel maps it. A damaged length does not wrap around.
std::pair<std::uint64_t, std::uint64_t> Replay::pages_of(std::uint64_t address, std::uint64_t size) const noexcept {
  const std::uint64_t max = std::numeric_limits<std::uint64_t>::max() - page_bytes_;
  if (address > max) return {max, max};
  const std::uint64_t end = address + std::min(size, max - address);
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
  if (!is_selected(thread, event.node, size) || filter_.only_blocks || !is_time_selected(event.time))
    flags |= kNotSelected;
  mapping_table_.insert(begin, end, event.node, flags, thread_index);
  if ((flags & kNotSelected) != 0) {
    if (counts_rest_ && (flags & kMapReserve) == 0) add_rest(rest_.mmap, event.node, {1, size, 0, 0});
    return;
  }
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
    resolved_->push_back({.time = now_,
                          .address = begin,
                          .size = size,
                          .node = event.node,
                          .thread = thread_index,
                          .kind = ResolvedKind::kAllocation,
                          .temporary = false,
                          .before_slice = !in_slice_,
                          .subject = Subject::kMapping});
}

/// A range of several mappings can be shrunk and, since Linux 6.17, moved. Each stays what it is: of a reservation,
/// what is committed does not become more. `old`: what was mapped in the old range, in order of address.
void Replay::remap(const MergedEvent& event, const std::vector<Region>& old) {
  const auto [begin, end] = pages_of(event.address, event.size());
  const auto flags_of = [](const Region& region) { return region.flags & ~kNotSelected; };
  if (old.empty()) return map(event, begin, end, kMapAnonymous);
  const std::uint32_t flags = flags_of(old.front());
  const bool alike = std::ranges::all_of(old, [&](const Region& region) { return flags_of(region) == flags; });
  if (begin >= end || alike) return map(event, begin, end, flags);
  // Only what is one mapping for the kernel can grow: mprotect has made its parts alike, which is not recorded.
  const bool grows = end - begin > old.back().end - old.front().begin;
  if (grows || old.size() > pieces_to_remap_) return map(event, begin, end, flags);

  pieces_to_remap_ -= old.size();
  mapping_table_.take(begin, end, [this](const Region& region, std::int64_t bytes, std::int64_t blocks) {
    mapping_changed(region, bytes, blocks);
  });
  // The ranges of a move do not overlap, so if these do, the range has shrunk in its place.
  const std::uint64_t first = old.front().begin;
  const std::uint64_t old_begin = begin <= first && first < end ? begin : first;
  for (auto piece = old.begin(); piece != old.end();) {
    auto next = std::next(piece);
    std::uint64_t piece_end = piece->end;
    for (; next != old.end() && next->begin == piece_end && flags_of(*next) == flags_of(*piece); ++next)
      piece_end = next->end;
    const std::uint64_t offset = piece->begin - old_begin;
    if (offset >= end - begin) return;
    map(event, begin + offset, begin + std::min(end - begin, piece_end - old_begin), flags_of(*piece));
    piece = next;
  }
}

void Replay::put_back(const std::vector<Region>& pieces) {
  const bool all =
      mapping_table_.put_back(pieces, [this](const Region& region, std::int64_t bytes, std::int64_t blocks) {
        mapping_changed(region, bytes, blocks);
      });
  calls_not_undone_ += !all;
}

void Replay::note_losses(trace::Damage& damage) const {
  if (calls_not_undone_ == 0) return;
  damage.incomplete = true;
  std::string note = std::to_string(calls_not_undone_) + (calls_not_undone_ == 1 ? " call" : " calls") +
                     " of munmap or mremap that failed, or did not return, counted as successful: the calls cover "
                     "more mapped ranges than the limit";
  if (std::ranges::find(damage.notes, note) == damage.notes.end()) damage.note(std::move(note));
}

/// `bytes` and `blocks`: what the node of the region gained or lost.
void Replay::mapping_changed(const Region& region, std::int64_t bytes, std::int64_t blocks) {
  if ((region.flags & (kMapReserve | kNotSelected)) != 0) return;
  mmap_costs_.adjust(region.node, bytes, blocks);
  if (count_all_ && (region.flags & kMapFromAllocator) == 0) all_costs_.adjust(region.node, bytes, blocks);
  if (bytes > 0) timeline_.rose(costs().live_bytes());
  else timeline_.fell(costs().live_bytes());
  if (is_mapping_event(region.flags))
    resolved_->push_back({.time = now_,
                          .address = region.begin,
                          .size = static_cast<std::uint64_t>(bytes > 0 ? bytes : -bytes),
                          .node = region.node,
                          .thread = region.thread,
                          .kind = bytes > 0 ? ResolvedKind::kAllocation : ResolvedKind::kFree,
                          .temporary = false,
                          .before_slice = !in_slice_,
                          .subject = Subject::kMappingPiece});
}

}  // namespace heapprof::replay
