// Parses the command line into the options of one command.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/cli/options/command_options.h"

namespace heapprof::cli {

struct CommandLine {
  std::optional<CommandOptions> command;  ///< none: there is nothing to run
  int exit_status = 0;                    ///< if there is nothing to run
};

/// Parses the words after "heapprof". Prints the version, or an error message if the command line is wrong.
CommandLine parse_command_line(const std::vector<std::string>& words);

/// Parses the words after "heapprof record". False: `error` is a sentence about what is wrong. `wants_help`: --help
/// was given, and `options` are not complete.
bool parse_record_options(const std::vector<std::string>& words, RecordOptions& options, bool& wants_help,
                          std::string& error);

}  // namespace heapprof::cli
