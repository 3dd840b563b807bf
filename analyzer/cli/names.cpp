#include "analyzer/cli/names.h"

#include <cinttypes>
#include <cstdio>
#include <utility>

namespace heapprof::cli {

Names::Names(const model::Profile& profile, const symbols::Options& options)
    : profile_(profile), options_(options), resolved_of_address_(profile.addresses.size(), model::kNoIndex) {}

void Names::resolve(const std::vector<std::uint32_t>& nodes) {
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
  std::vector<symbols::Module> modules;
  modules.reserve(profile_.modules.size());
  for (const model::Module& module : profile_.modules) modules.push_back({module.path, module.build_id});
  symbols::Symbolizer symbolizer(std::move(modules), options_);
  resolved_ = symbolizer.resolve(wanted);
  warnings_ = symbolizer.warnings();
}

std::vector<Frame> Names::frames_of_node(std::uint32_t node) const {
  std::vector<Frame> frames;
  const model::CallNode& call = profile_.nodes[node];
  if (call.address == model::kNoIndex) return frames;
  const model::CodeAddress& address = profile_.addresses[call.address];
  Frame frame;
  frame.module = &profile_.modules[address.module];
  frame.offset = address.offset;
  frame.address = profile_.runtime_address(address);
  frame.guessed = call.guessed;
  const std::uint32_t resolved = resolved_of_address_[call.address];
  if (resolved == model::kNoIndex || resolved_[resolved].empty()) {
    frames.push_back(frame);
    return frames;
  }
  for (const symbols::SourceFrame& source : resolved_[resolved]) {
    frame.function = source.function;
    frame.file = source.file;
    frame.line = source.line;
    frame.inlined = source.inlined;
    frames.push_back(frame);
  }
  return frames;
}

std::vector<Frame> Names::stack(std::uint32_t node) const {
  std::vector<Frame> stack;
  for (; node != 0; node = profile_.nodes[node].parent)
    for (Frame& frame : frames_of_node(node)) stack.push_back(std::move(frame));
  return stack;
}

std::string base_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string place_of(const Frame& frame) {
  char number[32];
  std::snprintf(number, sizeof number, "0x%" PRIx64, frame.offset);
  if (frame.module == nullptr || frame.module->path.empty()) return number;
  return base_name(frame.module->path) + "+" + number;
}

}  // namespace heapprof::cli
