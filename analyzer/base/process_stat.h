// The state and the processor time of a process: for the launcher, and to find out whether a recorded process runs.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace heapprof {

/// What /proc/PROCESS/stat contains of a process (proc(5)).
struct ProcessStat {
  char state = 0;                ///< field 3: 'T' is stopped, 'Z' a zombie
  std::uint64_t start_time = 0;  ///< field 22: clock ticks since boot
  // Fields 14 to 17: processor time in clock ticks, of the process itself, and of its children for which it waited.
  std::uint64_t own_ticks = 0;
  std::uint64_t children_ticks = 0;
  std::uint64_t children_faults = 0;  ///< fields 11 and 13: page faults of these children; 0: there were none
};

/// Reads /proc/PROCESS/stat, where `process` is "self" or a pid. None: there is no such process, or it cannot be
/// read.
inline std::optional<ProcessStat> read_process_stat(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string text;
  // The read fails if the process was reaped after the file was opened; std::istreambuf_iterator would throw then.
  if (!std::getline(file, text, '\0')) return std::nullopt;
  // The name, field 2, can contain spaces and parentheses, so fields are counted from the last parenthesis.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessStat stat;
  fields >> stat.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) {
    std::uint64_t value = 0;
    if (field >= 11 && field <= 17) fields >> value;
    else fields >> skipped;
    if (field == 11 || field == 13) stat.children_faults += value;
    if (field == 14 || field == 15) stat.own_ticks += value;
    if (field == 16 || field == 17) stat.children_ticks += value;
  }
  fields >> stat.start_time;
  if (!fields) return std::nullopt;
  return stat;
}

/// The signals in a field of /proc/PROCESS/status, as "SigIgn" or "ShdPnd": signal n is bit n - 1. 0 also if the
/// field cannot be read.
inline std::uint64_t read_signals(const std::string& process, const std::string& field) {
  std::ifstream file("/proc/" + process + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(field + ":")) return std::strtoull(line.c_str() + field.size() + 1, nullptr, 16);
  return 0;
}

constexpr bool contains_signal(std::uint64_t signals, int signal) noexcept {
  return (signals >> (signal - 1) & 1) != 0;
}

}  // namespace heapprof
