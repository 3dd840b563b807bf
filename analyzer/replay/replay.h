// Replays merged events: keeps the live blocks and mappings, and sums their costs.
//
// Rules (docs/concepts/analysis.md, "What counts"):
//   * The free of a block must precede the reuse of its address. An allocation at a live address counts an implied
//     free, and the free of an unknown block an unmatched free, unless an event of equal time in another stream
//     explains it; then that event is handled first.
//   * A realloc removes its block from the table when it begins and counts the free when it ends, or when another
//     block gets the address before that. With neither, its block stays live (pending_reallocs.h). munmap and mremap
//     take effect when they begin and are undone when they fail.
//   * The peak is the highest sum after an allocation.
//
// Memory: the live blocks and mappings, one record for each call-tree node, and one for each stream.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/live_timeline.h"
#include "analyzer/model/profile.h"
#include "analyzer/model/size_counts.h"
#include "analyzer/replay/block_table.h"
#include "analyzer/replay/cost_tracker.h"
#include "analyzer/replay/interval_sums.h"
#include "analyzer/replay/leak_follower.h"
#include "analyzer/replay/live_history.h"
#include "analyzer/replay/mapping_table.h"
#include "analyzer/replay/pending_reallocs.h"
#include "analyzer/replay/progress.h"
#include "analyzer/replay/recording_totals.h"
#include "analyzer/replay/resolved_event.h"
#include "analyzer/replay/resolved_filter.h"
#include "analyzer/replay/selection.h"
#include "analyzer/replay/stack_lives.h"
#include "analyzer/replay/stored_blocks.h"
#include "analyzer/replay/thread_table.h"
#include "analyzer/trace/compact/trace_summary.h"
#include "analyzer/trace/events/damage.h"
#include "analyzer/trace/events/merged_event.h"
#include "analyzer/trace/events/tick_clock.h"
#include "analyzer/trace/files/byte_stream.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::replay {

/// Used by one thread. Calls in order: the constructor, resolve_...() and record_order() or restore(), replay() for
/// each batch, finish(), then the results.
class Replay {
 public:
  using Thread = ThreadTable::Thread;

  /// An event on the timeline: a user's mark, or recording was paused or resumed.
  struct Mark {
    std::uint64_t ticks = 0;
    model::Timeline::Mark::Kind kind = model::Timeline::Mark::Kind::kUser;
    std::string text;
  };
  using Mappings = MappingSums;
  static constexpr std::size_t kMaxMarks = trace::Overview::kMaxMarks;

  /// The width of the first buckets of the timeline.
  static std::uint64_t first_bucket_ticks(const trace::TraceFile& file) noexcept;

  /// What `filter` points to must outlive this.
  Replay(const trace::TraceFile& file, const Selection& selection, const ResolvedFilter& filter = {});
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// Handles a batch. May reorder events of equal time and moves texts out of the batch. False: the slice has ended,
  /// so no further batch is needed.
  bool replay(trace::Batch& batch) { return run<Pass::kCount>(batch); }
  /// The same, and appends what happened to `events`, in order.
  bool replay(trace::Batch& batch, std::vector<ResolvedEvent>& events) {
    resolved_ = &events;
    return run<Pass::kResolve>(batch);
  }
  /// Appends the slice's allocations of heap blocks with these sizes to `events`, and follows nothing else than which
  /// threads there are: what becomes of the blocks is not known, and no result is valid. Precondition: can_list().
  bool list_allocations(trace::Batch& batch, std::vector<ResolvedEvent>& events, std::uint64_t min_size,
                        std::uint64_t max_size) {
    resolved_ = &events;
    listed_sizes_ = {min_size, max_size};
    return run<Pass::kList>(batch);
  }
  /// Whether the selection is one of allocations, not of what became of their blocks.
  bool can_list() const noexcept {
    return filter_.blocks == nullptr && filter_.allocations_at_end == 0 && selection_.kind == model::Kind::kHeap;
  }
  /// The same as the first form, but gives the allocations and frees of the slice's blocks to `follower` and counts
  /// nothing: of the results only the live blocks are valid. `follower` must outlive this.
  bool replay(trace::Batch& batch, LeakFollower& follower);

  /// Lets the next calls of replay() end at `position` instead of at the end of the slice; none: at that again. A
  /// call that reaches it has handled the first handled() events of its batch, in which those that were moved before
  /// others of equal time are Op::kNone. Precondition: the replay has not passed the position.
  void stop_at(const std::optional<EventPosition>& position) noexcept;
  bool has_stopped() const noexcept { return has_stopped_; }
  std::size_t handled() const noexcept { return handled_; }

