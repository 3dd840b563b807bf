#include "analyzer/cli/text/stack_names.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <utility>

#include "analyzer/render/units.h"

namespace heapprof::cli {

symbols::Symbolizer symbolizer_of(const model::Profile& profile, const symbols::Options& options) {
  std::vector<symbols::Module> modules;
  modules.reserve(profile.modules.size());
  for (const model::Module& module : profile.modules)
    modules.push_back(
        {module.path, module.build_id, module.map_bytes, modules.empty(), module.is_python});  // the first: generated
  const model::Recording& recording = profile.recording;
  return {std::move(modules),
          options,
          {recording.start_realtime_ns, recording.ended_realtime_ns, recording.pid, recording.live_pid,
           profile.embedded_symbols, profile.python_symbols}};
}

StackNames::StackNames(const model::Profile& profile, const symbols::Options& options)
    : profile_(profile), options_(options), resolved_of_address_(profile.addresses.size(), model::kNoIndex) {}

KnownFrames::Key KnownFrames::key_of(const model::Module& module) {
  return {module.path, module.build_id, module.build_id.empty() ? module.map_bytes : 0};
}

const std::vector<symbols::SourceFrame>* KnownFrames::find(const model::Module& module, std::uint64_t offset) const {
  if (module.lost) return nullptr;  // it has no path, like generated code
  const auto frames = by_module_.find(key_of(module));
  if (frames == by_module_.end()) return nullptr;
  const auto at = frames->second.find(offset);
  return at == frames->second.end() ? nullptr : &at->second;
}

void KnownFrames::add(const model::Module& module, std::uint64_t offset, std::vector<symbols::SourceFrame> frames) {
  if (module.lost || module.is_python || (module.path.empty() && frames.back().function.empty())) return;
  by_module_[key_of(module)][offset] = std::move(frames);
}

void StackNames::resolve(const std::vector<std::uint32_t>& nodes, KnownFrames* known) {
  std::vector<bool> seen(profile_.nodes.size(), false);
  std::vector<symbols::CodeAddress> wanted;
  for (std::uint32_t node : nodes) {
    for (; node != 0 && !seen[node]; node = profile_.nodes[node].parent) {
      seen[node] = true;
      const std::uint32_t address = profile_.nodes[node].address;
      if (address == model::kNoIndex || resolved_of_address_[address] != model::kNoIndex) continue;
      resolved_of_address_[address] = static_cast<std::uint32_t>(wanted.size());
      wanted.push_back({profile_.addresses[address].module, profile_.addresses[address].offset});
    }
  }
  look_up(wanted, known);
  if (options_.symbols) warn_of_unresolved(wanted);
}

void StackNames::look_up(const std::vector<symbols::CodeAddress>& wanted, KnownFrames* known) {
  symbols::Symbolizer symbolizer = symbolizer_of(profile_, options_);
  if (known == nullptr) {
    resolved_ = symbolizer.resolve(wanted);
    warnings_ = symbolizer.warnings();
    return;
  }
  resolved_.resize(wanted.size());
  std::vector<symbols::CodeAddress> unknown;
  std::vector<std::size_t> positions;  // of the unknown ones
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto* const frames = known->find(profile_.modules[wanted[i].module], wanted[i].address);
    if (frames != nullptr) {
      resolved_[i] = *frames;
      continue;
    }
    unknown.push_back(wanted[i]);
    positions.push_back(i);
  }
  if (unknown.empty()) return;
  std::vector<std::vector<symbols::SourceFrame>> found = symbolizer.resolve(unknown);
  warnings_ = symbolizer.warnings();
  for (std::size_t i = 0; i < found.size(); ++i) {
    resolved_[positions[i]] = found[i];
    known->add(profile_.modules[unknown[i].module], unknown[i].address, std::move(found[i]));
  }
}

/// The first warning: how many addresses have no function name, by module.
void StackNames::warn_of_unresolved(const std::vector<symbols::CodeAddress>& wanted) {
  std::size_t unresolved = 0;
  std::map<std::string, std::size_t> by_module;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!resolved_[i].back().function.empty()) continue;
    ++unresolved;
    const std::string module = base_name(profile_.modules[wanted[i].module].path);
    ++by_module[module.empty() ? "code without a file" : module];
  }
  if (unresolved == 0) return;
  std::vector<std::pair<std::string, std::size_t>> ranked(by_module.begin(), by_module.end());
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text = render::exact_number(unresolved) + " of " + render::exact_number(wanted.size()) +
                     " code addresses (" + render::percent(unresolved, wanted.size()) +
                     ") are unresolved (no function name):";
  constexpr std::size_t kMaxModules = 4;
  for (std::size_t i = 0; i < std::min(kMaxModules, ranked.size()); ++i)
    text += (i == 0 ? " " : ", ") + ranked[i].first + " (" + render::exact_number(ranked[i].second) + ")";
  if (ranked.size() > kMaxModules) text += " and others";
  warnings_.insert(warnings_.begin(), std::move(text));
}

std::vector<Frame> StackNames::frames_of_node(std::uint32_t node) const {
  const model::CallNode& call = profile_.nodes[node];
  if (call.address == model::kNoIndex) return {};
  std::vector<Frame> frames = frames_of_address(call.address);
  for (Frame& frame : frames) frame.guessed = call.guessed;
  return frames;
}

std::vector<Frame> StackNames::frames_of_address(std::uint32_t at) const {
  std::vector<Frame> frames;
  const model::CodeAddress& address = profile_.addresses[at];
  Frame frame;
  frame.module = &profile_.modules[address.module];
  frame.offset = address.offset;
  frame.address = profile_.runtime_address(address);
  const std::uint32_t resolved = resolved_of_address_[at];
  if (resolved == model::kNoIndex || resolved_[resolved].empty()) {
    frames.push_back(frame);
    return frames;
  }
  for (const symbols::SourceFrame& source : resolved_[resolved]) {
    frame.function = source.function;
    frame.file = source.file;
    frame.line = source.line;
    frame.inlined = source.inlined;
    frame.function_begin = source.function_begin;
    frame.definition_file = source.definition_file;
    frame.definition_line = source.definition_line;
    frames.push_back(frame);
  }
  return frames;
}

std::vector<Frame> StackNames::stack(std::uint32_t node) const {
  std::vector<Frame> stack;
  for (; node != 0; node = profile_.nodes[node].parent)
    for (Frame& frame : frames_of_node(node)) stack.push_back(std::move(frame));
  return stack;
}

std::string unresolved_name(const Frame& frame) {
  char number[32];
  std::snprintf(number, sizeof number, "0x%" PRIx64, frame.function_begin != 0 ? frame.function_begin : frame.offset);
  if (frame.module == nullptr || frame.module->path.empty()) return number;
  return base_name(frame.module->path) + "+" + number;
}

}  // namespace heapprof::cli
