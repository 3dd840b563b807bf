#include "analyzer/processes/process_pairs.h"

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace heapprof::processes {
namespace {

using Key = std::pair<std::string, std::string>;  ///< program and arguments

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// The command without the word that names the program, which may be a path of one of two builds.
Key key_of(const model::ProcessFigures& process, bool with_command) {
  const std::string& command = process.command;
  const std::size_t space = command.find(' ');
  return {file_name(process.program),
          with_command && space != std::string::npos ? command.substr(space) : std::string()};
}

}  // namespace

std::vector<ProcessPair> process_pairs(std::span<const model::ProcessFigures> before,
                                       std::span<const model::ProcessFigures> after) {
  std::vector<ProcessPair> pairs(after.size());
  std::vector<bool> taken(before.size(), false);
  for (std::size_t i = 0; i < after.size(); ++i) pairs[i].after = i;
  for (const bool with_command : {true, false}) {
    std::map<Key, std::deque<std::size_t>> waiting;
    for (std::size_t i = 0; i < before.size(); ++i)
      if (!taken[i]) waiting[key_of(before[i], with_command)].push_back(i);
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (pairs[i].before) continue;
      const auto found = waiting.find(key_of(after[i], with_command));
      if (found == waiting.end() || found->second.empty()) continue;
      pairs[i].before = found->second.front();
      taken[found->second.front()] = true;
      found->second.pop_front();
    }
  }
  for (std::size_t i = 0; i < before.size(); ++i)
    if (!taken[i]) pairs.push_back({i, std::nullopt});
  return pairs;
}

}  // namespace heapprof::processes
