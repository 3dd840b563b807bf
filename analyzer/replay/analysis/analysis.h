// The analysis of a trace: opens it, replays it into a profile and, on request, replays its events again.
//
// The constructor is a list of passes (analysis.cpp), whose parts are in resolve_selection.cpp and counting_pass.cpp.
// Without a selection there is one pass. A slice of time and stacks selected by name need the trace summary first,
// because the clock and the call tree are complete only at the end of the trace; an index or a compacted trace has
// it, else it takes a pass. Lifetimes need another pass, with one bit of memory for each allocation. An overview
// takes no pass if an index has it.
//
// for_each_event() is for uses that need the profile before the events: an export that writes stacks before
// events, a timeline of the largest call sites. It takes as long as the replay and gives the same events in the same
// order, also of a running program, because opening fixed what the trace contains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/leak_history.h"
#include "analyzer/model/profile.h"
#include "analyzer/replay/analysis/moments.h"
#include "analyzer/replay/progress.h"
#include "analyzer/replay/resolved_event.h"
#include "analyzer/replay/resolved_filter.h"
#include "analyzer/replay/selection.h"
#include "analyzer/trace/events/merged_event.h"
#include "analyzer/trace/events/tick_clock.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::replay {

class Followed;
class PassProgress;
class Replay;
class Snapshot;
struct LiveHistory;
struct SliceIntervals;
struct StackLives;

/// Which index files are used, besides the index inside a compacted trace.
struct IndexUse {
  bool use = true;   ///< the one beside the trace or in the cache
  bool keep = true;  ///< leave one of a large trace in the cache, if the analysis needs more than one pass without it
};

/// Unpacks the embedded symbols of a trace; null: they are damaged.
using SymbolLoader =
    std::function<std::shared_ptr<const std::vector<symbols::ModuleSymbols>>(std::string_view packed)>;

/// An event of for_each_event(). Times are nanoseconds since the start of the recording.
struct ProfileEvent {
  std::uint64_t time_ns;
  std::uint64_t address;
  std::uint64_t size;
  std::uint32_t node;    ///< index in Profile::nodes
  std::uint32_t thread;  ///< index in Profile::threads
  ResolvedKind kind;
  bool temporary;
  bool before_slice;                             ///< the block was allocated before the slice
  bool in_realloc = false;                       ///< a realloc freed the block, or allocated it
  std::uint32_t freeing_thread = kNoThread;      ///< of a free; kNoThread: it is not in the trace
  std::uint32_t freeing_node = model::kNoIndex;  ///< of a free: the stack that freed, where recorded
  Subject subject = Subject::kBlock;
  std::uint64_t allocated_ns = 0;  ///< of a free: when the block was allocated
  /// Of an allocation in a realloc: the block that it replaced, which was allocated at allocated_ns.
  std::uint64_t old_address = 0;
};

/// A block that is live at the end.
struct LiveBlock {
  std::uint64_t time_ns;  ///< of its allocation
  std::uint64_t address;
  std::uint64_t size;
  std::uint32_t node;    ///< index in Profile::nodes
  std::uint32_t thread;  ///< index in Profile::threads
};

/// The live bytes after an event that changed them.
struct LiveStep {
  std::uint64_t time_ns;
  std::uint64_t live_bytes;  ///< of what Selection::kind counts
  EventPosition position;    ///< directly after the event, if it is an allocation and no heap block is left out
};

using LeakVisitor = std::function<void(const LiveBlock&)>;
using FreedVisitor = std::function<void(std::uint64_t address, std::uint64_t allocated_ns)>;
using EventSink = std::function<void(std::span<const ProfileEvent>)>;

/// A mapping that is live at the end, or a piece of one.
struct LiveMapping {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t node;                ///< index in Profile::nodes
  std::uint32_t flags;               ///< kMap...
  std::uint32_t thread = kNoThread;  ///< that called mmap; index in Profile::threads
  bool before_slice = false;         ///< it was mapped before the slice
};

using MappingVisitor = std::function<void(const LiveMapping&)>;

