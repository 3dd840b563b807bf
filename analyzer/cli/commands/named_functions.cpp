#include "analyzer/cli/commands/named_functions.h"

#include "analyzer/cli/options/spelling_suggestion.h"
#include "analyzer/cli/text/frame_text.h"

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
  std::vector<std::string> names = more;
  for (std::uint32_t number = 0; number < findings.frames().functions().size(); ++number)
    names.push_back(function_name(findings.frames().name_of(number)));
  return suggested_names(wanted, names);
}

}  // namespace heapprof::cli
