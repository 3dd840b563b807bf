// The commands that explain heapprof: what they print is generated from the descriptions of the commands
// (command_help.h).
#pragma once

#include <string>
#include <vector>

#include "analyzer/cli/command_line/command_help.h"
#include "analyzer/cli/options/command_options.h"

namespace heapprof::cli {

inline constexpr const char* kPurpose = "heap profiler for native Linux programs";

// Each prints to standard output and returns the exit status.
int run_first_screen(const FirstScreenOptions& options);
int run_help(const HelpOptions& options);
int run_completions(const CompletionsOptions& options);
int run_manual(const ManualOptions& options);

/// What `heapprof --help` prints.
std::string help_overview(const std::vector<CommandHelp>& commands);
/// What `heapprof COMMAND --help` prints.
std::string help_text(const CommandHelp& command);

std::string bash_completions(const std::vector<CommandHelp>& commands);
std::string zsh_completions(const std::vector<CommandHelp>& commands);
std::string fish_completions(const std::vector<CommandHelp>& commands);

/// "heapprof-export-pprof": the manual page of the command "export pprof".
std::string page_name(const std::string& command);
/// The manual page of `name` ("heapprof", "heapprof-report" or "report") in the man macros of roff; empty: none.
std::string manual_page(const std::string& name);
/// The names of all manual pages.
std::vector<std::string> manual_pages();

/// docs/reference.md: commands, options, environment variables and exit statuses.
std::string reference_markdown(const std::vector<CommandHelp>& commands);

struct ExitStatus {
  std::string status;   ///< "0"
  std::string meaning;  ///< a sentence
};
/// The exit statuses of a command.
std::vector<ExitStatus> exit_statuses(const CommandHelp& command);
/// The exit statuses that commands have in common, for the overview.
std::vector<ExitStatus> common_exit_statuses();

}  // namespace heapprof::cli
