#include "analyzer/views/thread_rows.h"

#include <algorithm>

#include "analyzer/replay/cost_tracker.h"

namespace heapprof::views {

std::vector<Row> rows_by_thread(const replay::Analysis& analysis, const replay::Progress& progress) {
  const model::Profile& profile = analysis.profile();
  const std::uint64_t begin_ns = profile.begin_ns();
  // Threads take the place of nodes: the same sequence of allocations and frees has the same peak.
  replay::CostTracker tracker;
  bool in_slice = begin_ns == 0;
  std::vector<Row> rows(profile.threads.size());
  analysis.for_each_event(
      [&](std::span<const replay::ProfileEvent> events) {
        for (const replay::ProfileEvent& event : events) {
          if (!in_slice && event.time_ns >= begin_ns) {
            in_slice = true;
            tracker.restart(begin_ns);
          }
          if (event.kind == replay::ResolvedKind::kAllocation) tracker.add(event.thread, event.size, event.time_ns);
          else if (event.kind == replay::ResolvedKind::kFree)
            tracker.remove(event.thread, event.size, event.temporary);
        }
      },
      progress, {.with_older = true, .visit_leaked = [&](const replay::LiveBlock& block) {
                   if (block.thread >= rows.size()) return;
                   rows[block.thread].self.leaked_bytes += block.size;
                   ++rows[block.thread].self.leaked_blocks;
                 }});
  if (!in_slice) tracker.restart(begin_ns);
  for (std::uint32_t thread = 0; thread < rows.size(); ++thread) {
    const replay::NodeCosts costs = tracker.settled(thread);
    model::Costs& self = rows[thread].self;
    self.allocations = costs.allocations;
    self.allocated_bytes = costs.allocated_bytes;
    self.temporary = costs.temporary;
    self.temporary_bytes = costs.temporary_bytes;
    // With --live-at all selected blocks are live at that moment; --survivors is the moment at which reading ends.
    self.peak_bytes = profile.survivors_ns  ? self.leaked_bytes
                      : profile.is_moment() ? costs.allocated_bytes
                                            : costs.peak_bytes;
    self.peak_blocks = profile.survivors_ns  ? self.leaked_blocks
                       : profile.is_moment() ? costs.allocations
                                             : costs.peak_blocks;
    self.live_bytes = profile.live_at_ns ? self.peak_bytes : costs.live_bytes;
    self.live_blocks = profile.live_at_ns ? self.peak_blocks : costs.live_blocks;
    rows[thread].thread = thread;
    rows[thread].total = self;
  }
  std::erase_if(rows, [](const Row& row) { return row.total.empty(); });
  return rows;
}

}  // namespace heapprof::views
