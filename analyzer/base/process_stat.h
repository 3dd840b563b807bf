#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>

namespace heapprof {

/// What /proc/PROCESS/stat contains of a process (proc(5)).
struct ProcessStat {
  char state = 0;                ///< field 3: 'T' is stopped, 'Z' a zombie
  std::uint64_t start_time = 0;  ///< field 22: clock ticks since boot
};

/// Reads /proc/PROCESS/stat, where `process` is "self" or a pid. None: there is no such process, or it cannot be
/// read.
inline std::optional<ProcessStat> read_process_stat(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  // The name, field 2, can contain spaces and parentheses, so fields are counted from the last parenthesis.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessStat stat;
  fields >> stat.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> stat.start_time;
  if (!fields) return std::nullopt;
  return stat;
}

}  // namespace heapprof
