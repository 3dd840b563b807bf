// The profile of a recording that is being followed: its call tree, and what its stacks have allocated and keep live.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "analyzer/cli/text/stack_names.h"
#include "analyzer/live/live_state.h"
#include "analyzer/model/profile.h"
#include "analyzer/symbols/symbolizer.h"
#include "analyzer/trace/follower.h"

namespace heapprof::cli {

struct LiveProfile {
  model::Profile profile;                    ///< without peaks and temporary allocations
  std::vector<std::uint32_t> node_of_index;  ///< by dense index of the trace: node of the profile
};

/// For one recording: what does not change is read once.
class LiveProfileMaker {
 public:
  explicit LiveProfileMaker(const symbols::Options& symbols) : symbols_(symbols) {}

  /// `known`: frames that were looked up before, to which others are added.
  LiveProfile make(const trace::Follower& follower, const live::LiveState& state, KnownFrames& known);

 private:
  const symbols::Options symbols_;
  bool embedded_symbols_read_ = false;
  std::shared_ptr<const std::vector<symbols::ModuleSymbols>> embedded_symbols_;
};

}  // namespace heapprof::cli
