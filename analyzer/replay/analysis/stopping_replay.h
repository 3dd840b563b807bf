// A replay that stops at moments within batches, so that its state there can be used.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "analyzer/replay/replay.h"
#include "analyzer/replay/resolved_event.h"
#include "analyzer/trace/merged_reader.h"

namespace heapprof::replay {

/// Calls replay() for each batch until it returns false.
class StoppingReplay {
 public:
  explicit StoppingReplay(Replay& replay) : replay_(replay) {}

  /// Lets replay() stop before the first event at `ticks` or later, or at `position` if it is given.
  void stop_at(std::uint64_t ticks, const std::optional<EventPosition>& position) {
    replay_.stop_at(position);
    by_position_ = position.has_value();
    ticks_ = position ? position->ticks : ticks;
    stops_ = true;
  }
  /// Lets it stop no more.
  void go_on() {
    replay_.stop_at({});
    stops_ = false;
  }

  /// From now on appends what happens to `events`, which must outlive this; null: no more.
  void resolve_into(std::vector<ResolvedEvent>* events) noexcept { events_ = events; }

  /// Replays what is left of the batch. True: stopped, and not at the batch's end; call stop_at() or go_on() next,
  /// and then this with the same batch.
  bool replay(trace::Batch& batch) {
    const std::span<trace::MergedEvent> events = batch.events();
    if (stops_ && !events.empty() && events.back().time >= ticks_) {
      if (!by_position_) {
        replay_to(batch, static_cast<std::size_t>(std::partition_point(events.begin(), events.end(),
                                                                       [&](const trace::MergedEvent& event) {
                                                                         return event.time < ticks_;
                                                                       }) -
                                                  events.begin()));
        return true;
      }
      replay_to(batch, events.size());
      if (replay_.has_stopped()) return true;
    } else if (done_ == 0) {
      replay_all(batch);
    } else {
      replay_to(batch, events.size());
    }
    done_ = 0;
    return false;
  }

 private:
  void replay_all(trace::Batch& batch) {
    if (events_ == nullptr) replay_.replay(batch);
    else replay_.replay(batch, *events_);
  }

  void replay_to(trace::Batch& batch, std::size_t end) {
    const std::span<trace::MergedEvent> events = batch.events();
    part_.storage.assign(events.begin() + static_cast<std::ptrdiff_t>(done_),
                         events.begin() + static_cast<std::ptrdiff_t>(end));
    part_.count = end - done_;
    std::swap(part_.texts, batch.texts);
    replay_all(part_);
    std::swap(part_.texts, batch.texts);
    if (replay_.has_stopped()) {
      // The replay may have handled later events of the same time.
      std::ranges::copy(part_.events(), events.begin() + static_cast<std::ptrdiff_t>(done_));
      end = done_ + replay_.handled();
    }
    done_ = end;
  }

  Replay& replay_;
  trace::Batch part_;
  std::vector<ResolvedEvent>* events_ = nullptr;
  bool stops_ = false;
  bool by_position_ = false;
  std::uint64_t ticks_ = 0;
  std::size_t done_ = 0;  // events of the current batch
};

}  // namespace heapprof::replay
