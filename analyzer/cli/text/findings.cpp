#include "analyzer/cli/text/findings.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "analyzer/cli/text/message.h"
#include "analyzer/cli/text/name_pattern.h"
#include "analyzer/cli/text/used_project_file.h"

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

/// Whether the pattern matches a function, source file or module of code with costs, or any module.
bool occurs(const findings::CodeFrames& frames, const NamePattern& pattern) {
  const auto matches = [&](const std::string& text) { return !text.empty() && pattern.matches(text); };
  if (std::ranges::any_of(frames.profile().modules,
                          [&](const model::Module& module) { return matches(module.path); }) ||
      std::ranges::any_of(frames.functions(),
                          [&](const findings::Function& function) { return matches(function.name); }))
    return true;
  for (std::uint32_t address = 0; address < frames.profile().addresses.size(); ++address)
    for (std::uint32_t index = 0; index < frames.functions_at(address).size(); ++index)
      if (const symbols::SourceFrame* const source = frames.source_of({address, index});
          source != nullptr && matches(source->file))
        return true;
  return false;
}

/// Positions in options.own. Of a part of a recording nobody can say: none.
std::vector<std::size_t> unmatched_patterns(const findings::CodeFrames& frames, const CallSiteOptions& options) {
  const model::Profile& profile = frames.profile();
  std::vector<std::size_t> unmatched;
  if (profile.slice || profile.live_at_ns || !profile.selection_text.empty()) return unmatched;
  for (std::size_t i = 0; i < options.own.size(); ++i)
    if (!occurs(frames, NamePattern(options.own[i]))) unmatched.push_back(i);
  return unmatched;
}

}  // namespace

findings::OriginRules origin_rules(const model::Profile& profile, const CallSiteOptions& options) {
  const model::Recording& recording = profile.recording;
  return findings::OriginRules(
      recording.other_programs.empty() ? std::vector{recording.program} : recording.other_programs,
      {compiled_patterns(options.own), compiled_patterns(options.third_party), compiled_patterns(options.standard),
       compiled_patterns(options.runtime)},
      std::ranges::any_of(profile.modules, &model::Module::is_python));
}

Findings::Findings(const model::Profile& profile, const StackNames& names, const CallSiteOptions& options)
    : names_(names), view_(options.view), origins_(origin_rules(profile, options)),
      frames_(
          profile, [&names](std::uint32_t address) { return names.sources_of(address); }, origins_,
          options.view.scope()),
      helpers_(frames_, helper_options(options)) {
  report_unmatched_own_code(unmatched_patterns(frames_, options), options, "this recording");
}

std::vector<std::size_t> unmatched_own_code(const model::Profile& profile, const StackNames& names,
                                            const CallSiteOptions& options) {
  if (options.own.empty()) return {};
  const findings::OriginRules origins = origin_rules(profile, options);
  return unmatched_patterns(findings::CodeFrames(
                                profile, [&names](std::uint32_t address) { return names.sources_of(address); },
                                origins, options.view.scope()),
                            options);
}

void report_unmatched_own_code(const std::vector<std::size_t>& unmatched, const CallSiteOptions& options,
                               const std::string& where) {
  std::string of_options;
  std::string of_file;
  for (const std::size_t i : unmatched) {
    std::string& list = i < options.own_options ? of_options : of_file;
    list += (list.empty() ? "'" : ", '") + options.own[i] + "'";
  }
  const std::string why = " in the names of functions, source files and modules of " + where;
  if (!of_options.empty()) print_message("--own matches nothing: " + of_options + why);
  if (!of_file.empty()) print_message(used_project_file + ": own matches nothing: " + of_file + why);
}

const char* Findings::without_site() const noexcept {
  return view_.only_own ? "(no own code)" : "(no stack recorded)";
}

Frame Findings::frame(findings::FrameRef ref) const { return names_.frames_of_address(ref.address)[ref.index]; }

bool FrameFilter::shows(const Frame& frame) const {
  if (!only_own_) return true;
  const std::string_view module = frame.module == nullptr ? std::string_view() : std::string_view(frame.module->path);
  return rules_.of({frame.function, frame.file, module, is_python(frame)}) == findings::Origin::kOwn;
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

std::vector<std::uint32_t> nodes_of_findings(const model::Profile& profile) {
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t node = 0; node < profile.nodes.size(); ++node)
    if (!profile.nodes[node].costs.empty() || profile.whole_of(node).allocations != 0) nodes.push_back(node);
  return nodes;
}

}  // namespace heapprof::cli