  /// From now on only the heap blocks that are live now are selected, of those that were selected so far. The sums
  /// are theirs: each counts as allocated, none as freed. Precondition: the slice begins with the trace, mappings do
  /// not count, and the timeline and the position of the peak are not needed.
  void select_live();

  /// Keeps the latest sample of resident memory before `ticks`; none are kept by default.
  void keep_sample_before(std::uint64_t ticks) noexcept { keep_samples_until_ = ticks; }
  struct Sample {
    std::uint64_t ticks = 0;
    std::uint64_t rss_bytes = 0;
  };
  const std::optional<Sample>& kept_sample() const noexcept { return kept_sample_; }

  /// Resolves the events of what the selection's kind counts: mappings in addition to, or instead of, heap blocks.
  /// A mapping can be unmapped in pieces. Precondition: before the first batch.
  void resolve_kind() {
    mappings_are_events_ = selection_.kind != model::Kind::kHeap;
    blocks_are_events_ = selection_.kind != model::Kind::kMmap;
  }

  /// Resolves only events of blocks whose node is not 0 in `nodes` (by dense index), or is beyond its end. Does not
  /// apply to mappings. `nodes` must outlive this. Precondition: before the first batch.
  void resolve_nodes(const std::vector<std::uint8_t>& nodes) noexcept { resolved_nodes_ = nodes; }

  /// From now on appends the events to `events` in the order in which they are handled, which differs from the
  /// trace's where times are equal. Requires the form of replay() that resolves events. Texts are those of the batch.
  void record_order(std::vector<trace::MergedEvent>& events) noexcept { ordered_ = &events; }

  /// Makes room for this many live blocks: a table that grows is copied each time. Precondition: there was no batch
  /// yet.
  void reserve(std::size_t live_blocks) { blocks_.reset(live_blocks); }

  /// The next batches can have events of this many streams, if that is more than the trace had when it was opened.
  void add_streams(std::size_t count) { streams_.resize(std::max(streams_.size(), count)); }

  /// Call once, after the last batch. `end_time`: the last known time of the recording, in ticks; 0: unknown. May
  /// append to the `events` of the last replay().
  void finish(std::uint64_t end_time);

  std::uint64_t now() const noexcept { return now_; }  ///< ticks: time of the last event
  std::size_t live_blocks() const noexcept { return blocks_.size(); }
  SumsSoFar so_far() const noexcept;

  /// Stores what a later replay needs to continue after the last batch: live blocks and mappings, calls that have
  /// not returned, threads. Precondition: nothing is selected.
  void save(trace::ByteWriter& out) const;
  /// Continues from a stored state instead of replaying the batches before it. Precondition: the state is from before
  /// the slice. False: it is unknown whether the live blocks match the selection; this replay must not be used.
  /// Throws trace::FormatError.
  bool restore(trace::ByteReader& in, std::uint32_t node_count);

