#include "analyzer/cli/commands/export/named_stacks.h"

#include <map>
#include <utility>
#include <vector>

#include "analyzer/base/base_name.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

using exporter::StackTable;

/// Adds a location without code, whose function name is the reason why frames are missing.
std::uint32_t add_pseudo_location(StackTable& table, exporter::FunctionTable& functions, const std::string& text) {
  StackTable::Location location;
  location.lines.push_back({functions.number({text, "", 0}), 0, false});
  table.locations.push_back(std::move(location));
  return static_cast<std::uint32_t>(table.locations.size() - 1);
}

}  // namespace

StackTable stacks_with_names(const model::Profile& profile, const symbols::Options& options, KnownFrames* known) {
  StackTable table;
  table.profile = &profile;
  table.program = profile.together ? command_of(profile) : render::clean_utf8(base_name(profile.recording.program));
  table.command = render::clean_utf8(command_of(profile));
  for (const model::Module& module : profile.modules) table.modules.push_back(render::clean_utf8(module.path));
  if (table.modules.empty()) table.modules.emplace_back();
  for (std::uint32_t node = 0; node < profile.nodes.size(); ++node)
    if (!profile.nodes[node].costs.empty()) table.stacks.push_back(node);
  StackNames names(profile, options);
  names.resolve(table.stacks, known);

  exporter::FunctionTable functions(table);
  std::vector<std::uint32_t> location_of_address(profile.addresses.size(), model::kNoIndex);
  std::map<std::string, std::uint32_t> pseudo_locations;
  table.location_of_node.assign(profile.nodes.size(), model::kNoIndex);
  std::vector<bool> seen(profile.nodes.size(), false);
  for (const std::uint32_t stack : table.stacks) {
    for (std::uint32_t node = stack; !seen[node] && (node != 0 || stack == 0); node = profile.nodes[node].parent) {
      seen[node] = true;
      const model::CallNode& call = profile.nodes[node];
      if (node == 0 || call.address == model::kNoIndex) {
        const std::string text = node == 0 ? "[no stack]" : truncation_frame(call.truncated);
        const auto [location, fresh] = pseudo_locations.try_emplace(text, 0);
        if (fresh) location->second = add_pseudo_location(table, functions, text);
        table.location_of_node[node] = location->second;
        continue;
      }
      std::uint32_t& number = location_of_address[call.address];
      if (number == model::kNoIndex) {
        number = static_cast<std::uint32_t>(table.locations.size());
        StackTable::Location location;
        location.module = profile.addresses[call.address].module;
        for (const Frame& frame : names.frames_of_node(node)) {
          location.address = frame.address;
          location.offset = frame.offset;
          const std::string name =
              render::clean_utf8(frame.function.empty() ? unresolved_name(frame) : frame.function);
          location.lines.push_back({functions.number({name, render::clean_utf8(frame.file), location.module}),
                                    frame.line > 0 ? static_cast<std::uint32_t>(frame.line) : 0, frame.inlined});
        }
        table.locations.push_back(std::move(location));
      }
      table.location_of_node[node] = number;
    }
  }
  return table;
}

}  // namespace heapprof::cli
