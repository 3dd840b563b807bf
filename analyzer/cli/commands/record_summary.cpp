#include "analyzer/cli/commands/record_summary.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <utility>

#include "analyzer/render/units.h"

namespace heapprof::launch {

namespace {

std::string end_text(const model::Profile& profile) {
  const model::Integrity& integrity = profile.integrity;
  const int status = integrity.end_status.value_or(0);
  if (integrity.ended_by == "exit") return integrity.end_status ? "exit status " + std::to_string(status) : "exited";
  if (integrity.ended_by == "signal") {
    const char* name = sigabbrev_np(status);
    return "killed by signal " + std::to_string(status) + (name != nullptr ? " (SIG" + std::string(name) + ")" : "");
  }
  if (integrity.ended_by == "exec") return "executed another program";
  if (integrity.ended_by == "stopped")
    return "recording stopped early: " + integrity.stop_reason.value_or("unknown why");
  if (integrity.ended_by == "running") return "still running";
  if (integrity.ended_by == "unknown") return "killed, or left by _exit,";
  return integrity.ended_by;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// More than a shell or an environment tool allocates before it executes the program that it prepares.
constexpr std::uint64_t kWrapperPeakBytes = 1 << 20;

}  // namespace

TraceSummary summarize(const TraceFound& trace, const replay::Progress& progress) {
  TraceSummary summary;
  summary.trace = trace;
  try {
    const replay::Analysis analysis(trace.path, replay::Selection{}, progress);
    const model::Profile& profile = analysis.profile();
    const model::HeapTotals& heap = profile.heap;
    summary.program = base_name(profile.recording.program);
    summary.end = end_text(profile);
    summary.duration_ns = profile.recording.duration_ns;
    summary.events = heap.events();
    summary.peak_bytes = heap.peak_bytes;
    summary.peak_blocks = heap.peak_blocks;
    summary.live_bytes = heap.leaked_bytes;
    summary.live_blocks = heap.leaked_blocks;
    summary.complete = profile.integrity.complete;
  } catch (const std::exception& error) {
    summary.error = error.what();
  }
  return summary;
}

std::string figures_text(const TraceSummary& summary) {
  if (!summary.error.empty()) return "  " + summary.error + "\n";
  const auto blocks = [](std::uint64_t bytes, std::uint64_t count) {
    return render::human_bytes(bytes) + " in " + render::block_count(count);
  };
  std::string text = "  end     " + summary.end + " after " + render::human_time(summary.duration_ns) + "\n";
  text += "  events  " + render::exact_number(summary.events) + "\n";
  text += "  peak    " + blocks(summary.peak_bytes, summary.peak_blocks) + "\n";
  text += "  live    " + blocks(summary.live_bytes, summary.live_blocks) + " at the end\n";
  if (!summary.complete) text += "  damage  the trace is not complete; heapprof info says what is missing\n";
  return text;
}

std::vector<std::size_t> traces_of_processes(const std::vector<TraceSummary>& traces) {
  using Process = std::pair<std::uint32_t, std::uint64_t>;
  std::map<Process, std::vector<std::size_t>> of_process;
  std::vector<Process> order;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const FileHeader& header = traces[i].trace.header;
    std::vector<std::size_t>& of = of_process[{header.pid, header.process_start}];
    if (of.empty()) order.emplace_back(header.pid, header.process_start);
    of.push_back(i);
  }
  std::vector<std::size_t> result;
  for (const Process& process : order) {
    std::vector<std::size_t>& of = of_process[process];
    const auto start = [&](std::size_t i) { return traces[i].trace.header.start_monotonic_ns; };
    std::stable_sort(of.begin(), of.end(), [&](std::size_t a, std::size_t b) { return start(a) < start(b); });
    const std::size_t last = of.back();
    std::stable_sort(of.begin(), of.end(), [&](std::size_t a, std::size_t b) {
      return traces[a].peak_bytes > traces[b].peak_bytes;
    });
    const bool earlier = traces[of.front()].peak_bytes > traces[last].peak_bytes + kWrapperPeakBytes;
    result.push_back(earlier ? of.front() : last);
  }
  return result;
}

void sort_by_peak(std::vector<std::size_t>& positions, const std::vector<TraceSummary>& traces) {
  const auto rank = [&](std::size_t i) { return std::make_pair(traces[i].peak_bytes, traces[i].events); };
  std::stable_sort(positions.begin(), positions.end(),
                   [&](std::size_t a, std::size_t b) { return rank(a) > rank(b); });
}

}  // namespace heapprof::launch
