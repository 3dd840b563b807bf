#include "analyzer/cli/options/trace_moment.h"

#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "analyzer/cli/options/selection.h"

namespace heapprof::cli {
namespace {

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// The position of the @ before TIME; npos: there is none.
std::size_t separator_in(const std::string& argument) {
  if (exists(argument)) return std::string::npos;
  for (std::size_t at = argument.rfind('@'); at != std::string::npos && at != 0; at = argument.rfind('@', at - 1))
    if (exists(argument.substr(0, at))) return at;
  // The file is missing. Its name is what precedes a time; a mark could be a part of the name.
  const std::size_t last = argument.rfind('@');
  return last != std::string::npos && last != 0 && parse_moment(argument.substr(last + 1)) ? last : std::string::npos;
}

}  // namespace

bool is_same_file(const std::string& one, const std::string& other) {
  std::error_code ignored;
  return one == other || std::filesystem::equivalent(one, other, ignored);
}

TraceMoment parse_trace_moment(const std::string& argument) {
  const std::size_t at = separator_in(argument);
  if (at == std::string::npos) return {argument, std::nullopt};
  const std::string time = argument.substr(at + 1);
  std::optional<replay::Moment> moment = parse_moment_or_mark(time);
  if (!moment)
    throw std::invalid_argument("invalid time '" + time + "' in " + argument + "; expected " + kMomentOrMarkExamples);
  moment->name = "@" + time;
  return {argument.substr(0, at), moment};
}

}  // namespace heapprof::cli
