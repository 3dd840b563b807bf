// Declares every command to the parser: its options, its help, and the checks across its options.
#pragma once

#include <optional>

#include "analyzer/cli/options/command_options.h"

namespace CLI {
class App;
}

namespace heapprof::cli {

/// Adds all commands to `app`. Parsing puts the options of the command that the user chose into `chosen`. Both must
/// outlive the parsing.
void declare_commands(CLI::App& app, std::optional<CommandOptions>& chosen);

/// Adds the options of `heapprof record` to `command`. Parsing puts them into `options`, except PROGRAM.
void declare_record(CLI::App& command, RecordOptions& options);

}  // namespace heapprof::cli
