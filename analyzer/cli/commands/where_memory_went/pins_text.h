// The text of `heapprof pins`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/cli/commands/where_memory_went/pinned_residency.h"
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

/// Groups with less than this share of the overhead are counted in one line.
inline constexpr double kMinShare = 0.005;

/// Memory that the program mapped itself, for example for an allocator of its own, whose blocks are not recorded.
struct MappedByProgram {
  std::uint64_t bytes = 0;
  std::string site;              ///< the call site that mapped most of it
  std::uint64_t site_bytes = 0;  ///< what it mapped
};

struct PinsAnswer {
  const model::Profile& profile;
  const StackNames& names;
  const Findings& findings;
  const pins::PinnedMemory& memory;
  std::vector<PinGroupName> group_names;  ///< by number of the group
  std::vector<pins::PinGroup> groups;     ///< all, in the order of their rank
  std::size_t shown = 0;                  ///< of `groups`
  std::optional<PinnedResidency> residency;
  MappedByProgram mapped;

  /// The overhead of the first `count` groups; negative ones count as 0.
  std::uint64_t overhead_of(std::size_t count) const noexcept;
};

/// How many groups, of the first `max`, explain something: each has at least kMinShare of the overhead of all. At
/// least one, if there is one.
std::size_t groups_worth_showing(const PinsAnswer& answer, std::size_t max);

std::string pins_text(const PinsOptions& options, const PinsAnswer& answer);

}  // namespace heapprof::cli
