// heapprof record: starts a program with the recorder preloaded, waits for its end, and prints a summary.
#include <sys/auxv.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "analyzer/base/labels.h"
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/record/record_summary.h"
#include "analyzer/cli/text/message.h"
#include "analyzer/cli/text/write_output.h"
#include "analyzer/launch/capabilities.h"
#include "analyzer/launch/program.h"
#include "analyzer/launch/python_program.h"
#include "analyzer/launch/recorded_traces.h"
#include "analyzer/launch/recorder_library.h"
#include "analyzer/launch/recorder_settings.h"
#include "analyzer/launch/supervisor.h"
#include "analyzer/launch/surviving_processes.h"
#include "analyzer/launch/trace_pattern.h"
#include "common/settings_grammar.h"

namespace heapprof::cli {

namespace {

constexpr int kWrongUsage = 2;
constexpr int kOwnFailure = 125;
constexpr int kCannotExecute = 126;
constexpr int kNoSuchProgram = 127;

/// With -o DIRECTORY/, every process has its own file in it.
constexpr const char* kNameInDirectory = "%e.%p.heapprof";

int fail(int status, const std::string& text) {
  // Not print_message(): the advice about capabilities has several lines.
  std::fprintf(stderr, "heapprof: %s\n", text.c_str());
  return status;
}

/// Whether children are recorded too, by option or variable: both are known to be valid.
bool records_children(const RecordOptions& options) {
  const char* const variable = std::getenv("HEAPPROF_CHILDREN");
  std::string value = variable != nullptr ? variable : "off";
  for (const auto& [name, given] : options.settings)
    if (name == "HEAPPROF_CHILDREN") value = given;
  return value == "on" || value == "1" || value == "yes";
}

/// Whether the program is a Python interpreter with its usual allocator for small objects.
bool hides_small_objects(const std::string& program, const RecordOptions& options) {
  constexpr const char* kVariable = "PYTHONMALLOC";
  const bool is_set = std::ranges::any_of(options.settings, [=](const auto& one) { return one.first == kVariable; });
  return !is_set && std::getenv(kVariable) == nullptr && launch::runs_python(program);
}

/// The labels of the environment and of the options, which have precedence. False: `error` is why they are refused.
bool all_labels(const RecordOptions& options, std::string& text, std::string& error) {
  const char* const variable = std::getenv("HEAPPROF_LABELS");
  Labels labels = options.labels;
  if (variable != nullptr) labels.merge(decode_labels(variable));
  text = encode_labels(labels);
  if (text.size() <= kMaxLabelsBytes) return true;
  error = "the labels take " + std::to_string(text.size()) + " bytes of at most " + std::to_string(kMaxLabelsBytes) +
          "; give fewer or shorter ones with --label and HEAPPROF_LABELS";
  return false;
}

std::string no_directory(int error, const char* option) {
  return std::string("the working directory has no path (") + std::strerror(error) + "); name the file of " + option +
         " with an absolute path, or change to another directory";
}

}  // namespace

/// Prints the path of the recorder for LD_PRELOAD, because the path depends on the package.
int run_recorder_path(const RecorderPathOptions&) {
  std::string recorder;
  std::string error;
  if (!launch::find_recorder(recorder, error)) return fail(1, error);
  return print_text(recorder + "\n");
}

int run_record(const RecordOptions& options) {
  std::string error;
  if (!launch::check_environment(error)) return fail(kWrongUsage, error);
  std::string labels;
  if (!all_labels(options, labels, error)) return fail(kWrongUsage, error);

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
  if (!loader.empty() && !launch::plan_privileges(program, loader, recorder, launch::own_path(), privileges, refusal))
    return fail(refusal.exit_status, refusal.text);
  if (!options.quiet && getauxval(AT_SECURE) != 0 && privileges.loader.empty())
    print_message(
        "heapprof itself has privileges, so the system has removed variables like LD_LIBRARY_PATH, LD_PRELOAD and "
        "MALLOC_ARENA_MAX, and the program does not get them; record it with a copy of heapprof without "
        "capabilities");

  const char* const variable = std::getenv("HEAPPROF_OUTPUT");
  std::string pattern = launch::absolute_pattern(options.output        ? *options.output
                                                 : variable != nullptr ? variable
                                                                       : kDefaultOutput);
  if (pattern.empty()) return fail(kWrongUsage, no_directory(errno, "-o"));
  const bool to_directory = options.output && pattern.ends_with('/');
  if (to_directory) pattern += kNameInDirectory;
  error = launch::run_as_user(privileges, [&] {
    std::string reason;
    launch::check_writable(pattern, reason);
    return reason;
  });
  if (!error.empty()) return fail(kWrongUsage, error);
  // -o with a fixed name is for one trace, so an existing file is replaced only with --force. A variable may be for
  // many runs, whose traces get the suffixes .1, .2, ...
  if (options.output)
    if (const std::string name = launch::fixed_name(pattern); !name.empty())
      if (!launch::remove_existing(name, options.force, error)) return fail(kWrongUsage, error);

  auto variables = options.settings;
  if (!labels.empty()) variables.emplace_back("HEAPPROF_LABELS", labels);
  for (auto& [name, value] : variables) {
    std::error_code no_path;
    if (name == "HEAPPROF_LOG_FILE" && !value.starts_with('/')) value = std::filesystem::absolute(value, no_path);
    if (no_path) return fail(kWrongUsage, no_directory(no_path.value(), "--log-file"));
  }
  variables.emplace_back("HEAPPROF_OUTPUT", pattern);
  if (!options.quiet && hides_small_objects(program, options))
    print_message(
        "Python takes blocks of up to 512 bytes from arenas of its own (pymalloc), of which only the arenas are "
        "recorded; record with --python-allocations to see all blocks");
  const char* const preloaded = std::getenv("LD_PRELOAD");
  variables.emplace_back("LD_PRELOAD", launch::preload_list(recorder, preloaded != nullptr ? preloaded : ""));

  const auto started_ns = static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
  const launch::ProcessResult result = launch::run_process(program, options.command, variables, privileges);
  if (!result.started) {
    if (result.pid == 0)
      return fail(kOwnFailure, std::string("cannot start a process: ") + std::strerror(result.start_error));
    return fail(result.start_error == ENOENT ? kNoSuchProgram : kCannotExecute,
                program + " cannot be executed: " + std::strerror(result.start_error));
  }

  auto traces = launch::traces_of(launch::find_files(pattern, result.pid), result.pid, result.start_time);
  launch::write_end(traces, result.signaled, result.code);
  const bool children = records_children(options);
  if (!options.quiet) std::fputs(launch::note_of_survivors(result.pid, result.start_time, children).c_str(), stderr);
  launch::give_to_invoking_user(traces);
  std::vector<launch::RecordedTrace> of_children;
  if (children) {
    of_children = launch::traces_of_children(launch::find_files(pattern, 0), result.pid, started_ns);
    launch::write_executions(of_children);
  }
  if (!options.quiet) {
    const std::string directory = to_directory ? *options.output : std::string();
    std::fputs(record_summary(pattern, traces, of_children, children, directory, {result.child_work, options.command})
                   .c_str(),
               stderr);
  }
  return result.signaled ? 128 + result.code : result.code;
}

}  // namespace heapprof::cli