/// Which events for_each_event() visits.
struct EventFilter {
  bool with_older = false;  ///< also those of blocks that were allocated before the slice
  bool of_kind = false;     ///< of what Selection::kind counts, mappings too, instead of heap blocks
  const std::vector<std::uint8_t>* nodes = nullptr;  ///< by node of the profile: 0 leaves out its blocks; null: all
  struct Sizes {
    std::uint64_t min_size = 0;
    std::uint64_t max_size = std::numeric_limits<std::uint64_t>::max();
  };
  /// Allocations only, without what a realloc replaced, and of these sizes. Where the selection allows it, no block
  /// is followed, which takes a third of the time; otherwise there are frees and other sizes, too.
  std::optional<Sizes> only_allocations{};
  bool addresses = true;  ///< false: the addresses of only_allocations are not read, and may be wrong
  /// Only blocks are asked for, those allocated up to then (ns since the start of the recording) and of block_sizes;
  /// others, and samples, may be left out. With an index, intervals in which nothing happens to them are not read.
  std::optional<std::uint64_t> blocks_until_ns{};
  Sizes block_sizes{};
  LeakVisitor visit_leaked{};  ///< called for each block that the profile counts as leaked
  model::Timeline* timeline =
      nullptr;  ///< gets the timeline of the profile, of which Selection::only_costs leaves out most
};

/// Which live bytes of a bucket of time.
enum class InBucket { kLast, kHighest };

/// Const members may be called by several threads at once.
class Analysis {
 public:
  /// Opens and replays the trace. Without `load_symbols`, embedded symbols are ignored. `visit_leaked` is called, in
  /// no order, for each block that the profile counts as leaked: who needs nothing else reads the trace only once.
  /// `visit_mapping` is called for each live mapping, address space without access included, in order of address.
  /// `followed`: takes over this replay, of a selection of the same blocks, instead of reading the trace; what needs
  /// another pass then throws trace::TraceError. It must outlive this. Throws trace::TraceError when the trace cannot
  /// be read, SelectionError when the selection is not within the recording.
  Analysis(const std::string& path, const Selection& selection, const Progress& progress = {},
           const IndexUse& index_use = {}, const SymbolLoader& load_symbols = {},
           const LeakVisitor& visit_leaked = {}, const MappingVisitor& visit_mapping = {},
           Followed* followed = nullptr);
  ~Analysis();
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;

  const trace::TraceFile& file() const noexcept { return file_; }
  const model::Profile& profile() const noexcept { return profile_; }
  const trace::TickClock& clock() const noexcept { return clock_; }
  /// Sentences for the user: an index that could not be used.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }
  /// Whether the recording has the selected stacks (by module and function) and threads at all, even if other parts
  /// of the selection exclude all their blocks. True without such a selection.
  bool names_found() const noexcept { return stacks_found_ && threads_found_; }
  /// Whether the replay of a slice began at a snapshot.
  bool began_at_snapshot() const noexcept { return began_at_snapshot_; }
  /// How many intervals were added from the index instead of being replayed.
  std::size_t intervals_added() const noexcept { return intervals_added_; }

  /// Throws SelectionError when the moment is not within the recording.
  /// Precondition: the selection has this moment, or reads_marks, if it is that of a mark.
  ResolvedMoment moment_of(const Moment& moment) const;

  /// The moment of the profile's peak, directly after the allocation that reached it. None: the peak is at the start
  /// of the slice, or a mapping reached it. Precondition: the selection has costs.
  const std::optional<EventPosition>& peak_position() const noexcept { return peak_position_; }

  /// The node of the profile for a dense index of the trace.
  std::uint32_t node_of(std::uint32_t dense_index) const noexcept {
    return dense_index < node_of_index_.size() ? node_of_index_[dense_index] : 0;
  }

  /// What was summed by dense index, such as while a program was followed, by node of the profile.
  template <typename Sums>
  std::vector<Sums> by_node(const std::vector<Sums>& by_index) const {
    std::vector<Sums> result(profile_.nodes.size());
    for (std::size_t i = 0; i < by_index.size(); ++i) result[node_of(static_cast<std::uint32_t>(i))] += by_index[i];
    return result;
  }
  /// Whether a program was followed.
  bool has_followed() const noexcept { return followed_ != nullptr; }

