// What `top` shows: figures of a followed recording now, their changes, and rows by call site, function, line,
// module, thread or stack.
//
// read() takes what the program has done; table() makes a table of it, by any key. Growth is the change since the
// first reading, or since set_base(). Rates are those of the time between the last two readings; after the first
// reading, of the recording so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/cli/text/view_names.h"
#include "analyzer/cli/top/live_tree.h"
#include "analyzer/cli/top/top_options.h"
#include "analyzer/live/live_state.h"
#include "analyzer/model/profile.h"
#include "analyzer/trace/follower.h"
#include "analyzer/views/rows.h"

namespace heapprof::cli {

/// The figures of a row, or of all rows.
struct TopFigures {
  live::LiveSums sums;
  std::int64_t growth_bytes = 0;  ///< of live bytes
  std::int64_t growth_blocks = 0;
  double bytes_per_s = 0;  ///< allocated
  double allocations_per_s = 0;
  /// Live bytes at the last readings, the oldest first; at most TopModel::kHistory. Not of rows, with --json.
  std::vector<std::uint64_t> over_time;
};

struct TopRow {
  ViewName name;
  TopFigures figures;
  std::uint32_t key =
      model::kNoIndex;               ///< identifies the row in tables with the same `by`, until the tree is rebuilt
  std::optional<std::uint32_t> tid;  ///< of threads
};

struct TopTable {
  std::string program;  ///< path, not clean
  std::uint32_t pid = 0;
  /// "recording", "paused", or "ended": nothing is written any more.
  std::string state;
  model::Integrity integrity;  ///< of what was read
  bool compacted = false;
  std::string continued_in;       ///< the trace of the program that this one has executed; empty: none
  std::uint64_t at_ns = 0;        ///< since the start of the recording; its end, if it has ended
  std::uint64_t interval_ns = 0;  ///< of the rates
  TopFigures total;
  std::uint64_t frees = 0;
  std::uint64_t rss_bytes = 0;  ///< at the last sample; 0: unknown
  bool has_growth = false;      ///< there was a reading before
  std::string since;            ///< of growth: "the start of top", "mark 1"; clean
  views::By by = views::By::kSite;
  TopSort sort = TopSort::kLive;
  bool only_own = false;
  std::size_t all_rows = 0;
  std::vector<TopRow> rows;  ///< sorted
};

class TopModel {
 public:
  /// Readings whose live bytes are kept.
  static constexpr std::size_t kHistory = 24;

  /// The path of the trace of the program that the one of `header`, recorded in `path`, has executed; empty: none.
  using FindLaterTrace = std::function<std::string(const std::string& path, const FileHeader& header)>;

  /// Opens the trace. Throws trace::TraceError.
  TopModel(const std::string& path, const TopOptions& options, FindLaterTrace find_later_trace);

  /// Reads what the program has done. False: it writes no more, and everything was read before.
  bool read();
  /// Whether nothing will be written any more.
  bool ended() const noexcept { return follower_.ended() && read_to_end_; }
  const trace::Follower& follower() const noexcept { return follower_; }
  const live::LiveState& state() const noexcept { return state_; }

  /// Whether the program is gone, and how it ended or what it executes may still be written.
  bool ending_may_change() const;

  /// Looks up the names of new stacks, if there are any; unless that took long lately, or `now`.
  void name_stacks(bool now);

  /// From now on, growth is since this moment. `name` (clean): how tables call it.
  void set_base(std::string name);

  /// The rows by `by`, at most `max` (0: all).
  TopTable table(views::By by, TopSort sort, const ViewOptions& view, std::size_t max) const;

  /// The stacks of a row, most live bytes first: nodes of tree().profile() and their figures. Of a thread: stacks
  /// with live blocks, and only what is live.
  std::vector<std::pair<std::uint32_t, TopFigures>> stacks_of(views::By by, const ViewOptions& view,
                                                              std::uint32_t key) const;
  const LiveTree& tree() const noexcept { return tree_; }
  std::vector<std::string> symbol_warnings() const { return tree_.stack_names().warnings(); }

 private:
  /// The sums of one reading.
  struct Reading {
    std::vector<live::LiveSums> nodes;  // by dense index
    std::vector<live::LiveSums> threads;
    live::LiveSums total;
  };
  struct Level {
    std::vector<std::uint64_t> nodes;  // live bytes, by dense index
    std::vector<std::uint64_t> threads;
    std::uint64_t total = 0;
  };

  void take_reading(Reading& reading) const;
  TopFigures figures(const live::LiveSums& now, const live::LiveSums& base, const live::LiveSums& before) const;
  const LiveGroups& groups(views::By by, views::Scope scope) const;
  std::vector<TopRow> thread_rows() const;
  std::vector<TopRow> stack_rows(views::By by, views::Scope scope) const;
  model::Integrity integrity() const;
  std::string continued_in() const;
  void add_over_time(TopTable& table, views::Scope scope) const;

  const TopOptions options_;
  const FindLaterTrace find_later_trace_;
  trace::Follower follower_;
  live::LiveState state_;
  LiveTree tree_;
  mutable std::map<std::pair<views::By, views::Scope>, LiveGroups> groups_;  // of tree_
  bool read_to_end_ = false;
  std::size_t readings_ = 0;
  Reading base_;
  Reading before_;
  std::string base_name_ = "the start of top";
  std::deque<Level> levels_;
  std::uint64_t at_ns_ = 0;
  std::uint64_t before_ns_ = 0;  // at_ns_ of the reading before
  std::size_t trees_built_ = 0;
  mutable std::uint64_t tree_cost_ns_ = 0;   // processor time of the last rebuilding, and of the groups of tree_
  std::uint64_t allocated_before_tree_ = 0;  // bytes
  std::uint64_t tree_built_at_ns_ = 0;       // CLOCK_MONOTONIC
};

}  // namespace heapprof::cli
