// Replays merged events: keeps the live blocks and mappings, and counts what they cost.
//
// What counts when:
//   * An allocation at an address that is live means a release that was not seen (implied free), unless an
//     event of the same time in another stream explains it; then that one goes first. The same for the release
//     of an unknown block (unmatched free).
//   * A realloc takes its block out of the table when it begins, so that the address can be given to others,
//     and counts it as released only when it ends. One that never ended leaves its block live.
//   * Mappings change when their calls begin (munmap, mremap) and are put back when those fail.
//   * The peak is the highest sum after an allocation.
//   * Of a slice of time, what happened in it counts: allocations, releases, temporary ones. Its peak is the
//     highest sum in it, made of all that was live then, also of older blocks, and may be that of its first
//     moment. Its leaks are the blocks allocated in it and live at its end.
//   * A release of an unknown block counts only where all blocks do: nobody knows whether it was selected. A failed
//     call counts by its stack, thread and size, and not where lifetimes select. Nor do mappings there.
//
// The state between two batches can be saved, and a replay that is asked about a later slice of time goes on from
// there (analyzer/replay/index/index.h).
//
// One pass, no memory of its own but the live blocks, one record a node and a stream. Whoever needs the
// single events (exports) gets them resolved, a batch at a time, from replay(batch, events).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/model/live_timeline.h"
#include "analyzer/model/profile.h"
#include "analyzer/model/size_counts.h"
#include "analyzer/replay/block_table.h"
#include "analyzer/replay/cost_tracker.h"
#include "analyzer/replay/mapping_table.h"
#include "analyzer/trace/files/byte_stream.h"
#include "analyzer/trace/files/input_file.h"
#include "analyzer/trace/merged_reader.h"
#include "analyzer/trace/events/tick_clock.h"

namespace heapprof::replay {

inline constexpr std::uint32_t kNoThread = 0xffffffff;
inline constexpr std::uint32_t kNoNode = 0xffffffff;

/// A moment that the recording does not have, or a slice that ends before it begins; what() is a sentence.
class SelectionError : public trace::TraceError {
 public:
  using trace::TraceError::TraceError;
};

/// Which allocations count, as the trace can tell while it is read. Others are followed, so that their releases
/// are known, and left out of all figures.
struct Choice {
  std::uint64_t from_ticks = 0;                                          ///< the slice: its first moment
  std::uint64_t end_ticks = std::numeric_limits<std::uint64_t>::max();   ///< and the first behind it
  bool has_end() const noexcept { return end_ticks != std::numeric_limits<std::uint64_t>::max(); }
  const std::vector<std::uint8_t>* nodes = nullptr;  ///< by dense index: 1 counts; null: all
  const std::vector<bool>* blocks = nullptr;         ///< by ordinal of the allocation in the trace; null: all
};

/// A moment as a user gives it.
struct Moment {
  double value = 0;
  bool percent = false;  ///< of the recording's duration; else seconds since its start
  std::string text = {};  ///< as the user wrote it, for messages
};

/// What a user asks for. A block counts when all of it fits.
struct Selection {
  std::optional<Moment> from;
  std::optional<Moment> to;                 ///< the moment itself belongs to the slice
  std::optional<Moment> live_at;            ///< allocated by then, not yet released
  std::optional<std::uint64_t> min_lifetime_ns;  ///< of a block never released: the time to the trace's end
  std::optional<std::uint64_t> max_lifetime_ns;  ///< a block never released does not fit
  /// Says for each node of a profile whose tree is linked (costs are zero yet) whether its stack counts.
  std::function<std::vector<std::uint8_t>(const model::Profile&)> choose_stacks;
  std::string words;                        ///< the selection as the user put it, but for the slice: for reports
  std::uint64_t min_size = 0;
  std::uint64_t max_size = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint32_t> thread_ids;    ///< tids; empty: all
  std::vector<std::string> thread_names;    ///< with thread_ids: either fits
  model::Kind kind = model::Kind::kHeap;    ///< whose costs the nodes get

