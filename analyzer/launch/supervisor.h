// Running the program as if the user's shell had started it itself.
//
// It is a child in our process group, with the descriptors, signal mask and dispositions that we were given.
// What the terminal sends goes to the whole group and reaches it without us; what is sent to us alone is passed
// on. When it stops (Ctrl-Z), we stop, so that the shell notices; when it is continued, so are we.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/launch/capabilities.h"

namespace heapprof::launch {

struct ProcessResult {
  bool started = false;
  int start_error = 0;  ///< errno when not started
  int pid = 0;
  std::uint64_t start_time = 0;  ///< field 22 of /proc/PID/stat; 0: unknown
  bool signaled = false;
  int code = 0;  ///< exit status, or the signal's number
};

/// Runs the executable `path` with `arguments` (the first is its name) and `variables` set on top of our own
/// environment, and returns when it has ended. HEAPPROF_SESSION, which tells the recorder that this process is
/// the one to record, is set in addition. With `privileges` that name a loader, that is executed, and they are taken
/// before.
ProcessResult run_process(const std::string& path, const std::vector<std::string>& arguments,
                          const std::vector<std::pair<std::string, std::string>>& variables,
                          const Privileges& privileges = {});

}  // namespace heapprof::launch
