// What is live now, by call-tree node and by thread, from the events of a trace::Follower.
//
// The rules are those of replay/replay.h, but only for sums of heap blocks: without peaks, lifetimes and temporary
// allocations an event costs about half as much. The sums are those of a full replay whenever the follower has read
// to a moment, except for events that have equal times.
//
// Events of equal time can come in the wrong order. A free of an unknown block is remembered until the time changes,
// and so is a block whose address another allocation got; if an event of another stream then explains it, the two are
// a pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/replay/block_table.h"
#include "analyzer/replay/pending_reallocs.h"
#include "analyzer/trace/events/tick_clock.h"
#include "analyzer/trace/follower.h"
#include "common/trace_format.h"

namespace heapprof::live {

struct LiveSums {
  std::uint64_t live_bytes = 0;
  std::uint64_t live_blocks = 0;
  std::uint64_t allocations = 0;  ///< since the recording began
  std::uint64_t allocated_bytes = 0;
};

inline LiveSums& operator+=(LiveSums& sums, const LiveSums& other) noexcept {
  sums.live_bytes += other.live_bytes;
  sums.live_blocks += other.live_blocks;
  sums.allocations += other.allocations;
  sums.allocated_bytes += other.allocated_bytes;
  return sums;
}

struct LiveThread {
  std::uint32_t tid = 0;  ///< 0: unknown
  std::string name;
  LiveSums sums;
};

/// Blocks of a node that a realloc replaced.
struct MovedBlocks {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
};

/// Used by one thread.
class LiveState {
 public:
  /// Threads beyond this count as the last one.
  static constexpr std::size_t kMaxThreads = 100'000;

  explicit LiveState(const FileHeader& header);
  LiveState(const LiveState&) = delete;
  LiveState& operator=(const LiveState&) = delete;

  /// Takes the next events. May move texts out of the run.
  void take(const trace::EventRun& run);

  /// The live blocks of a thread by stack, most bytes first: dense indexes, and live_bytes and live_blocks of each.
  /// Visits all live blocks.
  std::vector<std::pair<std::uint32_t, LiveSums>> live_stacks_of(std::uint32_t thread) const;

  const LiveSums& totals() const noexcept { return totals_; }
  const std::vector<LiveSums>& nodes() const noexcept { return nodes_; }        ///< by dense index; may be shorter
  const std::vector<MovedBlocks>& moved() const noexcept { return moved_; }     ///< by dense index; may be shorter
  const std::vector<LiveThread>& threads() const noexcept { return threads_; }  ///< in order of their first record
  std::uint64_t frees() const noexcept { return frees_; }                       ///< unmatched ones included
  std::uint64_t events() const noexcept { return totals_.allocations + frees_ + failed_; }
  std::uint64_t rss_bytes() const noexcept { return rss_bytes_; }  ///< of the last sample; 0: there was none
  std::uint64_t last_ticks() const noexcept { return last_ticks_; }
  const trace::TickClock& clock() const noexcept { return clock_; }
  bool paused() const noexcept { return paused_; }
  bool paused_once() const noexcept { return paused_once_; }
  std::uint64_t marks() const noexcept { return marks_; }
  const std::string& last_mark() const noexcept { return last_mark_; }

  /// How many threads the search for a tid compares at most, for tests.
  std::size_t max_compared() const { return max_bucket_size(thread_of_tid_); }

 private:
  struct Stream {
    std::uint32_t thread = kNoThread;
    // A stack: calls of a signal handler are above those it interrupted.
    std::vector<replay::PendingReallocs::Number> reallocs;
  };
  struct Tie {
    std::uint64_t address = 0;
    std::uint64_t ticks = 0;
    std::uint32_t stream = 0;
  };
  static constexpr std::uint32_t kNoThread = 0xffffffff;

  void take_event(const trace::MergedEvent& event, std::uint64_t hash, std::vector<trace::EventText>* texts);
  void allocate(const trace::MergedEvent& event, std::uint64_t hash);
  void free(const trace::MergedEvent& event, std::uint64_t hash);
  void count_reuse(std::uint64_t address, std::uint64_t hash);
  void realloc_begin(const trace::MergedEvent& event);
  replay::PendingRealloc take_realloc(Stream& stream);
  void realloc_end(const trace::MergedEvent& event);
  void realloc_failed(const trace::MergedEvent& event);
  void take_rare(const trace::MergedEvent& event, std::vector<trace::EventText>* texts);
  void take_text(const trace::MergedEvent& event, trace::EventText& text);
  void remove(const replay::Block& block);
  static void add_tie(std::vector<Tie>& ties, const trace::MergedEvent& event);
  static bool settles(std::vector<Tie>& ties, const trace::MergedEvent& event);
  void abandon_calls(Stream& stream);
  std::uint32_t start_thread(std::uint32_t tid, std::string name);
  LiveSums& node(std::uint32_t index);
  Stream& stream(std::uint32_t index);
  LiveThread& thread_of(Stream& stream);

  replay::BlockTable blocks_;
  LiveSums totals_;
  std::vector<LiveSums> nodes_;
  std::vector<MovedBlocks> moved_;
  std::vector<LiveThread> threads_;
  std::unordered_map<std::uint32_t, std::uint32_t, ChosenKeyHash> thread_of_tid_;  // the latest one: in threads_
  std::vector<Stream> streams_;
  replay::PendingReallocs reallocs_;
  // Of one time each, the latest ones.
  std::vector<Tie> early_frees_;  // of blocks that are unknown so far
  std::vector<Tie> replaced_;     // blocks whose addresses were allocated again
  trace::TickClock clock_;
  std::uint64_t frees_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t rss_bytes_ = 0;
  std::uint64_t last_ticks_ = 0;
  std::uint64_t marks_ = 0;
  std::string last_mark_;
  bool paused_ = false;
  bool paused_once_ = false;
};

}  // namespace heapprof::live