  bool all_sizes() const noexcept {
    return min_size == 0 && max_size == std::numeric_limits<std::uint64_t>::max();
  }
  bool all_threads() const noexcept { return thread_ids.empty() && thread_names.empty(); }
  bool is_slice() const noexcept { return from || to; }
  bool needs_lifetimes() const noexcept { return live_at || min_lifetime_ns || max_lifetime_ns; }
  /// Every block counts, and every mapping, of the slice of time.
  bool all_blocks() const noexcept {
    return all_sizes() && all_threads() && !needs_lifetimes() && !choose_stacks;
  }
  /// Only who has read the trace once can tell which blocks count.
  bool needs_scouting() const noexcept { return is_slice() || needs_lifetimes() || choose_stacks; }
};

enum class ResolvedKind : std::uint8_t {
  kAllocation,  ///< address, size, node, thread
  kRelease,     ///< the same fields of the block that is gone
  kSample,      ///< size: resident bytes
};

/// An event with all that the trace knows of it. Failures, unmatched frees and mappings are not among them.
struct ResolvedEvent {
  std::uint64_t time;     ///< ticks
  std::uint64_t address;
  std::uint64_t size;
  std::uint32_t node;     ///< dense index
  std::uint32_t thread;   ///< of a release: the thread that allocated
  ResolvedKind kind;
  bool temporary;         ///< of a release
  bool before_slice;      ///< its block was allocated before the slice
  bool in_realloc = false;  ///< of a release: realloc did it; of an allocation: realloc gave it for another block
  // Of a release:
  std::uint32_t freeing_thread = kNoThread;  ///< kNoThread: the release was not seen
  std::uint32_t freeing_node = kNoNode;      ///< dense index of its stack; kNoNode: not recorded
  std::uint64_t born = 0;                    ///< ticks of the block's allocation
  // Of an allocation in a realloc:
  std::uint64_t old_address = 0;             ///< of the block that went; that block's release came before
};

class Replay {
 public:
  struct Thread {
    std::uint32_t tid = 0;
    std::string name;
    std::uint64_t start_ticks = 0;
    std::uint64_t allocations = 0;
    std::uint64_t allocated_bytes = 0;
    std::uint64_t last_allocation = 0;  // address; 0 when it is gone
    bool selected = true;
    bool started = false;
    bool renamed = false;
    bool name_left_out = false;         // some name of it exceeded max_name_bytes()
    bool is_others = false;             // stands for all threads beyond max_threads()
    std::string first_name;
  };
  struct Mark {
    std::uint64_t ticks = 0;
    model::Timeline::Mark::Kind kind = model::Timeline::Mark::Kind::kUser;
    std::string text;
  };
  struct Mappings {
    std::uint64_t mappings = 0;
    std::uint64_t mapped_bytes = 0;
    std::uint64_t reserved_bytes = 0;
    std::uint64_t from_allocator = 0;  ///< of `mappings`
    std::uint64_t from_allocator_bytes = 0;
  };
  static constexpr std::size_t kMaxMarks = 10'000;

  /// What `choice` points to must outlive this.
  Replay(const trace::TraceFile& file, const Selection& selection, const Choice& choice = {});

  /// False: the slice has ended, what follows does not matter.
  bool replay(trace::Batch& batch) { return run<false>(batch); }
  /// The same, and appends what happened to `events`, in order.
  bool replay(trace::Batch& batch, std::vector<ResolvedEvent>& events) {
    resolved_ = &events;
    return run<true>(batch);
  }

  /// Before the first batch: events are what the selection's kind counts, so mappings besides the blocks of the heap,
  /// or in their place. A mapping's parts may come and go in other pieces than it was made of.
  void resolve_kind() {
    mappings_are_events_ = selection_.kind != model::Kind::kHeap;
    blocks_are_events_ = selection_.kind != model::Kind::kMmap;
  }

  /// Before the first batch: of the blocks of these nodes alone, by dense index, where 0 leaves a node out and one
  /// that is missing counts. `nodes` must outlive this. Mappings are not concerned.
  void resolve_nodes(const std::vector<std::uint8_t>& nodes) noexcept { resolved_nodes_ = nodes; }

  /// From here on appends the events to `events` in the order in which they are handled, which differs from the
  /// trace's where times are equal. Works with the second form of replay() only. Texts are those of the batch.
  void tell_order(std::vector<trace::MergedEvent>& events) noexcept { ordered_ = &events; }

  /// After the last batch. `end_time`: ticks to which the recording is known to have gone on. May append to
  /// the events given last.
  void finish(std::uint64_t end_time);

  std::uint64_t now() const noexcept { return now_; }                    ///< time of the last event
  std::size_t live_blocks() const noexcept { return blocks_.size(); }

