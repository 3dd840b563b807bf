// Makes the events that an analysis hands out of the resolved events of a replay.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/resolved_event.h"
#include "analyzer/trace/events/tick_clock.h"
#include "analyzer/trace/events/tick_cursor.h"

namespace heapprof::replay {

class ProfileEvents {
 public:
  /// `clock` must outlive this.
  explicit ProfileEvents(const trace::TickClock& clock) : times_(clock), times_of_allocations_(clock) {}

  /// The events of `resolved`, of blocks from before the slice only if `with_older`. `node_of(dense index)`: the node
  /// of an event. The result is valid until the next call.
  template <typename NodeOf>
  std::span<const ProfileEvent> of(std::span<const ResolvedEvent> resolved, bool with_older, NodeOf&& node_of) {
    events_.clear();
    // Consecutive events often have the same time, and so have the allocations of short-lived blocks.
    std::uint64_t ticks = 0;
    std::uint64_t ns = 0;
    std::uint64_t allocated_ticks = 0;
    std::uint64_t allocated_ns = 0;
    for (const ResolvedEvent& event : resolved) {
      if (event.before_slice && !with_older) continue;
      if (event.time != ticks) {
        ticks = event.time;
        ns = times_.to_ns(ticks);
      }
      if (event.allocated_ticks != allocated_ticks) {
        allocated_ticks = event.allocated_ticks;
        allocated_ns = times_of_allocations_.to_ns(allocated_ticks);
      }
      // The root has no frame: a realloc that returns no block has it.
      const std::uint32_t freeing_node = event.freeing_node == kNoNode ? 0 : node_of(event.freeing_node);
      events_.push_back({ns, event.address, event.size, node_of(event.node), event.thread, event.kind,
                         event.temporary, event.before_slice, event.in_realloc, event.freeing_thread,
                         freeing_node == 0 ? model::kNoIndex : freeing_node, event.subject, allocated_ns,
                         event.old_address});
    }
    return events_;
  }

 private:
  trace::TickCursor times_;
  trace::TickCursor times_of_allocations_;
  std::vector<ProfileEvent> events_;
};

}  // namespace heapprof::replay
