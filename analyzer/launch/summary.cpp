#include "analyzer/launch/summary.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/trace_format.h"

namespace heapprof::launch {

namespace {

std::string bytes_text(std::uint64_t bytes) {
  const char* unit = "B";
  double value = static_cast<double>(bytes);
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = larger;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit[1] == '\0' ? "%.0f %s" : "%.1f %s", value, unit);
  return text;
}

std::string end_text(const FileHeader& header) {
  switch (header.end_kind) {
    case EndKind::kExit: return "exit status " + std::to_string(header.end_status);
    case EndKind::kSignal: {
      const char* name = sigabbrev_np(header.end_status);
      return "killed by signal " + std::to_string(header.end_status) +
             (name != nullptr ? std::string(" (SIG") + name + ")" : std::string());
    }
    case EndKind::kExec: return "executed another program";
    case EndKind::kStopped:
      return "recording stopped before the end: " +
             std::string(header.stop_reason, strnlen(header.stop_reason, sizeof header.stop_reason));
    case EndKind::kNone: break;
  }
  return "unknown";
}

}  // namespace

std::string summarize_trace(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  FileHeader header;
  struct stat status {};
  if (fd < 0) return path + " can't be read: " + std::strerror(errno) + "\n";
  const bool read = pread(fd, &header, sizeof header, 0) == sizeof header && fstat(fd, &status) == 0;
  close(fd);
  if (!read) return path + " is too short for a trace\n";
  // What the file occupies: space reserved and not used yet does not count.
  const auto used = static_cast<std::uint64_t>(status.st_blocks) * 512;
  return "  end    " + end_text(header) + "\n  size   " + bytes_text(used) + "\n";
}

}  // namespace heapprof::launch
