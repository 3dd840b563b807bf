// Call sites: all stacks of a profile grouped by the function and source line that allocated.
//
// The call site of a stack is its innermost frame that is neither of a helper nor of a standard library nor of the
// runtime. Third parties' sources that are built into the program (headers, crates) are skipped as well, unless only
// main is outside of them. If there is no such frame, it is the innermost line of Python, even if that is of the
// standard library, else the innermost frame that is no allocation function.
//
// Of Scope::kOwn the call site is the innermost frame of own code from there on that is no helper, else such a frame
// anywhere in the stack. A stack without own code has none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/findings/code_frames.h"
#include "analyzer/findings/held.h"
#include "analyzer/findings/helpers.h"
#include "analyzer/model/profile.h"

namespace heapprof::findings {

struct CallSite {
  FrameRef frame;  ///< of the stack that holds most; exists() is false: stacks without frames, or without own code
  /// If the site is not in the program's own code: the innermost frame of own code in the stack that holds most.
  /// exists() is false: the site is own code, or there is none.
  FrameRef own_caller;
  Held held;           ///< sum over all stacks
  model::Costs costs;  ///< sum over all stacks, also those that hold nothing
  /// Stacks that hold something, by bytes, then by number of the node.
  std::vector<std::uint32_t> nodes;
};

class CallSites {
 public:
  /// Groups all stacks. `held` is by node of the profile. The arguments need not outlive this.
  CallSites(const CodeFrames& frames, const Helpers& helpers, const HeldByNode& held);

  /// The sites that hold something, most bytes first; equal ones in the order of their nodes.
  std::span<const CallSite> sites() const noexcept { return sites_; }
  /// By node of the profile: position in sites(), or model::kNoIndex. Nodes with any cost have one if their site
  /// holds something.
  const std::vector<std::uint32_t>& site_of_node() const noexcept { return site_of_node_; }

 private:
  std::vector<CallSite> sites_;
  std::vector<std::uint32_t> site_of_node_;
};

/// By node of the profile, the frame of its call site; exists() is false: it has none. `scope` replaces that of
/// `frames`.
std::vector<FrameRef> find_site_frames(const CodeFrames& frames, const Helpers& helpers, Scope scope);
std::vector<FrameRef> find_site_frames(const CodeFrames& frames, const Helpers& helpers);

/// The frame of the call site of one stack; exists() is false: it has none.
FrameRef call_site_of(const CodeFrames& frames, const Helpers& helpers, std::uint32_t node);

}  // namespace heapprof::findings
