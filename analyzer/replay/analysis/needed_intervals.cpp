#include "analyzer/replay/analysis/needed_intervals.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "analyzer/replay/batch_pump.h"

namespace heapprof::replay {
namespace {

/// Ascending.
std::vector<std::uint64_t> addresses_of(std::span<const Block> blocks) {
  std::vector<std::uint64_t> addresses;
  addresses.reserve(blocks.size());
  for (const Block& block : blocks) addresses.push_back(block.address);
  std::ranges::sort(addresses);
  return addresses;
}

/// Both ascending.
bool have_common(std::span<const std::uint64_t> some, std::span<const std::uint64_t> others) {
  std::size_t at = 0;
  return std::ranges::any_of(others, [&](std::uint64_t address) {
    while (at < some.size() && some[at] < address) ++at;
    return at < some.size() && some[at] == address;
  });
}

}  // namespace

bool NeededIntervals::can_read(const Index& index) noexcept {
  const std::size_t count = index.intervals();
  if (count == 0 || !index.has_sums() || !index.ends_trace(count - 1)) return false;
  for (std::size_t i = 0; i < count; ++i)
    if (!index.has_older_blocks(i)) return false;
  return true;
}

NeededIntervals::NeededIntervals(const Index& index, const trace::TraceFile& file, const AskedBlocks& asked)
    : index_(index), file_(file), asked_(asked) {
  const auto is_asked = [&](const NodeSums& sums) {
    return sums.allocations != 0 && asked.allocations.has_node(sums.node);
  };
  for (std::size_t interval = 0; interval < index.intervals(); ++interval) {
    const bool in_time = (interval == 0 || index.last_time_of(interval - 1) < asked.end_ticks) &&
                         index.last_time_of(interval) >= asked.from_ticks;
    allocate_.push_back(
        in_time && (asked.allocations.nodes.empty() || std::ranges::any_of(index.sums_of(interval).nodes, is_asked)));
  }
}

bool NeededIntervals::are_few() const {
  return 2 * std::ranges::count(allocate_, std::uint8_t{1}) <= std::ssize(allocate_);
}

void NeededIntervals::find(trace::MergedReader& reader, const std::function<void(const trace::Batch&)>& show) {
  std::vector<std::uint8_t> found(allocate_.size(), 0);
  std::size_t begin = 0;  // the first interval that is not over before the events that come now
  while (begin < allocate_.size() && index_.records_to(begin) <= reader.records()) ++begin;
  const std::size_t first = begin;
  const auto possible = static_cast<std::size_t>(
      std::count(allocate_.begin() + static_cast<std::ptrdiff_t>(first), allocate_.end(), 1));
  std::size_t count = 0;
  bool complete = true;
  reader.ask(asked_.allocations, *index_.summary());
  pump(reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    show(batch);
    for (const trace::MergedEvent& event : batch.events()) {
      if (event.time >= asked_.end_ticks) return false;
      const bool allocates = event.op() == Op::kAlloc || event.op() == Op::kReallocEnd;
      if (!allocates || !asked_.allocations.has_size(event.size()) || !asked_.allocations.has_node(event.node))
        continue;
      while (begin < allocate_.size() && index_.last_time_of(begin) < event.time) ++begin;
      // Events of one time can be in several intervals.
      for (std::size_t i = begin; i < allocate_.size(); ++i) {
        count += found[i] == 0;
        found[i] = 1;
        if (index_.last_time_of(i) > event.time) break;
      }
    }
    // Not at once where many are at the start, which is common.
    complete = 2 * count <= possible && (4 * count <= possible || 2 * count <= begin - first + 1);
    return complete;
  });
  if (!complete) return;
  for (std::size_t i = first; i < allocate_.size(); ++i) allocate_[i] &= found[i];
}

/// The first needed interval from `interval` on; these blocks are live at its begin. intervals(): none is needed.
std::size_t NeededIntervals::next(std::size_t interval, std::span<const Block> blocks) const {
  const std::vector<std::uint64_t> addresses = addresses_of(blocks);
  while (interval < index_.intervals() && allocate_[interval] == 0 &&
         (addresses.empty() || !have_common(addresses, addresses_of(index_.needed_in(interval)))))
    ++interval;
  return interval;
}

void NeededIntervals::read(std::unique_ptr<trace::MergedReader>& reader, Replay& replay,
                           const std::function<bool(trace::Batch&)>& consume) const {
  const std::uint32_t node_count = index_.summary()->definitions.node_count;
  std::size_t interval = 0;
  while (interval < index_.intervals() && index_.records_to(interval) <= reader->records()) ++interval;
  bool skipped = false;
  std::size_t together = 1;  // intervals to read before the next look
  for (bool first = true;; first = false) {
    std::optional<std::vector<Block>> live = std::vector<Block>();
    if (asked_.frees) live = replay.live_events_before(asked_.end_ticks);
    if (live) std::erase_if(*live, [&](const Block& block) { return !asked_.allocations.has_size(block.size); });
    const std::size_t needed = live ? next(interval, *live) : interval;
    if (needed >= index_.intervals()) return;
    if (needed != interval || !first) {
      const std::shared_ptr<const IntervalState> state = index_.state_of(needed - 1);
      trace::ByteReader position = state->position();
      reader = std::make_unique<trace::MergedReader>(file_, *index_.summary(), position);
      if (needed != interval) {
        replay.skip_to(*live, state->of_replay(), node_count);
        skipped = true;
      }
    }
    // While each interval is needed, looking at all live blocks after each would take as long as reading it.
    together = skipped || needed != interval ? 1 : 2 * together;
    const std::size_t last = std::min(needed + together, index_.intervals()) - 1;
    if (skipped && asked_.frees) replay.add_unselected(addresses_of(index_.needed_in(needed)));
    const std::uint64_t end = index_.records_to(last);
    bool more = true;
    pump(*reader, file_.frame_bytes(), [&](trace::Batch& batch) {
      const std::uint64_t too_many = batch.records - std::min(batch.records, end);
      batch.count -= std::min<std::size_t>(batch.count, too_many);
      more = consume(batch);
      return more && batch.records < end;
    });
    if (!more) return;
    interval = last + 1;
  }
}

}  // namespace heapprof::replay
