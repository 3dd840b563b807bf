#include "analyzer/launch/surviving_processes.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace heapprof::launch {

std::vector<int> survivors_of(int pid, std::uint64_t start_time) {
  // The launcher sets PID.START; the recorder appends .MORE for children (preload/recorder/lifecycle.h).
  const std::string session = "HEAPPROF_SESSION=" + std::to_string(pid) + "." + std::to_string(start_time);
  const auto names_session = [&session](const std::string& environment) {
    for (std::size_t at = 0; (at = environment.find(session, at)) != std::string::npos; ++at) {
      const char next = at + session.size() < environment.size() ? environment[at + session.size()] : '\0';
      if ((at == 0 || environment[at - 1] == '\0') && (next == '\0' || next == '.')) return true;
    }
    return false;
  };
  std::vector<int> found;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc", error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos || name == std::to_string(pid)) continue;
    std::ifstream file(entry->path() / "environ", std::ios::binary);
    // Not by std::istreambuf_iterator, which throws where the process has ended meanwhile.
    std::ostringstream environment;
    environment << file.rdbuf();
    if (names_session(environment.str())) found.push_back(std::atoi(name.c_str()));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string note_of_survivors(int pid, std::uint64_t start_time, bool recorded) {
  constexpr std::size_t kNamed = 5;
  const std::vector<int> survivors = survivors_of(pid, start_time);
  if (survivors.empty()) return {};
  std::string text = "heapprof: the program has ended, but child processes still run: pid";
  for (std::size_t i = 0; i < std::min(kNamed, survivors.size()); ++i)
    text += (i == 0 ? " " : ", ") + std::to_string(survivors[i]);
  return text + (survivors.size() > kNamed ? ", ..." : "") +
         (recorded ? "; their recordings continue\n" : "; they are recorded with --children only\n");
}

}  // namespace heapprof::launch
