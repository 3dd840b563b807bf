#include "analyzer/processes/process_tree.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <tuple>

namespace heapprof::processes {
namespace {

bool of_one_system(const FileHeader& a, const FileHeader& b) noexcept {
  return std::memcmp(a.boot_id, b.boot_id, sizeof a.boot_id) == 0 && a.pid_namespace == b.pid_namespace;
}

/// Precondition: both are of one system.
bool of_one_process(const FileHeader& a, const FileHeader& b) noexcept {
  return a.pid == b.pid && a.process_start == b.process_start;
}

}  // namespace

std::vector<TraceInTree> process_tree(std::span<const FileHeader> headers) {
  std::vector<std::size_t> by_start(headers.size());
  for (std::size_t i = 0; i < headers.size(); ++i) by_start[i] = i;
  std::ranges::stable_sort(by_start, {}, [&](std::size_t i) { return headers[i].start_monotonic_ns; });

  // The traces that began so far, the newest last, by process id: few processes of a recording have the same one.
  std::map<std::uint32_t, std::vector<std::size_t>> of_pid;
  std::vector<TraceInTree> found(headers.size());
  std::vector<std::vector<std::size_t>> next(headers.size());
  std::vector<std::size_t> roots;
  for (const std::size_t i : by_start) {
    const FileHeader& header = headers[i];
    found[i].trace = i;
    const auto newest = [&](std::uint32_t pid, const auto& matches) -> std::optional<std::size_t> {
      const auto traces = of_pid.find(pid);
      if (traces == of_pid.end()) return std::nullopt;
      const auto last = std::find_if(traces->second.rbegin(), traces->second.rend(), [&](std::size_t other) {
        return of_one_system(headers[other], header) && matches(headers[other]);
      });
      return last == traces->second.rend() ? std::nullopt : std::optional(*last);
    };
    const auto before = newest(header.pid, [&](const FileHeader& other) { return of_one_process(other, header); });
    const auto parent = newest(header.parent_pid, [&](const FileHeader& other) {
      // A process id is used again. The parent started no later than the child.
      return !of_one_process(other, header) && other.process_start <= header.process_start;
    });
    if (before) {
      found[i].from = before;
      found[i].begin = Begin::kExecuted;
      found[i].depth = found[*before].depth;
    } else if (parent) {
      found[i].from = parent;
      found[i].begin = (header.flags & kHeaderForkedChild) != 0 ? Begin::kForked : Begin::kStarted;
      found[i].depth = found[*parent].depth + 1;
    }
    of_pid[header.pid].push_back(i);
    if (found[i].from) next[*found[i].from].push_back(i);
    else roots.push_back(i);
  }

  std::vector<TraceInTree> tree;
  tree.reserve(headers.size());
  // Without recursion: chains of processes may be long.
  std::vector<std::size_t> pending(roots.rbegin(), roots.rend());
  while (!pending.empty()) {
    const std::size_t trace = pending.back();
    pending.pop_back();
    tree.push_back(found[trace]);
    pending.insert(pending.end(), next[trace].rbegin(), next[trace].rend());
  }
  return tree;
}

}  // namespace heapprof::processes
