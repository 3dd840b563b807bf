#include "analyzer/cli/commands/where_memory_went/named_functions.h"

#include <span>

#include "analyzer/cli/options/spelling_suggestion.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {

NamedFunctions functions_named(const Findings& findings, const std::string& wanted) {
  const findings::CodeFrames& frames = findings.frames();
  NamedFunctions named{{}, wanted};
  const auto collect = [&](auto&& matches) {
    for (std::uint32_t number = 0; number < frames.functions().size(); ++number)
      if (matches(number)) named.functions.push_back(number);
    return !named.functions.empty();
  };
  if (collect([&](std::uint32_t number) { return frames.name_of(number) == wanted; })) return named;
  const std::string shortened = function_name(wanted);
  if (collect([&](std::uint32_t number) { return function_name(frames.name_of(number)) == shortened; })) return named;
  collect([&](std::uint32_t number) { return function_name(frames.name_of(number)).ends_with("::" + shortened); });
  return named;
}

std::string suggested_names(const Findings& findings, const std::string& wanted,
                            const std::vector<std::string>& more) {
  const std::span<const findings::Function> functions = findings.frames().functions();
  std::vector<std::string> names = more;
  std::size_t unresolved = 0;
  for (std::uint32_t number = 0; number < functions.size(); ++number) {
    names.push_back(function_name(findings.frames().name_of(number)));
    if (functions[number].name.empty()) ++unresolved;
  }
  std::string near = suggested_names(wanted, names);
  if (!near.empty() || unresolved == 0) return near;
  return "; " + render::exact_number(unresolved) + " of " + render::exact_number(functions.size()) +
         " functions have no name: install debug symbols, or use --debug-dir or --debuginfod";
}

}  // namespace heapprof::cli