  /// What a later replay needs to go on behind the last batch. Only of a replay that selects nothing.
  void save(trace::ByteWriter& out) const;
  /// Goes on where save() was called, before the slice begins; instead of all batches up to there. False: whether the
  /// blocks live there fit the selection cannot be told, so this replay must not be used. Throws trace::FormatError.
  bool restore(trace::ByteReader& in, std::uint32_t node_count);

  /// After restore(): the blocks that are live there and count, as allocations in order of time.
  void resolve_restored(std::vector<ResolvedEvent>& events) const;

  // Results, after finish().
  const model::HeapTotals& heap() const noexcept { return heap_; }  ///< peak_time_ns: in ticks
  const CostTracker& heap_costs() const noexcept { return heap_costs_; }
  const CostTracker& mmap_costs() const noexcept { return mmap_costs_; }
  const CostTracker& all_costs() const noexcept { return all_costs_; }  ///< only with Kind::kAll
  /// Those of the three that the selection's kind asks for.
  const CostTracker& costs() const noexcept {
    if (selection_.kind == model::Kind::kHeap) [[likely]] return heap_costs_;
    return count_all_ ? all_costs_ : mmap_costs_;
  }
  const Mappings& mappings() const noexcept { return mappings_; }
  const std::vector<Thread>& threads() const noexcept { return threads_; }
  const model::LiveTimeline& timeline() const noexcept { return timeline_; }  ///< from the slice's first moment on
  const model::SizeCounts& sizes() const noexcept { return sizes_; }
  const trace::TickClock& clock() const noexcept { return clock_; }
  const std::vector<Mark>& marks() const noexcept { return marks_; }
  /// Calls visit(region) for every mapping that counts, was made in the slice, and is live.
  template <typename Visit>
  void for_each_mapping_leak(Visit&& visit) const {
    mapping_table_.for_each([&](const Region& region) {
      if ((region.flags & (kNotSelected | kMapReserve)) == 0 && region.identity > first_identity_) visit(region);
    });
  }
  /// Calls visit(block) for every block that counts, was allocated in the slice, and is live.
  template <typename Visit>
  void for_each_leak(Visit&& visit) const {
    blocks_.for_each([&](const Block& block) {
      if ((block.thread & kNotSelected) == 0 && block.time >= choice_.from_ticks) visit(block);
    });
  }
  std::uint64_t samples() const noexcept { return samples_; }
  std::uint64_t peak_rss_bytes() const noexcept { return peak_rss_bytes_; }
  std::uint64_t last_time() const noexcept { return last_time_; }
  std::uint64_t unfinished() const noexcept { return unfinished_; }        ///< calls that began and never ended
  std::uint64_t bad_events() const noexcept { return bad_events_; }        ///< made no sense: left out
  bool paused_once() const noexcept { return paused_once_; }

 private:
  static constexpr std::uint32_t kNotSelected = 0x80000000;  // in Block::thread and Region::flags

  struct PendingRealloc {
    Block block;         // address 0: was unknown
    bool temporary = false;
  };
  /// Who released a block, as far as known.
  struct Release {
    std::uint32_t thread = kNoThread;
    std::uint32_t node = kNoNode;
    bool in_realloc = false;
  };
  struct PendingMapping {
    bool remap = false;
    std::vector<Region> pieces;
  };
  struct StreamState {
    std::uint32_t thread = kNoThread;
    std::vector<PendingRealloc> reallocs;  // a stack: a signal handler's stand above what they interrupted
    std::vector<PendingMapping> mappings;

    /// What the latest munmap (or mremap) that has not ended took, which ends with that.
    std::vector<Region> take_mapping(bool remap);
  };

