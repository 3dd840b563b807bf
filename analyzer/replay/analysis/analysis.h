// A trace, opened and replayed once into a profile; and, for who needs them, its events once more.
//
// The second pass is for what must know the whole before it sees the parts: an export that writes stacks
// before events, a timeline of the largest call sites. It costs the time of the first and gives the same
// events in the same order, also of a running program, since opening fixed what the trace holds.
//
// Selections that only the whole trace can answer are found by passes of their own before the one that counts: a
// slice of time and stacks chosen by name need one (the clock and the call tree are complete at the end only),
// lifetimes one more, which keeps a bit for each allocation of the trace. An index (index.h) spares the first, and
// lets a slice begin at the last snapshot before it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/model/profile.h"
#include "analyzer/replay/index/index.h"
#include "analyzer/replay/replay.h"
#include "analyzer/trace/events/tick_clock.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::replay {

/// Called now and then while a trace is read, with the share done (0 to 1, of all passes together) and the records
/// read so far.
using Progress = std::function<void(double share, std::uint64_t records)>;

/// Where indexes may come from, besides the trace itself.
struct IndexUse {
  bool use = true;       ///< one beside the trace or in the cache
  bool keep = true;      ///< leave one in the cache when a large trace had to be read twice
};

/// An event of the second pass: nodes and threads are those of the profile, times nanoseconds.
struct ProfileEvent {
  std::uint64_t time_ns;
  std::uint64_t address;
  std::uint64_t size;
  std::uint32_t node;    ///< Profile::nodes
  std::uint32_t thread;  ///< Profile::threads
  ResolvedKind kind;
  bool temporary;
  bool before_slice;     ///< its block was allocated before the slice, and counts only as live in it
  bool in_realloc = false;                      ///< half of a realloc: its release, or what it gave for another block
  std::uint32_t freeing_thread = kNoThread;     ///< of a release; kNoThread: nobody saw it
  std::uint32_t freeing_node = model::kNoIndex; ///< of a release: the stack that did it, where recorded
  std::uint64_t born_ns = 0;                    ///< of a release: when its block was allocated
  std::uint64_t old_address = 0;  ///< of an allocation in a realloc: the block whose release came before
};

/// A block that nobody released.
struct LiveBlock {
  std::uint64_t time_ns;  ///< of its allocation
  std::uint64_t address;
  std::uint64_t size;
  std::uint32_t node;     ///< Profile::nodes
  std::uint32_t thread;   ///< Profile::threads
};

/// Which events a second pass hands out.
struct EventChoice {
  bool with_older = false;  ///< also of blocks made before the slice, from the trace's beginning or the snapshot's on
  bool of_kind = false;     ///< of what Selection::kind asks for, mappings too, in place of the heap's
  const std::vector<std::uint8_t>* nodes = nullptr;  ///< by node of the profile: 0 leaves its blocks out; null: all
  std::function<void(const LiveBlock&)> survivors{};  ///< gets what is live at the end
};

class Analysis {
 public:
  /// Throws trace::TraceError when there is nothing to be had, SelectionError when the recording has no such time.
  Analysis(const std::string& path, const Selection& selection, const Progress& progress = {},
           const IndexUse& index_use = {});

  const trace::TraceFile& file() const noexcept { return file_; }
  const model::Profile& profile() const noexcept { return profile_; }
  /// Sentences for the user: an index that does not fit.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }
  /// Whether the stacks (by module and function) and the threads that the selection asks for are in the recording at
  /// all, whatever else keeps their blocks out of the figures. True without such a selection.
  bool names_found() const noexcept { return stacks_found_ && threads_found_; }
  /// The replay of a slice began at a snapshot.
  bool began_at_snapshot() const noexcept { return !snapshot_.empty(); }

  /// All allocations, releases and samples that count, in order, a batch at a time; with older ones those first that
  /// are live where the reading begins. Then the survivors, in no order, once: the blocks that the profile counts as
  /// leaked.
  void for_each_event(const std::function<void(std::span<const ProfileEvent>)>& sink, const Progress& progress = {},
                      const EventChoice& which = {}) const;

  /// Live bytes of groups of nodes over time: group_of_node says for each node of the profile its group, from
  /// 0, or kNoIndex. Result: by group, the live bytes at the end of each bucket of the profile's timeline.
  std::vector<std::vector<std::uint64_t>> live_by_group(const std::vector<std::uint32_t>& group_of_node,
                                                        std::uint32_t groups, const Progress& progress = {}) const;

 private:
  struct Run;
  class Passes;
  struct Found;
  std::unique_ptr<Run> start() const;
  bool find_index();
  void scout(Passes& passes);
  void settle_choice(Passes& passes);
  void choose_blocks(Passes& passes);
  void begin_at_snapshot();
  void read_bundle();
  void link(const trace::Definitions& definitions);
  void describe_recording(const trace::Definitions& definitions);
  void settle_integrity(const Found& found);
  void fill_costs(const Replay& replay);
  void fill_timeline(const Replay& replay);

  Selection selection_;
  trace::TraceFile file_;
  model::Profile profile_;
  trace::TickClock clock_;
  std::vector<std::uint32_t> node_of_index_;
  std::uint64_t lost_nodes_ = 0;
  bool bundle_damaged_ = false;
  bool stacks_found_ = true;
  bool threads_found_ = false;
  bool threads_merged_ = false;
  bool names_left_out_ = false;
  Choice choice_;
  std::vector<std::uint8_t> chosen_nodes_;  // by dense index
  std::vector<bool> chosen_blocks_;         // by ordinal
  IndexUse index_use_;
  std::optional<Index> index_;
  std::shared_ptr<const trace::Whole> whole_;  // of what must be known before the pass that counts
  std::vector<std::uint8_t> snapshot_;         // that the replay begins at; empty: at the trace's beginning
  std::vector<std::string> warnings_;
};

}  // namespace heapprof::replay
