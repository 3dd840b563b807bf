#include "analyzer/cli/commands/report_processes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "analyzer/base/base_name.h"
#include "analyzer/cli/commands/named_traces.h"
#include "analyzer/cli/commands/report_rows.h"
#include "analyzer/cli/commands/run_on_trace.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/model/merged_profile.h"
#include "analyzer/processes/process_tree.h"
#include "analyzer/render/byte_column.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

using processes::Begin;
using render::exact_number;
using render::human_bytes;
using render::human_time;

const char* name_of(Begin begin) noexcept {
  switch (begin) {
    case Begin::kRoot: return "root";
    case Begin::kForked: return "forked";
    case Begin::kStarted: return "started";
    case Begin::kExecuted: return "executed";
  }
  return "";
}

ProcessFigures figures_of(const std::string& trace, const model::Profile& profile) {
  ProcessFigures figures;
  figures.trace = trace;
  figures.program = profile.recording.program;
  figures.command = command_of(profile);
  figures.end = ending_of(profile);
  figures.ended_well = (profile.integrity.ended_by == "exit" && profile.integrity.end_status.value_or(0) == 0) ||
                       profile.integrity.ended_by == "exec" || profile.integrity.ended_by == "running";
  figures.pid = profile.recording.pid;
  figures.parent_pid = profile.recording.parent_pid;
  figures.end_ns = profile.recording.duration_ns;
  figures.events = profile.events();
  figures.peak_bytes = profile.heap.peak_bytes;
  figures.peak_rss_bytes = profile.timeline.peak_rss_bytes;
  figures.leaked_bytes = profile.heap.leaked_bytes;
  figures.complete = profile.integrity.complete;
  return figures;
}

/// When a recording began: on the clock that all have if they are of one boot, else on that of the calendar.
std::vector<std::uint64_t> starts_of(const std::vector<FileHeader>& headers) {
  const bool one_boot = std::ranges::all_of(headers, [&](const FileHeader& header) {
    return std::memcmp(header.boot_id, headers.front().boot_id, sizeof header.boot_id) == 0;
  });
  std::vector<std::uint64_t> starts;
  for (const FileHeader& header : headers)
    starts.push_back(one_boot ? header.start_monotonic_ns : header.start_realtime_ns);
  const std::uint64_t first = std::ranges::min(starts);
  for (std::uint64_t& start : starts) start -= first;
  return starts;
}

MergedRecordings::Program& program_named(std::vector<MergedRecordings::Program>& programs, const std::string& name) {
  const auto found = std::ranges::find(programs, name, &MergedRecordings::Program::name);
  if (found != programs.end()) return *found;
  return programs.emplace_back(MergedRecordings::Program{name, {}, {}});
}

/// Brings the processes into the order of their tree.
void arrange(std::vector<ProcessFigures>& processes, const std::vector<FileHeader>& headers) {
  const std::vector<std::uint64_t> starts = starts_of(headers);
  std::vector<ProcessFigures> arranged;
  std::vector<int> position(processes.size(), -1);
  for (const processes::TraceInTree& in_tree : processes::process_tree(headers)) {
    ProcessFigures& process = processes[in_tree.trace];
    process.start_ns = starts[in_tree.trace];
    process.end_ns += process.start_ns;
    process.began = name_of(in_tree.begin);
    process.depth = in_tree.depth;
    if (in_tree.from) process.from = position[*in_tree.from];
    position[in_tree.trace] = static_cast<int>(arranged.size());
    arranged.push_back(std::move(process));
  }
  processes = std::move(arranged);
}

std::size_t count_of_processes(const MergedRecordings& recordings) {
  return static_cast<std::size_t>(
      std::ranges::count_if(recordings.processes, [](const ProcessFigures& one) { return one.began != "executed"; }));
}

/// The command without the directories of the program, so that more of its arguments have room.
std::string short_command(const ProcessFigures& process) {
  const std::size_t slash = process.command.substr(0, process.command.find(' ')).rfind('/');
  return slash == std::string::npos ? process.command : process.command.substr(slash + 1);
}

/// The recordings with the highest peaks, and those of the processes that started them. What a process executed
/// before, mostly a wrapper, is left out.
std::vector<bool> worth_showing(const std::vector<ProcessFigures>& processes, bool all) {
  constexpr std::size_t kMost = 15;
  constexpr std::uint64_t kParts = 100;  // of the highest peak
  if (all) return std::vector<bool>(processes.size(), true);
  std::vector<std::size_t> by_peak(processes.size());
  for (std::size_t i = 0; i < by_peak.size(); ++i) by_peak[i] = i;
  std::ranges::stable_sort(by_peak, std::ranges::greater(), [&](std::size_t i) { return processes[i].peak_bytes; });
  const std::uint64_t highest = processes[by_peak.front()].peak_bytes;
  std::vector<bool> shown(processes.size(), false);
  shown.front() = true;
  for (std::size_t rank = 0; rank < std::min(kMost, by_peak.size()); ++rank) {
    std::size_t at = by_peak[rank];
    if (processes[at].peak_bytes < highest / kParts) break;
    shown[at] = true;
    while (processes[at].from >= 0) {
      const bool is_parent = processes[at].began != "executed";
      at = static_cast<std::size_t>(processes[at].from);
      if (is_parent) shown[at] = true;
    }
  }
  return shown;
}

}  // namespace

