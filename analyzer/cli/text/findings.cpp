#include "analyzer/cli/text/findings.h"

#include <memory>
#include <string_view>
#include <utility>

#include "analyzer/cli/text/name_pattern.h"

namespace heapprof::cli {

namespace {

/// Patterns of the user, compiled. Throws std::invalid_argument with a sentence when one is invalid.
std::vector<findings::NamePattern> compiled_patterns(const std::vector<std::string>& texts) {
  std::vector<findings::NamePattern> patterns;
  for (const std::string& text : texts)
    patterns.emplace_back(
        [pattern = std::make_shared<NamePattern>(text)](const std::string& name) { return pattern->matches(name); });
  return patterns;
}

findings::HelperOptions helper_options(const CallSiteOptions& options) {
  return {options.find_helpers, options.find_helpers, compiled_patterns(options.helpers)};
}

}  // namespace

findings::OriginRules origin_rules(const model::Profile& profile, const CallSiteOptions& options) {
  return findings::OriginRules(profile.recording.program,
                               {compiled_patterns(options.own), compiled_patterns(options.third_party),
                                compiled_patterns(options.standard), compiled_patterns(options.runtime)});
}

Findings::Findings(const model::Profile& profile, const StackNames& names, const CallSiteOptions& options)
    : names_(names), view_(options.view), origins_(origin_rules(profile, options)),
      frames_(
          profile, [&names](std::uint32_t address) { return names.sources_of(address); }, origins_,
          options.view.scope()),
      helpers_(frames_, helper_options(options)) {}

const char* Findings::without_site() const noexcept {
  return view_.only_own ? "(no own code)" : "(no stack recorded)";
}

Frame Findings::frame(findings::FrameRef ref) const { return names_.frames_of_address(ref.address)[ref.index]; }

bool FrameFilter::shows(const Frame& frame) const {
  if (!only_own_) return true;
  const std::string_view module = frame.module == nullptr ? std::string_view() : std::string_view(frame.module->path);
  return rules_.of({frame.function, frame.file, module}) == findings::Origin::kOwn;
}

std::vector<Frame> FrameFilter::shown(std::vector<Frame> frames) const {
  std::erase_if(frames, [this](const Frame& frame) { return !shows(frame); });
  return frames;
}

std::vector<std::uint32_t> nodes_with_costs(const model::Profile& profile) {
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t node = 0; node < profile.nodes.size(); ++node)
    if (!profile.nodes[node].costs.empty()) nodes.push_back(node);
  return nodes;
}

}  // namespace heapprof::cli
