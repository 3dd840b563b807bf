#include "analyzer/cli/commands/leaks/suppressed_leaks.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "analyzer/cli/text/message.h"
#include "analyzer/cli/text/write_output.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {

Suppressions read_suppressions(const SuppressionOptions& options) {
  Suppressions suppressions;
  for (const std::string& path : options.files) {
    std::ifstream in(path);
    std::ostringstream text;
    const bool is_empty = in.peek() == std::ifstream::traits_type::eof();
    if (!in.is_open() || in.bad() || (!is_empty && !(text << in.rdbuf())))
      throw OutputError(path + ": cannot be read");
    if (const std::string bad = suppressions.add(text.str()); !bad.empty())
      throw OutputError(path + ": invalid line '" + bad + "'; expected leak:PATTERN");
  }
  suppressions.add(options.rules);
  if (options.built_in && options.suppress) suppressions.add_built_in();
  return suppressions;
}

Suppressed suppress(Suppressions& suppressions, const StackNames& names, std::vector<RankedStack>& stacks) {
  Suppressed result;
  std::erase_if(stacks, [&](const RankedStack& stack) {
    if (!suppressions.match(names.stack(stack.node), stack.bytes, stack.blocks)) return false;
    result.bytes += stack.bytes;
    result.blocks += stack.blocks;
    return true;
  });
  result.by = suppressions.hits();
  result.unmatched = suppressions.unmatched();
  return result;
}

void report_unmatched_rules(const std::string& trace, const model::Profile& profile, const Suppressed& suppressed) {
  constexpr std::size_t kMaxNamed = 5;
  if (suppressed.unmatched.empty() || profile.slice || profile.live_at_ns || !profile.selection_text.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < std::min(kMaxNamed, suppressed.unmatched.size()); ++i)
    names += (i == 0 ? "leak:" : ", leak:") + suppressed.unmatched[i];
  if (suppressed.unmatched.size() > kMaxNamed)
    names += ", and " + render::exact_number(suppressed.unmatched.size() - kMaxNamed) + " more";
  print_message(trace + ": rules that suppress no leak: " + names);
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
