// Reads only those intervals of an index in which something happens to the blocks that are asked for: they are
// allocated, by the times of the intervals and the sums of the stacks, or freed, by the lists of what each interval
// frees. An index has no sums by size, so if sizes are asked for, another reading can find their allocations first.
// It looks only at sizes and stacks in most of the trace, and takes a third of the time or less.
//
// Where an interval was left out, the replay knows only the blocks that are asked for. What the next one frees
// besides is added to it as blocks that are not selected: a free of a block that it does not know could take another
// one's place where times are equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "analyzer/replay/index/index.h"
#include "analyzer/replay/replay.h"
#include "analyzer/trace/asked_allocations.h"
#include "analyzer/trace/merged_reader.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::replay {

struct AskedBlocks {
  std::uint64_t from_ticks = 0;  ///< allocated in [from_ticks, end_ticks)
  std::uint64_t end_ticks = std::numeric_limits<std::uint64_t>::max();
  trace::AskedAllocations allocations{};  ///< of these sizes and stacks
  bool frees = true;                      ///< false: intervals that only free them are not needed
};

class NeededIntervals {
 public:
  /// `index`, `file` and the nodes of `asked` must outlive this. Throws trace::FormatError when the index is damaged.
  /// Precondition: can_read().
  NeededIntervals(const Index& index, const trace::TraceFile& file, const AskedBlocks& asked);

  /// Whether the index has what is needed.
  static bool can_read(const Index& index) noexcept;
  /// Whether it is worth it: blocks that are asked for are allocated in at most half of the intervals. Otherwise a
  /// reading without interruption is faster.
  bool are_few() const;
  /// Whether find() may leave fewer.
  bool can_find() const noexcept { return !asked_.allocations.has_all_sizes(); }
  /// Leaves only intervals in which the reader finds an allocation that is asked for. Gives up when these become too
  /// many. `show` is called with each batch. Precondition: the reader is where the reading begins.
  void find(trace::MergedReader& reader, const std::function<void(const trace::Batch&)>& show);

  /// Calls consume(batch), which replays it, with the needed part of the trace from the reader's position on, in
  /// order, until it returns false. Replaces the reader at each interval. Throws trace::FormatError when the index is
  /// damaged. Precondition: the reader gives all events.
  void read(std::unique_ptr<trace::MergedReader>& reader, Replay& replay,
            const std::function<bool(trace::Batch&)>& consume) const;

 private:
  std::size_t next(std::size_t interval, std::span<const Block> blocks) const;

  const Index& index_;
  const trace::TraceFile& file_;
  const AskedBlocks asked_;
  std::vector<std::uint8_t> allocate_;  ///< by interval: whether it may allocate a block that is asked for
};

}  // namespace heapprof::replay
