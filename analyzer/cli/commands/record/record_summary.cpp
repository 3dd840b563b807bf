#include "analyzer/cli/commands/record/record_summary.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <map>
#include <set>
#include <utility>

#include "analyzer/base/base_name.h"
#include "analyzer/base/reason_of.h"
#include "analyzer/base/shell_quote.h"
#include "analyzer/cli/text/progress_line.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/launch/trace_pattern.h"
#include "analyzer/render/units.h"
#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::cli {
namespace {

using launch::RecordedTrace;
using render::exact_number;
using render::human_bytes;

/// More than a shell or an environment tool allocates before it executes the program that it prepares.
constexpr std::uint64_t kWrapperPeakBytes = 1 << 20;

constexpr std::size_t kMaxNamed = 3;  ///< traces that the summary names

/// The traces of a run with their figures.
struct Run {
  std::vector<TraceFigures> traces;  ///< of the program first, then of its children
  std::size_t of_program = 0;        ///< how many of them are the program's
  std::size_t unread = 0;            ///< traces of children that were not read, to save time
  bool children = false;             ///< children were recorded
};

TraceFigures read_figures(const RecordedTrace& trace, const replay::Progress& progress) {
  TraceFigures figures;
  figures.trace = trace;
  try {
    const replay::Analysis analysis(trace.path, replay::Selection{}, progress);
    const model::Profile& profile = analysis.profile();
    const model::HeapTotals& heap = profile.heap;
    figures.program = base_name(profile.recording.program);
    // This is no copy.
    figures.end = profile.integrity.ended_by == "unknown" ? "killed, or ended by _exit" : ending_of(profile);
    figures.duration_ns = profile.recording.duration_ns;
    figures.events = heap.events();
    figures.peak_bytes = heap.peak_bytes;
    figures.peak_blocks = heap.peak_blocks;
    figures.live_bytes = heap.leaked_bytes;
    figures.live_blocks = heap.leaked_blocks;
    figures.complete = profile.integrity.complete;
  } catch (const std::exception& error) {
    // Of a trace that cannot be read, the reason has its name already.
    figures.error = is_out_of_memory(error) ? trace.path + ": " + kNotEnoughMemory : reason_of(error);
  }
  return figures;
}

/// Reads the figures of all traces. Traces of children, of which there may be thousands, are read for at most 10 s,
/// the largest files first. Files are preallocated, so their sizes show how long reading takes, but not which process
/// allocated most.
Run read_run(const std::vector<RecordedTrace>& of_program, std::vector<RecordedTrace> of_children, bool children) {
  constexpr std::chrono::seconds kPatience{10};
  Run run;
  run.of_program = of_program.size();
  run.children = children;
  std::stable_sort(of_children.begin(), of_children.end(), [](const RecordedTrace& a, const RecordedTrace& b) {
    return a.header.file_bytes > b.header.file_bytes;
  });
  std::vector<RecordedTrace> all = of_program;
  all.insert(all.end(), of_children.begin(), of_children.end());
  std::uint64_t bytes = 0;
  for (const RecordedTrace& trace : all) bytes += trace.header.file_bytes;
  ProgressLine progress("Reading " + (all.size() == 1 ? all.front().path : std::to_string(all.size()) + " traces"));
  std::uint64_t bytes_read = 0;
  std::uint64_t records_read = 0;
  const auto started = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i >= of_program.size() && std::chrono::steady_clock::now() - started > kPatience) {
      run.unread = all.size() - i;
      break;
    }
    std::uint64_t records_here = 0;
    run.traces.push_back(read_figures(all[i], [&](const replay::Done& here) {
      records_here = here.records;
      const double done =
          static_cast<double>(bytes_read) + here.share * static_cast<double>(all[i].header.file_bytes);
      // A share of 1 would erase the line.
      progress.show({.share = bytes == 0 ? 0 : std::min(done / static_cast<double>(bytes), 0.999),
                     .records = records_read + here.records});
    }));
    bytes_read += all[i].header.file_bytes;
    records_read += records_here;
  }
  progress.end();
  return run;
}

