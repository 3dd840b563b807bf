#include "analyzer/trace/recorder_process.h"

#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "analyzer/base/process_stat.h"

namespace heapprof::trace {
namespace {

bool same_boot(const FileHeader& header) {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string text;
  if (!(in >> text)) return false;
  unsigned char id[16] = {};
  std::size_t digits = 0;
  for (const char c : text) {
    if (c == '-') continue;
    const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (value < 0 || digits == 32) return false;
    id[digits / 2] = static_cast<unsigned char>(id[digits / 2] << 4 | value);
    ++digits;
  }
  return digits == 32 && std::memcmp(id, header.boot_id, sizeof id) == 0;
}

/// The inode of the pid namespace of `process` ("self" or a pid); nullopt without permission.
std::optional<std::uint64_t> pid_namespace(const std::string& process) {
  struct stat status {};
  if (::stat(("/proc/" + process + "/ns/pid").c_str(), &status) != 0) return {};
  return status.st_ino;
}

bool same_pid_namespace(const FileHeader& header) { return pid_namespace("self") == header.pid_namespace; }

/// Whether the process has the trace mapped; nullopt without permission.
std::optional<bool> maps_trace(std::uint32_t pid, const InputFile& trace) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/maps");
  char resolved[PATH_MAX];
  const bool have_path = ::realpath(trace.path().c_str(), resolved) != nullptr;
  const std::uint64_t inode = trace.inode();
  const std::string root = "/proc/" + std::to_string(pid) + "/root";
  std::string last_path;
  bool any = false;
  for (std::string line; std::getline(in, line);) {
    any = true;
    unsigned long long line_inode = 0;
    int path_at = 0;
    if (std::sscanf(line.c_str(), "%*s %*s %*s %*s %llu %n", &line_inode, &path_at) < 1) continue;
    if (line_inode == inode && inode != 0) return true;
    // On overlay file systems this inode differs from that of fstat, and in a container the path differs.
    if (path_at == 0 || line.compare(static_cast<std::size_t>(path_at), std::string::npos, last_path) == 0) continue;
    last_path = line.substr(static_cast<std::size_t>(path_at));
    if (last_path.empty() || last_path.front() != '/') continue;
    if ((have_path && last_path == resolved) || trace.is_at(root + last_path)) return true;
  }
  if (!any) return {};
  return false;
}

/// Whether the file is one of the recording of `header`.
bool is_of_recording(const std::string& path, const FileHeader& header) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // to open a device can change it
  try {
    const InputFile file(path);
    FileHeader other;
    return file.read_all(0, &other, sizeof other) &&
           std::memcmp(other.magic, header.magic, sizeof other.magic) == 0 && other.file_id == header.file_id;
  } catch (const TraceError&) {
    return false;
  }
}

/// The file of the recording of `header` that the process has mapped, and its path there; empty: none is known.
std::string mapped_file_of(const FileHeader& header, std::uint32_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::ifstream in(process + "/maps");
  std::string last_path;
  for (std::string line; std::getline(in, line);) {
    char range[64] = "";
    char access[8] = "";
    int path_at = 0;
    // The recorder's mappings are shared.
    if (std::sscanf(line.c_str(), "%63s %7s %*s %*s %*s %n", range, access, &path_at) < 2 || access[3] != 's' ||
        path_at == 0)
      continue;
    std::string path = line.substr(static_cast<std::size_t>(path_at));
    if (path == last_path || !path.starts_with('/')) continue;
    last_path = path;
    // A file without a name can be opened by its range, with privileges.
    if (is_of_recording(process + "/root" + path, header) || is_of_recording(process + "/map_files/" + range, header))
      return path;
  }
  return {};
}

}  // namespace

std::string find_original(const FileHeader& header, const InputFile& trace) {
  const std::uint32_t pid = header.pid_namespace == 0 || header.end_kind != EndKind::kNone ? 0 : visible_pid(header);
  return pid == 0 || maps_trace(pid, trace).value_or(true) ? std::string() : mapped_file_of(header, pid);
}

RecorderState find_recorder(const FileHeader& header, const InputFile& trace) {
  if (header.pid_namespace == 0) return RecorderState::kGone;
  const std::uint32_t pid = visible_pid(header);
  if (pid == 0) return RecorderState::kGone;
  if (header.end_kind == EndKind::kExec) return RecorderState::kExecuted;
  // An exec keeps pid and start time but drops all mappings. Of a copy, the original is still mapped.
  if (maps_trace(pid, trace).value_or(true)) return RecorderState::kRecording;
  return mapped_file_of(header, pid).empty() ? RecorderState::kExecuted : RecorderState::kGone;
}

std::uint32_t visible_pid(const FileHeader& header) {
  if (header.pid == 0 || header.process_start == 0 || !same_boot(header)) return 0;
  const auto is_recorder = [&](std::uint32_t pid) {
    const auto stat = read_process_stat(std::to_string(pid));
    return stat && stat->start_time == header.process_start && stat->state != 'Z' && stat->state != 'X' &&
           stat->state != 'x';
  };
  if (same_pid_namespace(header)) return is_recorder(header.pid) ? header.pid : 0;
  std::error_code error;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    std::uint32_t pid = 0;
    const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (wrong != std::errc() || end != name.data() + name.size() || !is_recorder(pid)) continue;
    if (pid_namespace(name).value_or(header.pid_namespace) != header.pid_namespace) continue;
    // "NSpid: 4711 7": the last number is the pid in the process's own namespace.
    std::ifstream in("/proc/" + name + "/status");
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("NSpid:") && line.substr(line.find_last_of("\t ") + 1) == std::to_string(header.pid))
        return pid;
  }
  return 0;
}

std::optional<std::uint64_t> ticks_now(const FileHeader& header) noexcept {
  std::uint64_t now = 0;
  switch (header.clock) {
    case Clock::kMonotonic: {
      timespec time{};
      if (::clock_gettime(CLOCK_MONOTONIC, &time) != 0) return {};
      now = static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec);
      break;
    }
#if defined(__x86_64__)
    case Clock::kTsc: now = __rdtsc(); break;
#endif
#if defined(__aarch64__)
    case Clock::kCntvct: asm volatile("mrs %0, cntvct_el0" : "=r"(now)); break;
#endif
    default: return {};
  }
  return now > header.start_ticks ? now - header.start_ticks : 0;
}

void complete_clock_rate(FileHeader& header) noexcept {
  if (header.ticks_per_second != 0) return;
  // One pair of readings is wrong by the time that this process waits between them, and the rate of a recording of
  // 100 ms with it: of several, the one whose readings lie closest together counts.
  constexpr int kReadings = 8;
  std::uint64_t closest = UINT64_MAX;
  for (int i = 0; i < kReadings; ++i) {
    timespec time{};
    const std::optional<std::uint64_t> before = ticks_now(header);
    if (!before || ::clock_gettime(CLOCK_MONOTONIC, &time) != 0) return;
    const std::uint64_t apart = ticks_now(header).value_or(*before) - *before;
    const std::uint64_t now =
        static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec);
    if (apart >= closest || now <= header.start_monotonic_ns) continue;
    closest = apart;
    const double seconds = static_cast<double>(now - header.start_monotonic_ns) / 1e9;
    header.ticks_per_second = static_cast<std::uint64_t>((static_cast<double>(*before) + apart / 2.0) / seconds);
  }
}

}  // namespace heapprof::trace
