// From the words of the command line to the options of one command.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/cli/options/command_options.h"

namespace heapprof::cli {

struct CommandLine {
  std::optional<CommandOptions> command;  ///< none: there is nothing to run
  int exit_status = 0;                    ///< then
};

/// Parses the words behind "heapprof". Prints the version, and what is wrong with a wrong command line.
CommandLine parse_command_line(const std::vector<std::string>& words);

/// Parses the words behind "heapprof record". False: `error` is a sentence about what is wrong. `wants_help`: --help
/// was given, `options` are not complete.
bool parse_record_options(const std::vector<std::string>& words, RecordOptions& options, bool& wants_help,
                          std::string& error);

}  // namespace heapprof::cli
