#include "analyzer/cli/text/processes_text.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "analyzer/base/base_name.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/render/byte_column.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/render/wrap.h"

namespace heapprof::cli {
namespace {

using model::ProcessFigures;
using render::exact_number;
using render::human_time;

std::string counted(std::size_t count, const char* one, const char* many) {
  return exact_number(count) + " " + (count == 1 ? one : many);
}

/// The recordings with the highest peaks, and those of the processes that started them. What a process executed
/// before, mostly a wrapper, is left out.
std::vector<bool> worth_showing(const std::vector<ProcessFigures>& processes, bool all) {
  constexpr std::size_t kMaxRanked = 15;
  constexpr std::uint64_t kParts = 100;  // of the highest peak
  if (all) return std::vector<bool>(processes.size(), true);
  std::vector<std::size_t> by_peak(processes.size());
  for (std::size_t i = 0; i < by_peak.size(); ++i) by_peak[i] = i;
  std::ranges::stable_sort(by_peak, std::ranges::greater(), [&](std::size_t i) { return processes[i].peak_bytes; });
  const std::uint64_t highest = processes[by_peak.front()].peak_bytes;
  std::vector<bool> shown(processes.size(), false);
  shown.front() = true;
  for (std::size_t rank = 0; rank < std::min(kMaxRanked, by_peak.size()); ++rank) {
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

std::string short_command(const ProcessFigures& process) {
  const std::size_t slash = process.command.substr(0, process.command.find(' ')).rfind('/');
  return slash == std::string::npos ? process.command : process.command.substr(slash + 1);
}

std::string name_of(const ProcessFigures& process) {
  const std::string program = render::clean_utf8(base_name(process.program));
  return (program.empty() ? "unknown program" : program) + ", pid " + std::to_string(process.pid);
}

std::string sentence_of(const model::Profile& profile) {
  const model::Together& together = *profile.together;
  const auto processes = static_cast<std::size_t>(
      std::ranges::count_if(together.processes, [](const ProcessFigures& one) { return one.began != "executed"; }));
  const bool selected = profile.slice || profile.live_at_ns || !profile.selection_text.empty();
  return counted(processes, "process", "processes") + " in " +
         counted(together.processes.size(), "recording", "recordings") + ", " + exact_number(profile.events()) +
         " events" + (selected ? " selected" : "") + ", " + human_time(profile.recording.duration_ns) + ".";
}

std::vector<std::string> notes_of(const model::Together& together) {
  std::vector<std::string> notes;
  if (together.unread != 0)
    notes.push_back(counted(together.unread, "recording", "recordings") + " could not be read");
  if (together.copies != 0)
    notes.push_back(counted(together.copies, "file is a copy", "files are copies") + " of another one and left out");
  if (together.outside != 0)
    notes.push_back(counted(together.outside, "recording has", "recordings have") + " no part in the selected time");
  for (const std::string& note : together.notes) notes.push_back(note);
  if (std::ranges::any_of(together.processes, [](const ProcessFigures& one) { return one.began == "forked"; }))
    notes.emplace_back(
        "a forked child has only what it allocated itself: memory that it shares with its parent counts once, for "
        "the "
        "parent");
  return notes;
}

void write_processes(TextPage& text, const model::Profile& profile, bool all) {
  const std::vector<ProcessFigures>& processes = profile.together->processes;
  const std::vector<bool> shown = worth_showing(processes, all);
  std::uint64_t peak = 0, rss = 0, leaked = 0;
  for (const ProcessFigures& process : processes) {
    peak = std::max(peak, process.peak_bytes);
    rss = std::max(rss, process.peak_rss_bytes);
    leaked = std::max(leaked, process.leaked_bytes);
  }
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
                {{profile.is_moment() ? "live" : "peak"},
                 {"peak RSS", Column::Kind::kFigure, 3},
                 {"leaked", Column::Kind::kFigure, 2},
                 {"start", Column::Kind::kFigure, 4},
                 {"ran for", Column::Kind::kFigure, 5},
                 {"process", Column::Kind::kText}},
                rows);
  if (left_out != 0) text.line("  +" + exact_number(left_out) + " more; --top 0 prints all");
}

void write_leaking_processes(TextPage& text, const model::Together& together) {
  constexpr std::size_t kMaxRows = 5;
  std::vector<const ProcessFigures*> ranked;
  std::uint64_t total = 0, rest = 0;
  for (const ProcessFigures& process : together.processes) {
    if (process.leaked_bytes != 0) ranked.push_back(&process);
    total += process.leaked_bytes;
  }
  if (ranked.empty()) return;
  std::ranges::stable_sort(ranked, std::ranges::greater(),
                           [](const ProcessFigures* process) { return process->leaked_bytes; });
  for (std::size_t i = kMaxRows; i < ranked.size(); ++i) rest += ranked[i]->leaked_bytes;
  text.heading("By process");
  const render::ByteColumn sizes(ranked.front()->leaked_bytes);
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < std::min(kMaxRows, ranked.size()); ++i)
    rows.push_back({{sizes.text(ranked[i]->leaked_bytes), TextColour::kBold},
                    {render::percent(ranked[i]->leaked_bytes, total)},
                    {std::to_string(ranked[i]->pid) + " " + short_command(*ranked[i]) +
                     (ranked[i]->ended_well ? "" : ": " + ranked[i]->end)}});
  write_columns(text, {{"live"}, {"share", Column::Kind::kFigure, 1}, {"process", Column::Kind::kText}}, rows);
  if (ranked.size() > kMaxRows)
    text.line("  +" + exact_number(ranked.size() - kMaxRows) + " more, " + render::human_bytes(rest) +
              "; 'heapprof report TRACE --by process' lists all");
}

}  // namespace heapprof::cli
