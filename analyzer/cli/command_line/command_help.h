// What --help, the manual pages, the reference and the shells' completions show of the commands and their options.
// All of it is read from the parser, so none of them can differ from what the parser accepts.
#pragma once

#include <string>
#include <vector>

namespace heapprof::cli {

struct OptionHelp {
  std::vector<std::string> names;    ///< "-o", "--output"; of an argument its name alone: "TRACE"
  std::string value;                 ///< "FILE", "heap|mmap|all"; "[on|off]": may be left out; empty: takes none
  std::vector<std::string> choices;  ///< the words that the value can be; empty: anything
  std::string help;                  ///< a sentence without its full stop, with the default
  std::string group;                 ///< heading of its options in --help
  bool repeatable = false;

  bool needs_value() const { return !value.empty() && value.front() != '['; }
  /// Whether the value is a file or a directory.
  bool takes_path() const { return value == "FILE" || value == "DIRECTORY"; }
};

struct CommandHelp {
  std::string name;  ///< "report", "export pprof"
  std::string summary;
  std::string group;  ///< heading of its commands in --help: "Find leaks"
  std::string usage;  ///< its arguments: "[TRACE]", "[--] PROGRAM [ARGUMENT...]"
  std::vector<OptionHelp> arguments;
  std::vector<OptionHelp> options;
  std::vector<std::string> words;  ///< what an argument can be: "bash", "zsh"
  bool takes_file = false;         ///< an argument is a file; with `words`, one of these follows the file
  std::string instead_of_file;     ///< an option that replaces that file: "--pid"
  bool runs_program = false;       ///< what follows the options is a program with its arguments
  std::string footer;
  std::vector<CommandHelp> subcommands;  ///< of a command that only groups others

  /// Whether it analyzes a trace.
  bool reads_trace() const { return usage.find("TRACE") != std::string::npos && instead_of_file.empty(); }
};

/// The commands, in the order of --help. (command_line.cpp)
std::vector<CommandHelp> describe_commands();

/// `commands` without those that only group others, but with their subcommands.
std::vector<CommandHelp> runnable(const std::vector<CommandHelp>& commands);

}  // namespace heapprof::cli