/// One line for each figure, or the error if the trace could not be read.
std::string figures_text(const TraceFigures& figures) {
  if (!figures.error.empty()) return "  " + figures.error + "\n";
  const auto blocks = [](std::uint64_t bytes, std::uint64_t count) {
    return human_bytes(bytes) + " in " + render::block_count(count);
  };
  std::string text = "  end     " + figures.end + ", after " + render::human_time(figures.duration_ns) + "\n";
  text += "  events  " + exact_number(figures.events) + "\n";
  text += "  peak    " + blocks(figures.peak_bytes, figures.peak_blocks) + "\n";
  text += "  live    " + blocks(figures.live_bytes, figures.live_blocks) + " at the end\n";
  if (!figures.complete) text += "  damage  the trace is incomplete; 'heapprof info' prints what is missing\n";
  return text;
}

/// "/tmp/heapprof.cc1.12.heapprof, peak 81.0 MiB"
std::string path_and_peak(const TraceFigures& figures) {
  return figures.trace.path +
         (figures.error.empty() ? ", peak " + human_bytes(figures.peak_bytes) : ": cannot be read");
}

/// The other traces of the program's process: those of programs that it executed before, mostly wrapper scripts.
std::string other_traces(const Run& run, std::size_t leading) {
  std::string text;
  const bool of_program = leading < run.of_program;
  const std::size_t others = run.of_program - (of_program ? 1 : 0);
  const char* const label = leading + 1 == run.of_program ? "  before  " : of_program ? "  also    " : "  program ";
  if (others > kMaxNamed) {
    std::vector<std::string> programs;
    for (std::size_t i = 0; i < run.of_program; ++i)
      if (i != leading && std::find(programs.begin(), programs.end(), run.traces[i].program) == programs.end())
        programs.push_back(run.traces[i].program);
    std::string names;
    for (const std::string& program : programs) names += (names.empty() ? "" : ", ") + program;
    return label + std::to_string(others) + " more traces, of other programs that the process executed: " + names +
           "\n";
  }
  for (std::size_t i = 0; i < run.of_program; ++i)
    if (i != leading)
      text += label + path_and_peak(run.traces[i]) + (of_program ? "" : ", " + run.traces[i].end) + "\n";
  return text;
}

/// How many child processes were recorded, in which files, and which of them have the highest peaks. `by_peak`: the
/// trace of each process, highest peak first.
std::string children_text(const Run& run, const std::string& pattern, const std::vector<std::size_t>& by_peak,
                          std::size_t processes, bool in_directory) {
  const std::size_t traces = run.traces.size() - run.of_program + run.unread;
  if (traces == 0) return "  with    no child process that allocated\n";
  std::string text = "  with    " + exact_number(processes) +
                     (processes == 1 ? " child process in " : " child processes in ") + exact_number(traces) +
                     (traces == 1 ? " trace: " : " traces: ") + launch::files_of(pattern) + "\n";
  std::size_t named = 0;
  for (const std::size_t i : by_peak) {
    if (i < run.of_program) continue;
    text += std::string(named == 0 ? "  largest " : "          ") + path_and_peak(run.traces[i]) + "\n";
    if (++named == kMaxNamed) break;
  }
  if (run.unread != 0)
    text += "          (" + exact_number(run.unread) +
            " small traces were not read, to save time; their peaks may be higher)\n";
  return in_directory ? text : text + "          ('heapprof report TRACE' reports one of them)\n";
}

