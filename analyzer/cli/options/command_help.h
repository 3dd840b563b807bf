// What the commands and their options are, taken from the parser itself (and, for `record`, from its own table), so
// that --help, the manual pages and the shells' completions cannot differ.
#pragma once

#include <string>
#include <vector>

#include "analyzer/launch/recorder_settings.h"

namespace CLI {
class App;
class Option;
}

namespace heapprof::cli {

struct CommandHelp {
  std::string name;                              ///< "report", "export pprof"
  std::string summary;
  std::string operands;                          ///< "TRACE", "[--] PROGRAM [ARGUMENT...]"
  std::vector<std::string> words;                ///< what the operand may be: "bash", "zsh"
  bool takes_file = false;                       ///< an operand is a file; with `words` one of these follows it
  std::string instead_of_file;                   ///< the option that may stand in that file's place: "--pid"
  bool runs_program = false;                     ///< what follows the options is a program with its arguments
  std::vector<launch::OptionHelp> options;
  std::string footer;
};

/// All commands that `app` has, in its order; those that only group others (`export`) are not among them.
std::vector<CommandHelp> describe_commands(const CLI::App& app);

/// "report", "export": the first words, each once, with their summaries.
std::vector<std::pair<std::string, std::string>> first_words(const CLI::App& app);

/// An option or operand as help, manual pages and completions tell it.
std::vector<std::string> option_names(const CLI::Option& option);   ///< "-o", "--output"
std::string value_name(const CLI::Option& option);                  ///< "FILE", "heap|mmap|all"; empty: takes none
std::string operand_name(const CLI::Option& option);                ///< "TRACE", "TRACE ACTION"
std::string option_help(const CLI::Option& option);                 ///< with the value it has when it is not given

std::string bash_completions(const CLI::App& app);
std::string zsh_completions(const CLI::App& app);
std::string fish_completions(const CLI::App& app);

/// "heapprof-export-pprof": the manual page of the command "export pprof".
std::string page_name(const std::string& command);
/// The manual page of `name` ("heapprof", "heapprof-report" or "report"), in roff's man macros; empty: there is none.
std::string manual_page(const CLI::App& app, const std::string& name);
/// The names for which there is one.
std::vector<std::string> manual_pages(const CLI::App& app);

/// The commands `help`, `completions` and `manual`, which describe all that `app` has when they run.
void add_help(CLI::App& app, int& status);
void add_completions(CLI::App& app, int& status);
void add_manual(CLI::App& app, int& status);

}  // namespace heapprof::cli
