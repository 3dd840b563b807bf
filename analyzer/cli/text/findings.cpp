#include "analyzer/cli/text/findings.h"

#include <memory>
#include <utility>

#include "analyzer/cli/text/name_pattern.h"

namespace heapprof::cli {

std::vector<findings::NamePattern> compiled_patterns(const std::vector<std::string>& texts) {
  std::vector<findings::NamePattern> patterns;
  for (const std::string& text : texts)
    patterns.emplace_back(
        [pattern = std::make_shared<NamePattern>(text)](const std::string& name) { return pattern->matches(name); });
  return patterns;
}

namespace {

findings::HelperOptions helper_options(const CallSiteOptions& options) {
  return {options.find_helpers, options.find_helpers, compiled_patterns(options.helpers)};
}

}  // namespace

Findings::Findings(const model::Profile& profile, const StackNames& names, const CallSiteOptions& options)
    : names_(names), frames_(
                         profile, [&names](std::uint32_t address) { return names.sources_of(address); },
                         findings::OriginRules(profile.recording.program, compiled_patterns(options.own))),
      helpers_(frames_, helper_options(options)) {}

Frame Findings::frame(findings::FrameRef ref) const { return names_.frames_of_address(ref.address)[ref.index]; }

std::vector<std::uint32_t> nodes_with_costs(const model::Profile& profile) {
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t node = 0; node < profile.nodes.size(); ++node)
    if (!profile.nodes[node].costs.empty()) nodes.push_back(node);
  return nodes;
}

}  // namespace heapprof::cli
