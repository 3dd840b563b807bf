#include "analyzer/launch/recorded_traces.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <set>
#include <tuple>

#include "common/trace_header.h"

namespace heapprof::launch {

namespace {

/// Opens `path` and reads its header; -1 if it is not a trace.
int open_trace(const std::string& path, int flags, FileHeader& header) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return -1;
  struct stat status {};
  const bool is_trace = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                        pread(fd, &header, sizeof header, 0) == sizeof header && is_recorder_header(header);
  if (is_trace) return fd;
  close(fd);
  return -1;
}

/// The same; -1 also if another process wrote the trace.
int open_trace(const std::string& path, int flags, int pid, std::uint64_t start_time, FileHeader& header) {
  const int fd = open_trace(path, flags, header);
  if (fd < 0 || (header.pid == static_cast<std::uint32_t>(pid) && header.process_start == start_time)) return fd;
  close(fd);
  return -1;
}

std::uint64_t realtime_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

/// `ended_ns`: since 1970. The recorder's time is kept if it has written one.
void write_end(RecordedTrace& trace, EndKind kind, std::int32_t code, std::uint64_t ended_ns) {
  FileHeader now;
  const int fd = open_trace(trace.path, O_RDWR, static_cast<int>(trace.header.pid), trace.header.process_start, now);
  if (fd < 0) return;
  if (now.file_id == trace.header.file_id) {
    if (now.end_realtime_ns == 0 &&
        pwrite(fd, &ended_ns, sizeof ended_ns, offsetof(FileHeader, end_realtime_ns)) == sizeof ended_ns)
      trace.header.end_realtime_ns = ended_ns;
    struct {
      EndKind kind;
      std::int32_t status;
    } end{kind, code};
    static_assert(offsetof(FileHeader, end_status) == offsetof(FileHeader, end_kind) + sizeof end.kind);
    if (pwrite(fd, &end, sizeof end, offsetof(FileHeader, end_kind)) == sizeof end) {
      trace.header.end_kind = kind;
      trace.header.end_status = code;
    }
  }
  close(fd);
}

}  // namespace

std::vector<RecordedTrace> traces_of(const std::vector<std::string>& candidates, int pid, std::uint64_t start_time) {
  std::vector<RecordedTrace> traces;
  for (const std::string& path : candidates) {
    FileHeader header;
    const int fd = open_trace(path, O_RDONLY, pid, start_time, header);
    if (fd < 0) continue;
    close(fd);
    traces.push_back({path, header});
  }
  std::sort(traces.begin(), traces.end(), [](const RecordedTrace& a, const RecordedTrace& b) {
    return a.header.start_monotonic_ns < b.header.start_monotonic_ns;
  });
  return traces;
}

std::vector<RecordedTrace> traces_of_children(const std::vector<std::string>& candidates, int pid,
                                              std::uint64_t since_ns) {
  std::vector<RecordedTrace> all;
  for (const std::string& path : candidates) {
    FileHeader header;
    const int fd = open_trace(path, O_RDONLY, header);
    if (fd < 0) continue;
    close(fd);
    if (header.start_realtime_ns >= since_ns) all.push_back({path, header});
  }
  std::set<std::uint32_t> family = {static_cast<std::uint32_t>(pid)};
  for (std::size_t known = 0; known != family.size();) {
    known = family.size();
    for (const RecordedTrace& trace : all)
      if (family.count(trace.header.parent_pid) != 0) family.insert(trace.header.pid);
  }
  std::erase_if(all, [&](const RecordedTrace& trace) {
    return trace.header.pid == static_cast<std::uint32_t>(pid) || family.count(trace.header.pid) == 0;
  });
  return all;
}

void write_end(std::vector<RecordedTrace>& traces, bool signaled, int code) {
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const EndKind kind = traces[i].header.end_kind;
    if (i + 1 < traces.size()) {
      if (kind == EndKind::kNone) write_end(traces[i], EndKind::kExec, 0, traces[i + 1].header.start_realtime_ns);
    } else if (signaled) {
      if (kind == EndKind::kNone) write_end(traces[i], EndKind::kSignal, code, realtime_ns());
    } else if (kind == EndKind::kNone || kind == EndKind::kExit) {
      write_end(traces[i], EndKind::kExit, code, realtime_ns());
    }
  }
}

void write_executions(std::vector<RecordedTrace>& traces) {
  std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint64_t>, std::vector<RecordedTrace*>> by_process;
  for (RecordedTrace& trace : traces)
    if (trace.header.process_start != 0)
      by_process[{trace.header.pid_namespace, trace.header.pid, trace.header.process_start}].push_back(&trace);
  for (auto& [process, own] : by_process) {
    std::ranges::sort(own, {}, [](const RecordedTrace* trace) { return trace->header.start_monotonic_ns; });
    for (std::size_t i = 0; i + 1 < own.size(); ++i)
      if (own[i]->header.end_kind == EndKind::kNone)
        write_end(*own[i], EndKind::kExec, 0, own[i + 1]->header.start_realtime_ns);
  }
}

void give_to_invoking_user(const std::vector<RecordedTrace>& traces) {
  const char* user = std::getenv("SUDO_UID");
  const char* group = std::getenv("SUDO_GID");
  if (user == nullptr || group == nullptr || geteuid() != 0) return;
  for (const RecordedTrace& trace : traces) {
    const int fd = open(trace.path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) continue;
    struct stat status {};
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == 0 && status.st_nlink == 1 &&
        fchown(fd, static_cast<uid_t>(std::strtoul(user, nullptr, 10)),
               static_cast<gid_t>(std::strtoul(group, nullptr, 10))) != 0)
      std::fprintf(stderr, "heapprof: %s: the owner cannot be changed: %s\n", trace.path.c_str(),
                   std::strerror(errno));
    close(fd);
  }
}

}  // namespace heapprof::launch