  /// Calls sink with all selected allocations, frees and samples, in order, a batch at a time. With
  /// `which.with_older` the blocks that are live where the reading begins come first, as allocations. Then calls
  /// `which.visit_leaked`, in no order.
  void for_each_event(const EventSink& sink, const Progress& progress = {}, const EventFilter& which = {}) const;

  /// Replays the trace once more, and calls sink with every change of its live bytes, in order, a batch at a time.
  void for_each_step(const std::function<void(std::span<const LiveStep>)>& sink, const Progress& progress = {}) const;

  /// The steps of the profile's timeline. Precondition: the selection has a timeline.
  model::LeakSteps leak_steps() const;

  /// Gives the selected blocks of the slice to two histories: those of a node to the position that it has in each;
  /// kNoIndex: it has none. Comes from an index that has the history and the lives of the whole recording. Else
  /// replays the trace once more, which takes half as long as for_each_event(). Heap only. The histories are those of
  /// leak_steps().
  void follow_leaks(model::LeakHistory& stacks, std::span<const std::uint32_t> stack_of_node,
                    model::LeakHistory& sites, std::span<const std::uint32_t> site_of_node,
                    const Progress& progress = {}) const;

  /// Calls sink with the records of the trace up to the end of the slice, a batch at a time. They are not replayed,
  /// which takes about half the time of for_each_event(): whatever the selection is, all of them, with the fields of
  /// the trace, and those of equal time in any order.
  void for_each_record(const std::function<void(std::span<const trace::MergedEvent>)>& sink,
                       const Progress& progress = {}) const;

  /// Replays the trace once more, to the end of the slice: calls sink(batch, replay) with each batch, and the sink
  /// replays the batch, in parts if it looks at the state in between (visit_live()).
  void for_each_batch(const std::function<void(trace::Batch&, Replay&)>& sink, const Progress& progress = {}) const;

  /// Replays the trace once more, to the last of the moments, and calls visit(i, block) for each selected block that
  /// is live at moments[i], whenever it was allocated, in no order. Heap only. Precondition: the moments ascend, none
  /// is before the slice's begin or after its end.
  ///
  /// After a moment with a position, events of the same time follow: a visited block can be freed, and another one
  /// get its address, at the time of its allocation. `visit_freed` is called for each block that these events free,
  /// before the blocks of a later moment are visited.
  void for_each_live_at(std::span<const ResolvedMoment> moments,
                        const std::function<void(std::size_t, const LiveBlock&)>& visit,
                        const Progress& progress = {}, const FreedVisitor& visit_freed = {}) const;

  /// Visits what is live in a replay of this trace now; each visitor may be null.
  void visit_live(const Replay& replay, const LeakVisitor& visit_block, const MappingVisitor& visit_mapping) const;

  /// Live bytes of groups of nodes over time, from the index if that has the history of the whole recording, else
  /// from another pass; the highest ones always from a pass. `group_of_node`: for each node of the profile a group,
  /// from 0, or kNoIndex. Result: by group, the live bytes in each bucket of the profile's timeline. `timeline`: as
  /// EventFilter's.
  std::vector<std::vector<std::uint64_t>> live_by_group(const std::vector<std::uint32_t>& group_of_node,
                                                        std::uint32_t groups, const Progress& progress = {},
                                                        InBucket which = InBucket::kLast,
                                                        model::Timeline* timeline = nullptr) const;
  /// The same by index in Profile::threads: live bytes of the blocks that the thread allocated.
  std::vector<std::vector<std::uint64_t>> live_by_thread(const Progress& progress = {},
                                                         InBucket which = InBucket::kLast) const;

