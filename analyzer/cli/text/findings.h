// The call sites, helpers and keepers of a profile (analyzer/findings/), with names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/cli/text/stack_names.h"
#include "analyzer/cli/text/view_options.h"
#include "analyzer/findings/call_sites.h"
#include "analyzer/findings/code_frames.h"
#include "analyzer/findings/helpers.h"
#include "analyzer/findings/origin.h"
#include "analyzer/model/profile.h"

namespace heapprof::cli {

/// How call sites are found and shown, as given on the command line.
struct CallSiteOptions {
  std::vector<std::string> helpers;  ///< --helper: extended regular expressions (POSIX), or parts of names
  bool find_helpers = true;          ///< false: --no-helpers
  std::vector<std::string> own;      ///< --own, then those of the project file
  std::size_t own_options = 0;       ///< how many of `own` are of --own
  std::vector<std::string> third_party, standard, runtime;  ///< of the project file
  ViewOptions view;
};

/// Where code of `profile` comes from. Throws std::invalid_argument with a sentence when a pattern is invalid.
findings::OriginRules origin_rules(const model::Profile& profile, const CallSiteOptions& options);

/// Finds the helpers of a profile. `names` must have resolved nodes_of_findings(), and outlive this, as `profile`.
class Findings {
 public:
  /// Prints a message about patterns for own code that match nothing. Throws std::invalid_argument with a sentence
  /// when a regular expression is invalid.
  Findings(const model::Profile& profile, const StackNames& names, const CallSiteOptions& options);

  const findings::CodeFrames& frames() const noexcept { return frames_; }
  const findings::Helpers& helpers() const noexcept { return helpers_; }

  const ViewOptions& view() const noexcept { return view_; }
  const findings::OriginRules& origins() const noexcept { return origins_; }
  /// What the call site of stacks without a frame that is shown is called.
  const char* without_site() const noexcept;

  /// A frame with its texts. Precondition: `frame` exists.
  Frame frame(findings::FrameRef frame) const;

 private:
  const StackNames& names_;
  const ViewOptions view_;
  const findings::OriginRules origins_;
  findings::CodeFrames frames_;
  findings::Helpers helpers_;
};

/// For commands without Findings: the positions in options.own of patterns that match nothing in the recording; none
/// if only a part of it is selected. `names` must have resolved all nodes with costs.
std::vector<std::size_t> unmatched_own_code(const model::Profile& profile, const StackNames& names,
                                            const CallSiteOptions& options);
/// Prints a message about these patterns. `where`: "this recording".
void report_unmatched_own_code(const std::vector<std::size_t>& unmatched, const CallSiteOptions& options,
                               const std::string& where);

/// Which frames are shown where all frames of a stack count and there are no Findings: flame graphs.
class FrameFilter {
 public:
  /// Throws std::invalid_argument with a sentence when a regular expression is invalid.
  FrameFilter(const model::Profile& profile, const CallSiteOptions& options)
      : only_own_(options.view.only_own), rules_(origin_rules(profile, options)) {}

  bool shows(const Frame& frame) const;
  /// The frames that are shown, in their order.
  std::vector<Frame> shown(std::vector<Frame> frames) const;

 private:
  const bool only_own_;
  const findings::OriginRules rules_;
};

/// What a stack without a frame that FrameFilter shows is called, in place of its frames.
inline constexpr const char* kNoOwnCode = "[no own code]";

/// All nodes of `profile` with costs.
std::vector<std::uint32_t> nodes_with_costs(const model::Profile& profile);
/// The stacks whose frames Findings needs: those with costs, and if a part of the recording is selected, all that
/// allocated in the rest.
std::vector<std::uint32_t> nodes_of_findings(const model::Profile& profile);

}  // namespace heapprof::cli