void write_processes(TextPage& text, const MergedRecordings& recordings, bool all) {
  const std::vector<ProcessFigures>& processes = recordings.processes;
  const std::vector<bool> shown = worth_showing(processes, all);
  std::uint64_t peak = 0, rss = 0, leaked = 0, end_ns = 0;
  for (const ProcessFigures& process : processes) {
    peak = std::max(peak, process.peak_bytes);
    rss = std::max(rss, process.peak_rss_bytes);
    leaked = std::max(leaked, process.leaked_bytes);
    end_ns = std::max(end_ns, process.end_ns);
  }
  const std::size_t count = count_of_processes(recordings);
  text.line(text.bold(recordings.named_as) + ": " + exact_number(count) + (count == 1 ? " process" : " processes") +
            " in " + exact_number(processes.size()) + (processes.size() == 1 ? " recording, " : " recordings, ") +
            exact_number(recordings.profile.events()) + " events, " + human_time(end_ns) + ".");
  text.heading("Processes, by start");
  const render::ByteColumn peaks(peak), resident(rss), leaks(leaked);
  std::vector<std::vector<Cell>> rows;
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const ProcessFigures& process = processes[i];
    if (!shown[i]) {
      ++left_out;
      continue;
    }
    bool is_named = false;  // the process is, in an earlier line
    for (int before = static_cast<int>(i); processes[static_cast<std::size_t>(before)].began == "executed";) {
      before = processes[static_cast<std::size_t>(before)].from;
      is_named |= shown[static_cast<std::size_t>(before)];
    }
    const std::string indent(2 * process.depth, ' ');
    rows.push_back({{peaks.text(process.peak_bytes), TextColour::kBold},
                    {process.peak_rss_bytes == 0 ? "-" : resident.text(process.peak_rss_bytes)},
                    {leaks.text(process.leaked_bytes)},
                    {human_time(process.start_ns)},
                    {human_time(process.end_ns - process.start_ns)},
                    {indent + (is_named ? "then " : std::to_string(process.pid) + " ") +
                     (process.began == "forked" ? "fork of " : "") + short_command(process) +
                     (process.ended_well ? "" : ": " + process.end)}});
  }
  write_columns(text,
                {{"peak"},
                 {"peak RSS", Column::Kind::kFigure, 3},
                 {"leaked", Column::Kind::kFigure, 2},
                 {"start", Column::Kind::kFigure, 4},
                 {"ran for", Column::Kind::kFigure, 5},
                 {"process", Column::Kind::kText}},
                rows);
  if (left_out != 0) text.line("  +" + exact_number(left_out) + " more; --top 0 prints all");
}

Json processes_json(const MergedRecordings& recordings) {
  Json list = Json::array();
  for (const ProcessFigures& process : recordings.processes)
    list.push_back({{"pid", process.pid},
                    {"parent_pid", process.parent_pid},
                    {"program", process.program},
                    {"command", process.command},
                    {"began", process.began},
                    {"from", process.from < 0 ? Json(nullptr) : Json(process.from)},
                    {"start_ns", process.start_ns},
                    {"end_ns", process.end_ns},
                    {"end", process.end},
                    {"complete", process.complete},
                    {"events", process.events},
                    {"peak_bytes", process.peak_bytes},
                    {"peak_rss_bytes", process.peak_rss_bytes},
                    {"leaked_bytes", process.leaked_bytes},
                    {"trace", process.trace}});
  return list;
}

int run_report_of_processes(const ReportOptions& options) {
  return guarded(options.traces.front(), [&] {
    MergedRecordings recordings;
    const std::vector<std::string> traces = traces_named(options.traces);
    recordings.named_as =
        options.traces.size() == 1 ? options.traces.front() : exact_number(traces.size()) + " recordings";
    model::ProfileMerger merger;
    std::vector<FileHeader> headers;
    int status = 0;
    for (const std::string& trace : traces) {
      TraceOptions one = for_costs(options.trace);
      one.trace = trace;
      one.one_of_several = true;
      const std::size_t before = headers.size();
      const int result = run_on_trace(one, [&](const replay::Analysis& analysis) {
        const model::Profile& profile = analysis.profile();
        const std::vector<std::uint32_t> merged = merger.add(profile);
        recordings.processes.push_back(figures_of(trace, profile));
        headers.push_back(analysis.file().header());
        MergedRecordings::Program& program = program_named(recordings.programs, base_name(profile.recording.program));
        program.totals += profile.totals;
        for (std::size_t node = 0; node < merged.size(); ++node)
          if (!profile.nodes[node].costs.empty()) program.costs[merged[node]] += profile.nodes[node].costs;
      });
      if (result == 2) return 2;
      if (result != 0) status = 1;
      if (headers.size() == before) ++recordings.unread;
    }
    if (headers.empty()) return 1;
    arrange(recordings.processes, headers);
    recordings.profile = merger.take();
    print_rows_of_processes(options, recordings);
    return status;
  });
}

}  // namespace heapprof::cli