  /// Divides the replay into intervals. Precondition: nothing is selected, and there was no batch yet. From then on
  /// peaks and the sums of nodes are those of the current interval. `log` must outlive this.
  void log_intervals(IntervalLog& log) {
    log_ = &log;
    count_threads_ = true;
  }
  /// Writes the live bytes of all stacks and threads over time to `log`, which must outlive this. Precondition: as
  /// that of log_intervals().
  void log_history(LiveHistoryLog& log) noexcept {
    history_log_ = &log;
    count_threads_ = true;
  }
  /// Store what save() stores in two parts: the table of live blocks (save_blocks()), and everything else.
  void save_live_blocks(trace::ByteWriter& out) const;
  void save_other_state(trace::ByteWriter& out) const;
  /// Of the interval up to now. Call it once. Precondition: log_intervals() was called.
  OlderBlocks take_older_blocks();
  /// Ends the interval, returns its sums, and begins the next one.
  IntervalSums end_interval();
  /// Like restore(): `other_state` is of save_other_state(). `blocks` may also have those of calls in it.
  bool restore_parts(BlockTable blocks, trace::ByteReader other_state, std::uint32_t node_count);
  /// The same, but only `blocks` are known to be live from then on. The live sums are those that add_live() gets
  /// afterwards, of each interval up to the state. Precondition: everything is selected.
  void restore_needed(std::span<const Block> blocks, trace::ByteReader other_state, std::uint32_t node_count);
  /// Throws trace::FormatError when the sums have a thread that does not exist.
  void add_live(const IntervalSums& sums);
  /// Instead of replaying the intervals that follow: add_interval() for each of them, then continue_from() the state
  /// at the end of the last one. Precondition: everything is selected, and the slice has begun. What only single
  /// events show is incomplete from then on: timeline, sizes, marks, costs of single mappings. `older`: only a slice
  /// that does not begin with the trace needs them. Throws trace::FormatError when a block has an unknown thread.
  void add_interval(const IntervalSums& sums, const OlderBlocks& older);
  /// `blocks`: those that the next events need; `all`: the table has all live ones. Throws trace::FormatError, also
  /// when the sums say something else.
  void continue_from(BlockTable blocks, bool all, trace::ByteReader other_state, std::uint32_t node_count);
  /// Continues at the end of an interval: `blocks` are live there, others are not known. No sums are valid then.
  /// Throws trace::FormatError.
  void skip_to(std::span<const Block> blocks, trace::ByteReader other_state, std::uint32_t node_count);
  /// There are blocks at these addresses, of which nothing else is known, and none is selected.
  void add_unselected(std::span<const std::uint64_t> addresses);
  bool slice_has_begun() const noexcept { return in_slice_; }

  /// After restore(): appends the selected live blocks, as allocations in order of time.
  void resolve_restored(std::vector<ResolvedEvent>& events) const;

  // Results, after finish(). Times in ticks.
  const model::HeapTotals& heap() const noexcept { return heap_; }  ///< peak_time_ns is not set: heap_costs() has it
  const CostTracker& heap_costs() const noexcept { return heap_costs_; }
  const CostTracker& mmap_costs() const noexcept { return mmap_costs_; }
  /// By thread; only with Selection::costs_by_thread. Without moved blocks.
  const CostTracker& thread_costs() const noexcept { return thread_costs_; }
  /// The tracker of the selection's kind.
  const CostTracker& costs() const noexcept {
    if (selection_.kind == model::Kind::kHeap) [[likely]]
      return heap_costs_;
    return count_all_ ? all_costs_ : mmap_costs_;
  }
  const Mappings& mappings() const noexcept { return mappings_; }
  const std::vector<Thread>& threads() const noexcept { return threads_.all(); }
  const model::LiveTimeline& timeline() const noexcept { return timeline_; }  ///< from the start of the slice
  const model::SizeCounts& sizes() const noexcept { return sizes_; }
  const trace::TickClock& clock() const noexcept { return clock_; }
  const std::vector<Mark>& marks() const noexcept { return marks_; }
  /// Calls visit(region) for each selected mapping that was mapped in the slice and is live.
  template <typename Visit>
  void for_each_mapping_leak(Visit&& visit) const {
    mapping_table_.for_each([&](const Region& region) {
      if ((region.flags & (kNotSelected | kMapReserve)) == 0 && region.identity > first_identity_) visit(region);
    });
  }
  /// Whether the mapping existed when the slice began.
  bool is_before_slice(const Region& region) const noexcept { return region.identity <= first_identity_; }
  /// Calls visit(region) for each selected mapping that is live, address space without access included, in order.
  template <typename Visit>
  void for_each_mapping(Visit&& visit) const {
    mapping_table_.for_each([&](const Region& region) {
      if ((region.flags & kNotSelected) == 0) visit(region);
    });
  }
  /// Calls visit(block) for each selected block that was allocated in the slice and is live, in no order.
  template <typename Visit>
  void for_each_leak(Visit&& visit) const {
    blocks_.for_each([&](const Block& block) {
      if ((block.thread & kNotSelected) == 0 && block.time >= filter_.from_ticks) visit(block);
    });
  }
  /// Whether a realloc that has not returned has a block from before `ticks` that is not selected.
  bool has_unselected_realloc(std::uint64_t ticks) const;
  /// What for_each_leak() does not visit: after continue_from(), blocks of the slice that are not in the table.
  const LeftSums& left_sums() const noexcept { return left_; }
  /// The selected blocks that are live now, were allocated before `ticks`, and are events (resolve_nodes()). nullopt:
  /// a realloc has not returned, so that nobody knows what becomes of its block.
  std::optional<std::vector<Block>> live_events_before(std::uint64_t ticks) const;
  /// Calls visit(block) for each block that is live now, in no order, whatever is selected: those that finish() would
  /// leave if the recording ended here.
  template <typename Visit>
  void for_each_live(Visit&& visit) const {
    blocks_.for_each(visit);
    reallocs_.for_each_live([&](const PendingRealloc& pending) { visit(pending.block); });
  }
  /// The same, for the selected ones of these.
  template <typename Visit>
  void for_each_selected_live(Visit&& visit) const {
    for_each_live([&](const Block& block) {
      if ((block.thread & kNotSelected) == 0) visit(block);
    });
  }
  /// What the whole recording allocated, whatever is selected. Precondition: has_all_totals().
  RecordingTotals totals() const;
  /// Of the selected blocks, ascending by index. Precondition: log_history() was called.
  std::vector<StackLives> lives() const;
  /// Whether the replay began with the trace and read it to its end, and all sums are of this time.
  bool has_all_totals() const noexcept { return counts_rest_ && !added_intervals_ && !continued_; }
  std::uint64_t samples() const noexcept { return samples_; }
  /// Snapshots of resident pages (trace/residency.h), unfinished ones included.
  std::uint64_t snapshots() const noexcept { return snapshots_; }
  std::uint64_t peak_rss_bytes() const noexcept { return peak_rss_bytes_; }
  std::uint64_t last_time() const noexcept { return last_time_; }    ///< ticks: end of the recording or of the slice
  std::uint64_t unfinished() const noexcept { return unfinished_; }  ///< calls that began and did not return
  std::uint64_t bad_events() const noexcept { return bad_events_; }  ///< without an address, ignored
  /// Adds to `damage` what exceeded a limit of the replay.
  void note_losses(trace::Damage& damage) const;
  bool paused_once() const noexcept { return paused_once_; }

