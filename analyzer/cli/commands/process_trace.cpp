#include "analyzer/cli/commands/process_trace.h"

#include <cerrno>
#include <csignal>
#include <fstream>

#include "analyzer/trace/mailbox.h"

namespace heapprof::cli {

std::string trace_of_recorded_process(std::uint32_t pid) {
  std::string path = trace::trace_of_process(pid);
  if (!path.empty()) return path;
  const std::string process = "process " + std::to_string(pid);
  if (pid == 0 || (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH))
    throw trace::TraceError("there is no " + process + "; name a process that runs, or a recording");
  if (!std::ifstream("/proc/" + std::to_string(pid) + "/maps").good())
    throw trace::TraceError(process + " belongs to another user; run heapprof as that user or as root");
  throw trace::TraceError(process + " is not recorded; 'heapprof record' starts a program that is");
}

}  // namespace heapprof::cli
