// The call tree of a recording that is being followed, with names, call sites and groups of stacks.
//
// Linking the tree, looking up names and finding helpers takes much longer than reading a second of events. So it is
// done only when stacks have been added, and only as often as it costs little; meanwhile the new ones are one group
// of their own. Names that are known are not looked up again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/cli/text/view_names.h"
#include "analyzer/cli/text/view_options.h"
#include "analyzer/cli/top/live_profile.h"
#include "analyzer/live/live_state.h"
#include "analyzer/model/profile.h"
#include "analyzer/symbols/symbolizer.h"
#include "analyzer/trace/follower.h"
#include "analyzer/views/rows.h"

namespace heapprof::cli {

/// The stacks of a view as rows. Rows of threads are Profile::threads.
struct LiveGroups {
  std::vector<views::Row> rows;  ///< without figures
  std::vector<std::uint32_t>
      row_of_index;  ///< by dense index of the trace: position in rows, or kNoIndex: no row yet
};

class LiveTree {
 public:
  LiveTree(const symbols::Options& symbols, const CallSiteOptions& call_sites)
      : symbols_(symbols), call_sites_(call_sites), live_profile_(symbols) {}

  /// The sums of the stacks that the tree does not have: of all, before the first rebuild().
  live::LiveSums new_stacks(const live::LiveState& state) const noexcept;
  /// Throws std::invalid_argument with a sentence when a pattern of the user is invalid.
  void rebuild(const trace::Follower& follower, const live::LiveState& state);

  const model::Profile& profile() const noexcept { return built_->profile; }
  /// Every stack is in a row, except those that were added after rebuild(). Not for threads.
  LiveGroups groups(views::By by, views::Scope scope) const;
  ViewNames names(const ViewOptions& view) const { return {built_->profile, built_->findings, view}; }
  /// Dense index of the trace to node of the profile; 0 for those that were added after rebuild().
  std::uint32_t node_of(std::uint32_t index) const noexcept {
    return index < built_->node_of_index.size() ? built_->node_of_index[index] : 0;
  }
  const StackNames& stack_names() const noexcept { return built_->names; }
  const Findings& findings() const noexcept { return built_->findings; }

 private:
  struct Built {
    Built(model::Profile of, std::vector<std::uint32_t> node_of, const symbols::Options& symbols,
          const CallSiteOptions& call_sites, KnownFrames& known);
    const model::Profile profile;
    const std::vector<std::uint32_t> node_of_index;
    StackNames names;
    Findings findings;
  };

  const symbols::Options symbols_;
  const CallSiteOptions call_sites_;
  LiveProfileMaker live_profile_;
  KnownFrames known_;
  std::vector<bool> has_costs_;  ///< by dense index: the stack had allocated when the tree was built
  std::unique_ptr<Built> built_;
};

}  // namespace heapprof::cli