 private:
  enum class Pass { kCount, kResolve, kFollow, kList };  // what the forms of replay() do, and list_allocations()

  static constexpr std::uint32_t kNotSelected = 0x80000000;  // in Block::thread and Region::flags
  // Calls of signal handlers within each other. A trace could have a million that do not end, before each that does.
  static constexpr std::size_t kMaxNestedCalls = 64;

  /// How a block was freed, as far as known.
  struct FreedBy {
    std::uint32_t thread = kNoThread;
    std::uint32_t node = kNoNode;
    bool in_realloc = false;
  };
  struct PendingMapping {
    bool remap = false;
    std::vector<Region> pieces;
  };
  struct alignas(64) StreamState {
    std::uint32_t thread = kNoThread;
    // A stack: calls of a signal handler are above those it interrupted.
    std::vector<PendingReallocs::Number> reallocs;
    std::vector<PendingMapping> mappings;

    /// Removes and returns the pieces of the latest pending munmap (or mremap), of the last kMaxNestedCalls calls.
    std::vector<Region> take_mapping(bool remap);
  };

  // replay.cpp: batches and heap events. Everything the hot loop calls is inline there.
  template <Pass kPass>
  bool run(trace::Batch& batch);
  template <Pass kPass>
  void run_part(std::size_t from, std::size_t to);
  template <Pass kPass>
  void run_to_stop(std::size_t from, std::size_t tail);
  void list_part(std::size_t from, std::size_t to);
  bool is_at_stop() const noexcept;
  void begin_slice();
  template <Pass kPass>
  void handle(std::size_t i, std::uint64_t hash);
  template <Pass kPass>
  void allocate(std::size_t i, std::uint64_t hash, const Block& replaced = {});
  template <Pass kPass>
  void free(std::size_t i, std::uint64_t hash);
  template <Pass kPass>
  bool count_freed_at_once(std::size_t i, std::uint64_t hash);
  void count_unmatched_free() noexcept;
  void count_failure(const trace::MergedEvent& event);
  template <Pass kPass>
  void realloc_begin(std::size_t i);
  template <Pass kPass>
  void realloc_end(std::size_t i);
  void realloc_failed(const trace::MergedEvent& event);
  template <Pass kPass>
  void count_free(const Block& block, bool temporary, const FreedBy& by);
  void count_move(const Block& block);
  template <Pass kPass>
  bool settle_tie(std::size_t i, std::uint64_t address, bool needs_free);
  void handle_rare(const trace::MergedEvent& event);
  void take_text(const trace::MergedEvent& event);
  void end_bucket();
  void add_mark(model::Timeline::Mark::Kind kind, std::uint64_t ticks, std::string text = {});
  void abandon_calls(StreamState& stream);
  PendingRealloc take_realloc(StreamState& stream);
  template <Pass kPass>
  void count_reuse(std::uint64_t address, std::uint64_t hash);
  template <Pass kPass>
  void count_realloc_free(const PendingRealloc& pending, const FreedBy& by);
  Thread& thread_of(std::uint32_t stream);
  bool is_temporary(const Block& block, const StreamState& stream) const noexcept;
  model::LiveTimeline::State state() const noexcept;
  bool is_stack_selected(std::uint32_t node) const noexcept {
    return filter_.nodes == nullptr || (node < filter_.nodes->size() && (*filter_.nodes)[node] != 0);
  }
  bool is_selected(const Thread& thread, std::uint32_t node, std::uint64_t size) const noexcept {
    return thread.selected && size >= selection_.min_size && size <= selection_.max_size && is_stack_selected(node);
  }
  /// Whether what is allocated at `ticks` counts.
  bool is_time_selected(std::uint64_t ticks) const noexcept {
    return !filter_.own_blocks_only || (ticks >= filter_.from_ticks && ticks < filter_.allocated_end_ticks);
  }
  bool is_block_event(std::uint32_t node) const noexcept {
    return blocks_are_events_ && (node >= resolved_nodes_.size() || resolved_nodes_[node] != 0);
  }

