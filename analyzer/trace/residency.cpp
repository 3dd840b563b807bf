#include "analyzer/trace/residency.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "analyzer/trace/events/limits.h"
#include "analyzer/trace/merged_reader.h"

namespace heapprof::trace {
namespace {

PlaneLayout layout_of(std::uint8_t layout, unsigned plane) {
  return static_cast<PlaneLayout>(layout >> (2 * plane) & 3);
}

/// a - b, but at least 0.
std::uint64_t elapsed_ns(std::uint64_t to_ns, std::uint64_t from_ns) { return to_ns > from_ns ? to_ns - from_ns : 0; }

}  // namespace

// ---- PageStates ------------------------------------------------------------------------------------

const PageStates::Group* PageStates::find(std::uint64_t number) const {
  const auto at = std::lower_bound(groups_.begin(), groups_.end(), number,
                                   [](const Group& group, std::uint64_t value) { return group.number < value; });
  return at != groups_.end() && at->number == number ? &*at : nullptr;
}

PageState PageStates::state_in(const Group& group, std::uint32_t page) const {
  bool states[kResidencyPlanes] = {};
  std::uint32_t bits = group.bits;
  for (unsigned plane = 0; plane < kResidencyPlanes; ++plane) {
    const PlaneLayout layout = layout_of(group.layout, plane);
    states[plane] = layout == PlaneLayout::kFull ||
                    (layout == PlaneLayout::kBits && (bits_[bits][page / 64] >> page % 64 & 1) != 0);
    bits += layout == PlaneLayout::kBits;
  }
  return {states[kPresent], states[kSwapped], states[kZero], states[kHuge]};
}

PageState PageStates::at(std::uint64_t address) const {
  const std::uint64_t page = address / page_bytes_;
  const Group* const group = find(page / kGroupPages);
  return group == nullptr ? PageState{} : state_in(*group, static_cast<std::uint32_t>(page % kGroupPages));
}

void PageStates::for_each_range(std::uint64_t begin, std::uint64_t end,
                                const std::function<void(const AddressRange&, const PageState&)>& visit) const {
  const std::uint64_t first = begin / page_bytes_ + (begin % page_bytes_ != 0);
  const std::uint64_t last = end / page_bytes_ + (end % page_bytes_ != 0);  // the page after the last one
  if (first >= last) return;
  std::uint64_t from = first;  // first page of the current range
  PageState state{};
  bool started = false;
  const auto advance = [&](std::uint64_t page, const PageState& next) {
    if (started && next == state) return;
    if (started) visit({from * page_bytes_, page * page_bytes_}, state);
    from = page;
    state = next;
    started = true;
  };
  std::uint64_t page = first;
  auto group = std::lower_bound(groups_.begin(), groups_.end(), first / kGroupPages,
                                [](const Group& one, std::uint64_t value) { return one.number < value; });
  for (; group != groups_.end() && group->number * kGroupPages < last; ++group) {
    const std::uint64_t group_begin = group->number * kGroupPages;
    if (page < group_begin) {
      advance(page, {});
      page = group_begin;
    }
    const std::uint64_t group_end = std::min(group_begin + kGroupPages, last);
    const bool uniform = [&] {
      for (unsigned plane = 0; plane < kResidencyPlanes; ++plane)
        if (layout_of(group->layout, plane) == PlaneLayout::kBits) return false;
      return true;
    }();
    if (uniform) {
      advance(page, state_in(*group, 0));
      page = group_end;
    }
    for (; page < group_end; ++page) advance(page, state_in(*group, static_cast<std::uint32_t>(page - group_begin)));
  }
  if (page < last) advance(page, {});
  visit({from * page_bytes_, last * page_bytes_}, state);
}

std::uint64_t PageStates::resident_bytes(std::uint64_t begin, std::uint64_t end) const {
  std::uint64_t bytes = 0;
  for_each_range(begin, end, [&](const AddressRange& range, const PageState& state) {
    if (state.resident()) bytes += range.end - range.begin;
  });
  return bytes;
}

// ---- ResidencyReader -------------------------------------------------------------------------------

ResidencyReader::ResidencyReader(const TraceFile& file)
    : start_ns_(file.header().start_monotonic_ns), max_bytes_(max_residency_bytes(file.bytes())) {}

/// Adds the items of a piece to the current snapshot.
struct ResidencyReader::Visitor {
  ResidencyReader& reader;
  ResidencySnapshot& snapshot;

  /// False: the snapshot exceeds what a file of this size can hold.
  bool admit(std::uint64_t bytes) { return (reader.bytes_ += bytes) <= reader.max_bytes_; }

