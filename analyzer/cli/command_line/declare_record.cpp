// Declares the commands under "Record".
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analyzer/cli/command_line/choose_command.h"
#include "analyzer/cli/command_line/command_declarations.h"
#include "analyzer/cli/command_line/declare_commands.h"
#include "analyzer/cli/command_line/option_kinds.h"
#include "analyzer/cli/command_line/shared_options.h"
#include "analyzer/cli/options/command_options.h"
#include "analyzer/cli/options/option_values.h"
#include "analyzer/launch/recorder_settings.h"

namespace heapprof::cli {
namespace {

constexpr const char* kRecord = "Record";

}  // namespace

void declare_control(CLI::App& app, Chosen& chosen) {
  using Action = ControlOptions::Action;
  const auto options = std::make_shared<ControlOptions>();
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App& command = add_command(app, kRecord, "control",
                                  "Pause, resume or mark a recording while its program runs, or take a snapshot");
  add_list(command, "ARGUMENTS", *words, "TRACE pause|resume|mark TEXT|snapshot|status",
           "pause: record only the frees of recorded blocks from now on\n"
           "resume: record everything again\n"
           "mark TEXT: add a named point to the timeline; TEXT has at most 256 bytes\n"
           "snapshot: record which pages are resident now\n"
           "status: print whether the recording runs, is paused, has stopped or has ended")
      ->expected(3)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_value(command, "--pid", "PID", "Control the recording of process PID; replaces TRACE",
            [options](const std::string& text) {
              std::uint64_t pid = 0;
              if (!read_whole_number(text, pid, 0xffffffff) || pid == 0) refuse_value(text, "--pid", "a process id");
              options->pid = static_cast<std::uint32_t>(pid);
            });
  add_value(command, "--wait", "SECONDS",
            "Wait at most SECONDS for the recorder, which answers when the program allocates or frees",
            [options](const std::string& text) {
              if (!read_decimal(text, options->wait_seconds, 0, 3600))
                refuse_value(text, "--wait", "seconds, from 0 to 3600");
            })
      ->default_str("2");
  add_switch(command, "--json", options->json, "Write the state as JSON");
  command.footer(
      "heapprof control TRACE pause|resume|mark TEXT|snapshot|status\n"
      "heapprof control --pid PID pause|resume|mark TEXT|snapshot|status");
  choose(command, chosen, options, [words](ControlOptions& read) {
    constexpr const char* kActions = "pause, resume, mark TEXT, snapshot or status";
    std::size_t at = 0;
    if (read.pid == 0) {
      if (words->empty()) refuse("missing arguments TRACE (or --pid) and ACTION; expected " + std::string(kActions));
      read.trace = (*words)[at++];
    }
    if (words->size() == at) refuse("missing argument ACTION; expected " + std::string(kActions));
    const std::string& action = (*words)[at++];
    if (action == "pause") read.action = Action::kPause;
    else if (action == "resume") read.action = Action::kResume;
    else if (action == "mark") read.action = Action::kMark;
    else if (action == "snapshot") read.action = Action::kSnapshot;
    else if (action == "status") read.action = Action::kStatus;
    else refuse_value(action, "ACTION", kActions);
    if (read.action == Action::kMark) {
      if (words->size() == at) refuse("missing argument TEXT of mark");
      read.text = (*words)[at++];
    }
    if (words->size() > at) refuse("unexpected argument '" + (*words)[at] + "'");
  });
}

void declare_install_secure(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<InstallSecureOptions>();
  CLI::App& command = add_command(app, kRecord, "install-secure",
                                  "Allow recording of setuid, setgid and setcap programs; needs root");
  add_text(command, "--directory", options->directory, "DIRECTORY", "Write the recordings to DIRECTORY")
      ->default_str(options->directory);
  add_switch(command, "--remove", options->remove, "Undo the installation; recordings stay");
  command.footer(
      "Copies libheapprof.so beside libc with mode u+s, which the loader requires for programs with privileges. "
      "Writes /etc/heapprof.conf, the only settings that the recorder reads in such programs. Creates DIRECTORY.\n"
      "Until --remove, every user can record every such program into DIRECTORY.");
  choose(command, chosen, options);
}

void declare_record(CLI::App& command, RecordOptions& options) {
  using launch::RecorderSetting;
  const std::span<const RecorderSetting> settings = launch::recorder_settings();
  const auto values = std::make_shared<std::vector<std::string>>(settings.size());  // empty: not given
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const RecorderSetting* const setting = &settings[i];
    const std::string names = (setting->is_output() ? "-o," : "") + std::string(setting->option);
    CLI::Option* option = nullptr;
    if (setting->kind == RecorderSetting::Kind::kLabels) {
      add_labels(command, options.labels, setting->help)->default_str(setting->default_value);
      continue;
    }
    if (setting->kind == RecorderSetting::Kind::kFlag)
      option = command.add_flag(names + "{on}", (*values)[i], setting->help)->type_name("[on|off]");
    else
      option = command
                   .add_option(
                       names,
                       [values, i](const CLI::results_t& texts) {
                         (*values)[i] = texts.back();
                         return true;
                       },
                       setting->help)
                   ->type_name(setting->value)
                   ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    option->default_str(setting->default_value);
    if (setting->deprecated) option->group("");
    option->check(
        [setting](const std::string& text) {
          if (setting->is_output() && text == "-")
            refuse_value(text, setting->option, "a file with a name, since the program writes the trace itself");
          if (!launch::is_valid(*setting, text))
            refuse_value(text, setting->option, launch::expected_value(*setting));
          return std::string();
        },
        "");
  }
  command
      .add_flag_callback(
          "--python-allocations", [&options] { options.settings.emplace_back("PYTHONMALLOC", "malloc"); },
          "Let Python allocate small blocks with malloc too (PYTHONMALLOC=malloc), so that they are recorded")
      ->disable_flag_override();
  add_switch(command, "-f,--force", options.force, "Replace the FILE of -o if it exists")->disable_flag_override();
  add_switch(command, "-q,--quiet", options.quiet, "Print no summary at the end")->disable_flag_override();
  command.footer(
      "Options end at PROGRAM. Each option with a value is also an environment variable: --max-depth is "
      "HEAPPROF_MAX_DEPTH, --label is HEAPPROF_LABELS.");
  command.callback([values, settings, &options] {
    for (std::size_t i = 0; i < settings.size(); ++i) {
      const std::string& value = (*values)[i];
      if (value.empty()) continue;
      if (settings[i].is_output()) options.output = value;
      else options.settings.emplace_back(settings[i].variable, value);
    }
  });
}

void declare_record_for_help(CLI::App& app, Chosen&) {
  static RecordOptions unused;
  declare_record(add_command(app, kRecord, "record", "Run a program and record its allocations"), unused);
}

}  // namespace heapprof::cli