 private:
  friend class Followed;
  struct Run;
  struct Stored;
  std::unique_ptr<Run> start() const;
  void load_embedded_symbols(const SymbolLoader& load_symbols);
  bool find_summary();
  void read_summary(PassProgress& passes);
  void set_recording(const trace::Definitions& definitions, std::uint64_t last_time);
  void read_marks(PassProgress& passes);
  std::uint64_t resolve(const Moment& moment, const char* option) const;
  void end_slice_at(const Moment& moment, std::uint64_t ns);
  void resolve_slice();
  void resolve_survivors();
  void end_at_moment();
  void resolve_stacks();
  bool counts_live_at() const noexcept;
  bool needs_blocks_first() const noexcept { return selection_.needs_lifetimes() && !counts_live_at(); }
  std::uint64_t ticks_after_moment() const;
  void resolve_live_at();
  void resolve_lifetimes(PassProgress& passes, const ResolvedFilter& slice);
  std::vector<bool> blocks_of_lifetimes(PassProgress& passes, model::ResidentAt& resident,
                                        const ResolvedFilter& slice) const;
  bool can_leave_out_intervals() const noexcept;
  void read_events(const std::function<void(std::span<const ResolvedEvent>)>& sink, const Progress& progress,
                   const EventFilter& which) const;
  const LiveHistory* history() const;
  const LiveHistory* history_with_changes() const;
  bool can_have_history() const noexcept;
  model::Timeline timeline_from(const LiveHistory& history) const;
  std::unique_ptr<Run> start_at(const Snapshot& snapshot) const;
  std::unique_ptr<Run> start_at(const Snapshot& snapshot, const ResolvedFilter& filter) const;
  std::unique_ptr<Run> choose_snapshot(std::string& why_not) const;
  bool can_add_sums() const noexcept;
  std::unique_ptr<Run> count(PassProgress& passes);
  void take_over(Followed& followed);
  void follow_in_history(model::LeakHistory& leaks, std::span<const std::uint32_t> position_of_node,
                         const LiveHistory& history, std::span<const StackLives> lives) const;
  std::unique_ptr<Run> count_live_at(PassProgress& passes);
  model::ResidentAt sample_before(std::uint64_t ticks, std::uint64_t last_snapshot_ticks) const;
  std::unique_ptr<Run> count_with_sums(PassProgress& passes, const SliceIntervals& intervals);
  void replay_records(Run& run, PassProgress& passes, std::uint64_t end) const;
  void replay_to_end(Run& run, PassProgress& passes) const;
  bool fill_overview();
  void fill_profile(const Run& run);
  bool is_whole() const noexcept;
  void fill_whole(const Replay& replay, const Progress& progress);
  void fill_integrity(const Run* run);

  const std::unique_ptr<Stored> stored_;
  const Selection selection_;
  const IndexUse index_use_;
  const bool visits_leaked_;  // the constructor calls a visitor for each leaked block
  const std::shared_ptr<const trace::TraceFile> file_owner_;
  const trace::TraceFile& file_;
  model::Profile profile_;
  trace::TickClock clock_;
  std::vector<std::uint32_t> node_of_index_;  // by dense index: node of the profile
  std::uint64_t lost_nodes_ = 0;
  std::uint64_t lost_python_codes_ = 0;
  bool symbols_damaged_ = false;
  bool stacks_found_ = true;
  bool threads_found_ = false;
  ResolvedFilter filter_;
  std::vector<std::uint8_t> selected_nodes_;  // by dense index; of filter_
  std::optional<EventPosition> peak_position_;
  std::shared_ptr<const trace::TraceSummary> summary_;  // null: the pass that counts finds it
  // By ordinal of the allocation; empty until a pass that needs them starts, if counts_live_at().
  mutable std::vector<bool> selected_blocks_;  // guarded by Stored::snapshot_mutex
  std::uint64_t timeline_width_ticks_ = 1;     // of the buckets of the profile's timeline
  bool began_at_snapshot_ = false;
  const Followed* followed_ = nullptr;            // null: the events are in the trace
  std::optional<std::vector<MarkedTime>> marks_;  // of the whole recording; none: they were not needed
  std::size_t intervals_added_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace heapprof::replay