  // mapping_events.cpp
  void handle_mapping(const trace::MergedEvent& event);
  std::pair<std::uint64_t, std::uint64_t> pages_of(std::uint64_t address, std::uint64_t size) const noexcept;
  void map(const trace::MergedEvent& event, std::uint64_t begin, std::uint64_t end, std::uint32_t flags);
  void remap(const trace::MergedEvent& event, const std::vector<Region>& old);
  void put_back(const std::vector<Region>& pieces);
  void mapping_changed(const Region& region, std::int64_t bytes, std::int64_t blocks);
  bool is_mapping_event(std::uint32_t flags) const noexcept {
    return mappings_are_events_ && resolved_ != nullptr && !(count_all_ && (flags & kMapFromAllocator) != 0);
  }

  // snapshot.cpp
  void save_calls(trace::ByteWriter& out) const;
  void restore_other_state(trace::ByteReader& in, std::uint32_t node_count);
  void restore_calls(trace::ByteReader& in, std::uint32_t node_count);
  void restore_mappings(trace::ByteReader& in, std::uint32_t node_count);
  void restore_blocks(trace::ByteReader& in, std::uint32_t node_count);
  void take_parts(BlockTable blocks, trace::ByteReader other_state, std::uint32_t node_count);
  void expect_live_of_sums();
  Block restored_block(trace::ByteReader& in, std::uint32_t node_count) const;
  Region restored_region(trace::ByteReader& in, std::uint32_t node_count) const;
  void select_restored(Block& block) const;
  void select_restored_reallocs();
  void count_restored(const Block& block);
  void count_restored_blocks();
  void count_restored_mappings();
  /// Calls visit(number) for each realloc that has not returned.
  template <typename Visit>
  void for_each_realloc(Visit&& visit) const {
    for (const StreamState& stream : streams_) std::ranges::for_each(stream.reallocs, visit);
    std::ranges::for_each(abandoned_reallocs_, visit);
  }

  // totals.cpp
  /// What was allocated by events that the selection left out, or before the current interval.
  static void add_rest(std::vector<model::StackTotals>& rest, std::uint32_t node, const model::StackTotals& totals) {
    if (node >= rest.size()) [[unlikely]]
      rest.resize(std::size_t{node} < 32 ? 64 : std::size_t{node} * 2);
    rest[node] += totals;
  }
  void add_interval_to_rest(const std::vector<NodeSums>& heap);

  // intervals.cpp
  /// Notes that a block left the table of live blocks.
  void log_removal(const Block& block, bool to_realloc = false) {
    if (log_ != nullptr && block.time <= log_->begin_ticks) [[unlikely]]
      log_older(block, to_realloc);
  }
  void log_older(const Block& block, bool to_realloc);
  void begin_left();
  void add_to_left(const IntervalSums& sums, const OlderBlocks& older);
  template <typename Change>
  void change_left(const Block& block, Change&& change) {
    if (!counts_left_) return;
    if (block.node >= left_.nodes.size()) left_.nodes.resize(std::size_t{block.node} + 1);
    change(left_.nodes[block.node]);
    if (block.thread >= left_.threads.size()) left_.threads.resize(std::size_t{block.thread} + 1);
    change(left_.threads[block.thread]);
  }