  bool begin(const ResidencyBegin& item) {
    constexpr std::uint64_t kMaxPageBytes = std::uint64_t{1} << 24;
    if (reader.begun_ || !std::has_single_bit(item.page_bytes) || item.page_bytes > kMaxPageBytes) return false;
    snapshot.reason = item.reason;
    snapshot.method = item.method;
    snapshot.begin_ns = snapshot.end_ns = elapsed_ns(item.monotonic_ns, reader.start_ns_);
    snapshot.resident_bytes = item.resident_bytes;
    snapshot.shared_bytes = item.shared_bytes;
    snapshot.pages.page_bytes_ = item.page_bytes;
    return reader.begun_ = true;
  }
  bool mapping(const ResidencyMapping& item) {
    const std::uint64_t page = snapshot.pages.page_bytes_;
    // Within the address space, and above the mapping before.
    const std::uint64_t max_pages = ~std::uint64_t{0} / page;
    if (!reader.begun_ || item.first_page + item.pages > max_pages || item.offset_pages > max_pages) return false;
    if (!admit(2 * sizeof(ResidentMapping) + item.name_bytes)) return false;
    ResidentMapping mapping;
    mapping.begin = item.first_page * page;
    mapping.end = (item.first_page + item.pages) * page;
    if (!snapshot.mappings.empty() && mapping.begin < snapshot.mappings.back().end) return false;
    mapping.readable = (item.flags & kMappingReadable) != 0;
    mapping.writable = (item.flags & kMappingWritable) != 0;
    mapping.executable = (item.flags & kMappingExecutable) != 0;
    mapping.shared = (item.flags & kMappingShared) != 0;
    mapping.name_truncated = (item.flags & kMappingNameTruncated) != 0;
    mapping.device = item.device;
    mapping.inode = item.inode;
    mapping.offset = item.offset_pages * page;
    mapping.name.assign(item.name, item.name_bytes);
    snapshot.mappings.push_back(std::move(mapping));
    return true;
  }
  bool group(const PageGroup& item) {
    PageStates& pages = snapshot.pages;
    if (!reader.begun_ || item.number >= ~std::uint64_t{0} / pages.page_bytes_ / kGroupPages) return false;
    if (!pages.groups_.empty() && item.number <= pages.groups_.back().number) return false;
    PageStates::Group group{item.number, static_cast<std::uint32_t>(pages.bits_.size()), 0};
    std::uint64_t bytes = 2 * sizeof group;
    for (unsigned plane = 0; plane < kResidencyPlanes; ++plane)
      if (item.layout(plane) == PlaneLayout::kBits) bytes += 2 * sizeof(PageStates::Bits);
    if (!admit(bytes)) return false;
    for (unsigned plane = 0; plane < kResidencyPlanes; ++plane) {
      const PlaneLayout layout = item.layout(plane);
      group.layout = static_cast<std::uint8_t>(group.layout | static_cast<unsigned>(layout) << (2 * plane));
      if (layout == PlaneLayout::kBits) std::ranges::copy(item.planes[plane], pages.bits_.emplace_back().begin());
    }
    pages.groups_.push_back(group);
    return true;
  }
  bool recorder(std::uint64_t address, std::uint64_t bytes) {
    if (!reader.begun_ || !admit(2 * sizeof(AddressRange))) return false;
    snapshot.recorder_ranges.push_back({address, address + bytes});
    return true;
  }
  bool stack(const ResidencyStack& item) {
    if (!reader.begun_ || !admit(2 * sizeof(ThreadStack))) return false;
    snapshot.stacks.push_back({item.thread, item.stack_pointer, item.end});
    return true;
  }
  bool end(const ResidencyEnd& item) {
    if (!reader.begun_) return false;
    snapshot.end_ns = std::max(snapshot.begin_ns, elapsed_ns(item.monotonic_ns, reader.start_ns_));
    snapshot.spent_ns = item.spent_ns;
    snapshot.complete = item.complete;
    return reader.ended_ = true;
  }
};

std::optional<ResidencySnapshot> ResidencyReader::take() {
  std::optional<ResidencySnapshot> result;
  if (begun_) {
    if (damaged_ || !ended_) current_.complete = false;
    result = std::move(current_);
  }
  current_ = {};
  begun_ = ended_ = damaged_ = false;
  next_piece_ = bytes_ = 0;
  return result;
}

std::optional<ResidencySnapshot> ResidencyReader::add(const EventText& text) {
  std::optional<ResidencySnapshot> before;
  if (text.number != current_.number) before = take();
  current_.number = text.number;
  damaged_ |= text.address != next_piece_;
  next_piece_ = text.address + 1;
  Visitor visitor{*this, current_};
  damaged_ |= !decode_residency(reinterpret_cast<const std::uint8_t*>(text.text.data()), text.text.size(), visitor);
  if (before || !ended_) return before;
  return take();
}

std::optional<ResidencySnapshot> ResidencyReader::finish() { return take(); }

std::optional<std::uint64_t> snapshot_begin_ns(const TraceFile& file, const EventText& text) {
  if (text.kind != TextKind::kResidency || text.address != 0) return std::nullopt;
  struct BeginVisitor {
    std::optional<std::uint64_t> monotonic_ns;
    bool begin(const ResidencyBegin& item) {
      monotonic_ns = item.monotonic_ns;
      return false;  // nothing else is needed
    }
    bool mapping(const ResidencyMapping&) { return false; }
    bool group(const PageGroup&) { return false; }
    bool recorder(std::uint64_t, std::uint64_t) { return false; }
    bool stack(const ResidencyStack&) { return false; }
    bool end(const ResidencyEnd&) { return false; }
  } visitor;
  decode_residency(reinterpret_cast<const std::uint8_t*>(text.text.data()), text.text.size(), visitor);
  if (!visitor.monotonic_ns) return std::nullopt;
  return elapsed_ns(*visitor.monotonic_ns, file.header().start_monotonic_ns);
}

void for_each_snapshot(const TraceFile& file, const std::function<void(ResidencySnapshot&&)>& visit) {
  MergedReader reader(file);
  ResidencyReader snapshots(file);
  Batch batch;
  while (reader.next(batch))
    for (const EventText& text : batch.texts)
      if (text.kind == TextKind::kResidency)
        if (std::optional<ResidencySnapshot> snapshot = snapshots.add(text)) visit(std::move(*snapshot));
  if (std::optional<ResidencySnapshot> snapshot = snapshots.finish()) visit(std::move(*snapshot));
}

}  // namespace heapprof::trace
