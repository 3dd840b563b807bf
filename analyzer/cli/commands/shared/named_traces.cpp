#include "analyzer/cli/commands/shared/named_traces.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/cli/text/write_output.h"
#include "analyzer/trace/recording_header.h"

namespace heapprof::cli {
namespace {

std::vector<std::string> traces_in(const std::string& directory) {
  std::vector<std::string> traces;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string();
    if (is_named_as_trace(entry->path().filename()) && is_trace(path)) traces.push_back(path);
  }
  if (error) throw OutputError(directory + ": cannot be read: " + error.message());
  if (traces.empty())
    throw OutputError(directory + ": there is no recording (*.heapprof, *.hprof) in this directory");
  std::sort(traces.begin(), traces.end());
  return traces;
}

}  // namespace

std::vector<std::string> traces_named(const std::vector<std::string>& arguments) {
  std::vector<std::string> traces;
  for (const std::string& argument : arguments) {
    std::error_code ignored;
    if (std::filesystem::is_directory(argument, ignored)) {
      const std::vector<std::string> more = traces_in(argument);
      traces.insert(traces.end(), more.begin(), more.end());
    } else {
      trace::read_recording_header(argument);  // throws if it cannot be read
      traces.push_back(argument);
    }
  }
  return traces;
}

}  // namespace heapprof::cli
