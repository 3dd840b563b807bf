// Which blocks of a trace a user selected: by time, stack, thread, size, lifetime and kind.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/profile.h"
#include "analyzer/trace/files/input_file.h"

namespace heapprof::replay {

/// A moment outside the recording, a mark that it does not have, or a slice that ends before it begins. what() is a
/// sentence.
class SelectionError : public trace::TraceError {
 public:
  using trace::TraceError::TraceError;
};

/// A moment between two events of equal time.
struct EventPosition {
  std::uint64_t ticks = 0;
  std::uint64_t allocations = 0;  ///< after so many allocations of this time, at least one
};

/// A moment of the recording.
struct ResolvedMoment {
  std::uint64_t ns = 0;                   ///< since its start
  std::optional<EventPosition> position;  ///< none: after all events of that time
};

/// A moment as a user gives it.
struct Moment {
  double value = 0;
  bool percent = false;   ///< of the recording's duration; else seconds since its start
  std::string text = {};  ///< as the user wrote it, for messages
  std::string mark = {};  ///< the moment of the user's mark with this text; empty: `value` is the moment
  std::string name = {};  ///< what messages call it: "@40%"; empty: the option with `text`
  /// Exactly, as the end of a slice or as `live_at`; none: after all events of the time `value`.
  std::optional<EventPosition> position = {};
};

/// Which blocks are selected by whether they are freed at the end of the slice, or of the recording without a slice.
enum class Freed { kAny, kYes, kNo };

/// A block is selected when it matches every part.
struct Selection {
  std::optional<Moment> from;
  std::optional<Moment> to;         ///< included in the slice
  std::optional<Moment> live_at;    ///< allocated at or before this moment, and not freed by then
  std::optional<Moment> survivors;  ///< follow the blocks of the slice, and only these, until this moment
  std::optional<std::uint64_t> min_lifetime_ns;  ///< the lifetime of a block that is never freed ends with the trace
  std::optional<std::uint64_t> max_lifetime_ns;  ///< a block that is never freed does not match
  Freed freed = Freed::kAny;                     ///< with `survivors`, the end of the slice is that moment
  /// Returns for each node of a profile whether its stack is selected (0 or 1). The profile has its call tree, but no
  /// costs yet.
  std::function<std::vector<std::uint8_t>(const model::Profile&)> select_stacks;
  /// As model::FindFolded, of a profile that has its modules and what is known of the process. Null: nothing is
  /// folded.
  std::function<std::vector<std::uint8_t>(const model::Profile&, const std::vector<model::CodeAddress>&)> find_folded;
  bool reads_marks = false;  ///< Analysis::moment_of() must know all marks
  std::string description;   ///< the selecting options but --from, --to, --survivors and --kind; empty: none
  std::uint64_t min_size = 0;
  std::uint64_t max_size = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint32_t> thread_ids;           ///< tids; empty: all
  std::vector<std::string> thread_names;           ///< a thread matches by its tid or by its name
  std::vector<std::uint32_t> excluded_thread_ids;  ///< a thread that matches these as well is not selected
  std::vector<std::string> excluded_thread_names;
  model::Kind kind = model::Kind::kHeap;  ///< what the costs of the nodes count
  /// Only what is live at `live_at`, or at the end of the slice, is needed: the analysis ends there, and begins at
  /// the last snapshot before it. All costs of the profile are then those of the live blocks.
  bool only_live = false;

  /// Only totals and the costs of nodes and threads are needed: the profile has no sizes and no marks, and of its
  /// timeline only the times and the resident memory (not with `live_at`). The analysis may then add sums from an
  /// index instead of replaying.
  bool only_costs = false;
  /// With `only_costs`: the timeline is needed, too, with marks. It comes from an index that has the history of live
  /// bytes, or from a replay.
  bool with_timeline = false;

  /// Only what trace::Overview has is needed, of the whole recording: the profile has no costs. Nothing is replayed
  /// if an index has it.
  bool only_overview = false;

  /// Costs by thread are needed, too. Heap only.
  bool costs_by_thread = false;

  bool all_sizes() const noexcept { return min_size == 0 && max_size == std::numeric_limits<std::uint64_t>::max(); }
  bool all_threads() const noexcept {
    return thread_ids.empty() && thread_names.empty() && excluded_thread_ids.empty() && excluded_thread_names.empty();
  }
  bool is_slice() const noexcept { return from || to; }  ///< always with `survivors`
  bool has_lifetimes() const noexcept { return min_lifetime_ns || max_lifetime_ns || freed != Freed::kAny; }
  bool needs_lifetimes() const noexcept { return (live_at && !only_live) || has_lifetimes(); }
  /// Whether every block and mapping of the slice is selected.
  bool all_blocks() const noexcept {
    return all_sizes() && all_threads() && !needs_lifetimes() && !select_stacks && !survivors;
  }
  /// Whether a moment is that of a mark.
  bool needs_marks() const noexcept {
    const auto is_mark = [](const std::optional<Moment>& moment) { return moment && !moment->mark.empty(); };
    return reads_marks || is_mark(from) || is_mark(to) || is_mark(live_at) || is_mark(survivors);
  }
  /// Whether the trace summary is needed before the pass that counts.
  bool needs_summary() const noexcept {
    return is_slice() || live_at || needs_lifetimes() || select_stacks || needs_marks();
  }
};

}  // namespace heapprof::replay
