// heapprof record: starts a program with the recorder preloaded, stays beside it, and says what came of it.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "analyzer/cli/commands.h"
#include "analyzer/cli/trace_command.h"
#include "analyzer/launch/capabilities.h"
#include "analyzer/launch/options.h"
#include "analyzer/launch/output.h"
#include "analyzer/launch/process.h"
#include "analyzer/launch/program.h"
#include "analyzer/launch/recorder_library.h"
#include "analyzer/launch/summary.h"
#include "analyzer/launch/survivors.h"
#include "analyzer/launch/trace_end.h"
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

/// How many processes were recorded besides the program, and where; which of them recorded most. A process has a
/// trace for each program that it executed.
std::string summary_of_children(const std::string& pattern, std::vector<launch::TraceFound> children) {
  constexpr std::size_t kNamed = 3;
  if (children.empty()) return "  with    no child process that allocated\n";
  std::set<std::uint32_t> pids;
  for (const launch::TraceFound& trace : children) pids.insert(trace.header.pid);
  std::string text = "  with    " + render::exact_number(pids.size()) +
                     (pids.size() == 1 ? " child process in " : " child processes in ") +
                     render::exact_number(children.size()) + (children.size() == 1 ? " trace: " : " traces: ") +
                     launch::files_of(pattern) + "\n";
  std::stable_sort(children.begin(), children.end(), [](const launch::TraceFound& a, const launch::TraceFound& b) {
    return a.header.file_bytes > b.header.file_bytes;
  });
  for (std::size_t i = 0; i < std::min(kNamed, children.size()); ++i)
    text += std::string(i == 0 ? "  largest " : "          ") + children[i].path + ", " +
            render::human_bytes(children[i].header.file_bytes) + "\n";
  return text + "          (each is asked by itself: heapprof report TRACE)\n";
}

std::string summary(const std::vector<launch::TraceFound>& traces, const std::string& children) {
  if (traces.empty() && !children.empty())
    return "heapprof: the program itself left no trace\n" + children;
  if (traces.empty())
    return "heapprof: no trace was written. The recorder may have said why, above. Otherwise the program allocated\n"
           "          nothing, or it ran through a program that drops LD_PRELOAD, is statically linked or setuid.\n";
  // The program that the process ended as; what it was before (wrapper scripts, mostly) is named only.
  const std::string& last = traces.back().path;
  ProgressLine progress("Reading " + last);
  const std::string figures =
      launch::summarize_trace(last, [&](double share, std::uint64_t records) { progress.show(share, records); });
  progress.show(1, 0);
  std::string text = "heapprof: " + last + "\n" + figures;
  for (std::size_t i = 0; i + 1 < traces.size(); ++i) text += "  before  " + traces[i].path + "\n";
  return text + children + "  look    heapprof report " + quoted(last) + "\n";
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

  std::string children;
  if (!options.quiet && children_recorded(options))
    children = summary_of_children(
        pattern, launch::traces_of_children(launch::candidates(pattern, 0), result.pid, started_ns));

  auto traces = launch::traces_of(launch::candidates(pattern, result.pid), result.pid, result.start_time);
  launch::write_end(traces, result.signaled, result.code);
  if (!options.quiet)
    std::fputs(launch::note_of_survivors(result.pid, result.start_time, children_recorded(options)).c_str(), stderr);
  launch::give_to_invoking_user(traces);
  if (!options.quiet) std::fputs(summary(traces, children).c_str(), stderr);
  return result.signaled ? 128 + result.code : result.code;
}

}  // namespace heapprof::cli