  const Selection selection_;
  const ResolvedFilter filter_;
  const bool every_size_;
  bool every_block_;         // the filter admits all stacks, blocks and times
  bool selects_new_ = true;  // else nothing that is allocated from now on
  bool counts_rest_;         // the slice is the whole recording
  RecordingTotals rest_;     // what add_rest() sums, without blocks that are left at the end
  const bool count_all_;
  bool count_threads_;
  const std::uint64_t page_bytes_;  // the trace's unit, which is at least a page of the recorded machine
  BlockTable blocks_;
  LeftSums left_;
  bool counts_left_ = false;  // left_ is counted
  MappingTable mapping_table_;
  CostTracker heap_costs_;
  CostTracker mmap_costs_;
  CostTracker all_costs_;
  CostTracker thread_costs_;
  model::HeapTotals heap_;
  model::SizeCounts sizes_;
  model::LiveTimeline timeline_;
  Mappings mappings_;
  trace::TickClock clock_;
  std::vector<StreamState> streams_;
  ThreadTable threads_;
  PendingReallocs reallocs_;
  std::vector<PendingReallocs::Number> abandoned_reallocs_;  // their blocks are known
  std::vector<PendingMapping> abandoned_mappings_;
  std::vector<Mark> marks_;

  std::span<trace::MergedEvent> events_;  // the current batch
  std::vector<trace::EventText>* texts_ = nullptr;
  std::vector<ResolvedEvent>* resolved_ = nullptr;
  LeakFollower* follower_ = nullptr;
  std::span<const std::uint8_t> resolved_nodes_;  // empty: all
  std::pair<std::uint64_t, std::uint64_t> listed_sizes_;
  bool blocks_are_events_ = true;
  bool mappings_are_events_ = false;
  EventPosition stop_;       // where replay() ends; no allocations: nowhere within a time
  std::size_t handled_ = 0;  // events of the last batch
  std::vector<trace::MergedEvent>* ordered_ = nullptr;
  IntervalLog* log_ = nullptr;
  LiveHistoryLog* history_log_ = nullptr;
  std::uint64_t now_ = 0;                   // ticks
  std::uint64_t allocation_ticks_ = 0;      // of the latest allocation, whether it is selected or not
  std::uint64_t allocations_at_ticks_ = 0;  // how many were at that time
  std::uint64_t ordinal_ = 0;               // of the next allocation; not counted when every_block_
  std::uint64_t first_identity_ = 0;        // mappings of the slice have greater identities
  std::uint64_t timeline_start_ = 0;        // ticks
  bool in_slice_ = false;
  bool added_intervals_ = false;
  bool continued_ = false;                 // from a snapshot
  std::vector<ThreadSums> added_threads_;  // by index: of the intervals that were added
  std::uint64_t last_time_ = 0;            // ticks
  std::uint64_t samples_ = 0;
  std::uint64_t snapshots_ = 0;
  std::uint64_t peak_rss_bytes_ = 0;
  std::uint64_t sample_shared_bytes_ = kUnknownShared;  // of the sample that follows
  std::uint64_t keep_samples_until_ = 0;                // ticks
  std::optional<Sample> kept_sample_;
  std::uint64_t unfinished_ = 0;
  std::uint64_t bad_events_ = 0;
  std::uint64_t calls_not_undone_ = 0;  // of munmap and mremap: MappingTable::put_back() reached its limit
  /// That remap() may still keep apart: a trace could have calls that move as many with each event.
  std::uint64_t pieces_to_remap_ = std::uint64_t{1} << 20;
  bool paused_once_ = false;
  bool in_tie_ = false;
  bool has_stopped_ = false;  // at stop_
  const bool in_order_;       // events of equal time were put in order when the trace was compacted
};

inline Replay::Thread& Replay::thread_of(std::uint32_t stream) {
  StreamState& state = streams_[stream];
  if (state.thread == kNoThread) [[unlikely]]
    state.thread = threads_.start(0, {});
  Thread& thread = threads_[state.thread];
  // The record that names a thread has the time of the stream's event before it, so the first event starts the
  // thread.
  if (!thread.started) [[unlikely]] {
    thread.started = true;
    thread.start_ticks = now_;
  }
  return thread;
}

}  // namespace heapprof::replay
