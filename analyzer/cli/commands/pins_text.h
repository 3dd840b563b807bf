// The text of `heapprof pins`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/cli/options/command_options.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/findings/code_frames.h"
#include "analyzer/model/profile.h"
#include "analyzer/pins/pin_groups.h"
#include "analyzer/pins/pinned_memory.h"

namespace heapprof::cli {

/// A group of stacks by its number.
struct PinGroupName {
  std::uint32_t node = 0;    ///< its stack whose blocks have most bytes
  findings::FrameRef frame;  ///< its call site; exists() is false: there is none
  std::string name;          ///< unique only among functions and call sites
};

struct PinsAnswer {
  const model::Profile& profile;
  const StackNames& names;
  const Findings& findings;
  const pins::PinnedMemory& memory;
  std::vector<PinGroupName> group_names;  ///< by number of the group
  std::vector<pins::PinGroup> groups;     ///< all, in the order of their rank
  std::size_t shown = 0;                  ///< of `groups`
};

std::string pins_text(const PinsOptions& options, const PinsAnswer& answer);

}  // namespace heapprof::cli
