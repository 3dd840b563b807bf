// Several recordings as one profile: what they cost together, and by program. The commands that need nothing but a
// profile answer for several recordings as for one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/cli/commands/shared/recording_set.h"
#include "analyzer/cli/options/trace_options.h"
#include "analyzer/model/profile.h"
#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::cli {

/// Several recordings in one profile, which has `together`. Its costs of peak are those at each recording's own peak,
/// or at the moment of --live-at.
struct MergedRecordings {
  struct Program {
    std::string name;                                       ///< base name
    std::unordered_map<std::uint32_t, model::Costs> costs;  ///< by node of `profile`; only those that are not empty
    model::Costs totals;
  };
  model::Profile profile;
  std::vector<Program> programs;
  std::vector<std::size_t> members;  ///< by process of profile.together: its position in the RecordingSet
};

/// Called for each recording of a set after it was read; `start_ns`: on the one clock.
using MemberVisitor =
    std::function<void(std::size_t member, const replay::Analysis& analysis, std::uint64_t start_ns)>;

/// Reads the recordings that options.traces names, each with its part of the selection, and calls `print` with all of
/// them. Prints errors, and what the recordings lack, on standard error. Returns the exit status (commands.h).
int run_on_recordings(const TraceOptions& options,
                      const std::function<void(const RecordingSet& set, const MergedRecordings& merged)>& print,
                      const MemberVisitor& visit = {});

/// run_on_trace() for a command that needs nothing but the profile, of one recording or of several.
int run_on_profile(const TraceOptions& options, const std::function<void(const model::Profile& profile)>& print);

}  // namespace heapprof::cli