bool is_shell(const std::string& program) {
  for (const char* const shell : {"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "fish", "busybox"})
    if (program == shell) return true;
  return false;
}

/// Makes the trace the newest, which commands without a TRACE read. The time is passed explicitly: the kernel would
/// set that of its last timer tick, which other traces may have as well.
void make_newest(const std::string& path) {
  timespec now[2];
  ::clock_gettime(CLOCK_REALTIME, &now[0]);
  now[1] = now[0];
  ::utimensat(AT_FDCWD, path.c_str(), now, 0);
}

}  // namespace

std::string record_summary(const std::string& pattern, const std::vector<RecordedTrace>& of_program,
                           const std::vector<RecordedTrace>& of_children, bool children, const std::string& directory,
                           const LeftOut& left_out) {
  if (of_program.empty() && of_children.empty())
    return std::string(
               "heapprof: no trace was written. The recorder may have printed the reason above. Otherwise the "
               "program\n"
               "          allocated nothing, or a program that removes LD_PRELOAD, is static or setuid started "
               "it.\n") +
           (children ? std::string() : note_of_children(left_out, base_name(left_out.command.front())));
  const Run run = read_run(of_program, of_children, children);
  std::vector<std::size_t> by_peak = traces_of_processes(run.traces);
  sort_by_peak(by_peak, run.traces);
  const std::size_t leading = by_peak.front();
  const TraceFigures& about = run.traces[leading];
  make_newest(about.trace.path);
  std::string text = "heapprof: " + about.trace.path + "\n";
  if (leading >= run.of_program)
    text += "  process " + about.program + ", pid " + std::to_string(about.trace.header.pid) +
            ", a child process: its peak is the highest of the " + exact_number(by_peak.size()) +
            (by_peak.size() == 1 ? " process\n" : " processes\n");
  text += figures_text(about);
  if (run.of_program == 0) text += "  program has no trace\n";
  else text += other_traces(run, leading);
  if (run.children) {
    std::set<std::pair<std::uint32_t, std::uint64_t>> processes;
    for (const RecordedTrace& trace : of_children) processes.emplace(trace.header.pid, trace.header.process_start);
    text += children_text(run, pattern, by_peak, processes.size(), !directory.empty());
  } else {
    text += note_of_children(left_out, about.program);
  }
  const bool all = !directory.empty() && run.traces.size() + run.unread > 1;
  return text + "  next    heapprof report " + shell_quoted(all ? directory : about.trace.path) + "\n";
}

std::string note_of_children(const LeftOut& left_out, const std::string& program) {
  constexpr std::uint64_t kMinWorkNs = 10'000'000;
  const launch::ChildWork& work = left_out.work;
  // A shell runs programs; what other programs leave to children is worth a note if it is a tenth of what they do.
  const bool is_worth_it = is_shell(program) ? work.any : work.children_ns >= std::max(kMinWorkNs, work.own_ns / 10);
  if (!is_worth_it) return {};
  std::string text = "  note    child processes of " + program + " were not recorded";
  if (work.children_ns != 0)
    text += "; they took " + render::human_time(work.children_ns) + " of processor time, " + program + " itself " +
            render::human_time(work.own_ns);
  std::string command;
  for (const std::string& word : left_out.command) command += " " + shell_quoted(word);
  return text + "\n          record them too: heapprof record --children -o " +
         shell_quoted(program + "-recordings/") + " --" + command + "\n";
}

std::vector<std::size_t> traces_of_processes(const std::vector<TraceFigures>& traces) {
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
    std::stable_sort(of.begin(), of.end(),
                     [&](std::size_t a, std::size_t b) { return traces[a].peak_bytes > traces[b].peak_bytes; });
    const bool earlier = traces[of.front()].peak_bytes > traces[last].peak_bytes + kWrapperPeakBytes;
    result.push_back(earlier ? of.front() : last);
  }
  return result;
}

void sort_by_peak(std::vector<std::size_t>& positions, const std::vector<TraceFigures>& traces) {
  const auto rank = [&](std::size_t i) { return std::make_pair(traces[i].peak_bytes, traces[i].events); };
  std::stable_sort(positions.begin(), positions.end(),
                   [&](std::size_t a, std::size_t b) { return rank(a) > rank(b); });
}

}  // namespace heapprof::cli
