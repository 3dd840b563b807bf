// The text of `heapprof rss`, and the sentence that sums it up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/allocators/allocator_model.h"
#include "analyzer/cli/options/command_options.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/model/profile.h"
#include "analyzer/rss/recorded_residency.h"
#include "analyzer/rss/resident_lines.h"

namespace heapprof::cli {

struct RssAnswer {
  const model::Profile& profile;
  const StackNames& names;
  const Findings& findings;
  const Findings& mapping_findings;  ///< of the profile with resident mappings as its costs
  const rss::ResidentMemory& memory;
  const rss::RecordedResidency& recorded;  ///< without its `last`
  allocators::Allocator allocator = allocators::Allocator::kUnknown;
  std::string note;                              ///< about the allocator; empty: nothing to note
  std::uint64_t at_ns = 0;                       ///< since the start of the recording
  std::uint64_t live_bytes = 0;                  ///< requested bytes of live blocks at `at_ns`
  std::optional<rss::SnapshotSummary> snapshot;  ///< nullopt: the lines are estimated from `sample`
  std::optional<rss::ResidentSample> sample;     ///< the last one at or before `at_ns`
};

/// "asked for", and "requested by the program, in live blocks".
const char* label_of(rss::Line line);
const char* meaning_of(rss::Line line);

/// The innermost frame that explains a mapping; its `module` is null when no stack was recorded.
Frame mapping_site(const RssAnswer& answer, std::uint32_t node);

/// What most of resident memory is, what a trim would return, or which command to go on with.
std::string rss_verdict(const RssAnswer& answer);

std::string rss_text(const RssOptions& options, const RssAnswer& answer);

}  // namespace heapprof::cli
