// heapprof record: starts a program with the recorder preloaded, stays beside it, and says what came of it.
#include <CLI/CLI.hpp>

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/trace_command.h"
#include "analyzer/launch/capabilities.h"
#include "analyzer/launch/recorder_settings.h"
#include "analyzer/launch/trace_pattern.h"
#include "analyzer/launch/supervisor.h"
#include "analyzer/launch/program.h"
#include "analyzer/launch/recorder_library.h"
#include "analyzer/cli/commands/record_summary.h"
#include "analyzer/launch/surviving_processes.h"
#include "analyzer/launch/recorded_traces.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {

namespace {

constexpr int kWrongUse = 2;
constexpr int kOwnFailure = 125;
constexpr const char* kDefaultPattern = "heapprof.%e.%p.hprof";

int fail(int status, const std::string& text) {
  std::fprintf(stderr, "heapprof: %s\n", text.c_str());
  return status;
}

/// "'a b'": `text` for a shell, quoted only if need be.
std::string quoted(const std::string& text) {
  const bool plain = !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                             "0123456789_-+=:,./%@") == std::string::npos;
  if (plain) return text;
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

/// Whether this is the name of a shell.
bool is_shell(const std::string& program) {
  for (const char* const shell : {"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "fish", "busybox"})
    if (program == shell) return true;
  return false;
}

/// The traces of a run with their figures.
struct Run {
  std::vector<launch::TraceSummary> traces;  ///< of the program first, then of its children
  std::size_t of_program = 0;                ///< how many are the program's
  std::size_t unread = 0;                    ///< traces of children that are not in `traces`, to save time
  bool children = false;                     ///< whether children were recorded
};

/// Reads the figures of all traces. Children's largest files come first, and those are left out that would take too
/// long: there may be thousands. Files are preallocated, so their sizes show how long reading takes, but not
/// which process allocated most.
Run read_run(const std::vector<launch::TraceFound>& of_program, std::vector<launch::TraceFound> of_children,
             bool children) {
  constexpr std::chrono::seconds kPatience{10};
  Run run;
  run.of_program = of_program.size();
  run.children = children;
  std::stable_sort(of_children.begin(), of_children.end(),
                   [](const launch::TraceFound& a, const launch::TraceFound& b) {
                     return a.header.file_bytes > b.header.file_bytes;
                   });
  std::vector<launch::TraceFound> all = of_program;
  all.insert(all.end(), of_children.begin(), of_children.end());
  std::uint64_t bytes = 0;
  for (const launch::TraceFound& trace : all) bytes += trace.header.file_bytes;
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
    run.traces.push_back(launch::summarize(all[i], [&](double share, std::uint64_t records) {
      records_here = records;
      const double done = static_cast<double>(bytes_read) + share * static_cast<double>(all[i].header.file_bytes);
      // 1 would end the line.
      progress.show(bytes == 0 ? 0 : std::min(done / static_cast<double>(bytes), 0.999), records_read + records);
    }));
    bytes_read += all[i].header.file_bytes;
    records_read += records_here;
  }
  progress.show(1, 0);
  return run;
}

/// "/tmp/heapprof.cc1.12.hprof, peak 81.0 MiB"
std::string path_and_peak(const launch::TraceSummary& summary) {
  return summary.trace.path +
         (summary.error.empty() ? ", peak " + render::human_bytes(summary.peak_bytes) : ": cannot be read");
}

/// The program's other traces: of what the process was before, wrapper scripts mostly.
std::string other_traces(const Run& run, std::size_t leading) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  const bool of_program = leading < run.of_program;
  const std::size_t others = run.of_program - (of_program ? 1 : 0);
  const char* const label = leading + 1 == run.of_program ? "  before  " : of_program ? "  also    " : "  started ";
  if (others > kNamed) {
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

/// How many processes were recorded besides the program, and where; which of them had the highest peaks.
/// `by_peak`: a trace of each process, highest peak first.
std::string summary_of_children(const Run& run, const std::string& pattern, const std::vector<std::size_t>& by_peak,
                                std::size_t processes) {
  constexpr std::size_t kNamed = 3;
  const std::size_t traces = run.traces.size() - run.of_program + run.unread;
  if (traces == 0) return "  with    no child process that allocated\n";
  std::string text = "  with    " + render::exact_number(processes) +
                     (processes == 1 ? " child process in " : " child processes in ") + render::exact_number(traces) +
                     (traces == 1 ? " trace: " : " traces: ") + launch::files_of(pattern) + "\n";
  std::size_t named = 0;
  for (const std::size_t i : by_peak) {
    if (i < run.of_program) continue;
    text += std::string(named == 0 ? "  largest " : "          ") + path_and_peak(run.traces[i]) + "\n";
    if (++named == kNamed) break;
  }
  if (run.unread != 0)
    text += "          (" + render::exact_number(run.unread) +
            " small traces were not read, to save time, and may have higher peaks)\n";
  return text + "          (each is asked by itself: heapprof report TRACE)\n";
}

/// What came of it: first the process with the highest peak.
std::string summary(const std::string& pattern, const std::vector<launch::TraceFound>& of_program,
                    const std::vector<launch::TraceFound>& of_children, bool children) {
  if (of_program.empty() && of_children.empty())
    return "heapprof: no trace was written. The recorder may have said why, above. Otherwise the program allocated\n"
           "          nothing, or it ran through a program that drops LD_PRELOAD, is statically linked or setuid.\n";
  const Run run = read_run(of_program, of_children, children);
  std::vector<std::size_t> by_peak = launch::traces_of_processes(run.traces);
  launch::sort_by_peak(by_peak, run.traces);
  const std::size_t leading = by_peak.front();
  const launch::TraceSummary& about = run.traces[leading];
  std::string text = "heapprof: " + about.trace.path + "\n";
  if (leading >= run.of_program)
    text += "  process " + about.program + ", pid " + std::to_string(about.trace.header.pid) +
            ", a child process: its peak is the highest of the " + render::exact_number(by_peak.size()) +
            (by_peak.size() == 1 ? " process\n" : " processes\n");
  // Commands without a file read the newest trace: that is now the one that the summary is about. The time is read
  // here, as the kernel's own is that of its last timer tick, which the other traces may have too.
  timespec now[2];
  ::clock_gettime(CLOCK_REALTIME, &now[0]);
  now[1] = now[0];
  ::utimensat(AT_FDCWD, about.trace.path.c_str(), now, 0);
  text += launch::figures_text(about);
  if (run.of_program == 0) text += "  started the program itself left no trace\n";
  else text += other_traces(run, leading);
  if (run.children) {
    std::set<std::pair<std::uint32_t, std::uint64_t>> processes;
    for (const launch::TraceFound& trace : of_children)
      processes.emplace(trace.header.pid, trace.header.process_start);
    text += summary_of_children(run, pattern, by_peak, processes.size());
  } else if (is_shell(about.program)) {
    text += "  note    programs that " + about.program + " starts as children are recorded with --children only\n";
  }
  return text + "  look    heapprof report " + quoted(about.trace.path) + "\n";
}

/// Whether children are recorded too, by option or variable: both are known to be readable.
bool children_recorded(const launch::Options& options) {
  const char* const variable = std::getenv("HEAPPROF_CHILDREN");
  std::string value = variable != nullptr ? variable : "off";
  for (const auto& [name, given] : options.settings)
    if (name == "HEAPPROF_CHILDREN") value = given;
  return value == "on" || value == "1" || value == "yes";
}

}  // namespace

void add_record(CLI::App& app, int&) {
  // Only the name for `heapprof --help`: main() gives this command's arguments to record() as they are.
  app.add_subcommand("record", "Run a program and record its allocations");
}

int record(const std::vector<std::string>& arguments) {
  launch::Options options;
  std::string error;
  if (!launch::parse_options(arguments, options, error)) return fail(kWrongUse, error);
  if (options.help) {
    std::fputs(launch::usage().c_str(), stdout);
    return 0;
  }
  if (!launch::check_environment(error)) return fail(kWrongUse, error);

  std::string recorder;
  if (!launch::find_recorder(recorder, error)) return fail(kOwnFailure, error);
  launch::Architecture architecture;
  if (!launch::read_architecture(recorder, architecture)) return fail(kOwnFailure, recorder + " is not a library");

  std::string program;
  std::string loader;
  launch::Refusal refusal;
  if (!launch::find_program(options.command.front(), program, refusal) ||
      !launch::check_program(program, architecture, loader, refusal))
    return fail(refusal.exit_status, refusal.text);
  launch::Privileges privileges;
  if (!loader.empty() && !launch::plan_privileges(program, loader, launch::own_path(), privileges, refusal))
    return fail(refusal.exit_status, refusal.text);

  const char* variable = std::getenv("HEAPPROF_OUTPUT");
  const std::string pattern =
      launch::absolute_pattern(options.output ? *options.output : variable != nullptr ? variable : kDefaultPattern);
  error = launch::ask_as_user(privileges, [&] {
    std::string reason;
    launch::check_writable(pattern, reason);
    return reason;
  });
  if (!error.empty()) return fail(kWrongUse, error);
  // A name given by hand is that of one trace. By variable it may serve many runs: they get .1, .2, ...
  if (options.output)
    if (const std::string name = launch::fixed_name(pattern); !name.empty())
      if (!launch::make_way(name, options.force, error)) return fail(kWrongUse, error);

  auto variables = options.settings;
  for (auto& [name, value] : variables)
    if (name == "HEAPPROF_LOG_FILE" && !value.starts_with('/')) value = std::filesystem::absolute(value);
  variables.emplace_back("HEAPPROF_OUTPUT", pattern);
  const char* preloaded = std::getenv("LD_PRELOAD");
  variables.emplace_back("LD_PRELOAD", launch::preload_list(recorder, preloaded != nullptr ? preloaded : ""));

  const auto started_ns = static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
  const launch::ProcessResult result = launch::run_process(program, options.command, variables, privileges);
  if (!result.started) {
    if (result.pid == 0)
      return fail(kOwnFailure, std::string("can't start a process: ") + std::strerror(result.start_error));
    return fail(result.start_error == ENOENT ? 127 : 126,
                program + " can't be executed: " + std::strerror(result.start_error));
  }

  auto traces = launch::traces_of(launch::candidates(pattern, result.pid), result.pid, result.start_time);
  launch::write_end(traces, result.signaled, result.code);
  const bool children = children_recorded(options);
  if (!options.quiet)
    std::fputs(launch::note_of_survivors(result.pid, result.start_time, children).c_str(), stderr);
  launch::give_to_invoking_user(traces);
  if (!options.quiet) {
    std::vector<launch::TraceFound> of_children;
    if (children)
      of_children = launch::traces_of_children(launch::candidates(pattern, 0), result.pid, started_ns);
    std::fputs(summary(pattern, traces, of_children, children).c_str(), stderr);
  }
  return result.signaled ? 128 + result.code : result.code;
}

}  // namespace heapprof::cli
