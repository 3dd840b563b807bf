#include "analyzer/cli/commands/shared/process_trace.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "analyzer/trace/mailbox.h"

namespace heapprof::cli {

namespace {

/// The recording of the process that the launcher `pid` has started, or nothing. In a shell, $! is the launcher.
std::string trace_of_launched_process(std::uint32_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::error_code error;
  if (!std::filesystem::equivalent(process + "/exe", "/proc/self/exe", error) || error) return {};
  std::ifstream children(process + "/task/" + std::to_string(pid) + "/children");
  for (std::uint32_t child = 0; children >> child;)
    if (std::string path = trace::trace_of_process(child); !path.empty()) return path;
  return {};
}

}  // namespace

std::string trace_of_recorded_process(std::uint32_t pid) {
  std::string path = trace::trace_of_process(pid);
  if (path.empty()) path = trace_of_launched_process(pid);
  if (!path.empty()) return path;
  const std::string process = "process " + std::to_string(pid);
  if (pid == 0 || (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH))
    throw trace::TraceError("there is no " + process + "; name a process that runs, or a recording");
  if (!std::ifstream("/proc/" + std::to_string(pid) + "/maps").good())
    throw trace::TraceError(process + " belongs to another user; run heapprof as that user or as root");
  throw trace::TraceError(process + " is not recorded; 'heapprof record' starts a program that is");
}

}  // namespace heapprof::cli
