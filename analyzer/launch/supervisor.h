// Runs a program as if the user's shell had started it.
//
// The program is a child in the launcher's process group and inherits its descriptors, signal mask and dispositions.
// Signals of the terminal go to the group and so reach the program; signals that are sent to the launcher alone are
// forwarded. When the program stops (Ctrl-Z), the launcher stops, so that the shell notices; when the launcher is
// continued, so is the program.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/launch/capabilities.h"

namespace heapprof::launch {

/// What a program had done by child processes. Only those count for which it, or one of them, waited.
struct ChildWork {
  bool any = false;               ///< there was such a child
  std::uint64_t own_ns = 0;       ///< processor time of the program itself
  std::uint64_t children_ns = 0;  ///< and of these children, in steps of 10 ms
};

struct ProcessResult {
  bool started = false;
  int start_error = 0;  ///< errno if not started
  int pid = 0;
  std::uint64_t start_time = 0;  ///< field 22 of /proc/PID/stat; 0: unknown
  bool signaled = false;
  int code = 0;  ///< exit status, or the signal's number
  ChildWork child_work;
};

/// Runs the executable `path` with `arguments` (the first is its name), with `variables` added to the environment,
/// and returns when it has ended. Sets HEAPPROF_SESSION too, by which the recorder recognizes the process to record.
/// With `privileges` that name a loader, takes the privileges and executes the loader.
ProcessResult run_process(const std::string& path, const std::vector<std::string>& arguments,
                          const std::vector<std::pair<std::string, std::string>>& variables,
                          const Privileges& privileges = {});

}  // namespace heapprof::launch
