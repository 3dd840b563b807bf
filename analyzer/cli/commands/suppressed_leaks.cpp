#include "analyzer/cli/commands/suppressed_leaks.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <sstream>

#include "analyzer/cli/text/write_output.h"

namespace heapprof::cli {

void add_suppression_options(CLI::App& command, SuppressionOptions& options) {
  CLI::Option* const files =
      command
          .add_option("--suppressions", options.files, "File of accepted leaks, LeakSanitizer's format (repeatable)")
          ->allow_extra_args(false);
  command.add_flag("!--no-default-suppressions", options.built_in,
                   "Count what libc, libstdc++ and the loader keep for themselves, too");
  command.add_flag("!--no-suppressions", options.suppress, "Suppress nothing")->excludes(files);
}

Suppressions read_suppressions(const SuppressionOptions& options) {
  Suppressions suppressions;
  for (const std::string& path : options.files) {
    std::ifstream in(path);
    std::ostringstream text;
    if (!in || !(text << in.rdbuf())) throw OutputError(path + ": the suppressions cannot be read");
    if (const std::string bad = suppressions.add(text.str()); !bad.empty())
      throw OutputError(path + ": '" + bad + "' is no suppression; lines read leak:PATTERN");
  }
  if (options.built_in && options.suppress) suppressions.add_built_in();
  return suppressions;
}

Suppressed suppress(Suppressions& suppressions, const StackNames& names, std::vector<RankedStack>& stacks) {
  Suppressed result;
  std::erase_if(stacks, [&](const RankedStack& stack) {
    if (!suppressions.take(names.stack(stack.node), stack.bytes, stack.blocks)) return false;
    result.bytes += stack.bytes;
    result.blocks += stack.blocks;
    return true;
  });
  result.by = suppressions.hits();
  return result;
}

void add_suppressed(Json& json, const Suppressed& suppressed) {
  json["suppressed_bytes"] = suppressed.bytes;
  json["suppressed_blocks"] = suppressed.blocks;
  Json by = Json::array();
  for (const Suppressions::Hits& hit : suppressed.by)
    by.push_back({{"name", hit.name}, {"built_in", hit.built_in}, {"bytes", hit.bytes}, {"blocks", hit.blocks}});
  json["suppressed"] = {{"bytes", suppressed.bytes}, {"blocks", suppressed.blocks}, {"by", std::move(by)}};
}

}  // namespace heapprof::cli