  template <bool kResolve>
  bool run(trace::Batch& batch);
  template <bool kResolve>
  void run_part(std::size_t from, std::size_t to);
  void begin_slice();
  bool is_chosen(std::uint32_t node) const noexcept {
    return choice_.nodes == nullptr || (node < choice_.nodes->size() && (*choice_.nodes)[node] != 0);
  }
  template <bool kResolve>
  void handle(std::size_t i, std::uint64_t hash);
  template <bool kResolve>
  void allocate(std::size_t i, std::uint64_t hash, std::uint64_t old_address = 0);
  template <bool kResolve>
  void release(std::size_t i, std::uint64_t hash);
  void count_unmatched_free() noexcept;
  void count_failure(const trace::MergedEvent& event);
  template <bool kResolve>
  void realloc_begin(std::size_t i);
  template <bool kResolve>
  void realloc_end(std::size_t i);
  template <bool kResolve>
  void count_release(const Block& block, bool temporary, const Release& by);
  void count_rare_release(const Block& block);
  template <bool kResolve>
  bool settle_tie(std::size_t i, std::uint64_t address, bool wants_release);
  void handle_rare(const trace::MergedEvent& event);
  std::pair<std::uint64_t, std::uint64_t> pages_of(std::uint64_t address, std::uint64_t size) const noexcept;
  void map(const trace::MergedEvent& event, std::uint64_t begin, std::uint64_t end, std::uint32_t flags);
  void unmap(std::uint64_t begin, std::uint64_t end);
  void mapping_changed(const Region& region, std::int64_t bytes, std::int64_t blocks);
  void take_text(const trace::MergedEvent& event);
  void abandon_begins(StreamState& stream);
  Thread& thread_of(std::uint32_t stream);
  bool is_selected(std::uint32_t tid, const std::string& name) const;
  void restore_threads(trace::ByteReader& in);
  void restore_streams(trace::ByteReader& in, std::uint32_t node_count);
  Block restored_block(trace::ByteReader& in, std::uint32_t node_count) const;
  Region restored_region(trace::ByteReader& in, std::uint32_t node_count) const;
  void count_restored(const Block& block);
  void start_thread(StreamState& stream, std::uint32_t tid, std::string name);
  void join_others(StreamState& stream, std::uint32_t tid);
  bool has_room_for(const std::string& name) noexcept;
  bool is_temporary(const Block& block, const StreamState& stream) const noexcept;
  void mark(model::Timeline::Mark::Kind kind, std::uint64_t ticks, std::string text = {});
  model::LiveTimeline::State state() const noexcept;
  bool is_block_event(std::uint32_t node) const noexcept {
    return blocks_are_events_ && (node >= resolved_nodes_.size() || resolved_nodes_[node] != 0);
  }
  bool is_mapping_event(std::uint32_t flags) const noexcept {
    return mappings_are_events_ && resolved_ != nullptr && !(count_all_ && (flags & kMapFromAllocator) != 0);
  }

  const Selection selection_;
  const Choice choice_;
  const bool every_size_;
  const bool every_block_;  // but for size and thread
  const bool count_all_;
  const std::uint64_t page_bytes_;  // at least a page of the recorded machine: the trace's unit
  BlockTable blocks_;
  MappingTable mapping_table_;
  CostTracker heap_costs_;
  CostTracker mmap_costs_;
  CostTracker all_costs_;
  model::HeapTotals heap_;
  model::SizeCounts sizes_;
  model::LiveTimeline timeline_;
  Mappings mappings_;
  trace::TickClock clock_;
  std::vector<StreamState> streams_;
  const std::uint64_t max_threads_;
  const std::uint64_t max_name_bytes_;
  std::vector<Thread> threads_;
  std::uint32_t others_ = kNoThread;  // in threads_
  std::uint64_t name_bytes_ = 0;      // of all names so far of more than trace::kUncountedNameBytes
  std::unordered_map<std::uint32_t, std::uint32_t> thread_of_tid_;  // the latest with that tid
  std::vector<PendingRealloc> abandoned_reallocs_;
  std::vector<PendingMapping> abandoned_mappings_;
  std::vector<Mark> marks_;

  std::span<trace::MergedEvent> events_;     // the batch at hand
  std::vector<trace::EventText>* texts_ = nullptr;
  std::vector<ResolvedEvent>* resolved_ = nullptr;
  std::span<const std::uint8_t> resolved_nodes_;  // empty: all
  bool blocks_are_events_ = true;
  bool mappings_are_events_ = false;
  std::vector<trace::MergedEvent>* ordered_ = nullptr;
  std::uint64_t now_ = 0;
  std::uint64_t ordinal_ = 0;             // of the next allocation, unless every block counts
  std::uint64_t first_identity_ = 0;      // mappings of the slice lie above
  std::uint64_t timeline_start_ = 0;      // ticks of the timeline's 0
  bool in_slice_ = false;
  std::uint64_t last_time_ = 0;
  std::uint64_t samples_ = 0;
  std::uint64_t peak_rss_bytes_ = 0;
  std::uint64_t unfinished_ = 0;
  std::uint64_t bad_events_ = 0;
  bool paused_once_ = false;
  bool in_tie_ = false;
  const bool in_order_;                   // equal times were settled when the trace was compacted
};

}  // namespace heapprof::replay
